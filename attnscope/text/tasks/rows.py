"""Rows of words that become another row: copied letters, and sums digit by digit."""

import random
import string
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.text.examples import DrawnTask, Example, Range, TaskForm

EQUALS = "="
Links = list[tuple[int, int]]


class PairTask(DrawnTask):
    """A source, its target, and for each target word the source words it comes from.

    For a decoder both are one text, `source = target`; for an encoder the target are labels of the source.
    """

    form: TaskForm

    @abstractmethod
    def pair(self, rng: random.Random) -> tuple[list[str], list[str], Links]:
        """Source, target, and links (target word, source word)."""

    def draw(self, rng: random.Random) -> Example:
        source, target, links = self.pair(rng)
        if self.form == "encoder-decoder":
            return Example(source=" ".join(source), target=" ".join(target), links=tuple(links))
        if self.form == "encoder":
            return Example(source=" ".join(source), links=tuple(links), word_labels=tuple(target))
        n_source = len(source)  # the index of "=", whose output predicts the first target word
        return Example(
            source=" ".join([*source, EQUALS, *target]),
            links=tuple((n_source + word, key) for word, key in links),
            n_given=n_source + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask(PairTask):
    """Letters in a new order.

    For an encoder the letters of the answer are labels of the letters that stand in their places.
    """

    forms: ClassVar[tuple[TaskForm, ...]] = ("decoder", "encoder-decoder", "encoder")
    form: TaskForm = "encoder-decoder"
    min_words: Annotated[int, Range(1, 1000)] = 4
    max_words: Annotated[int, Range(1, 1000)] = 12
    n_letters: Annotated[int, Range(2, 26)] = 26

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The letters, and the sign before the answer."""
        letters = string.ascii_lowercase[: self.n_letters]
        return tuple(letters) if self.form == "encoder" else (*letters, EQUALS)

    @property
    def word_labels(self) -> tuple[str, ...]:
        """The letters of the answer, if each is a label."""
        return self.vocabulary if self.form == "encoder" else ()

    def pair(self, rng: random.Random) -> tuple[list[str], list[str], Links]:
        letters = string.ascii_lowercase[: self.n_letters]
        source = rng.choices(letters, k=rng.randint(self.min_words, self.max_words))
        order = self.order_of(source)
        return source, [source[key] for key in order], list(enumerate(order))

    def order_of(self, source: list[str]) -> list[int]:
        """The places of the source in the order of the answer."""
        return list(range(len(source)))


class CopyTask(RowTask):
    """Letters in the same order."""

    name = "copy"
    writes = "copied row"
    order = 0


class ReverseTask(RowTask):
    """Letters backwards."""

    name = "reverse"
    writes = "reversed row"
    order = 1

    def order_of(self, source: list[str]) -> list[int]:
        return list(range(len(source)))[::-1]


class SortTask(RowTask):
    """Letters in alphabetical order; equal ones keep theirs."""

    name = "sort"
    writes = "sorted row"
    order = 2

    def order_of(self, source: list[str]) -> list[int]:
        return sorted(range(len(source)), key=lambda key: (source[key], key))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionTask(PairTask):
    """Sums of two numbers, digit by digit; a digit of the sum is linked to the two digits of its column.

    Numbers have exactly `n_digits` digits, the sum one more, all with leading zeros. The first digit of the
    sum is the carry out of the first column and is linked to that column.
    """

    name: ClassVar[str] = "addition"
    writes: ClassVar[str] = "sum"
    order: ClassVar[int] = 3
    forms: ClassVar[tuple[TaskForm, ...]] = ("decoder", "encoder-decoder")
    form: TaskForm = "encoder-decoder"
    n_digits: Annotated[int, Range(2, 50)] = 3
    vocabulary: ClassVar[tuple[str, ...]] = (*string.digits, "+", EQUALS)

    def pair(self, rng: random.Random) -> tuple[list[str], list[str], Links]:
        n = self.n_digits
        first, second = rng.randrange(10**n), rng.randrange(10**n)
        source = [*f"{first:0{n}d}", "+", *f"{second:0{n}d}"]
        links: Links = []
        for word in range(n + 1):
            column = max(word - 1, 0)
            links += [(word, column), (word, n + 1 + column)]
        return source, [*f"{first + second:0{n + 1}d}"], links
