"""A map whose cells are zoomed, dragged, pointed at and walked, as one head's and a comparison's are."""

from abc import abstractmethod
from typing import Generic, TypeVar

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QWheelEvent

from attnscope.figures.map_layout import MapLayout, whole_view
from attnscope.widgets.map_widget import ARROWS, ZOOM_KEYS, MapWidget, zoom_factor

# The part of a map that is looked at, in cells (x counts keys, y queries), as it is zoomed and moved.

_MIN_CELLS = 2.0


Shown = TypeVar("Shown")


def zoomed(view: QRectF, whole: QRectF, cells: QRectF, position: QPointF, factor: float) -> QRectF | None:
    """The view with the cell under `position` where it was; None: the whole map.

    `cells` is where the view is drawn, in pixels. At least two cells stay to be seen.
    """
    share = max(1 / factor, min(1.0, _MIN_CELLS / min(view.width(), view.height())))
    width, height = view.width() * share, view.height() * share
    if width >= whole.width() or height >= whole.height():
        return None
    x = min(max((position.x() - cells.left()) / cells.width(), 0.0), 1.0)
    y = min(max((position.y() - cells.top()) / cells.height(), 0.0), 1.0)
    left = view.left() + x * (view.width() - width)
    top = view.top() + y * (view.height() - height)
    return moved(QRectF(left, top, width, height), whole)


def moved(view: QRectF, whole: QRectF, right: float = 0.0, down: float = 0.0) -> QRectF:
    """The view so many cells further, moved back so that it lies inside the whole map."""
    x = min(max(view.left() + right, 0.0), whole.width() - view.width())
    y = min(max(view.top() + down, 0.0), whole.height() - view.height())
    return QRectF(x, y, view.width(), view.height())


def holding(view: QRectF, cell: tuple[int, int]) -> QRectF:
    """The view moved as little as shows a cell (query, key)."""
    query, key = cell
    x = min(max(view.left(), key + 1 - view.width()), float(key))
    y = min(max(view.top(), query + 1 - view.height()), float(query))
    return QRectF(x, y, view.width(), view.height())


class CellMapWidget(MapWidget, Generic[Shown]):
    """Wheel and + and − zoom, drag pans, `0` fits, arrows walk; `_cell` is the (query, key) pointed at.

    A subclass says where the cells lie, and what happens when another is pointed at. `shape` is how many
    queries and keys what is `shown` has, zeros for nothing.
    """

    left = Signal()
    """No cell is pointed at any more."""
    shown: Shown | None = None
    shape = (0, 0)
    _view: QRectF | None = None
    _cell: tuple[int, int] | None = None
    _cursor = QPointF(0, 0)

    @abstractmethod
    def panel_at(self, position: QPointF | None = None) -> MapLayout | None:
        """Where the cells lie: of the map at a position where there are several, None without a map."""

    @abstractmethod
    def tell_cell(self, shown: Shown, cell: tuple[int, int]) -> None:
        """Another cell is pointed at."""

    def _tell_cell(self) -> None:
        if self.shown is None or self._cell is None:
            self.left.emit()
        else:
            self.tell_cell(self.shown, self._cell)

    @abstractmethod
    def paint_cell(self, painter: QPainter, room: QRectF, shown: Shown, cell: tuple[int, int]) -> None:
        """Read the cell that is pointed at out, beside the cursor."""

    def paint_pointed(self, painter: QPainter, room: QRectF) -> None:
        """What is read out of the cell that is pointed at, if one is."""
        if self.shown is not None and self._cell is not None:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            self.paint_cell(painter, room, self.shown, self._cell)

    def show_cells(self, shown: Shown | None, shape: tuple[int, int]) -> None:
        """Show something else, of so many queries and keys. The zoom stays when these do."""
        if shape != self.shape:
            self._view, self._cell = None, None
        self.shown, self.shape = shown, shape
        self._tell_cell()
        self.update()

    @property
    def view(self) -> QRectF:
        """The visible part, in cells: x counts keys, y queries."""
        if self._view is not None:
            return self._view
        return whole_view(*self.shape) if all(self.shape) else QRectF(0, 0, 1, 1)

    def fit(self) -> None:
        self._view = None
        self.update()

    def zoom_at(self, position: QPointF, factor: float) -> None:
        """Zoom so that the cell under `position` stays there."""
        panel = self.panel_at(position)
        if panel is not None:
            self._view = zoomed(self.view, whole_view(*self.shape), panel.cells, position, factor)
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        panel = self.panel_at(event.position())
        if panel is None:
            return
        if self._drag.is_down:
            step = self._drag.move(event.position())
            if self._drag.is_moving and self._view is not None:
                right, down = -step.x() / panel.columns.step, -step.y() / panel.rows.step
                self._view = moved(self._view, whole_view(*self.shape), right, down)
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
                self.update()
            return
        self._cursor = event.position()
        self._point_at(panel.hit(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag.release()
        self.unsetCursor()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y():
            self.zoom_at(event.position(), zoom_factor(event.angleDelta().y()))
            panel = self.panel_at(event.position())
            if panel is not None:
                self._cursor = event.position()
                self._point_at(panel.hit(event.position()))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        panel = self.panel_at()
        if key in ARROWS and panel is not None and all(self.shape):
            self._walk(ARROWS[key], panel)
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key in ZOOM_KEYS and panel is not None:
            self.zoom_at(panel.cells.center(), ZOOM_KEYS[key])
        elif key == Qt.Key.Key_Escape and self._cell is not None:
            self._point_at(None)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at(None)

    def _walk(self, step: tuple[int, int], panel: MapLayout) -> None:
        query, key = (0, 0) if self._cell is None else (self._cell[0] + step[0], self._cell[1] + step[1])
        cell = (min(max(query, 0), panel.n_queries - 1), min(max(key, 0), panel.n_keys - 1))
        if self._view is not None:
            self._view = holding(self._view, cell)
            panel = self.panel_at() or panel
        self._cursor = panel.cell_rect(*cell).center()
        self._point_at(cell)

    def _point_at(self, cell: tuple[int, int] | None) -> None:
        if cell != self._cell:
            self._cell = cell
            self._tell_cell()
        self.update()
