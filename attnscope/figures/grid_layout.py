"""Where the thumbnails of a grid lie: layers are rows, heads are columns; zoomed and panned or fitted."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from attnscope.records.maps import SiteGrid
from attnscope.records.sites import HeadRef

ROW_HEADER_PX = 34.0
COLUMN_HEADER_PX = 24.0
_MARGIN_PX = 8.0
MAX_ZOOM = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GridLayout:
    """The rectangles of a grid. `area` is what thumbnails may cover; headers lie left of and above it."""

    area: QRectF
    origin: QPointF
    box_width: float
    box_height: float
    gap: float
    label_px: float
    rows: tuple[tuple[HeadRef, ...], ...]

    @property
    def n_columns(self) -> int:
        """The largest number of heads in a layer."""
        return max((len(row) for row in self.rows), default=0)

    def box(self, row: int, column: int) -> QRectF:
        """The rectangle of one thumbnail, on whole pixels."""
        left = round(self.origin.x() + column * self.pitch_x)
        top = round(self.origin.y() + row * self.pitch_y + self.label_px)
        return QRectF(left, top, max(1, round(self.box_width)), max(1, round(self.box_height)))

    @property
    def pitch_x(self) -> float:
        """From one head to the next, in pixels."""
        return self.box_width + self.gap

    @property
    def pitch_y(self) -> float:
        """From one layer to the next, in pixels."""
        return self.box_height + self.gap + self.label_px

    def visible(self) -> list[tuple[int, int]]:
        """The (row, column) of every thumbnail that touches the area."""
        rows = self._range(
            self.area.top() - self.origin.y(), self.area.height(), self.pitch_y, len(self.rows)
        )
        columns = self._range(
            self.area.left() - self.origin.x(), self.area.width(), self.pitch_x, self.n_columns
        )
        return [(r, c) for r in rows for c in columns if c < len(self.rows[r])]

    def hit(self, position: QPointF) -> HeadRef | None:
        """The head whose thumbnail is under a position."""
        if not self.area.contains(position) or not self.rows:
            return None
        column = int((position.x() - self.origin.x()) // self.pitch_x)
        row = int((position.y() - self.origin.y()) // self.pitch_y)
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
    rows = tuple(grid.site.heads for grid in grids)
    left, top = rect.left() + _MARGIN_PX + ROW_HEADER_PX, rect.top() + _MARGIN_PX + COLUMN_HEADER_PX
    area = QRectF(
        left, top, max(8.0, rect.right() - _MARGIN_PX - left), max(8.0, rect.bottom() - _MARGIN_PX - top)
    )
    n_rows, n_columns = max(1, len(rows)), max((len(row) for row in rows), default=1)
    gap = 6.0 if max(n_rows, n_columns) <= 16 else 3.0
    aspect = _aspect(grids)
    cell_x, cell_y = area.width() / n_columns, area.height() / n_rows
    width = max(1.0, min(cell_x - gap, (cell_y - gap) / aspect))
    label = 15.0 if (width * zoom >= 72 and cell_y - gap - width * aspect >= -0.01) else 0.0
    if label and zoom == 1.0:
        width = max(1.0, min(cell_x - gap, (cell_y - gap - label) / aspect))
    gap_zoomed = gap * min(zoom, 3.0)
    moved = offset or QPointF(0, 0)
    return GridLayout(
        area=area,
        origin=QPointF(area.left() + gap / 2 + moved.x(), area.top() + gap / 2 + moved.y()),
        box_width=width * zoom,
        box_height=width * aspect * zoom,
        gap=gap_zoomed,
        label_px=label,
        rows=rows,
    )


def _aspect(grids: tuple[SiteGrid, ...]) -> float:
    """Height of a thumbnail for a width of 1: that of the maps, within 1:2 and 2:1."""
    if not grids or not grids[0].n_keys or not grids[0].n_queries:
        return 1.0
    return min(2.0, max(0.5, grids[0].n_queries / grids[0].n_keys))
