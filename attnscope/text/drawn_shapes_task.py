"""Drawn shapes to be told apart: the picture that a model reads is known by its name (`drawn.py`)."""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.drawn import DRAWN_KINDS, RANGES, SIDE, WORDS
from attnscope.text.examples import Example, TaskForm, draw_examples


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnShapesTask:
    """A shape on a grainy picture, at most `far_px` from its middle each way: which kind is it?"""

    name: ClassVar[str] = "drawn-shapes"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = tuple(sorted(DRAWN_KINDS))
    picture_shape: ClassVar[tuple[int, int, int]] = (SIDE, SIDE, 1)
    far_px: int = 2

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word of a name."""
        return WORDS

    def _draw(self, rng: random.Random) -> Example:
        kind = rng.choice(DRAWN_KINDS)
        words = [kind]
        for letter, (least, most, step, usual) in RANGES.items():
            if letter in ("x", "y"):
                least, most = usual - self.far_px, usual + self.far_px
            words.append(f"{letter}{rng.randrange(least, most + 1, step)}")
        return Example(source=" ".join(words), label=kind)

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` names of pictures with the kinds of their shapes."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)
