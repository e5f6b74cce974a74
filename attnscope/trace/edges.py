"""The strongest weights of long maps, found strip by strip.

| symbol  | meaning                              | shape |
|---------|--------------------------------------|-------|
| weights | the strongest, weakest first         | [n]   |
| heads   | which of the given heads             | [n]   |
| queries | row of each                          | [n]   |
| keys    | column of each                       | [n]   |
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.trace.pooling import OneHead, as_slice, column_parts, strips

FAINTEST = 0.01
"""Weights under this are too faint to be drawn as lines."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundEdges:
    """See the module's legend; `n_all` counts allowed cells, `n_rows` rows that see a key, of all heads."""

    weights: Tensor
    heads: Tensor
    queries: Tensor
    keys: Tensor
    n_all: int
    n_rows: int

    @property
    def hidden(self) -> float:
        """The share of the whole weight that is not among these; every row's weights sum to 1."""
        return max(0.0, 1.0 - float(self.weights.sum()) / self.n_rows) if self.n_rows else 0.0


class _Best:
    """The `n` largest exponents seen so far, with their places."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.floor = math.log(FAINTEST)
        self.values = torch.zeros(0)
        self.places = torch.zeros(0, 3, dtype=torch.int64)

    def take(self, found: Tensor, head: int, row: int, col: int) -> None:
        """Look through one block whose corner is at (row, col)."""
        i, j = (found >= self.floor).nonzero(as_tuple=True)
        if not len(i):
            return
        values = found[i, j].cpu()
        places = torch.stack([torch.full_like(i, head), i + row, j + col], dim=1).cpu()
        self.values, self.places = torch.cat([self.values, values]), torch.cat([self.places, places])
        if len(self.values) > 2 * self.n:
            self.prune()

    def prune(self) -> None:
        """Keep the best `n` and look for nothing weaker from now on."""
        n_kept = min(self.n, len(self.values))
        self.values, kept = self.values.topk(n_kept)
        self.places = self.places[kept]
        if n_kept == self.n:
            self.floor = max(self.floor, float(self.values[-1]))


def strongest_edges(heads: Sequence[OneHead], n_edges: int) -> Iterator[float | FoundEdges]:
    """The `n_edges` strongest weights of heads with the same tokens, last; before it, how far the work is."""
    best = _Best(n_edges)
    n_all = n_rows = done = 0
    n_cells = max(1, sum(head.n_queries * head.n_keys for head in heads))
    for index, head in enumerate(heads):
        for rows in strips(range(head.n_queries), 1):
            seen = torch.zeros(len(rows), dtype=torch.bool)
            for part, _ in column_parts(head.reach(rows), range(head.n_keys), 1):
                found = head.exponents(as_slice(rows), as_slice(part))
                if head.is_open(rows, part):
                    n_all += found.numel()
                    seen[:] = True
                else:
                    allowed = found > -math.inf
                    n_all += int(allowed.sum())
                    seen |= allowed.any(dim=1).cpu()
                best.take(found, index, rows.start, part.start)
            n_rows += int(seen.sum())
            done += len(rows) * head.n_keys
            yield min(done / n_cells, 1.0)
    best.prune()
    order = best.values.argsort()
    places = best.places[order]
    yield FoundEdges(
        weights=best.values[order].exp(),
        heads=places[:, 0],
        queries=places[:, 1],
        keys=places[:, 2],
        n_all=n_all,
        n_rows=n_rows,
    )
