"""The keys that a query may see, kept as a rule and never as a matrix.

    symbol      meaning                               shape
    key_valid   False where the key is padding        [batch, n_keys]
    allowed     True where the query sees the key     [batch or 1, n_heads or 1, rows, columns]

A query's own place among the keys is such that both sequences end together: query i stands at key
i + n_keys - n_queries. A causal query sees the keys up to its own place. Must not import attention or scores.

Mask rules beyond causality, padding and windows: any part of them can be asked for at any time.

    symbol    meaning                                         shape
    i, j      places of queries and keys in the whole map     [rows], [columns], int64
    allowed   True where the query sees the key               [batch or 1, n_heads or 1, rows, columns]

A pattern is data, never code, so that a trace with it can be kept in a file.

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
many. A causal rule takes its part away from all of this.

Attention around a predicted place, Luong et al. 2015 (local-p, equations 9 and 10): a mask and a bias.

    symbol   meaning                                              shape
    p        the centre, S · sigmoid(v · tanh(W h)), from 0       [batch, n_heads, n_queries]
    S        tokens of the source                                 [batch]
    D        the reach: keys with |j − p| ≤ D are seen            whole number
    bias     −(j − p)² / 2σ² with σ = D / 2                       [batch, n_heads, rows, columns]

The paper multiplies weights by the Gaussian after the softmax, so that its rows no longer sum to 1. Here its
logarithm is added to the scores before the softmax: the same proportions between the keys of a row, and
the row stays a distribution.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Generator, Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CentredBias:
    """A Gaussian around each query's own centre; see the module's legend.

    `values` is [batch, n_heads, n_queries, 2] of p and 1 / σ²; where the second is 0 nothing is added.
    """

    values: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        if self.values.ndim != 4 or self.values.shape[2:] != (n_queries, 2):
            raise ValueError(f"the bias is {list(self.values.shape)}, expected [.., .., {n_queries}, 2]")
        j = torch.arange(n_keys, device=self.values.device)[cols]
        chosen = self.values[:, :, rows]
        centre, strength = chosen[..., :1], chosen[..., 1:]  # [B, H, rows, 1]
        bias: Tensor = -0.5 * strength * (j - centre).square()
        return bias

    def last_text(self) -> "CentredBias":
        return CentredBias(values=self.values[-1:].detach())

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CentredWindow:
    """Each query sees the keys at most `reach` away from its own centre.

    `centres` is [batch, n_heads, n_queries], `reach` int64 [1].
    """

    centres: Tensor
    reach: Tensor

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        device = self.centres.device
        centres = self.centres[:, :, i.to(device), None]  # [B, H, rows, 1]
        return (j.to(device) - centres).abs() <= self.reach.to(device)

    def check(self, n_queries: int, n_keys: int) -> None:
        """See `Pattern`; positions past the last key are the end of a text, not an error."""
        if self.centres.ndim != 3 or self.centres.shape[2] != n_queries or self.reach.shape != (1,):
            raise ValueError(f"the centres are {list(self.centres.shape)}, expected [.., .., {n_queries}]")

    def last_text(self) -> "CentredWindow":
        return CentredWindow(centres=self.centres[-1:].detach(), reach=self.reach)

    def tensors(self) -> dict[str, Tensor]:
        return {"centres": self.centres, "reach": self.reach}

    def with_head(self, head: int, other: "CentredWindow", other_head: int) -> "CentredWindow":
        """The same window, except that one head of the last text gets another's centres."""
        centres = self.centres.clone()
        centres[-1, head] = other.centres[-1, other_head].to(centres)
        return CentredWindow(centres=centres, reach=self.reach)


class Centre(nn.Module):
    """Centre of each head's window: p = S · sigmoid(v · tanh(W h)), with a `matrix` W and a `vector` v a
    head.
    """

    def __init__(self, *, n_heads: int, d_head: int, d_model: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.matrix = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        self.vector = nn.Parameter(torch.empty(n_heads, d_head))

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """Initialise: every head looks near the middle, slightly differently for each text."""
        self.matrix.normal_(std=self.matrix.shape[2] ** -0.5, generator=generator)
        self.vector.normal_(std=self.vector.shape[1] ** -0.5, generator=generator)

    def forward(self, hidden: Tensor, lengths: Tensor) -> tuple[CentredWindow, CentredBias]:
        """Window and Gaussian for decoder states [B, Q, d_model] and source lengths [B] (or [1])."""
        inner = torch.einsum("bqm,hdm->bhqd", hidden, self.matrix).tanh()
        place = (inner * self.vector[:, None]).sum(dim=-1).sigmoid()  # [B, H, Q]
        place = place.to(torch.promote_types(place.dtype, torch.float32))
        centres = lengths.to(place)[:, None, None] * place
        strength = torch.full_like(centres, 4.0 / self.reach**2)
        window = CentredWindow(
            centres=centres.detach(),
            reach=torch.full((1,), self.reach, device=centres.device),  # filled there: nothing is waited for
        )
        return window, CentredBias(values=torch.stack((centres, strength), dim=-1))


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """Join the rows of calls with one query each, [B, H, 1, ...], into one call's, [B, H, Q, ...]."""
    return torch.cat(list(parts), dim=2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sparse:
    """See the module's legend; both tensors are on the CPU. `links_there` are the links on the model's
    device.
    """

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
        """The keys that some of the rows may see, int64 in ascending order; None if that may be any key."""
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
        """Number of open cells in a square map, ignoring causality; links are those of `draw_links`."""
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
    """For each block `n_random` different ones visible to its queries: int64 [n_blocks, n_random].

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
    """Different numbers below `n_candidates`, as many as are requested and available."""
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
    """A rule that gives the allowed cells of any rectangle."""

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        """Bool [batch or 1, n_heads or 1, rows, columns] for the queries `i` and the keys `j`."""

    def check(self, n_queries: int, n_keys: int) -> None:
        """Raise ValueError if the pattern was made for another size of map."""

    def last_text(self) -> "Pattern":
        """The same rule for the last text of the batch."""

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, by field name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Each query sees the keys `first` … `last`, inclusive; none if `first` > `last`.

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
    """A mask given by an edge list: unlisted edges are forbidden, and memory grows with the edges.

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
    """Index of each of `n` rows or columns among the chosen ones; −1 if not chosen."""
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
    """The name of the pattern's kind in files."""
    for name, kind in PATTERNS.items():
        if isinstance(pattern, kind):
            return name
    raise TypeError(f"{type(pattern).__name__} has no name in files")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemovedCells:
    """Single cells removed by the user: `cells` int64 [n, 3] of head, query and key."""

    cells: Tensor
    n_heads: int

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        """Bool [1, n_heads, rows, columns] for the queries `i` and the keys `j`, both in even steps."""
        # A last row and column takes the cells that are not in this part: no shape depends on values.
        n_rows, n_cols = len(i), len(j)
        seen = torch.ones(1, self.n_heads, n_rows + 1, n_cols + 1, dtype=torch.bool, device=i.device)
        if not (n_rows and n_cols):
            return seen[:, :, :n_rows, :n_cols]
        head, query, key = self.cells.to(i.device).unbind(dim=1)
        row, has_row = _place_in(i, query)
        column, has_column = _place_in(j, key)
        inside = has_row & has_column
        seen[0, head, torch.where(inside, row, n_rows), torch.where(inside, column, n_cols)] = False
        return seen[:, :, :n_rows, :n_cols]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskRule:
    """Keys forbidden by one attention call; a cell is allowed if every part allows it.

    `key_valid` is bool [batch, n_keys], or None when every key counts. `window` is the most tokens that a
    query looks back and ahead of its own place (Beltagy et al. 2020, section 3.1), None for no limit.
    `pattern` is any further rule; `removed` are single cells of single heads.
    """

    is_causal: bool = False
    key_valid: Tensor | None = None
    window: tuple[int | None, int | None] | None = None
    pattern: Pattern | None = None
    removed: RemovedCells | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every query may see every key."""
        return not self.is_causal and self.key_valid is None and self.is_simple

    @property
    def kind(self) -> tuple[object, ...]:
        """Key shared by rules made of the very same parts, while these exist."""
        return (self.is_causal, self.window, *map(id, (self.key_valid, self.pattern, self.removed)))

    @property
    def is_banded(self) -> bool:
        """Whether a window limits what a query sees."""
        return self.window is not None and self.window != (None, None)

    @property
    def is_simple(self) -> bool:
        """Whether there is only causality and padding, which fused attention supports directly."""
        return not self.is_banded and self.pattern is None and self.removed is None

    def allowed(
        self,
        n_queries: int,
        n_keys: int,
        rows: slice = slice(None),
        cols: slice | Tensor = slice(None),
        *,
        device: torch.device | None = None,
    ) -> Tensor:
        """The rule for some rows and columns, as bool [batch or 1, n_heads or 1, n_rows, n_columns].

        `n_queries` and `n_keys` are the sizes of the whole map, the slices a part of it; columns may be
        listed by their numbers as well, where no cells were removed. `device` is used only when there is no
        `key_valid` to tell it.
        """
        device = device if self.key_valid is None else self.key_valid.device
        i = _indices(range(n_queries)[rows], device)
        j = cols.to(device) if isinstance(cols, Tensor) else _indices(range(n_keys)[cols], device)
        seen = self._near(i, j, n_keys - n_queries)[None, None]
        if self.pattern is not None:
            self.pattern.check(n_queries, n_keys)
            seen = seen & self.pattern.allowed(i, j).to(seen.device)
        if self.removed is not None:
            seen = seen & self.removed.allowed(i, j)
        if self.key_valid is None:
            return seen
        _check_keys(self.key_valid, n_keys)
        return seen & self.key_valid[:, j if isinstance(cols, Tensor) else cols][:, None, None]

    def rows_without_keys(self, n_queries: int, n_keys: int) -> Tensor | None:
        """True where a query sees no key, bool [batch or 1, heads or 1, n_queries or 1]; None: all do.

        With a causal rule and fewer keys than queries the first queries see nothing.
        """
        if not self.is_simple:
            return None if self._sees_itself(n_queries, n_keys) else self._find_blind_rows(n_queries, n_keys)
        if self.key_valid is None:
            if not self.is_causal or n_queries <= n_keys:
                return None
            return (torch.arange(n_queries) < n_queries - n_keys)[None, None]
        _check_keys(self.key_valid, n_keys)
        if not self.is_causal:
            return ~self.key_valid.any(dim=1)[:, None, None]
        n_seen = self.key_valid.cumsum(dim=1)
        last_key = torch.arange(n_queries, device=n_seen.device) + (n_keys - n_queries)
        n_seen = n_seen[:, last_key.clamp(min=0)]  # [batch, n_queries]
        return ((n_seen == 0) | (last_key < 0))[:, None]

    def key_bias(self, dtype: torch.dtype) -> Tensor | None:
        """The padding as numbers added to scores: 0 or −inf, [batch, 1, 1, n_keys]; None without padding."""
        if self.key_valid is None:
            return None
        bias = torch.zeros(self.key_valid.shape, dtype=dtype, device=self.key_valid.device)
        return bias.masked_fill_(~self.key_valid, -math.inf)[:, None, None, :]

    def last_text(self) -> "MaskRule":
        """The rule of the last text of the batch, without references to the others."""
        if self.key_valid is None and self.pattern is None:
            return self
        return replace(
            self,
            key_valid=None if self.key_valid is None else self.key_valid[-1:].clone(),
            pattern=None if self.pattern is None else self.pattern.last_text(),
        )

    def _near(self, i: Tensor, j: Tensor, offset: int) -> Tensor:
        """Causality and the window, bool [rows, columns]."""
        place, key = (i + offset)[:, None], j[None, :]
        back, ahead = self.window or (None, None)
        ahead = 0 if self.is_causal else ahead
        if back is None:
            if ahead is None:
                return torch.ones(len(i), len(j), dtype=torch.bool, device=i.device)
            return key <= place + ahead
        seen = key >= place - back
        return seen if ahead is None else seen & (key <= place + ahead)

    def _sees_itself(self, n_queries: int, n_keys: int) -> bool:
        """Whether a window is the only rule besides causality, and every query is at some key."""
        is_window = self.key_valid is None and self.pattern is None and self.removed is None
        return is_window and n_queries <= n_keys and min(side or 0 for side in self.window or (0,)) >= 0

    def _find_blind_rows(self, n_queries: int, n_keys: int) -> Tensor | None:
        n_rows = max(1, _BLOCK_CELLS // max(1, n_keys))
        blind = [
            ~self.allowed(n_queries, n_keys, slice(start, start + n_rows)).any(dim=-1)
            for start in range(0, n_queries, n_rows)
        ]
        found = torch.cat(blind, dim=-1) if blind else torch.zeros(1, 1, 0, dtype=torch.bool)
        return found if bool(found.any()) else None


def _check_keys(key_valid: Tensor, n_keys: int) -> None:
    if key_valid.shape[1:] != (n_keys,):
        raise ValueError(f"key_valid is {list(key_valid.shape)}, expected [batch, {n_keys}]")


def _place_in(steps: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Index of each wanted number in an evenly spaced sequence, and whether it occurs."""
    step = steps[1] - steps[0] if len(steps) > 1 else steps.new_ones(())
    place = torch.div(wanted - steps[0], step, rounding_mode="floor")
    return place, (place >= 0) & (place < len(steps)) & (place * step + steps[0] == wanted)


_BLOCK_CELLS = 4_000_000


def build_rule(*, is_causal: bool, key_valid: Tensor | None = None) -> MaskRule:
    """The rule for a batch; without any padding `key_valid` is dropped, which keeps attention fast.

    On accelerators the values are not looked at, because that would wait for the device.
    """
    if key_valid is None:
        return MaskRule(is_causal=is_causal)
    if key_valid.ndim != 2:
        raise ValueError(f"key_valid is {list(key_valid.shape)}, expected [batch, n_keys]")
    key_valid = key_valid.to(torch.bool)
    if key_valid.device.type == "cpu" and bool(key_valid.all()):
        return MaskRule(is_causal=is_causal)
    return MaskRule(is_causal=is_causal, key_valid=key_valid)


def _indices(part: range, device: torch.device | None) -> Tensor:
    return torch.arange(part.start, part.stop, part.step, device=device)
