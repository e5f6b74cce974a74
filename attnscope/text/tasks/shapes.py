"""Drawn shapes: one recognised by its name (`shapes.py`), and sets with one of another kind (Lippe's
tutorial).
"""

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnscope.shapes import DRAWN_KINDS, KINDS, N_EACH, RANGES, SHAPES, SIDE, WORDS, shape_vectors
from attnscope.text.examples import DrawnTask, Example, Range, TaskForm, TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnShapesTask(DrawnTask):
    """A shape on a grainy picture, at most `far_px` off centre in each direction: which kind is it?"""

    name: ClassVar[str] = "drawn-shapes"
    order: ClassVar[int] = 14
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = tuple(sorted(DRAWN_KINDS))
    picture_shape: ClassVar[tuple[int, int, int]] = (SIDE, SIDE, 1)
    far_px: Annotated[int, Range(0, 4)] = 2
    vocabulary: ClassVar[tuple[str, ...]] = WORDS

    def draw(self, rng: random.Random) -> Example:
        kind = rng.choice(DRAWN_KINDS)
        words = [kind]
        for letter, (least, most, step, usual) in RANGES.items():
            if letter in ("x", "y"):
                least, most = usual - self.far_px, usual + self.far_px
            words.append(f"{letter}{rng.randrange(least, most + 1, step)}")
        return Example(source=" ".join(words), label=kind)


_N_LEARNED = 60
"""So many shapes of each kind are trained on; the others are in sets that are held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAnomalyTask(TaskKind):
    """Sets of shapes, all of one kind but one. Held-out ones are of shapes that no other set has."""

    name: ClassVar[str] = "set-anomaly"
    order: ClassVar[int] = 13
    form: ClassVar[TaskForm] = "encoder"
    pointers: ClassVar[tuple[str, ...]] = ("odd one",)
    n_members: Annotated[int, Range(3, 20)] = 10
    vocabulary: ClassVar[tuple[str, ...]] = SHAPES

    @property
    def vectors(self) -> NDArray[np.float64]:
        """Vectors of the vocabulary's shapes, [n_shapes, N_NUMBERS]."""
        return shape_vectors()

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sets with the position of the odd one, linked to every other, the later to the earlier."""
        rng = random.Random(f"{self.name}/{seed}/{held_out}")
        numbers = range(_N_LEARNED, N_EACH) if held_out else range(_N_LEARNED)
        found = []
        for _ in range(n):
            usual, odd = rng.sample(list(KINDS), 2)
            members = [f"{usual}_{number:02}" for number in rng.sample(numbers, self.n_members)]
            place = rng.randrange(self.n_members)
            members[place] = f"{odd}_{rng.choice(numbers):02}"
            links = tuple((max(place, i), min(place, i)) for i in range(self.n_members) if i != place)
            found.append(Example(source=" ".join(members), places=(place,), links=links))
        return found
