"""Shared by all measures of a head, and their input: blocks of rows of the weights.

| symbol  | meaning                                            | shape                            |
|---------|----------------------------------------------------|----------------------------------|
| a       | weights; 0 where the mask forbids                  | [batch, n_heads, n_rows, n_cols] |
| logs    | ln a, never below the smallest number              | [batch, n_heads, n_rows, n_cols] |
| seen    | number of keys that a row may see                  | [batch, 1 or n_heads, n_rows]    |
| valid   | rows that see a key                                | [batch, 1 or n_heads, n_rows]    |
| is_word | those of words; between two texts every valid row  | [batch, 1 or n_heads, n_rows]    |

The window reads the words of measures: nothing here imports torch when it is imported.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.analysis.measures import Facts, HeadSums


class RowBlock:
    """Some rows of the weights of all heads of a site, with their visible columns.

    `rows` and `cols` say which; `largest` are the largest weights of the rows, where they are known.
    """

    def __init__(
        self,
        facts: "Facts",
        a: "Tensor",
        logs: "Tensor",
        *,
        seen: "Tensor",
        valid: "Tensor",
        rows: slice,
        cols: slice,
        largest: "Tensor | None" = None,
    ) -> None:
        self.facts, self.a, self.seen, self.valid, self.rows, self.cols = facts, a, seen, valid, rows, cols
        self._logs, self._largest = logs, largest
        self.is_word = valid & ~facts.is_special[:, None, rows] if facts.is_self else valid

    @cached_property
    def entropies(self) -> "Tensor":
        """−Σ_j a_ij ln a_ij of each row, in nats; overwrites the logarithms."""
        return -(self._logs.mul_(self.a)).sum(dim=-1)

    def entropy(self) -> "Tensor":
        """The entropy of each row, in nats."""
        return self.entropies

    def entropy_share(self) -> "Tensor":
        """The entropy of each row over ln of the number of visible keys; 0 for rows that see one."""
        most = self.seen.clamp(min=2).to(self.a.dtype).log()
        return self.entropies * (self.choosing().to(most.dtype) / most)

    def choosing(self) -> "Tensor":
        """Whether a row sees two keys or more."""
        return (self.seen > 1) & self.valid

    def away(self) -> "Tensor":
        """|i − j| of every cell, [n_rows, n_cols]."""
        i, j = self.facts.places[self.rows], self.facts.places[self.cols]
        return (i[:, None] - j).abs().to(self.a.dtype)

    def distance(self) -> "Tensor":
        """Σ_i Σ_j a_ij |i − j|."""
        return self.a.flatten(2) @ self.away().flatten()

    def largest(self) -> "Tensor":
        """max_j a_ij of each row, the end token's column left out."""
        facts, cols, a = self.facts, self.cols, self.a
        if not facts.has_ends:
            return a.amax(dim=-1) if self._largest is None else self._largest
        inside = ((facts.end >= cols.start) & (facts.end < cols.stop)).nonzero()[:, 0]
        end = facts.end[inside] - cols.start
        kept = a[inside, :, :, end]
        a[inside, :, :, end] = 0.0
        found = a.amax(dim=-1)
        a[inside, :, :, end] = kept
        return found

    def at_offset(self, offset: int, *, of_words: bool) -> "Tensor":
        """Σ_i of the weight on the key i + offset; over rows of words, or over all."""
        first = max(self.rows.start, -offset)
        start = first - self.rows.start
        found = self.a[..., start:, :].diagonal(first + offset - self.cols.start, dim1=2, dim2=3)
        if of_words:
            found = found * self.is_word[..., start : start + found.shape[-1]]
        return found.sum(dim=-1)

    def n_at_offset(self, offset: int, *, of_words: bool) -> "Tensor":
        """Number of these rows with a key at i + offset."""
        rows, start, stop = self.is_word if of_words else self.valid, self.rows.start, self.rows.stop
        keys = self.facts.key_counts[:, max(0, start + offset) : max(0, stop + offset)]
        first = max(start, -offset) - start
        return (rows[..., first : first + keys.shape[1]] & keys[:, None]).sum(dim=-1)


Reading: TypeAlias = Callable[[RowBlock], "Tensor"]
"""What is summed up over the blocks: a number of each row, [batch, 1 or n_heads, n_rows], or sums of them."""


def share_of(part: "Tensor", whole: "Tensor") -> "Tensor":
    """The quotient; NaN if nothing was counted."""
    return part / whole.masked_fill(whole == 0, math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnText:
    """A measure as a number of one text: its order, its words, the digits of its value."""

    order: int
    title: str
    definition: str
    digits: int = 2


class Measure(Scheme):
    """A number of each head: its name, meaning and computation.

    `name` is that of columns in files, of JSON keys and attributes; `order` its place in the table.
    """

    unit: ClassVar[str] = "weight"
    definition: ClassVar[str] = ""
    """Its definition over texts, with its source."""
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """The least and the most that it can be."""
    is_self_only: ClassVar[bool] = False
    """Whether queries and keys must be the same tokens."""
    is_further: ClassVar[bool] = False
    """Whether the page *Heads* shows it only among all measures."""
    terminal: ClassVar[int] = 0
    """Its place in the narrow table of a terminal; 0: it is not shown there."""
    on_text: ClassVar[OnText | None] = None
    """Its words as a measure of one text, if it is one."""
    is_estimated: ClassVar[bool] = False
    """Whether `of_rows` estimates it on very long texts."""
    rests: ClassVar[bool] = False
    """Whether it is about keys on which heads rest that have nothing to do: the first one, special tokens."""
    says: ClassVar[str] = ""
    """Role of a head with a large value; `{noun}` is the noun for a key."""
    of: ClassVar[str] = "text"
    """The texts or rows of its mean."""
    like: ClassVar[str] = ""
    """Of a measure that does not come from the rows of a text: whose telling texts stand for its own."""
    sums: "tuple[Reading, ...]" = ()
    """What it needs of every block, summed up over the rows."""

    def value(self, sums: "HeadSums") -> "Tensor | None":
        """The measure of each text and head, [batch, n_heads], NaN where it does not apply; None: nowhere.

        The first of `sums` over the second, or over the number of rows, unless a measure says otherwise.
        """
        whole = sums.total[self.sums[1]] if len(self.sums) > 1 else sums.n_rows
        return share_of(sums.total[self.sums[0]], whole)

    def of_rows(self, block: RowBlock) -> "Tensor":
        """The measure of each row, [batch, n_heads, n_rows], NaN where it does not apply."""
        raise NotImplementedError(f"{self.name} is not estimated")


class AtOffset(Measure):
    """The weight of rows of words on the key `offset` tokens further on, if there is one."""

    offset: ClassVar[int]
    is_self_only = True

    def __init__(self) -> None:
        self.sums = (
            partial(RowBlock.at_offset, offset=self.offset, of_words=True),
            partial(RowBlock.n_at_offset, offset=self.offset, of_words=True),
        )


class AtFirst(Measure):
    """The weight on the first key; in self-attention of rows of words."""

    rests = True

    def value(self, sums: "HeadSums") -> "Tensor":
        return share_of(sums.on_first(sums.word_columns), sums.n_words)
