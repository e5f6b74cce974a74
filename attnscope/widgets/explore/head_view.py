"""One head large: exact values under the cursor, row and column highlight, zoom and pan."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import LIGHT, Palette
from attnscope.figures.map_layout import MapLayout, map_layout, whole_view
from attnscope.figures.paint_gold import paint_gold
from attnscope.figures.paint_map import paint_head_map, paint_readout
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import MapStyle
from attnscope.records.alignment import GoldCell
from attnscope.records.maps import HeadMap
from attnscope.widgets.cell_window import holding, moved, zoomed
from attnscope.widgets.panning import ARROWS, ZOOM_KEYS, Drag, zoom_factor
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil


class HeadView(QWidget):
    """Shows one HeadMap; the cell under the cursor, or walked to with the arrows, is read out."""

    cell_hovered = Signal(int, int, float)
    """Query, key and weight (NaN where the mask forbids) of the cell under the cursor."""
    menu_wanted = Signal(object, object)
    """Where (QPoint in the view) a menu is wanted, and the cell (query, key) there or None."""
    edge_toggled = Signal(int, int)
    """Query and key of the cell that the person knocks out or puts back."""
    left = Signal()
    """The cursor is over no cell any more."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._map: HeadMap | None = None
        self._gate = 1.0
        self._style = MapStyle()
        self._palette = LIGHT
        self._is_stale = False
        self._view: QRectF | None = None
        self._cell: tuple[int, int] | None = None
        self._cursor = QPointF(0, 0)
        self._highlight: tuple[int | None, int | None] = (None, None)
        self._drag: Drag | None = None
        self._knocked_out: frozenset[tuple[int, int]] = frozenset()
        self._gold: tuple[GoldCell, ...] = ()
        self._cache = ImageCache()
        self._is_compact = False
        self._empty_title = "No head chosen"
        self._empty_text = "Click a small map to see it here with its tokens and exact weights."
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Attention of one head")
        self.setMinimumSize(200, 160)

    def set_map(self, head_map: HeadMap | None) -> None:
        """Show this head. The zoom stays when the number of tokens does."""
        shape = head_map.weights.shape if head_map is not None else None
        if self._map is None or self._map.weights.shape != shape:
            self._view, self._cell = None, None
        self._map = head_map
        self._cache.clear()
        self._is_stale = False
        self._tell_cell()
        self.update()

    def set_gate(self, gate: float) -> None:
        """Name the head's gate in the title."""
        self._gate = gate
        self.update()

    def set_knocked_out(self, cells: frozenset[tuple[int, int]]) -> None:
        """These (query, key) have no weight because a person took them out, not because of the mask."""
        self._knocked_out = cells
        self.update()

    def set_gold(self, cells: tuple[GoldCell, ...]) -> None:
        """Mark these gold word links."""
        if cells != self._gold:
            self._gold = cells
            self.update()

    def set_style(self, style: MapStyle) -> None:
        """Draw with this colour map and scale."""
        self._style = style
        self.update()

    def set_theme(self, palette: Palette) -> None:
        """Draw in these colours."""
        self._palette = palette
        self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the map while a newer one is on its way."""
        self._is_stale = is_stale
        self.update()

    def set_compact(self, is_compact: bool) -> None:
        """Leave the title and the names of the axes out, where a low panel needs its height for the cells."""
        self._is_compact = is_compact
        self.update()

    def set_highlight(self, query: int | None, key: int | None) -> None:
        """Mark a row, a column or both, as another view asks; the own cursor wins while it is here."""
        self._highlight = (query, key)
        self.update()

    def set_empty_text(self, title: str, text: str) -> None:
        """What to say when there is nothing to show."""
        self._empty_title, self._empty_text = title, text
        self.update()

    def fit(self) -> None:
        """Show every cell."""
        self._view = None
        self.update()

    @property
    def view(self) -> QRectF:
        """The visible part, in cells: x counts keys, y queries."""
        if self._view is not None:
            return self._view
        return whole_view(*self._map.weights.shape) if self._map is not None else QRectF(0, 0, 1, 1)

    def layout_now(self) -> MapLayout | None:
        """Where everything lies at this moment; None without a map."""
        if self._map is None:
            return None
        return map_layout(
            QRectF(self.rect()),
            self._map.queries,
            self._map.keys,
            view=self._view,
            has_title=not self._is_compact,
            is_compact=self._is_compact,
        )

    def zoom_at(self, position: QPointF, factor: float) -> None:
        """Zoom so that the cell under `position` stays there."""
        layout = self.layout_now()
        if self._map is None or layout is None:
            return
        whole = whole_view(*self._map.weights.shape)
        self._view = zoomed(self.view, whole, layout.cells, position, factor)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(560, 480)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            rect = QRectF(self.rect())
            painter.fillRect(rect, QColor(self._palette.background))
            if self._map is None or 0 in self._map.weights.shape:
                paint_placeholder(painter, rect, self._palette, self._empty_title, self._empty_text)
                return
            layout = paint_head_map(
                painter,
                rect,
                self._map,
                style=self._style,
                palette=self._palette,
                gate=self._gate,
                view=self._view,
                highlight=self._cell or self._highlight,
                has_title=not self._is_compact,
                is_compact=self._is_compact,
                cache=self._cache,
                not_allowed_words="ruled out" if self._knocked_out else "not allowed",
            )
            if self._gold:
                paint_gold(painter, layout, self._gold)
            if self._is_stale:
                paint_veil(painter, layout.cells, self._palette)
            if self._cell is not None:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
                paint_readout(
                    painter,
                    rect,
                    self._map,
                    self._cell,
                    self._cursor,
                    self._palette,
                    is_knocked_out=self._cell in self._knocked_out,
                )
            if self.hasFocus():
                paint_focus(painter, self.rect(), self._palette)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag = Drag.begun(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        if layout is None:
            return
        if self._drag is not None:
            step = self._drag.move(event.position())
            if self._drag.is_moving and self._view is not None:
                self._pan(step, layout)
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
            return
        self._cursor = event.position()
        self._point_at(layout.hit(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag = None
        self.unsetCursor()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y():
            self.zoom_at(event.position(), zoom_factor(event.angleDelta().y()))
            layout = self.layout_now()
            if layout is not None:
                self._cursor = event.position()
                self._point_at(layout.hit(event.position()))
        event.accept()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        layout = self.layout_now()
        is_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        cell = layout.hit(QPointF(event.pos())) if layout is not None and is_mouse else self._cell
        place = event.pos() if is_mouse else self._cursor.toPoint()
        self.menu_wanted.emit(place, cell)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in ARROWS and self._map is not None and self._map.weights.size:
            self._walk(ARROWS[key])
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key in ZOOM_KEYS and (layout := self.layout_now()) is not None:
            self.zoom_at(layout.cells.center(), ZOOM_KEYS[key])
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and self._cell is not None:
            self.edge_toggled.emit(*self._cell)
        elif key == Qt.Key.Key_Escape and self._cell is not None:
            self._point_at(None)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at(None)

    def _pan(self, step: QPointF, layout: MapLayout) -> None:
        if self._map is None:
            return
        whole = whole_view(*self._map.weights.shape)
        self._view = moved(self.view, whole, -step.x() / layout.columns.step, -step.y() / layout.rows.step)
        self.update()

    def _walk(self, step: tuple[int, int]) -> None:
        layout = self.layout_now()
        if layout is None:
            return
        query, key = (0, 0) if self._cell is None else (self._cell[0] + step[0], self._cell[1] + step[1])
        cell = (min(max(query, 0), layout.n_queries - 1), min(max(key, 0), layout.n_keys - 1))
        if self._view is not None:
            self._view = holding(self._view, cell)
            layout = self.layout_now() or layout
        self._cursor = layout.cell_rect(*cell).center()
        self._point_at(cell)

    def _point_at(self, cell: tuple[int, int] | None) -> None:
        if cell != self._cell:
            self._cell = cell
            self._tell_cell()
        self.update()

    def _tell_cell(self) -> None:
        if self._cell is not None and self._map is not None:
            query, key = self._cell
            self.cell_hovered.emit(query, key, float(self._map.weights[query, key]))
        else:
            self.left.emit()
