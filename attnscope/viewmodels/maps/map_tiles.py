"""What is seen of one long map: the window on it, the tiles that are there, the cell under the cursor.

Asks for tiles as the window moves, one step ahead of the hand, and keeps those that came: the nearest
coarser one is shown until the right one is there.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal, SignalGroup

from attnscope.records.maps import HeadMap
from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.tiles import (
    CellRead,
    CellReading,
    EdgesShown,
    GridRefined,
    LongMap,
    MapTile,
    Part,
    ReadCell,
    ShowEdges,
    ShowTile,
    StrongEdges,
    TileReply,
    TileShown,
)
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.map_window import MapWindow
from attnscope.viewmodels.query import Query, Requests

# Lines of long maps: only the strongest weights, and of the tokens only those at their ends.

N_EDGES = 120
"""More would need more rows of tokens than can be read."""


class LongLines:
    """The strongest edges of the heads that are looked at."""

    changed = Signal()
    shown: tuple[LongMap, ...] = ()
    maps: tuple[HeadMap, ...] = ()
    is_waiting = False
    """Whether the edges of what is looked at are still being found."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._number = 0
        self._queries = self._keys = np.zeros(0, dtype=np.intp)

    def show(self, maps: tuple[LongMap, ...]) -> None:
        """Look at the lines of these maps, those with the same tokens as the first; of none: forget them."""
        if not maps and not self.shown:
            return
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
        heads, first = tuple(m.head for m in same), same[0]
        self._number = self._requests.send(
            ShowEdges(model=first.model, trace=first.trace, heads=heads, n_edges=N_EDGES)
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


N_TILES_KEPT = 6
MARGIN = 0.2
"""Share of the window asked for beyond each of its edges."""
OVERVIEW_PX = 512
"""The overview has at most so many cells a side; it lies under everything and fills the small map."""


class MapChanges(SignalGroup):
    """What of the view of a long map can change."""

    map = Signal()
    window = Signal()
    tiles = Signal()
    cell = Signal()


class _Coming(NamedTuple):
    """The part of the map that is on its way, in blocks of `b` cells; 0: none is."""

    b: int = 0
    rows: Part = (0, 0)
    cols: Part = (0, 0)


_NO_PART = _Coming()


class MapTiles:
    """State of the view of one long map; posts tile requests, takes tile replies."""

    shown: LongMap | None = None
    window: MapWindow | None = None
    overview: MapTile | None = None
    tiles: tuple[MapTile, ...] = ()
    reading: CellReading | None = None
    fraction: float | None = None
    is_stale: bool = False

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.changed = MapChanges()
        self.lines = LongLines(self._requests)
        self._area_px = (640.0, 480.0)
        self._ratio = 1.0
        self._coming = _NO_PART
        self._overview_number = 0
        self._cell = Query(CellRead, requests)
        self._cell.is_watched = True

    @property
    def head_peak(self) -> float:
        """The largest weight of the head, as far as it is known."""
        return max((tile.head_peak for tile in self.known), default=0.0)

    @property
    def known(self) -> tuple[MapTile, ...]:
        """Every tile that is kept, the overview first."""
        return self.tiles if self.overview is None else (self.overview, *self.tiles)

    def painted(self) -> tuple[MapTile, ...]:
        """The tiles to paint, coarse ones first; those that a finer one covers wholly are left out."""
        window = self.window
        if window is None:
            return ()
        found = [tile for tile in self.known if tile is self.overview or _meets(tile, window)]
        found.sort(key=lambda tile: (tile is not self.overview, not tile.is_sampled, -tile.b))
        for k in range(len(found) - 1, -1, -1):
            if _covers(found[k], window.rows, window.cols):
                return tuple(found[k:])
        return tuple(found)

    @property
    def best(self) -> MapTile | None:
        """The tile on top of the others."""
        painted = self.painted()
        return painted[-1] if painted else None

    def seen_tile(self) -> MapTile | None:
        """The part that is seen as a tile of its own; None while there is no exact tile of all of it."""
        window, best = self.window, self.best
        if window is None or best is None or best.is_sampled or self.is_stale:
            return None
        if not (_holds(best.rows, window.rows) and _holds(best.cols, window.cols)):
            return None
        return part_of_tile(best, window.rows, window.cols)

    # Intents

    def show(self, long_map: LongMap | None) -> None:
        """Look at a map. The window stays when the size does, and old tiles stay until new ones come."""
        before, self.shown = self.shown, long_map
        if long_map == before:
            return
        self._coming, self._overview_number, self.reading = _NO_PART, 0, None
        self._cell.renew()
        if long_map is None:
            self.window, self.overview, self.tiles, self.fraction = None, None, (), None
            self.changed.map.emit()
            self.changed.cell.emit()
            return
        n_queries, n_keys = len(long_map.queries), len(long_map.keys)
        is_same_size = self.window is not None and (self.window.n_queries, self.window.n_keys) == (
            n_queries,
            n_keys,
        )
        if not is_same_size:
            width, height = self._area_px
            self.window = MapWindow(n_queries=n_queries, n_keys=n_keys, width_px=width, height_px=height)
            self.overview, self.tiles = None, ()
        self.is_stale = bool(self.overview or self.tiles)
        self.fraction = None
        self.changed.map.emit()
        self.changed.cell.emit()
        self._ask_overview()
        self._ask()

    def set_area(self, width_px: float, height_px: float, ratio: float = 1.0) -> None:
        """The cells have this many layout pixels, of `ratio` device pixels each."""
        self._area_px, self._ratio = (max(1.0, width_px), max(1.0, height_px)), max(1.0, ratio)
        self._move(lambda window: window.resized(*self._area_px))

    def zoom(self, factor: float, x_px: float, y_px: float) -> None:
        """Zoom at a place of the area."""
        self._move(lambda window: window.zoomed(factor, x_px, y_px))

    def pan(self, dx_px: float, dy_px: float) -> None:
        """Let the map follow the hand."""
        self._move(lambda window: window.panned(dx_px, dy_px))

    def fit(self) -> None:
        """Show the whole map."""
        self._move(MapWindow.fitted)

    def bring_into_view(self, query: int, key: int) -> None:
        """Move just so far that a cell is seen."""
        self._move(lambda window: window.showing(query, key))

    def centre_on(self, query: float, key: float) -> None:
        """Move the window's middle to a place of the map."""
        self._move(lambda window: window.centred(query, key))

    def point_at(self, cell: tuple[int, int] | None) -> None:
        """The cursor is on a cell, or on the block of cells that a pixel stands for, or on none."""
        if cell is None or self.shown is None or self.window is None:
            self._set_reading(None)
            self._cell.renew()
            return
        rows, cols = self._block_of(cell)
        exact = self._exact(cell) if rows[1] - rows[0] == 1 and cols[1] - cols[0] == 1 else None
        if exact is not None:
            self._cell.renew()
            self._set_reading(exact)
            return
        shown = self.shown
        self._cell.ask(
            (rows, cols),
            ReadCell(model=shown.model, trace=shown.trace, head=shown.head, rows=rows, cols=cols),
        )

    # Replies

    def handle(self, reply: TileReply | Reply) -> None:
        """Take a reply of the tile thread; those for another map or of an older number change nothing."""
        match reply:
            case TileShown() if self._is_of_map(reply.tile.trace, reply.tile.head):
                self._take_tile(reply)
            case CellRead() if self._cell.take(reply):
                self._set_reading(reply.reading)
            case EdgesShown():
                self.lines.handle(reply)
            case TileShown() | CellRead() | GridRefined() | Failed():
                pass  # too late, or for another view
            case _:
                raise TypeError(f"unknown reply {type(reply).__name__}")

    def _take_tile(self, reply: TileShown) -> None:
        if self.is_stale:
            self.is_stale, self.overview, self.tiles = False, None, ()
        if reply.slot == "overview":
            if reply.number != self._overview_number:
                return
            self.overview = reply.tile
        else:
            kept = [tile for tile in self.tiles if not _is_replaced(tile, reply.tile)]
            self.tiles = (*kept, reply.tile)[-N_TILES_KEPT:]
        self.fraction = reply.fraction
        self.changed.tiles.emit()

    # Inside

    def _is_of_map(self, trace: int, head: object) -> bool:
        return self.shown is not None and (trace, head) == (self.shown.trace, self.shown.head)

    def _set_reading(self, reading: CellReading | None) -> None:
        if reading != self.reading:
            self.reading = reading
            self.changed.cell.emit()

    def _move(self, move: Callable[[MapWindow], MapWindow]) -> None:
        """Look at another part of the map, where there is one."""
        moved = move(self.window) if self.window is not None else None
        if moved != self.window:
            self.window = moved
            self.changed.window.emit()
            self._ask()

    def _ask_overview(self) -> None:
        if self.shown is None or not self.shown.is_known:
            return
        n_queries, n_keys = len(self.shown.queries), len(self.shown.keys)
        b = 1
        while max(n_queries, n_keys) > b * OVERVIEW_PX:
            b *= 2
        whole = self._request((0, n_queries), (0, n_keys), b, is_overview=True)
        self._overview_number = self._requests.send(whole)

    def _ask(self) -> None:
        """Ask for the tile that suits the window, unless it is there or on its way."""
        window = self.window
        if self.shown is None or not self.shown.is_known or window is None:
            return
        b = replace(window, width_px=window.width_px, height_px=window.height_px).block
        b = max(1, b // _power_of_two(self._ratio))
        is_there = any(
            tile.b <= b and tile.trace == self.shown.trace and tile.head == self.shown.head
            and _covers(tile, window.rows, window.cols)
            for tile in self.tiles
        )  # fmt: skip
        coming = self._coming
        is_coming = coming.b == b and _holds(coming.rows, window.rows) and _holds(coming.cols, window.cols)
        if is_there or is_coming:
            return
        rows, cols = _widened(window.rows, window.n_queries, b), _widened(window.cols, window.n_keys, b)
        self._coming = _Coming(b, rows, cols)
        self._requests.send(self._request(rows, cols, b))

    def _request(self, rows: Part, cols: Part, b: int, *, is_overview: bool = False) -> ShowTile:
        assert self.shown is not None
        return ShowTile(
            model=self.shown.model,
            trace=self.shown.trace,
            head=self.shown.head,
            rows=rows,
            cols=cols,
            b=b,
            slot="overview" if is_overview else "view",
        )

    def _block_of(self, cell: tuple[int, int]) -> tuple[Part, Part]:
        """The block of cells that the picture shows at a cell."""
        window, best = self.window, self.best
        assert window is not None
        b = best.b if best is not None else window.block
        n = (window.n_queries, window.n_keys)
        rows, cols = ((i // b * b, min(i // b * b + b, size)) for i, size in zip(cell, n, strict=True))
        return rows, cols

    def _exact(self, cell: tuple[int, int]) -> CellReading | None:
        """The reading of one cell from a tile that holds its exact weight."""
        query, key = cell
        for tile in reversed(self.tiles):
            if tile.weights is None or not self._is_of_map(tile.trace, tile.head):
                continue
            if tile.rows[0] <= query < tile.rows[1] and tile.cols[0] <= key < tile.cols[1]:
                weight = float(tile.weights[query - tile.rows[0], key - tile.cols[0]])
                return CellReading(
                    rows=(query, query + 1),
                    cols=(key, key + 1),
                    query=query,
                    key=key,
                    weight=weight if weight == weight else None,
                )
        return None


def part_of_tile(tile: MapTile, rows: Part, cols: Part) -> MapTile:
    """The blocks of a tile that some of its rows and columns touch."""
    (top, bottom), (left, right) = (
        ((part[0] - own[0]) // tile.b, -(-(part[1] - own[0]) // tile.b))
        for part, own in ((rows, tile.rows), (cols, tile.cols))
    )
    place = slice(top, bottom), slice(left, right)
    return replace(
        tile,
        rows=(tile.rows[0] + top * tile.b, min(tile.rows[0] + bottom * tile.b, tile.rows[1])),
        cols=(tile.cols[0] + left * tile.b, min(tile.cols[0] + right * tile.b, tile.cols[1])),
        levels=tile.levels[place],
        row_peaks=None if tile.row_peaks is None else tile.row_peaks[top:bottom],
        weights=None if tile.weights is None else tile.weights[place],
    )


def _meets(tile: MapTile, window: MapWindow) -> bool:
    return all(
        a < d and c < b
        for (a, b), (c, d) in ((tile.rows, window.rows), (tile.cols, window.cols))
    )  # fmt: skip


def _holds(outer: Part, inner: Part) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _covers(tile: MapTile, rows: Part, cols: Part) -> bool:
    return not tile.is_sampled and _holds(tile.rows, rows) and _holds(tile.cols, cols)


def _is_replaced(old: MapTile, new: MapTile) -> bool:
    """Whether a new tile shows all that an old one shows, and as finely."""
    return new.b <= old.b and _holds(new.rows, old.rows) and _holds(new.cols, old.cols) and (
        old.is_sampled or not new.is_sampled
    )  # fmt: skip


def _widened(part: Part, n: int, b: int) -> Part:
    """A part with a margin on both sides, on the edges of blocks and within the map."""
    margin = int((part[1] - part[0]) * MARGIN) + b
    start, stop = max(0, part[0] - margin), min(n, part[1] + margin)
    return start // b * b, min(n, -(-stop // b) * b)


def _power_of_two(ratio: float) -> int:
    """The largest power of two within a ratio of device pixels."""
    return 2 if 2.0 <= ratio < 4.0 else 4 if ratio >= 4.0 else 1
