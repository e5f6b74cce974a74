"""Mask rules beyond causality, padding and windows: any part of them can be asked for at any time.

    symbol    meaning                                         shape
    i, j      places of queries and keys in the whole map     [rows], [columns], int64
    allowed   True where the query sees the key               [batch or 1, n_heads or 1, rows, columns]

A pattern is data, never code, so that a trace with it can be kept in a file. Must not import masks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attnscope.nn.centred import CentredWindow
from attnscope.nn.sparse import Sparse


class Pattern(Protocol):
    """A rule that says of any rectangle which cells are allowed."""

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        """Bool [batch or 1, n_heads or 1, rows, columns] for the queries `i` and the keys `j`."""

    def check(self, n_queries: int, n_keys: int) -> None:
        """Raise ValueError when the pattern was made for another size of map."""

    def last_text(self) -> "Pattern":
        """The same rule for the last text of the batch."""

    def tensors(self) -> dict[str, Tensor]:
        """What it is made of, by the names of its fields."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Each query sees the keys `first` … `last`, both counted; none where `first` > `last`.

    Both are int64 [batch or 1, n_queries]. Windows, prefixes, chunks and packed texts are of this kind.
    """

    first: Tensor
    last: Tensor

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        i = i.to(self.first.device)
        j = j.to(self.first.device)
        first, last = self.first[:, i, None], self.last[:, i, None]  # [B, rows, 1]
        return ((j >= first) & (j <= last))[:, None]

    def check(self, n_queries: int, n_keys: int) -> None:
        if self.first.shape != self.last.shape or self.first.shape[1:] != (n_queries,):
            raise ValueError(
                f"the mask's intervals are {list(self.first.shape)}, expected [batch, {n_queries}]"
            )

    def last_text(self) -> "Intervals":
        return Intervals(first=self.first[-1:], last=self.last[-1:])

    def tensors(self) -> dict[str, Tensor]:
        return {"first": self.first, "last": self.last}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dense:
    """A mask given cell by cell, bool [batch or 1, n_heads or 1, n_queries, n_keys]: for short texts only."""

    cells: Tensor

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        device = self.cells.device
        return self.cells[:, :, i.to(device)[:, None], j.to(device)[None, :]]

    def check(self, n_queries: int, n_keys: int) -> None:
        if self.cells.ndim != 4 or self.cells.shape[2:] != (n_queries, n_keys):
            raise ValueError(
                f"the mask is {list(self.cells.shape)}, expected [.., .., {n_queries}, {n_keys}]"
            )

    def last_text(self) -> "Dense":
        return Dense(cells=self.cells[-1:])

    def tensors(self) -> dict[str, Tensor]:
        return {"cells": self.cells}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """A mask given by an edge list: what is not listed is forbidden, and memory grows with the edges.

    `cells` is int64 [n_edges, 2] of query and key, `sizes` int64 [2] the queries and keys of the map.
    """

    cells: Tensor
    sizes: Tensor

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        n_queries, n_keys = self.sizes.tolist()
        cells = self.cells.to(i.device)
        row = _places(i, n_queries)[cells[:, 0]]
        column = _places(j, n_keys)[cells[:, 1]]
        inside = (row >= 0) & (column >= 0)
        seen = torch.zeros(len(i), len(j), dtype=torch.bool, device=i.device)
        seen[row[inside], column[inside]] = True
        return seen[None, None]

    def check(self, n_queries: int, n_keys: int) -> None:
        if self.cells.dtype != torch.int64 or self.cells.ndim != 2 or self.cells.shape[1] != 2:
            raise ValueError(f"the edges are {list(self.cells.shape)}, expected [n_edges, 2]")
        if self.sizes.tolist() != [n_queries, n_keys]:
            raise ValueError(f"the edges are for {self.sizes.tolist()}, expected [{n_queries}, {n_keys}]")
        limits = self.sizes.to(self.cells.device)
        if self.cells.device.type == "cpu" and bool(((self.cells < 0) | (self.cells >= limits)).any()):
            raise ValueError("an edge lies outside the map")

    def last_text(self) -> "Edges":
        return self

    def tensors(self) -> dict[str, Tensor]:
        return {"cells": self.cells, "sizes": self.sizes}


def graph_mask(
    edges: Iterable[tuple[int, int]], n_nodes: int, *, is_directed: bool = False, has_loops: bool = True
) -> Edges:
    """The mask of a graph: node i sees j for each edge (i, j), and j sees i unless `is_directed`.

    With `has_loops` every node sees itself. Raises ValueError for an edge to a node that does not exist.
    """
    given = [(int(i), int(j)) for i, j in edges]
    if any(not (0 <= i < n_nodes and 0 <= j < n_nodes) for i, j in given):
        raise ValueError(f"an edge names a node outside 0 to {n_nodes - 1}")
    both = given if is_directed else [*given, *((j, i) for i, j in given)]
    loops = [(node, node) for node in range(n_nodes)] if has_loops else []
    cells = torch.tensor(sorted({*both, *loops}), dtype=torch.int64).reshape(-1, 2)
    return Edges(cells=cells, sizes=torch.tensor([n_nodes, n_nodes]))


def _places(chosen: Tensor, n: int) -> Tensor:
    """Where each of `n` rows or columns stands among the chosen ones; −1 where it is not chosen."""
    places = torch.full((n,), -1, dtype=torch.int64, device=chosen.device)
    places[chosen] = torch.arange(len(chosen), device=chosen.device)
    return places


PATTERNS: dict[str, type[Intervals] | type[Dense] | type[Edges] | type[Sparse] | type[CentredWindow]] = {
    "intervals": Intervals,
    "dense": Dense,
    "edges": Edges,
    "sparse": Sparse,
    "centred": CentredWindow,
}
"""Every kind by the name it has in files."""


def pattern_kind(pattern: Pattern) -> str:
    """The name that the pattern's kind has in files."""
    for name, kind in PATTERNS.items():
        if isinstance(pattern, kind):
            return name
    raise TypeError(f"{type(pattern).__name__} has no name in files")
