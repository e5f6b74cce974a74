"""Where the thumbnails of a grid lie: layers are rows, heads are columns; zoomed and panned or fitted.

Where a few wide layers would leave most of the room empty, each layer is broken into lines of heads.
"""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures.style import type_px
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import HeadRef

ROW_HEADER_PX = 34.0
COLUMN_HEADER_PX = 24.0
_MARGIN_PX = 8.0
MAX_ZOOM = 40.0
LABEL_PX = 15.0
_LEAST_LABELLED_PX = 72.0
_LINES = (1, 2, 4, 8, 12)
_FEW_LINES, _LEAST_IN_MANY = 4, 8
"""More lines than a few only while each of them has so many heads."""
_SPECK_PX = 24.0
"""Narrower thumbnails are specks: a page is made high enough for more lines."""
_WRAP_GAIN = 1.15
_LEAST_WRAPPED_PX = 44.0
_LAYER_GAPS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GridLayout:
    """The rectangles of a grid. `area` is what thumbnails may cover; headers lie left of and above it.

    `rows` are what the eye sees: `n_lines` of them make one layer.
    """

    area: QRectF
    origin: QPointF
    box_width: float
    box_height: float
    gap: float
    label_px: float
    rows: tuple[tuple[HeadRef, ...], ...]
    n_lines: int = 1

    @property
    def n_columns(self) -> int:
        """The largest number of heads in a row."""
        return max((len(row) for row in self.rows), default=0)

    def box(self, row: int, column: int) -> QRectF:
        """The rectangle of one thumbnail, on whole pixels."""
        left = round(self.origin.x() + column * self.pitch_x)
        down = row // self.n_lines * self.layer_pitch + row % self.n_lines * self.pitch_y
        top = round(self.origin.y() + down + self.label_px)
        return QRectF(left, top, max(1, round(self.box_width)), max(1, round(self.box_height)))

    @property
    def pitch_x(self) -> float:
        """From one head to the next, in pixels."""
        return self.box_width + self.gap

    @property
    def pitch_y(self) -> float:
        """From one row to the next within a layer, in pixels."""
        return self.box_height + self.gap + self.label_px

    @property
    def layer_pitch(self) -> float:
        """From one layer to the next, in pixels."""
        return self.n_lines * self.pitch_y + (_LAYER_GAPS * self.gap if self.n_lines > 1 else 0.0)

    @property
    def n_layers(self) -> int:
        """How many layers the grid shows."""
        return len(self.rows) // self.n_lines

    @property
    def height(self) -> float:
        """The height of all rows, in sight or not."""
        return self.n_layers * self.layer_pitch

    def layer_rect(self, layer: int) -> QRectF:
        """The rectangle around the first heads of all rows of one layer, counted from the top."""
        first = layer * self.n_lines
        return self.box(first, 0).united(self.box(first + self.n_lines - 1, 0))

    def step(self, place: tuple[int, int], step: tuple[int, int]) -> tuple[int, int]:
        """The place one step away: sideways on through the lines of a layer, never past an edge."""
        row, column = place[0] + step[0], place[1] + step[1]
        if column < 0 and row % self.n_lines:
            row, column = row - 1, len(self.rows[row - 1]) - 1
        elif step[1] > 0 and column >= len(self.rows[row]) and (row + 1) % self.n_lines:
            row, column = row + 1, 0
        row = min(max(row, 0), len(self.rows) - 1)
        return row, min(max(column, 0), len(self.rows[row]) - 1)

    def visible(self) -> list[tuple[int, int]]:
        """The (row, column) of every thumbnail that touches the area."""
        layers = self._range(
            self.area.top() - self.origin.y(), self.area.height(), self.layer_pitch, self.n_layers
        )
        rows = range(layers.start * self.n_lines, layers.stop * self.n_lines)
        columns = self._range(
            self.area.left() - self.origin.x(), self.area.width(), self.pitch_x, self.n_columns
        )
        return [(r, c) for r in rows for c in columns if c < len(self.rows[r])]

    def hit(self, position: QPointF) -> HeadRef | None:
        """The head whose thumbnail is under a position."""
        if not self.area.contains(position) or not self.rows:
            return None
        column = int((position.x() - self.origin.x()) // self.pitch_x)
        layer, rest = divmod(position.y() - self.origin.y(), self.layer_pitch)
        row = int(layer) * self.n_lines + min(int(rest // self.pitch_y), self.n_lines - 1)
        if not (0 <= row < len(self.rows) and 0 <= column < len(self.rows[row])):
            return None
        return self.rows[row][column] if self.box(row, column).contains(position) else None

    def place(self, head: HeadRef) -> tuple[int, int] | None:
        """The (row, column) of a head, or None when the grid does not show it."""
        for row, heads in enumerate(self.rows):
            if head in heads:
                return row, heads.index(head)
        return None

    @staticmethod
    def _range(start: float, length: float, pitch: float, n: int) -> range:
        first = int(start // pitch)
        return range(max(0, first), max(0, min(n, int((start + length) // pitch) + 1)))


def grid_layout(
    rect: QRectF, grids: tuple[SiteGrid, ...], *, zoom: float = 1.0, offset: QPointF | None = None
) -> GridLayout:
    """Lay a grid out in `rect`: at `zoom` 1 all of it fits; `offset` moves it, in pixels."""
    layers = tuple(grid.site.heads for grid in grids)
    aspect = _aspect(grids)
    fits = [_fit(rect, layers, aspect, n_lines) for n_lines in _LINES if _divides(layers, n_lines)]
    fit = fits[0]
    for other in fits[1:]:
        least = _SPECK_PX - 1e-6 if fit.width < _SPECK_PX else _LEAST_WRAPPED_PX
        if other.width > max(_WRAP_GAIN * fit.width, least):
            fit = other
    moved = offset or QPointF(0, 0)
    return GridLayout(
        area=fit.area,
        origin=QPointF(fit.area.left() + fit.gap / 2 + moved.x(), fit.area.top() + fit.gap / 2 + moved.y()),
        box_width=fit.width * zoom,
        box_height=fit.width * aspect * zoom,
        gap=fit.gap * min(zoom, 3.0),
        label_px=type_px(LABEL_PX)
        if fit.n_lines > 1 or fit.width * zoom >= type_px(_LEAST_LABELLED_PX)
        else 0.0,
        rows=tuple(line for heads in layers for line in _lines(heads, fit.n_lines)),
        n_lines=fit.n_lines,
    )


def natural_grid_height(width: float, grids: tuple[SiteGrid, ...]) -> float:
    """How high a grid is when its heads fill the width; layers take more lines where heads were specks."""
    layers, aspect = tuple(grid.site.heads for grid in grids), _aspect(grids)
    rect = QRectF(0.0, 0.0, width, 1e6)
    fits = [_fit(rect, layers, aspect, n_lines) for n_lines in _LINES if _divides(layers, n_lines)]
    fit = next((fit for fit in fits if fit.width >= _SPECK_PX), fits[-1])
    is_labelled = fit.n_lines > 1 or fit.width >= type_px(_LEAST_LABELLED_PX)
    line_px = fit.width * aspect + fit.gap + (type_px(LABEL_PX) if is_labelled else 0.0)
    between = (len(layers) - 1) * _LAYER_GAPS * fit.gap if fit.n_lines > 1 else 0.0
    return fit.area.top() + len(layers) * fit.n_lines * line_px + between + _MARGIN_PX


@dataclass(frozen=True, slots=True)
class _Fit:
    """How large thumbnails are when every layer takes `n_lines` lines and all of them are seen."""

    n_lines: int
    area: QRectF
    gap: float
    width: float


def _fit(rect: QRectF, layers: tuple[tuple[HeadRef, ...], ...], aspect: float, n_lines: int) -> _Fit:
    header = type_px(COLUMN_HEADER_PX) if n_lines == 1 else 0.0
    left, top = rect.left() + _MARGIN_PX + type_px(ROW_HEADER_PX), rect.top() + _MARGIN_PX + header
    area = QRectF(
        left, top, max(8.0, rect.right() - _MARGIN_PX - left), max(8.0, rect.bottom() - _MARGIN_PX - top)
    )
    n_rows = max(1, len(layers)) * n_lines
    n_columns = -(-max((len(heads) for heads in layers), default=1) // n_lines)
    gap = 6.0 if max(n_rows, n_columns) <= 16 else 3.0
    between = (len(layers) - 1) * _LAYER_GAPS * gap if n_lines > 1 else 0.0
    cell_x, cell_y = area.width() / n_columns, (area.height() - between) / n_rows
    width = max(1.0, min(cell_x - gap, (cell_y - gap) / aspect))
    if n_lines > 1 or width >= type_px(_LEAST_LABELLED_PX):
        width = max(1.0, min(cell_x - gap, (cell_y - gap - type_px(LABEL_PX)) / aspect))
    return _Fit(n_lines, area, gap, width)


def _divides(layers: tuple[tuple[HeadRef, ...], ...], n_lines: int) -> bool:
    """Whether each layer falls into `n_lines` equal lines of two heads or more, of more in many lines."""
    least = 2 if n_lines <= _FEW_LINES else _LEAST_IN_MANY
    return n_lines == 1 or all(
        len(heads) % n_lines == 0 and len(heads) >= least * n_lines for heads in layers
    )


def _lines(heads: tuple[HeadRef, ...], n_lines: int) -> list[tuple[HeadRef, ...]]:
    n = len(heads) // n_lines
    return [heads] if n_lines == 1 else [heads[i * n : (i + 1) * n] for i in range(n_lines)]


def _aspect(grids: tuple[SiteGrid, ...]) -> float:
    """Height of a thumbnail for a width of 1: that of the maps, within 1:2 and 2:1."""
    if not grids or not grids[0].n_keys or not grids[0].n_queries:
        return 1.0
    return min(2.0, max(0.5, grids[0].n_queries / grids[0].n_keys))
