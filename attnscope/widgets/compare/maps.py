"""The maps of both sides and their difference with one zoom, one cursor and one highlight for all three."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.difference_codes import DifferenceCodes, difference_codes
from attnscope.figures.difference_layout import DifferenceLayout, difference_layout
from attnscope.figures.map_layout import whole_view
from attnscope.figures.paint_difference import paint_difference
from attnscope.figures.paint_map import paint_note
from attnscope.figures.plain import plain_text
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import MapStyle
from attnscope.viewmodels.compare.difference import ComparedMaps, cell_words
from attnscope.widgets.cell_window import holding, moved, zoomed
from attnscope.widgets.panning import ARROWS, ZOOM_KEYS, Drag, zoom_factor
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil


class CompareMaps(QWidget):
    """Shows a ComparedMaps; wheel zooms, drag pans, `0` fits, arrows walk the cells of all three at once."""

    cell_pointed = Signal(str)
    """The cell under the cursor in words; empty: none."""

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self._shown: ComparedMaps | None = None
        self._codes: DifferenceCodes | None = None
        self._style = MapStyle()
        self._is_stale = False
        self._view: QRectF | None = None
        self._cell: tuple[int, int] | None = None
        self._cursor = QPointF(0, 0)
        self._drag: Drag | None = None
        self._cache = ImageCache()
        self._layout: tuple[object, DifferenceLayout] | None = None
        self._empty = ("", "")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Attention of A, of B, and B minus A")
        self.setMinimumSize(360, 160)

    @property
    def shown(self) -> ComparedMaps | None:
        """What is shown."""
        return self._shown

    def set_maps(self, shown: ComparedMaps | None) -> None:
        """Show another comparison. The zoom stays when the axes keep their size."""
        if shown is self._shown:
            return
        if shown is None or self._shown is None or shown.delta.shape != self._shown.delta.shape:
            self._view, self._cell = None, None
        self._shown, self._codes, self._layout = shown, None, None
        self._cache.clear()
        self._tell_cell()
        self.update()

    def set_style(self, style: MapStyle) -> None:
        """Draw the weights with this colour map and scale."""
        if style != self._style:
            self._style, self._codes = style, None
            self._cache.clear()
            self.update()

    def set_theme(self, palette: Palette) -> None:
        """Draw in these colours."""
        self._palette = palette
        self._cache.clear()
        self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the maps while newer ones are on their way."""
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            self.update()

    def set_empty_text(self, title: str, text: str) -> None:
        """What to say when there is nothing to show."""
        self._empty = (title, text)
        self.update()

    def fit(self) -> None:
        """Show every cell."""
        self._view = None
        self.update()

    @property
    def view(self) -> QRectF:
        """The visible part, in slots: x counts keys, y queries."""
        if self._view is not None:
            return self._view
        return whole_view(*self._shown.delta.shape) if self._shown is not None else QRectF(0, 0, 1, 1)

    def layout_now(self) -> DifferenceLayout | None:
        """Where everything lies at this moment; None without maps."""
        if self._shown is None:
            return None
        view = self._view.getRect() if self._view is not None else None
        key = (self.width(), self.height(), self._palette.type_factor, view)
        if self._layout is None or self._layout[0] != key:
            self._layout = (key, difference_layout(QRectF(self.rect()), self._shown, view=self._view))
        return self._layout[1]

    def zoom_at(self, position: QPointF, factor: float) -> None:
        """Zoom all three so that the cell under `position` stays there."""
        layout = self.layout_now()
        if self._shown is None or layout is None:
            return
        cells = (layout.panel_at(position) or layout.panels[0]).cells
        self._view = zoomed(self.view, whole_view(*self._shown.delta.shape), cells, position, factor)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(1100, 360)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            rect = QRectF(self.rect())
            painter.fillRect(rect, QColor(self._palette.background))
            if self._shown is None or 0 in self._shown.delta.shape:
                paint_placeholder(painter, rect, self._palette, *self._empty)
                return
            self._codes = self._codes or difference_codes(self._shown, self._style)
            layout = paint_difference(
                painter,
                rect,
                self._shown,
                style=self._style,
                palette=self._palette,
                view=self._view,
                highlight=self._cell or (None, None),
                cache=self._cache,
                codes=self._codes,
                layout=self.layout_now(),
            )
            if self._is_stale:
                for cells in layout.cells:
                    paint_veil(painter, cells, self._palette)
            if self._cell is not None:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
                value, names = (plain_text(words) for words in cell_words(self._shown, *self._cell))
                paint_note(painter, rect, value, names, self._cursor, self._palette)
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
            if self._drag.is_moving and self._view is not None and self._shown is not None:
                panel = layout.panels[0]
                right, down = -step.x() / panel.columns.step, -step.y() / panel.rows.step
                self._view = moved(self._view, whole_view(*self._shown.delta.shape), right, down)
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
                self.update()
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

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        layout = self.layout_now()
        if key in ARROWS and layout is not None and self._shown is not None and self._shown.delta.size:
            self._walk(ARROWS[key], layout)
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key in ZOOM_KEYS and layout is not None:
            self.zoom_at(layout.cells[0].center(), ZOOM_KEYS[key])
        elif key == Qt.Key.Key_Escape and self._cell is not None:
            self._point_at(None)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at(None)

    def _walk(self, step: tuple[int, int], layout: DifferenceLayout) -> None:
        panel = layout.panels[2]
        query, key = (0, 0) if self._cell is None else (self._cell[0] + step[0], self._cell[1] + step[1])
        cell = (min(max(query, 0), panel.n_queries - 1), min(max(key, 0), panel.n_keys - 1))
        if self._view is not None:
            self._view = holding(self._view, cell)
            panel = (self.layout_now() or layout).panels[2]
        self._cursor = panel.cell_rect(*cell).center()
        self._point_at(cell)

    def _point_at(self, cell: tuple[int, int] | None) -> None:
        if cell != self._cell:
            self._cell = cell
            self._tell_cell()
        self.update()

    def _tell_cell(self) -> None:
        words = ""
        if self._cell is not None and self._shown is not None:
            value, names = cell_words(self._shown, *self._cell)
            words = plain_text(f"{names}   {value}")
        self.setAccessibleDescription(words)
        self.cell_pointed.emit(words)
