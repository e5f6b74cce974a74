"""Rows of examples, `b 3 d 0 b 3 a 5 d 0`, of a rule drawn anew for each: only the row itself reveals it."""

import random
import string
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.text.examples import DrawnTask, Example, Range, TaskForm


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotTask(DrawnTask):
    """Letters, each followed by its digit; the digit of each letter is drawn anew for each row.

    The digit of a letter that has occurred can be known: the query on the letter is linked to the digit after
    the same letter before (Brown et al. 2020, few-shot; Olsson et al. 2022). The first time it is chance, and
    so are the letters.
    """

    name: ClassVar[str] = "few-shot"
    order: ClassVar[int] = 15
    form: ClassVar[TaskForm] = "decoder"
    n_letters: Annotated[int, Range(2, 26)] = 4
    n_values: Annotated[int, Range(2, 10)] = 8
    n_shots: Annotated[int, Range(2, 500)] = 10

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return (*string.ascii_lowercase[: self.n_letters], *string.digits[: self.n_values])

    def draw(self, rng: random.Random) -> Example:
        letters, digits = self.vocabulary[: self.n_letters], self.vocabulary[self.n_letters :]
        rule = {letter: rng.choice(digits) for letter in letters}
        shown = rng.choices(letters, k=self.n_shots)
        shown[-1] = rng.choice(shown[:-1])  # so that each row has something that can be known
        last: dict[str, int] = {}
        links = []
        for k, letter in enumerate(shown):
            if letter in last:
                links.append((2 * k, 2 * last[letter] + 1))
            last[letter] = k
        words = (word for letter in shown for word in (letter, rule[letter]))
        return Example(source=" ".join(words), links=tuple(links))
