"""Sets of numbers, with a pointer to the largest: the toy problem of Lee et al. 2019, section 5.1."""

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.text.examples import DrawnTask, Example, Range, TaskForm


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestTask(DrawnTask):
    """Different whole numbers below 100: which is the largest? Every other is linked to it.

    They are words like any other: that 7 is less than 12 is learned from the sets. Of each set the largest is
    drawn first, all being as likely, so that no number is nearly always the answer.
    """

    name: ClassVar[str] = "largest"
    order: ClassVar[int] = 21
    form: ClassVar[TaskForm] = "encoder"
    pointers: ClassVar[tuple[str, ...]] = ("largest",)
    n_members: Annotated[int, Range(2, 20)] = 10
    vocabulary: ClassVar[tuple[str, ...]] = tuple(map(str, range(100)))

    def draw(self, rng: random.Random) -> Example:
        largest = rng.randrange(self.n_members - 1, 100)
        members = [largest, *rng.sample(range(largest), self.n_members - 1)]
        rng.shuffle(members)
        place = members.index(largest)
        links = tuple((i, place) for i in range(self.n_members) if i != place)
        return Example(source=" ".join(map(str, members)), places=(place,), links=links)
