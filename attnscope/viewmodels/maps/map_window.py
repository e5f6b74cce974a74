"""Which part of a long map is seen, in floating cells; all arithmetic exact to a million tokens and more.

| symbol    | meaning                                         | unit              |
|-----------|-------------------------------------------------|-------------------|
| x, y      | first visible key and query                     | cells             |
| step      | width and height of one cell on the screen      | pixels, per axis  |
| area      | width and height that the cells may take        | pixels            |
"""

import math
from dataclasses import dataclass, replace

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
        """Pixels for a key and for a query when the whole map is seen; alike unless it is long one way."""
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
        """The zoom at which the smaller side of a cell is as large as it gets."""
        return max(1.0, MAX_STEP_PX / min(self.fit_step))

    @property
    def offset_px(self) -> tuple[float, float]:
        """Where the map begins within the area: at its corner, where the rulers are."""
        return 0.0, 0.0

    @property
    def rows(self) -> tuple[int, int]:
        """First and one past the last query that is seen at least in part."""
        return _seen(self.y, self.height_px / self.step[1], self.n_queries)

    @property
    def cols(self) -> tuple[int, int]:
        """First and one past the last key that is seen at least in part."""
        return _seen(self.x, self.width_px / self.step[0], self.n_keys)

    @property
    def is_whole(self) -> bool:
        """Whether the whole map is seen."""
        return self.rows == (0, self.n_queries) and self.cols == (0, self.n_keys)

    @property
    def block(self) -> int:
        """The block of cells that suits the screen: a power of two, one to two pixels or more wide."""
        cells_per_px = 1.0 / max(1e-12, min(self.step))
        return 1 if cells_per_px <= 1.0 else 2 ** math.ceil(math.log2(cells_per_px) - 1e-9)

    def place(self, query: float, key: float) -> tuple[float, float]:
        """Where a corner of a cell lies in the area, in pixels (x, y)."""
        (step_x, step_y), (left, top) = self.step, self.offset_px
        return left + (key - self.x) * step_x, top + (query - self.y) * step_y

    def cell(self, x_px: float, y_px: float) -> tuple[int, int] | None:
        """The (query, key) under a place in the area; None outside the map."""
        (step_x, step_y), (left, top) = self.step, self.offset_px
        key = math.floor(self.x + (x_px - left) / step_x)
        query = math.floor(self.y + (y_px - top) / step_y)
        if 0 <= query < self.n_queries and 0 <= key < self.n_keys:
            return query, key
        return None

    def resized(self, width_px: float, height_px: float) -> "MapWindow":
        """The same part in another area: the middle stays, and the size of a cell unless all was seen."""
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
        """Larger or smaller so that what is under a place in the area stays there."""
        zoom = min(max(self.zoom * factor, 1.0), self.max_zoom)
        (step_x, step_y), (left, top) = self.step, self.offset_px
        key, query = self.x + (x_px - left) / step_x, self.y + (y_px - top) / step_y
        key, query = min(max(key, 0.0), self.n_keys), min(max(query, 0.0), self.n_queries)
        new = replace(self, zoom=zoom, x=0.0, y=0.0)
        (step_x, step_y), (left, top) = new.step, new.offset_px
        return replace(new, x=key - (x_px - left) / step_x, y=query - (y_px - top) / step_y)._limited()

    def panned(self, dx_px: float, dy_px: float) -> "MapWindow":
        """Moved so that the map follows the hand, never past its edges."""
        step_x, step_y = self.step
        return replace(self, x=self.x - dx_px / step_x, y=self.y - dy_px / step_y)._limited()

    def centred(self, query: float, key: float) -> "MapWindow":
        """Moved so that a place of the map stands in the middle, as far as the edges allow."""
        x, y = self.place(query, key)
        return self.panned(self.width_px / 2 - x, self.height_px / 2 - y)

    def showing(self, query: int, key: int) -> "MapWindow":
        """Moved just so far that a cell is seen."""
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
    """The window whose area just holds some rows and columns; the area is made smaller to fit them."""
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
    """One mark: a token's position and where its middle lies, in pixels from the ruler's beginning."""

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
