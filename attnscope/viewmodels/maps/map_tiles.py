"""The visible part of one long map: the window on it, the tiles loaded, the cell under the cursor."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal, SignalGroup

from attnscope.counting import percent
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
from attnscope.viewmodels.query import Query, Requests

MAX_STEP_PX = 72.0
"""Cells are never drawn larger."""
MAX_STRETCH = 6.0
"""Cells are square unless that would leave a map thinner than this (times its own shape)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapWindow:
    """A window on a map of n_queries × n_keys cells; zoom 1 shows the whole map."""

    n_queries: int
    n_keys: int
    width_px: float
    height_px: float
    zoom: float = 1.0
    x: float = 0.0
    y: float = 0.0

    @property
    def fit_step(self) -> tuple[float, float]:
        """Pixels for a key and for a query when the whole map is visible; equal unless it is long one way."""
        step_x = self.width_px / max(1, self.n_keys)
        step_y = self.height_px / max(1, self.n_queries)
        least, most = min(step_x, step_y), max(step_x, step_y)
        if most <= MAX_STRETCH * least:
            step_x = step_y = least
        return min(step_x, MAX_STEP_PX), min(step_y, MAX_STEP_PX)

    @property
    def step(self) -> tuple[float, float]:
        """Pixels for a key and for a query now."""
        step_x, step_y = self.fit_step
        return min(step_x * self.zoom, MAX_STEP_PX), min(step_y * self.zoom, MAX_STEP_PX)

    @property
    def max_zoom(self) -> float:
        """The zoom at which the smaller side of a cell has its maximum size."""
        return max(1.0, MAX_STEP_PX / min(self.fit_step))

    @property
    def offset_px(self) -> tuple[float, float]:
        """Offset of the map within the area: at its corner, where the rulers are."""
        return 0.0, 0.0

    @property
    def rows(self) -> tuple[int, int]:
        """First and one past the last query that is visible at least in part."""
        return _seen(self.y, self.height_px / self.step[1], self.n_queries)

    @property
    def cols(self) -> tuple[int, int]:
        """First and one past the last key that is visible at least in part."""
        return _seen(self.x, self.width_px / self.step[0], self.n_keys)

    @property
    def is_whole(self) -> bool:
        return self.rows == (0, self.n_queries) and self.cols == (0, self.n_keys)

    @property
    def block(self) -> int:
        """The block of cells for the current zoom: a power of two, at least one to two pixels wide."""
        cells_per_px = 1.0 / max(1e-12, min(self.step))
        return 1 if cells_per_px <= 1.0 else 2 ** math.ceil(math.log2(cells_per_px) - 1e-9)

    def place(self, query: float, key: float) -> tuple[float, float]:
        """Corner of a cell within the area, in pixels (x, y)."""
        (step_x, step_y), (left, top) = self.step, self.offset_px
        return left + (key - self.x) * step_x, top + (query - self.y) * step_y

    def cell(self, x_px: float, y_px: float) -> tuple[int, int] | None:
        """The (query, key) at a position in the area; None outside the map."""
        (step_x, step_y), (left, top) = self.step, self.offset_px
        key = math.floor(self.x + (x_px - left) / step_x)
        query = math.floor(self.y + (y_px - top) / step_y)
        if 0 <= query < self.n_queries and 0 <= key < self.n_keys:
            return query, key
        return None

    def resized(self, width_px: float, height_px: float) -> "MapWindow":
        """The same part in another area: the middle stays, and the size of a cell unless all was visible."""
        sized = replace(self, width_px=max(1.0, width_px), height_px=max(1.0, height_px))
        if self.zoom == 1.0:
            return replace(sized, x=0.0, y=0.0)
        (old_x, old_y), zoom = self.step, self.step[0] / sized.fit_step[0]
        sized = replace(sized, zoom=min(max(zoom, 1.0), sized.max_zoom))
        middle_x, middle_y = self.x + self.width_px / old_x / 2, self.y + self.height_px / old_y / 2
        step_x, step_y = sized.step
        return replace(
            sized, x=middle_x - sized.width_px / step_x / 2, y=middle_y - sized.height_px / step_y / 2
        )._limited()

    def zoomed(self, factor: float, x_px: float, y_px: float) -> "MapWindow":
        """Zoomed about a position in the area."""
        zoom = min(max(self.zoom * factor, 1.0), self.max_zoom)
        (step_x, step_y), (left, top) = self.step, self.offset_px
        key, query = self.x + (x_px - left) / step_x, self.y + (y_px - top) / step_y
        key, query = min(max(key, 0.0), self.n_keys), min(max(query, 0.0), self.n_queries)
        new = replace(self, zoom=zoom, x=0.0, y=0.0)
        (step_x, step_y), (left, top) = new.step, new.offset_px
        return replace(new, x=key - (x_px - left) / step_x, y=query - (y_px - top) / step_y)._limited()

    def panned(self, dx_px: float, dy_px: float) -> "MapWindow":
        """Moved with the mouse, never past the map's edges."""
        step_x, step_y = self.step
        return replace(self, x=self.x - dx_px / step_x, y=self.y - dy_px / step_y)._limited()

    def centred(self, query: float, key: float) -> "MapWindow":
        """Moved so that a position of the map is in the middle, as far as the edges allow."""
        x, y = self.place(query, key)
        return self.panned(self.width_px / 2 - x, self.height_px / 2 - y)

    def showing(self, query: int, key: int) -> "MapWindow":
        """Moved just far enough to show a cell."""
        step_x, step_y = self.step
        x = min(max(self.x, key + 1 - self.width_px / step_x), float(key))
        y = min(max(self.y, query + 1 - self.height_px / step_y), float(query))
        return replace(self, x=x, y=y)._limited()

    def fitted(self) -> "MapWindow":
        """The whole map."""
        return replace(self, zoom=1.0, x=0.0, y=0.0)

    def _limited(self) -> "MapWindow":
        step_x, step_y = self.step
        spare_x = max(0.0, self.n_keys - self.width_px / step_x)
        spare_y = max(0.0, self.n_queries - self.height_px / step_y)
        return replace(self, x=min(max(self.x, 0.0), spare_x), y=min(max(self.y, 0.0), spare_y))


def window_on(
    *,
    n_queries: int,
    n_keys: int,
    rows: tuple[int, int],
    cols: tuple[int, int],
    width_px: float,
    height_px: float,
) -> MapWindow:
    """The window whose area just holds some rows and columns; the area is shrunk to fit them."""
    part = MapWindow(
        n_queries=rows[1] - rows[0], n_keys=cols[1] - cols[0], width_px=width_px, height_px=height_px
    )
    step_x, step_y = part.fit_step
    width, height = part.n_keys * step_x, part.n_queries * step_y
    whole = MapWindow(n_queries=n_queries, n_keys=n_keys, width_px=width, height_px=height)
    return replace(whole, zoom=max(1.0, step_x / whole.fit_step[0]), x=float(cols[0]), y=float(rows[0]))


def _seen(first: float, n_visible: float, n: int) -> tuple[int, int]:
    start = max(0, math.floor(first + 1e-9))
    stop = min(n, math.ceil(first + n_visible - 1e-9))
    return start, max(start, stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark: a token's position and its middle, in pixels from the start of the ruler."""

    position: int
    place_px: float
    is_major: bool

    @property
    def text(self) -> str:
        """The position in digits, grouped by thousands."""
        return f"{self.position:,}"


def mark_step(step_px: float, room_px: float) -> int:
    """The smallest 1, 2 or 5 times a power of ten of tokens that leaves `room_px` between two marks."""
    if not (step_px > 0 and math.isfinite(step_px)):
        return 1
    least = max(1.0, room_px / step_px)
    power = 10 ** max(0, math.floor(math.log10(least) + 1e-12))
    for factor in (1, 2, 5, 10, 20):
        if factor * power >= least * (1 - 1e-9):
            return int(factor * power)
    raise AssertionError("unreachable: 20 powers of ten are always enough")


def ruler_marks(
    *, first: float, step_px: float, length_px: float, n: int, room_px: float, minor_px: float = 6.0
) -> tuple[Mark, ...]:
    """The marks of the tokens whose middle is on a ruler of `length_px`; minor ones have no text.

    `n` is the number of tokens of the whole axis, `room_px` what the text of a mark needs.
    """
    if step_px <= 0 or length_px <= 0 or n <= 0:
        return ()
    major = mark_step(step_px, room_px)
    minor = _minor_step(major, step_px, minor_px)
    start = max(0, math.ceil(first - 0.5 - 1e-9))
    stop = min(n - 1, math.floor(first + length_px / step_px - 0.5 + 1e-9))
    begin = -(-start // minor) * minor
    return tuple(
        Mark(position=i, place_px=(i + 0.5 - first) * step_px, is_major=i % major == 0)
        for i in range(begin, stop + 1, minor)
    )


def widest_text(n: int) -> str:
    """The longest text that a mark of an axis of `n` tokens can have."""
    return f"{int('9' * len(str(max(1, n - 1)))):,}"


def _minor_step(major: int, step_px: float, minor_px: float) -> int:
    """A fifth, a quarter, a half of the major step, or the step itself where marks would touch."""
    for parts in (10, 5, 4, 2):
        if major % parts == 0 and major // parts * step_px >= minor_px:
            return major // parts
    return major


# Lines of long maps: only the strongest weights, and of the tokens only those at their ends.

N_EDGES = 120
"""More would need more rows of tokens than can be read."""


class LongLines:
    """The strongest edges of the selected heads."""

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
        """Show the lines of these maps, those with the same tokens as the first; for none: clear them."""
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
        """Handle the edges requested last."""
        if reply.number == self._number and self.shown:
            self.is_waiting = False
            self.maps, self._queries, self._keys = condensed(reply.edges, self.shown[0])
            self.changed.emit()

    def token(self, query: int | None, key: int | None) -> tuple[int | None, int | None]:
        """The positions of a row and a column of the small maps in the whole text."""
        return _at(self._queries, query), _at(self._keys, key)

    def row(self, query: int | None, key: int | None) -> tuple[int | None, int | None]:
        """The row and the column for positions of the text, if shown."""
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
    hidden = f"{percent(edges.hidden, 1)} of the weight not shown"
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
    """The token with its position, which distinguishes equal pieces."""
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
    """Signals of the view of a long map."""

    map = Signal()
    window = Signal()
    tiles = Signal()
    cell = Signal()


class _Coming(NamedTuple):
    """The pending part of the map, in blocks of `b` cells; 0: none."""

    b: int = 0
    rows: Part = (0, 0)
    cols: Part = (0, 0)


_NO_PART = _Coming()


class MapTiles:
    """State of the view of one long map; posts tile requests, handles tile replies."""

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
        """The largest weight of the head, as far as known."""
        return max((tile.head_peak for tile in self.known), default=0.0)

    @property
    def known(self) -> tuple[MapTile, ...]:
        """Every cached tile, the overview first."""
        return self.tiles if self.overview is None else (self.overview, *self.tiles)

    def painted(self) -> tuple[MapTile, ...]:
        """The tiles to paint, coarse ones first, without those covered by a finer one."""
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
        """The visible part as a tile of its own; None while there is no exact tile of all of it."""
        window, best = self.window, self.best
        if window is None or best is None or best.is_sampled or self.is_stale:
            return None
        if not (_holds(best.rows, window.rows) and _holds(best.cols, window.cols)):
            return None
        return part_of_tile(best, window.rows, window.cols)

    # Intents

    def show(self, long_map: LongMap | None) -> None:
        """Show a map. The window stays if the size does, and old tiles stay until new ones come."""
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
        """Set the cells' size in layout pixels, of `ratio` device pixels each."""
        self._area_px, self._ratio = (max(1.0, width_px), max(1.0, height_px)), max(1.0, ratio)
        self._move(lambda window: window.resized(*self._area_px))

    def zoom(self, factor: float, x_px: float, y_px: float) -> None:
        """Zoom at a position of the area."""
        self._move(lambda window: window.zoomed(factor, x_px, y_px))

    def pan(self, dx_px: float, dy_px: float) -> None:
        """Move the map with the mouse."""
        self._move(lambda window: window.panned(dx_px, dy_px))

    def fit(self) -> None:
        """Show the whole map."""
        self._move(MapWindow.fitted)

    def bring_into_view(self, query: int, key: int) -> None:
        """Move just far enough to show a cell."""
        self._move(lambda window: window.showing(query, key))

    def centre_on(self, query: float, key: float) -> None:
        """Move the window's middle to a position of the map."""
        self._move(lambda window: window.centred(query, key))

    def point_at(self, cell: tuple[int, int] | None) -> None:
        """Set the cell, or the block of cells of a pixel, under the cursor, or none."""
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
        """Handle a reply of the tile thread; those for another map or an older request are ignored."""
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
        """Show another part of the map, if there is one."""
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
        """Request the tile for the window, unless it is there or pending."""
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
        window, best = self.window, self.best
        assert window is not None
        b = best.b if best is not None else window.block
        n = (window.n_queries, window.n_keys)
        rows, cols = ((i // b * b, min(i // b * b + b, size)) for i, size in zip(cell, n, strict=True))
        return rows, cols

    def _exact(self, cell: tuple[int, int]) -> CellReading | None:
        """The reading of one cell from a tile that has its exact weight."""
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
    """Whether a new tile shows all of an old one, at least as finely."""
    return new.b <= old.b and _holds(new.rows, old.rows) and _holds(new.cols, old.cols) and (
        old.is_sampled or not new.is_sampled
    )  # fmt: skip


def _widened(part: Part, n: int, b: int) -> Part:
    """A part with a margin on both sides, aligned to blocks and within the map."""
    margin = int((part[1] - part[0]) * MARGIN) + b
    start, stop = max(0, part[0] - margin), min(n, part[1] + margin)
    return start // b * b, min(n, -(-stop // b) * b)


def _power_of_two(ratio: float) -> int:
    """The largest power of two within a ratio of device pixels."""
    return 2 if 2.0 <= ratio < 4.0 else 4 if ratio >= 4.0 else 1
