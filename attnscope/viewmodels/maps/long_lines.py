"""Lines of long maps: only the strongest weights, and of the tokens only those at their ends.

| symbol  | meaning                                                | shape     |
|---------|--------------------------------------------------------|-----------|
| queries | positions of the queries that are shown, ascending     | [n_rows]  |
| keys    | positions of the keys that are shown, ascending        | [n_cols]  |
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from attnscope.records.maps import HeadMap
from attnscope.records.tiles import EdgesShown, LongMap, ShowEdges, StrongEdges, TileRequest
from attnscope.records.tokens import Token
from attnscope.viewmodels.numbers import Numbers

N_EDGES = 120
"""More would need more rows of tokens than can be read."""


class LongLines:
    """The strongest edges of the heads that are looked at."""

    changed = Signal()
    shown: tuple[LongMap, ...] = ()
    maps: tuple[HeadMap, ...] = ()
    is_waiting = False
    """Whether the edges of what is looked at are still being found."""

    def __init__(self, post: Callable[[TileRequest], None], numbers: Numbers) -> None:
        self._post, self._numbers = post, numbers
        self._number = 0
        self._queries = self._keys = np.zeros(0, dtype=np.intp)

    def show(self, maps: tuple[LongMap, ...]) -> None:
        """Look at the lines of these maps, those with the same tokens as the first; of none: forget them."""
        same = tuple(m for m in maps if (m.queries, m.keys) == (maps[0].queries, maps[0].keys))
        if same == self.shown:
            return
        is_same_text = bool(same and self.shown) and same[0].queries == self.shown[0].queries
        self.shown, self._number = same, 0
        self.is_waiting = bool(same)
        if not is_same_text:
            self.maps = ()
            self.changed.emit()
        if not same or not all(m.is_known for m in same):
            return
        self._number = self._numbers.next()
        heads = tuple(m.head for m in same)
        first = same[0]
        self._post(
            ShowEdges(number=self._number, model=first.model, trace=first.trace, heads=heads, n_edges=N_EDGES)
        )

    def handle(self, reply: EdgesShown) -> None:
        """Take the edges that were asked for last."""
        if reply.number == self._number and self.shown:
            self.is_waiting = False
            self.maps, self._queries, self._keys = condensed(reply.edges, self.shown[0])
            self.changed.emit()

    def token(self, query: int | None, key: int | None) -> tuple[int | None, int | None]:
        """The positions of a row and a column of the small maps in the whole text."""
        return _at(self._queries, query), _at(self._keys, key)

    def row(self, query: int | None, key: int | None) -> tuple[int | None, int | None]:
        """The row and the column that stand for positions of the text, where they are shown."""
        return _find(self._queries, query), _find(self._keys, key)


def condensed(
    edges: StrongEdges, long_map: LongMap
) -> tuple[tuple[HeadMap, ...], NDArray[np.intp], NDArray[np.intp]]:
    """Small maps of the tokens at the ends of edges, one for each head, and the positions of those tokens.

    Cells that are no edge are NaN: they were left out.
    """
    queries, rows = np.unique(edges.queries, return_inverse=True)
    keys, cols = np.unique(edges.keys, return_inverse=True)
    n = len(edges.weights)
    hidden = f"{edges.hidden * 100:.1f} % of the weight not shown"
    note = f"the {n:,} strongest of {edges.n_all:,} weights, {hidden}"
    maps = []
    for index, head in enumerate(edges.heads):
        weights = np.full((len(queries), len(keys)), np.nan, dtype=np.float32)
        own = edges.head_indices == index
        weights[rows[own], cols[own]] = edges.weights[own]
        maps.append(
            HeadMap(
                head=head,
                queries=tuple(_numbered(long_map.queries[i], i) for i in queries.tolist()),
                keys=tuple(_numbered(long_map.keys[i], i) for i in keys.tolist()),
                weights=weights,
                note=note,
                is_partial=True,
            )
        )
    return tuple(maps), queries, keys


def _numbered(token: Token, position: int) -> Token:
    """The token with its position, which tells equal pieces apart."""
    return replace(token, piece=f"{token.piece[:14]} {position:,}", joins_previous=False)


def _at(positions: NDArray[np.intp], index: int | None) -> int | None:
    return int(positions[index]) if index is not None and index < len(positions) else None


def _find(positions: NDArray[np.intp], position: int | None) -> int | None:
    if position is None:
        return None
    index = int(np.searchsorted(positions, position))
    return index if index < len(positions) and positions[index] == position else None
