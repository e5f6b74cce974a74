"""Tasks that turn a row of words into another: copy, reverse, sort, addition.

Each comes as an encoder-decoder task (source and target) or as a decoder task, in which the text is
`source = target`.
"""

import random
import string
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from attnscope.text.examples import Example, TaskForm, draw_examples

EQUALS = "="
Rule = Literal["copy", "reverse", "sort"]


class _Pairing(Protocol):
    """A source, its target, and for each target word the source words that make it."""

    def __call__(self, rng: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]: ...


def _draw_pair(pairing: _Pairing, form: TaskForm, rng: random.Random) -> Example:
    source, target, links = pairing(rng)
    if form == "encoder-decoder":
        return Example(source=" ".join(source), target=" ".join(target), links=tuple(links))
    n_source = len(source)  # the index of "=", whose output predicts the first target word
    return Example(
        source=" ".join([*source, EQUALS, *target]),
        links=tuple((n_source + word, key) for word, key in links),
        n_given=n_source + 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """Letters written again: in the same order (copy), backwards (reverse), or sorted (sort)."""

    rule: Rule = "copy"
    form: TaskForm = "encoder-decoder"
    min_words: int = 4
    max_words: int = 12
    n_letters: int = 26

    @property
    def name(self) -> str:
        """The name recipes use."""
        return self.rule

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The letters, and the sign before the answer."""
        return (*string.ascii_lowercase[: self.n_letters], EQUALS)

    def _pairing(self, rng: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]:
        letters = string.ascii_lowercase[: self.n_letters]
        source = rng.choices(letters, k=rng.randint(self.min_words, self.max_words))
        order = list(range(len(source)))
        if self.rule == "reverse":
            order.reverse()
        elif self.rule == "sort":
            order.sort(key=lambda key: (source[key], key))  # equal letters keep their order
        return source, [source[key] for key in order], list(enumerate(order))

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` rows of letters with their answers."""
        return draw_examples(
            lambda rng: _draw_pair(self._pairing, self.form, rng),
            n,
            name=self.name,
            seed=seed,
            held_out=held_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionTask:
    """Sums of two numbers, digit by digit; a digit of the sum is linked to the two digits of its column.

    Numbers have exactly `n_digits` digits, the sum one more, all with leading zeros. The first digit of the
    sum is the carry out of the first column and is linked to that column.
    """

    name: ClassVar[str] = "addition"
    form: TaskForm = "encoder-decoder"
    n_digits: int = 3

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The digits, and the signs."""
        return (*string.digits, "+", EQUALS)

    def _pairing(self, rng: random.Random) -> tuple[list[str], list[str], list[tuple[int, int]]]:
        n = self.n_digits
        first, second = rng.randrange(10**n), rng.randrange(10**n)
        source = [*f"{first:0{n}d}", "+", *f"{second:0{n}d}"]
        links: list[tuple[int, int]] = []
        for word in range(n + 1):
            column = max(word - 1, 0)
            links += [(word, column), (word, n + 1 + column)]
        return source, [*f"{first + second:0{n + 1}d}"], links

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sums."""
        return draw_examples(
            lambda rng: _draw_pair(self._pairing, self.form, rng),
            n,
            name=self.name,
            seed=seed,
            held_out=held_out,
        )
