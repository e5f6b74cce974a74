"""One head of a long text, panned and zoomed like a street map: from the whole map to single cells."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.map_painting import weight_text
from attnscope.figures.style import SMALL_PX, font, isolated, plain_piece, query_words
from attnscope.figures.tiles_painting import (
    TileImages,
    TileLayout,
    paint_cell_values,
    paint_ruler_names,
    paint_rulers,
    paint_small_map,
    paint_tile_bar,
    paint_tile_title,
    paint_tiles,
    part_rect,
    small_map_rect,
    tile_layout,
)
from attnscope.figures.token_axis import axis_names
from attnscope.figures.views.head import paint_gold_on_tiles
from attnscope.records.findings import GoldCell
from attnscope.records.sites import gate_note
from attnscope.records.tiles import CellReading, LongMap, MapTile, Part
from attnscope.viewmodels.maps.map_tiles import MapTiles, MapWindow
from attnscope.widgets.labels import when
from attnscope.widgets.map_widget import ARROWS, ZOOM_KEYS, MapWidget, paint_veil, zoom_factor

_PAN_SHARE = 0.4
_DOUBLE_CLICK_ZOOM = 4.0


_NO_HEAD = ("No head chosen", "Click a small map.")


class StreetMap(MapWidget):
    """Shows the state of one long map; never waits for a tile.

    Wheel zooms at the cursor, drag pans, a double click zooms in, `0` fits, `+` and `-` zoom, arrows walk
    the cells, Shift with arrows pans; the small map in the corner moves the window.
    """

    cell_hovered = Signal(int, int, float)
    """Query, key and weight (NaN where the mask forbids) of the cell under the cursor."""
    left = Signal()
    """The cursor is over no cell any more."""

    def __init__(self, state: MapTiles, parent: QWidget | None = None) -> None:
        super().__init__("Attention of one head over a long text", parent=parent, empty=_NO_HEAD)
        self.state = state
        self._gate = 1.0
        self._highlight: tuple[int | None, int | None] = (None, None)
        self._cell: tuple[int, int] | None = None
        self._cursor = QPointF(0, 0)
        self._is_on_small_map = False
        self._gold: tuple[GoldCell, ...] = ()
        self._images = TileImages()
        changed = state.changed
        when(self, self._on_map, changed.map)
        when(self, self._tell_cell, changed.cell)
        when(self, self._forget_images, changed.tiles)
        when(self, self.update, changed.map, changed.window, changed.tiles, changed.cell)

    def set_gate(self, gate: float) -> None:
        """Name the head's gate in the title."""
        self._gate = gate
        self.update()

    def set_gold(self, cells: tuple[GoldCell, ...]) -> None:
        """Mark these gold word links."""
        self._gold = cells
        self.update()

    def set_highlight(self, query: int | None, key: int | None) -> None:
        """Mark a row, a column or both, for another view; the own cursor takes precedence."""
        self._highlight = (query, key)
        self.update()

    def layout_now(self) -> TileLayout | None:
        """Current layout; None without a map."""
        shown = self.state.shown
        if shown is None:
            return None
        return tile_layout(QRectF(self.rect()), len(shown.queries), len(shown.keys))

    def sizeHint(self) -> QSize:
        return QSize(560, 480)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        shown, layout, window = self.state.shown, self.layout_now(), self.state.window
        if shown is None or layout is None or window is None:
            return False
        self._paint_map(painter, layout, shown, window)
        reading = self.state.reading
        if reading is not None:
            _paint_reading(painter, room, shown, reading, self._cursor, self.theme)
        return True

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.fit_room()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag.press(event)
        self._is_on_small_map = self._drag.is_down and self._centre_by_small_map(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag.is_down and self._is_on_small_map:
            self._centre_by_small_map(event.position(), is_dragging=True)
        elif self._drag.is_down:
            step = self._drag.move(event.position())
            if self._drag.is_moving:
                self.state.pan(step.x(), step.y())
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
        else:
            self._point_under(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag.release()
        self._is_on_small_map = False
        self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        if layout is not None and layout.cells.contains(event.position()):
            self.state.zoom(_DOUBLE_CLICK_ZOOM, *layout.local(event.position()))
            self._point_under(event.position())

    def wheelEvent(self, event: QWheelEvent) -> None:
        layout = self.layout_now()
        if layout is not None and event.angleDelta().y():
            self.state.zoom(zoom_factor(event.angleDelta().y()), *layout.local(event.position()))
            self._point_under(event.position())
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, layout = Qt.Key(event.key()), self.layout_now()
        if layout is None:
            super().keyPressEvent(event)
        elif key in ARROWS and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            down, right = ARROWS[key]
            width, height = layout.cells.width(), layout.cells.height()
            self.state.pan(-right * width * _PAN_SHARE, -down * height * _PAN_SHARE)
        elif key in ARROWS:
            self._walk(ARROWS[key], layout)
        elif key == Qt.Key.Key_0:
            self.state.fit()
        elif key in ZOOM_KEYS:
            self.state.zoom(ZOOM_KEYS[key], *_zoom_centre(layout, self.state.window, self._cell))
        elif key == Qt.Key.Key_Escape and self._cell is not None:
            self._point_at(None)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at(None)

    # Inside

    def _on_map(self) -> None:
        self._cell = None
        self.fit_room()

    def _forget_images(self) -> None:
        """Drop the images of tiles that are no longer kept."""
        self._images.keep_only(self.state.known)

    def fit_room(self) -> None:
        layout = self.layout_now()
        if layout is not None:
            self.state.set_area(layout.cells.width(), layout.cells.height(), self.devicePixelRatioF())

    def _tell_cell(self) -> None:
        reading = self.state.reading
        if reading is None or self._cell is None:
            self.left.emit()
            return
        weight = float("nan") if reading.weight is None else reading.weight
        self.cell_hovered.emit(reading.query, reading.key, weight)

    def _paint_map(self, painter: QPainter, layout: TileLayout, shown: LongMap, window: MapWindow) -> None:
        state, style, palette = self.state, self._style, self.theme
        head_peak = state.head_peak
        paint_tiles(
            painter, layout, window, state.painted(), self._images,
            style=style, palette=palette, head_peak=head_peak,
        )  # fmt: skip
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        if state.best is not None:
            paint_cell_values(painter, layout, window, state.best, style=style, head_peak=head_peak)
        paint_gold_on_tiles(painter, layout, window, self._gold)
        marked = _marked_parts(window, self._cell, state.reading, self._highlight)
        _paint_frames(painter, layout, window, marked, palette)
        lit = self._highlight if self._cell is None else self._cell
        paint_rulers(painter, layout, window, shown.queries, shown.keys, palette=palette, lit=lit)
        paint_ruler_names(painter, layout, window, axis_names(shown.queries, style), palette)
        paint_small_map(
            painter, layout.corner, window, state.overview, self._images,
            style=style, palette=palette, head_peak=head_peak,
        )  # fmt: skip
        words = map_title(shown, self._gate, state, window, self.devicePixelRatioF())
        paint_tile_title(painter, layout, shown.head.label, words, palette)
        overview = state.overview
        has_masked = overview is not None and bool((overview.levels == 0).any())
        paint_tile_bar(painter, layout, style, palette, head_peak, masked=has_masked)
        if self._is_stale or state.is_stale:
            paint_veil(painter, layout.cells, palette)

    def _point_under(self, position: QPointF) -> None:
        layout, window = self.layout_now(), self.state.window
        self._cursor = position
        if layout is None or window is None or not layout.cells.contains(position):
            self._point_at(None)
            return
        self._point_at(window.cell(*layout.local(position)))

    def _point_at(self, cell: tuple[int, int] | None) -> None:
        self._cell = cell
        self.state.point_at(cell)
        self.update()

    def _walk(self, step: tuple[int, int], layout: TileLayout) -> None:
        window = self.state.window
        if window is None:
            return
        best = self.state.best
        b = best.b if best is not None else window.block
        old = self._cell or (window.rows[0] - step[0] * b, window.cols[0] - step[1] * b)
        query = min(max(old[0] + step[0] * b, 0), window.n_queries - 1)
        key = min(max(old[1] + step[1] * b, 0), window.n_keys - 1)
        self.state.bring_into_view(query, key)
        window = self.state.window or window
        x, y = window.place(query + 0.5, key + 0.5)
        self._cursor = layout.cells.topLeft() + QPointF(x, y)
        self._point_at((query, key))

    def _centre_by_small_map(self, position: QPointF, *, is_dragging: bool = False) -> bool:
        """Whether a position is on the small map; the window then moves there."""
        layout, window = self.layout_now(), self.state.window
        if layout is None or window is None:
            return False
        area = small_map_rect(layout.corner, window)
        if not is_dragging and not area.contains(position):
            return False
        share_x = min(max((position.x() - area.left()) / area.width(), 0.0), 1.0)
        share_y = min(max((position.y() - area.top()) / area.height(), 0.0), 1.0)
        self.state.centre_on(share_y * window.n_queries, share_x * window.n_keys)
        return True


def map_title(shown: LongMap, gate: float, state: MapTiles, window: MapWindow, pixel_ratio: float) -> str:
    """Text beside the name of the head."""
    parts = [f"{shown.head.stack}{gate_note(gate)}", f"{len(shown.queries):,} × {len(shown.keys):,}"]
    painted = state.painted()
    if painted:  # the first is under all others: finer ones may lie on a part of it
        best = painted[0]
        cells_per_pixel = 1.0 / max(min(window.step) * pixel_ratio, 1e-9)  # a side; under 1: larger cells
        parts.append(_picture_words(best, cells_per_pixel))
        if best.is_sampled and state.fraction is not None:
            parts.append("exact soon")
    return " · ".join(parts)


def _picture_words(tile: MapTile, cells_per_pixel: float) -> str:
    """Meaning of a spot in the picture; exact cells smaller than a pixel are not all visible."""
    if tile.is_exact and cells_per_pixel > 1.01:
        return f"a pixel: one of {cells_per_pixel:.1f}×{cells_per_pixel:.1f} cells"
    return tile.sentence


def _zoom_centre(
    layout: TileLayout, window: MapWindow | None, cell: tuple[int, int] | None
) -> tuple[float, float]:
    """Centre of keyboard zooming: the marked cell, or the middle."""
    if cell is not None and window is not None:
        return window.place(cell[0] + 0.5, cell[1] + 0.5)
    return layout.cells.width() / 2, layout.cells.height() / 2


def _marked_parts(
    window: MapWindow,
    cell: tuple[int, int] | None,
    reading: CellReading | None,
    highlight: tuple[int | None, int | None],
) -> list[tuple[Part, Part]]:
    """The block under the cursor, or the row and column that another view highlights."""
    if cell is not None:
        return [] if reading is None else [(reading.rows, reading.cols)]
    query, key = highlight
    rows = [] if query is None else [((query, query + 1), (0, window.n_keys))]
    return rows + ([] if key is None else [((0, window.n_queries), (key, key + 1))])


def _paint_frames(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    parts: list[tuple[Part, Part]],
    palette: Palette,
) -> None:
    painter.save()
    painter.setClipRect(layout.cells)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for rows, cols in parts:
        box = part_rect(layout, window, rows, cols)
        if min(box.width(), box.height()) < 4.0:
            box.adjust(-2, -2, 2, 2)
        painter.setPen(QPen(QColor(palette.background), 3.0))
        painter.drawRect(box)
        painter.setPen(QPen(QColor(palette.accent), 1.5))
        painter.drawRect(box)
    painter.restore()


def reading_words(shown: LongMap, reading: CellReading) -> tuple[str, str]:
    """A reading as two lines: the weight, and its cell."""
    n_rows, n_cols = reading.rows[1] - reading.rows[0], reading.cols[1] - reading.cols[0]
    weight = weight_text(float("nan") if reading.weight is None else reading.weight)
    if reading.weight is None:
        return weight, f"queries {reading.rows[0]:,}… → keys {reading.cols[0]:,}…"
    key = isolated(plain_piece(shown.keys[reading.key].label))
    query = query_words(shown.queries[reading.query])
    place = f"query {reading.query:,} {query} → key {reading.key:,} “{key}”"
    if n_rows * n_cols > 1:
        weight = f"{weight}  largest of {n_rows:,}×{n_cols:,}"
    return weight, place


def _paint_reading(
    painter: QPainter, rect: QRectF, shown: LongMap, reading: CellReading, cursor: QPointF, palette: Palette
) -> None:
    value, names = reading_words(shown, reading)
    value_font, name_font = font(13, is_bold=True), font(SMALL_PX)
    metrics, small = QFontMetricsF(value_font), QFontMetricsF(name_font)
    width = max(metrics.horizontalAdvance(value), small.horizontalAdvance(names)) + 16
    box = QRectF(cursor.x() + 16, cursor.y() + 16, width, metrics.height() + small.height() + 8)
    if box.right() > rect.right() - 4:
        box.moveRight(cursor.x() - 12)
    if box.bottom() > rect.bottom() - 4:
        box.moveBottom(cursor.y() - 12)
    box.moveLeft(max(box.left(), rect.left() + 4))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.setBrush(QColor(palette.raised))
    painter.drawRoundedRect(box, 4, 4)
    painter.setFont(value_font)
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(box.left() + 8, box.top() + 3 + metrics.ascent()), value)
    painter.setFont(name_font)
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(box.left() + 8, box.top() + 5 + metrics.height() + small.ascent()), names)
