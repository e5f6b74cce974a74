"""Which token of a text is a translation of which of the other, learned from the pairs alone.

The lexical model of Brown et al. 1993 (their Model 1) with the diagonal prior of Dyer et al. 2013, by
expectation maximisation, once in each direction; a link is what both directions believe (Liang et al. 2006).

| symbol | meaning                                                          | shape       |
|--------|------------------------------------------------------------------|-------------|
| cell   | one token of a source with one token of its target               | [n_cells]   |
| kind   | which two tokens a cell is of, whatever the pair it stands in    | [n_cells]   |
| prior  | P(place in the source | place in the target), over one target row | [n_cells]   |
| table  | P(target token | source token), one number for each kind         | [n_kinds]   |
| belief | P(the target token comes from this source token)                 | [n_cells]   |
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Shares = NDArray[np.float64]
MOST_CELLS = 30_000_000
"""Pairs after the one that reaches it are left out: about 2.5 GB are held for so many."""
_N_PLAIN, _N_DIAGONAL = 4, 5
_TENSION, _NULL = 4.0, 0.08
"""How narrow the diagonal is, and the share of target tokens that come from nowhere (Dyer et al. 2013)."""
_LEAST_AGREEMENT = 0.2


def align_texts(sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Ids]:
    """The links of each pair, int64 [n_links, 2] of target and source places, in order.

    A link is where the product of both directions' beliefs is at least 0.2. Pairs that have an empty text,
    or come after `MOST_CELLS`, have none.
    """
    grid = _lay_out(sources, targets)
    if not len(grid.pair):
        return [np.empty((0, 2), dtype=np.int64) for _ in sources]
    forward = _beliefs(grid, grid.rows, grid.source_token, grid.target_token)
    backward = _beliefs(grid, grid.columns, grid.target_token, grid.source_token)
    is_link = forward * backward >= _LEAST_AGREEMENT
    links = np.stack([grid.target_place[is_link], grid.source_place[is_link]], axis=1)
    ends = np.searchsorted(grid.pair[is_link], np.arange(1, len(sources)))
    return np.split(links, ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Every cell of every pair; `rows` and `columns` number the target and the source tokens of all pairs."""

    pair: Ids
    target_place: Ids
    source_place: Ids
    rows: Ids
    columns: Ids
    target_token: Ids
    source_token: Ids
    distance: Shares


def _lay_out(sources: Sequence[Ids], targets: Sequence[Ids]) -> _Grid:
    n_source = np.array([len(ids) for ids in sources], dtype=np.int64)
    n_target = np.array([len(ids) for ids in targets], dtype=np.int64)
    n_cells = n_source * n_target
    n_cells[np.cumsum(n_cells) > MOST_CELLS] = 0
    pair = np.repeat(np.arange(len(n_cells)), n_cells)
    within = np.arange(n_cells.sum()) - (np.cumsum(n_cells) - n_cells)[pair]
    width = n_source[pair]
    target_place, source_place = within // np.maximum(width, 1), within % np.maximum(width, 1)
    rows = (np.cumsum(n_target) - n_target)[pair] + target_place
    columns = (np.cumsum(n_source) - n_source)[pair] + source_place
    distance = np.abs((target_place + 0.5) / n_target[pair] - (source_place + 0.5) / width)
    return _Grid(
        pair=pair,
        target_place=target_place,
        source_place=source_place,
        rows=rows,
        columns=columns,
        target_token=_joined(targets)[rows],
        source_token=_joined(sources)[columns],
        distance=distance,
    )


def _joined(texts: Sequence[Ids]) -> Ids:
    return np.concatenate([np.empty(0, dtype=np.int64), *texts])


def _beliefs(grid: _Grid, rows: Ids, given: Ids, told: Ids) -> Shares:
    """P(the token `told` of a row comes from the token `given` of the cell), [n_cells]."""
    _, kind = np.unique(given * (int(told.max()) + 1) + told, return_inverse=True)
    kind = kind.astype(np.int32)
    of_given = np.zeros(int(kind.max()) + 1, dtype=np.int64)
    of_given[kind] = given
    n_rows = int(rows.max()) + 1
    seen = np.zeros(n_rows, dtype=np.int64)
    seen[rows] = told
    how_often = np.bincount(told[np.unique(rows, return_index=True)[1]], minlength=int(told.max()) + 1)
    from_nowhere = (_NULL * how_often / how_often.sum())[seen]  # [n_rows]
    table = np.ones(len(of_given))
    belief = np.empty(len(rows))
    for step in range(_N_PLAIN + _N_DIAGONAL + 1):
        prior = np.exp(-_TENSION * grid.distance) if step >= _N_PLAIN else np.ones(len(rows))
        prior *= (1.0 - _NULL) / np.bincount(rows, prior, n_rows)[rows]
        belief = prior * table[kind]
        belief /= (np.bincount(rows, belief, n_rows) + from_nowhere)[rows]
        counts = np.bincount(kind, belief)
        table = counts / np.bincount(of_given, counts)[of_given]
    return belief
