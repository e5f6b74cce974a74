"""Rows with two alternating signs: `<` is followed by a letter from nearby, `>` by a distant one."""

import random
import string
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.errors import RecipeError
from attnscope.text.examples import DrawnTask, Example, Range, TaskForm

SIGNS = "<>"


@dataclass(frozen=True, slots=True, kw_only=True)
class NearAndFarTask(DrawnTask):
    """Random letters, then signs followed by a letter each, `a b c d e < e > b`.

    The letter behind a sign is the one that stands `near` or `far` tokens before the sign; the query on the
    sign is linked to it. Both are odd, so that a letter and no sign stands there. The first sign is drawn.
    """

    name: ClassVar[str] = "near-and-far"
    order: ClassVar[int] = 19
    form: ClassVar[TaskForm] = "decoder"
    near: Annotated[int, Range(1, 999)] = 1
    far: Annotated[int, Range(3, 999)] = 19
    n_answers: Annotated[int, Range(2, 500)] = 10
    n_letters: Annotated[int, Range(2, 26)] = 26

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The letters and the two signs."""
        return (*string.ascii_lowercase[: self.n_letters], *SIGNS)

    def draw(self, rng: random.Random) -> Example:
        words = rng.choices(string.ascii_lowercase[: self.n_letters], k=self.far)
        first = rng.randrange(2)
        links = []
        for k in range(self.n_answers):
            is_far = (first + k) % 2
            query = len(words)
            key = query - (self.far if is_far else self.near)
            links.append((query, key))
            words += [SIGNS[is_far], words[key]]
        return Example(source=" ".join(words), links=tuple(links), n_given=self.far + 1)

    def fault(self) -> RecipeError | None:
        if self.near % 2 and self.far % 2 and self.near < self.far:
            return None
        return RecipeError(
            f"data.near is {self.near} and data.far is {self.far}.",
            expected="odd numbers, data.near the smaller one: at even distances stand signs, not letters",
            action="Change data.near or data.far.",
        )
