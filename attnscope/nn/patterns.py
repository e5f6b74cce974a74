"""Mask rules beyond causality, padding and windows: any part of them can be asked for at any time.

    symbol    meaning                                         shape
    i, j      places of queries and keys in the whole map     [rows], [columns], int64
    allowed   True where the query sees the key               [batch or 1, n_heads or 1, rows, columns]

A pattern is data, never code, so that a trace with it can be kept in a file. Must not import masks.

A mask of near keys, global tokens and random blocks: what makes long texts cheaper.

    symbol    meaning                                                        shape
    numbers   window, step, n_global, block, offset, 1 where links hold one  int64 [5 to 7]
              way, stride; those at the end may be missing, and are 0
    links     blocks that are drawn for each block of tokens, −1: none       int64 [n_blocks, n_random]

A query stands at the key `offset` + its own number. It sees the keys at most `window` steps away, every
`step`-th of them (Beltagy et al. 2020, section 3.1); the first `n_global` tokens see all keys and are seen
by all queries; and the queries of a block see the blocks drawn for it (Zaheer et al. 2020, section 2). A
stride, which goes with a window alone, adds the keys at every distance that it divides (Child et al. 2019).
Links that hold both ways are seen from either block, as before version 0.8: a block then sees from none to
many. A causal rule takes its part away from all of this. Must not import masks or patterns.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attnscope.nn.centred import CentredWindow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sparse:
    """See the module's legend; both tensors are on the CPU. `links_there` are the links where a model is."""

    numbers: Tensor
    links: Tensor
    links_there: Tensor | None = None

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        window, step, n_global, block, offset, _, stride = self._values
        place, key = (i + offset)[:, None], j[None, :]
        distance = (place - key).abs()
        seen = distance <= window * step
        if step > 1:
            seen = seen & (distance % step == 0)
        if stride:
            seen = seen | (distance % stride == 0)
        if n_global:
            seen = seen | (key < n_global) | (place < n_global)
        if self.links.shape[1]:
            seen = seen | self._linked((i + offset) // block, j // block)
        return seen[None, None]

    def check(self, n_queries: int, n_keys: int) -> None:
        numbers, links = self.numbers, self.links
        is_list = numbers.ndim == 1 and 5 <= len(numbers) <= 7 and numbers.dtype == torch.int64
        if not is_list or numbers.device.type != "cpu":
            raise ValueError(
                f"a sparse mask is described by {list(numbers.shape)} numbers, expected [5] to [7]"
            )
        window, step, n_global, block, offset, _, stride = self._values
        if min(window, n_global) < 0 or min(step, block) < 1 or links.ndim != 2 or links.dtype != torch.int64:
            raise ValueError("the sparse mask has impossible numbers")
        if stride < 0 or (stride and (step > 1 or n_global or links.shape[1])):
            raise ValueError("a stride goes with a window of single steps, and nothing else")
        if offset != n_keys - n_queries or offset < 0:
            raise ValueError(f"the sparse mask is for {offset} earlier keys, expected {n_keys - n_queries}")
        if links.shape[1] and len(links) * block < n_keys:
            raise ValueError(f"the sparse mask has links for {len(links)} blocks, too few for {n_keys} keys")

    def last_text(self) -> "Sparse":
        return self if self.links_there is None else Sparse(numbers=self.numbers, links=self.links)

    def tensors(self) -> dict[str, Tensor]:
        return {"numbers": self.numbers, "links": self.links}

    def columns(self, rows: range, n_keys: int) -> Tensor | None:
        """The keys that some of the rows may see, int64 in rising order; None when that may be any key."""
        window, step, n_global, block, offset, is_one_way, stride = self._values
        first, last = rows.start + offset, rows.stop - 1 + offset
        if first < n_global:
            return None
        seen = torch.zeros(n_keys, dtype=torch.bool)
        seen[:n_global] = True
        seen[max(0, first - window * step) : last + window * step + 1] = True
        for place in range(first, min(last + 1, first + stride)):
            seen[place % stride :: stride] = True
        if self.links.shape[1]:
            low, high = first // block, last // block
            blocks = torch.zeros(len(self.links), dtype=torch.bool)
            back = self.links[low : high + 1]
            blocks[back[back >= 0]] = True
            if not is_one_way:
                blocks |= ((self.links >= low) & (self.links <= high)).any(dim=1)
            seen |= blocks.repeat_interleave(block)[:n_keys]
        return seen.nonzero()[:, 0]

    def count(self, n_tokens: int) -> int:
        """How many cells of a square map are open, causality left aside; links are those of `draw_links`."""
        window, step, n_global, block, _, is_one_way, stride = self._values
        place = torch.arange(min(n_global, n_tokens), n_tokens)
        back = torch.div(place, step, rounding_mode="floor").clamp(max=window)
        ahead = torch.div(n_tokens - 1 - place, step, rounding_mode="floor").clamp(max=window)
        first_global = torch.div(place - n_global, step, rounding_mode="floor") + 1
        n_near_global = (back - first_global + 1).clamp(min=0)
        n_seen = back + ahead + 1 + n_global - n_near_global
        for side, near in ((place, back), (n_tokens - 1 - place, ahead)) if stride else ():
            n_seen = n_seen + torch.div(side, stride, rounding_mode="floor")
            n_seen = n_seen - torch.div(near, stride, rounding_mode="floor")
        sizes = (n_tokens - torch.arange(len(self.links)) * block).clamp(0, block)
        linked = torch.where(self.links < 0, 0, sizes[self.links.clamp(min=0)]).sum(dim=1)
        if is_one_way:  # global queries see all keys as it is
            n_first = (n_global - torch.arange(len(self.links)) * block).clamp(min=0)
            sizes = torch.minimum(sizes, (block - n_first).clamp(min=0))
        n_linked = int((sizes * linked).sum()) * (1 if is_one_way else 2)
        return n_tokens * min(n_global, n_tokens) + int(n_seen.sum()) + n_linked

    @property
    def _values(self) -> tuple[int, int, int, int, int, bool, int]:
        values = [*self.numbers.tolist(), 0, 0][:7]
        window, step, n_global, block, offset, is_one_way, stride = values
        return window, step, n_global, block, offset, is_one_way == 1, stride

    def _linked(self, query_block: Tensor, key_block: Tensor) -> Tensor:
        """Whether the blocks of a query and of a key are linked, bool [rows, columns]."""
        is_one_way = self._values[5]
        links = self.links if self.links_there is None else self.links_there
        links = links.to(query_block.device)
        found = torch.zeros(len(query_block), len(key_block), dtype=torch.bool, device=query_block.device)
        for column in range(links.shape[1]):
            back, ahead = links[query_block, column], links[key_block, column]
            found |= back[:, None] == key_block[None, :]
            if not is_one_way:
                found |= ahead[None, :] == query_block[:, None]
        return found


def draw_links(n_blocks: int, n_random: int, *, first: int, near: int, seed: int) -> Tensor:
    """For each block `n_random` different ones that its queries see: int64 [n_blocks, n_random].

    Those of `draw_earlier_links`; where there are too few of them, the rest are drawn from the nearest
    2 · n_random later ones. So no link hangs on how long a text is, or its batch: a later block that is not
    in the text is not there to be seen.
    """
    rows = []
    for number in range(n_blocks):
        found = _draw_earlier(number, n_random, first=first, near=near, seed=seed)
        after = max(first, number + near + 1)
        later = _draw(random.Random(f"{seed} {number}"), 2 * n_random, n_random - len(found))
        found += [after + pick for pick in later]
        rows.append([block for block in found if block < n_blocks])
    return _table(rows, n_random)


def draw_earlier_links(n_blocks: int, n_random: int, *, first: int, near: int, seed: int) -> Tensor:
    """Links of each block to `n_random` different earlier ones: int64 [n_blocks, n_random].

    None goes to the `first` blocks, which are global anyway, or to the `near` ones before the block itself.
    The links of a block depend on its number and the seed alone, today and in later versions.
    """
    numbers = range(n_blocks)
    return _table([_draw_earlier(n, n_random, first=first, near=near, seed=seed) for n in numbers], n_random)


def _draw_earlier(number: int, n_random: int, *, first: int, near: int, seed: int) -> list[int]:
    draws = random.Random(seed * 1_000_003 + number)
    return [first + pick for pick in _draw(draws, number - near - first, n_random)]


def _draw(draws: random.Random, n_candidates: int, n_random: int) -> list[int]:
    """Different numbers below `n_candidates`, as many as are wished and there are."""
    picked: list[int] = []
    for n_left in range(n_candidates, max(0, n_candidates - n_random), -1):
        pick = int(draws.random() * n_left)
        for taken in sorted(picked):
            pick += pick >= taken
        picked.append(pick)
    return picked


def _table(rows: list[list[int]], n_random: int) -> Tensor:
    filled = [row + [-1] * (n_random - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64).reshape(len(rows), n_random)


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
