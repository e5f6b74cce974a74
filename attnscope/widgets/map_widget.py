"""Shared by all painted views of attention: style, mouse and keys; and the placeholder for a picture, or the
overlay of an outdated one.
"""

import bisect
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QEvent, QObject, QPointF, QRect, QRectF, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QProgressBar, QWidget

from attnscope.figures.colours import COLOUR_MAPS, ColourMap, Palette
from attnscope.figures.map_painting import MapLayout, whole_view
from attnscope.figures.style import LARGE_PX, NORMAL_PX, SMALL_PX, MapStyle, font, type_at, type_px
from attnscope.settings import Settings
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.viewmodels.view_state import ViewState, page_named
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, named
from attnscope.widgets.theme import Dressed


def paint_placeholder(painter: QPainter, rect: QRectF, palette: Palette, title: str, text: str) -> None:
    """Paint a title and a hint in the middle of `rect`."""
    middle = rect.center().y()
    painter.setFont(font(LARGE_PX))
    painter.setPen(QColor(palette.muted))
    above = QRectF(rect.left() + 16, middle - type_px(36), rect.width() - 32, type_px(28))
    painter.drawText(above, Qt.AlignmentFlag.AlignCenter, title)
    painter.setFont(font(NORMAL_PX))
    below = QRectF(rect.left() + 24, middle, rect.width() - 48, type_px(60))
    align = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
    painter.drawText(below, align, text)


def paint_veil(painter: QPainter, rect: QRectF, palette: Palette) -> None:
    """Dim outdated content."""
    veil = QColor(palette.background)
    veil.setAlphaF(0.5)
    painter.fillRect(rect, veil)


def paint_focus(painter: QPainter, rect: QRect, palette: Palette) -> None:
    """Frame the view with the keyboard focus."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.focus), 1.0))
    painter.drawRect(rect.adjusted(0, 0, -1, -1))


_WIDTH_PX, _LEAST_PX, _MARGIN_PX = 480, 120, 16
_MOST_PX = 10_000


class StateCard(Dressed):
    """A message in the middle of an empty area."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = PlainLabel(role="large")
        self._hint = PlainLabel(role="hint", wraps=True)
        self._hint.setMinimumHeight(72)
        self._progress = named(QProgressBar(textVisible=False), "Progress")
        self._progress.setFixedWidth(240)
        layout = column(on=self, margins=None, spacing=6)
        layout.addStretch(3)
        for widget in (self._title, self._progress):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        # Between stretches and not aligned: only so is the hint given the height its width asks for.
        middle = row(None, self._hint, None, spacing=-1)
        layout.addLayout(middle)
        layout.addStretch(4)
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self._evened: tuple[str, QFont, int] | None = None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.fit_room()

    def fit_room(self) -> None:
        """As narrow as the hint can be with its lines, so that no single word is left for the last.

        Worked out once for each text and room, and only where it is seen: a new model has every page's said.
        """
        metrics, text = self._hint.fontMetrics(), self._hint.text()
        widest = max(min(round(type_px(_WIDTH_PX)), self.width() - 2 * _MARGIN_PX), _LEAST_PX)
        wanted = (text, self._hint.font(), widest)
        if wanted == self._evened or not self.isVisible():
            return
        self._evened = wanted

        def height(width: int) -> int:
            room = QRect(0, 0, width, _MOST_PX)
            return metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, text).height()

        least = height(widest)
        even = bisect.bisect_left(range(widest), True, lo=_LEAST_PX, key=lambda width: height(width) <= least)
        self._hint.setFixedWidth(even + 2)

    def show_stage(self, stage: Placeholder) -> None:
        self._title.setText(stage.title)
        self._hint.setText(stage.hint)
        self.fit_room()
        self.setAccessibleName(f"{stage.title} {stage.hint}")
        policy = self._progress.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self._progress.setSizePolicy(policy)
        self._progress.setVisible(stage.is_working)
        if stage.fraction is None:
            self._progress.setRange(0, 0 if stage.is_working else 100)
        else:
            self._progress.setRange(0, 100)
            self._progress.setValue(round(100 * min(max(stage.fraction, 0.0), 1.0)))


_PATIENCE_MS = 160


class StaleWatch(QObject):
    """Tells `show` whether the content `is_stale`; quick answers pass without a flicker."""

    def __init__(self, is_stale: Callable[[], bool], show: Callable[[bool], None], parent: QObject) -> None:
        super().__init__(parent)
        self._is_stale, self._show = is_stale, show
        self._is_shown = False
        self._timer = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._timer.timeout.connect(self._on_time_up)

    def check(self) -> None:
        """Check after a request or a reply."""
        if not self._is_stale():
            self._timer.stop()
            self._set(False)
        elif not self._timer.isActive() and not self._is_shown:
            self._timer.start()

    @Slot()
    def _on_time_up(self) -> None:
        self._set(self._is_stale())

    def _set(self, is_stale: bool) -> None:
        if is_stale != self._is_shown:
            self._is_shown = is_stale
            self._show(is_stale)


def map_style(view: ViewState) -> MapStyle:
    """Style of the maps; an unknown colour map counts as the default."""
    known: dict[str, ColourMap] = {name: name for name in COLOUR_MAPS}
    return MapStyle(
        colour_map=known.get(view.colour_map, "viridis"),
        scale=view.scale,
        least_weight=view.least_weight,
        n_strongest=view.n_strongest,
    )


def remembered_view(settings: Settings) -> ViewState:
    """The view state from the settings; unknown values are left at their defaults."""
    view = ViewState()
    view.set_theme(settings.theme)
    view.set_size(settings.size_percent)
    view.set_colour_map(settings.colour_map if settings.colour_map in COLOUR_MAPS else "viridis")
    view.set_scale(settings.scale)
    view.show_page(page_named(settings.page) or "explore")
    return view


ARROWS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
"""Rows and columns per arrow key."""
ZOOM_KEYS = {Qt.Key.Key_Plus: 1.25, Qt.Key.Key_Equal: 1.25, Qt.Key.Key_Minus: 0.8}
"""Zoom factor of a key."""


class Drag:
    """A press of the mouse, which becomes a drag once it moves far enough; made with its widget."""

    def __init__(self) -> None:
        self._start = self._last = QPointF(0, 0)
        self.is_down = self.is_moving = False

    def press(self, event: QMouseEvent) -> None:
        """Handle a press of the left or the middle button; any other ends it."""
        self.is_down = event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        self.is_moving = False
        self._start = self._last = event.position()

    def release(self) -> bool:
        """End the drag; give whether it was a click, with little movement."""
        was_click = self.is_down and not self.is_moving
        self.is_down = self.is_moving = False
        return was_click

    def move(self, position: QPointF) -> QPointF:
        """Distance to pan since the last call; zero while it may still become a click."""
        if not self.is_moving:
            distance = (position - self._start).manhattanLength()
            if distance < QApplication.startDragDistance():
                return QPointF(0, 0)
            self.is_moving = True
        step = position - self._last
        self._last = position
        return step


def zoom_factor(wheel_delta: int) -> float:
    """Zoom factor of one turn of the wheel: a notch (120) is 25 %."""
    return float(1.25 ** (wheel_delta / 120))


_MOST_SHARE, _CELL_SHARE = 0.045, 0.16
"""The height of labels beside large cells on a stage: at most of the window's height, and of a cell's."""


class MapWidget(Dressed):
    """A view with mouse and keyboard; paints by its style, palette, staleness and message when empty."""

    def __init__(
        self,
        name: str,
        parent: QWidget | None = None,
        *,
        empty: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(parent)
        self._style = MapStyle()
        self._is_stale = self._is_on_stage = False
        self._empty = empty
        self._drag = Drag()
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName(name)
        self.setMinimumSize(200, 160)

    @abstractmethod
    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        """Paint the content; False if it is empty, which is then stated in words."""

    @property
    def words_when_empty(self) -> tuple[str, str]:
        """A title and a sentence."""
        return self._empty

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            room = QRectF(self.rect())
            painter.fillRect(room, QColor(self.theme.background))
            if not self.paint_shown(painter, room):
                with type_at(self.type_factor()):
                    paint_placeholder(painter, room, self.theme, *self.words_when_empty)
            elif self.hasFocus():
                paint_focus(painter, self.rect(), self.theme)

    def veil(self, painter: QPainter, *parts: QRectF) -> None:
        """Dim parts of the picture while newer content is pending."""
        for part in parts:
            paint_veil(painter, part, self.theme)

    def set_on_stage(self, is_on_stage: bool) -> None:
        """Let labels grow with the cells, beyond all other type, while presenting."""
        self._is_on_stage = is_on_stage
        self.update()

    def type_factor(self, cell_px: float = 0.0) -> float:
        """Size of type: on a stage larger beside large cells."""
        label_px = min(_CELL_SHARE * cell_px, _MOST_SHARE * self.window().height())
        return max(type_px(1.0), math.ceil(label_px) / SMALL_PX if self._is_on_stage else 0.0)

    def set_style(self, style: MapStyle) -> None:
        """Draw with this colour map and scale."""
        self._style = style
        self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the content while newer content is pending."""
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            self.update()

    def set_empty_text(self, title: str, text: str) -> None:
        """Set the message for an empty view."""
        self._empty = (title, text)
        self.update()


# The part of a map that is looked at, in cells (x counts keys, y queries), as it is zoomed and moved.

_MIN_CELLS = 2.0


Shown = TypeVar("Shown")


def zoomed(view: QRectF, whole: QRectF, cells: QRectF, position: QPointF, factor: float) -> QRectF | None:
    """The view zoomed about the cell under `position`; None: the whole map.

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
    """The view moved by so many cells, kept inside the whole map."""
    x = min(max(view.left() + right, 0.0), whole.width() - view.width())
    y = min(max(view.top() + down, 0.0), whole.height() - view.height())
    return QRectF(x, y, view.width(), view.height())


def holding(view: QRectF, cell: tuple[int, int]) -> QRectF:
    """The view moved as little as needed to show a cell (query, key)."""
    query, key = cell
    x = min(max(view.left(), key + 1 - view.width()), float(key))
    y = min(max(view.top(), query + 1 - view.height()), float(query))
    return QRectF(x, y, view.width(), view.height())


class CellMapWidget(MapWidget, Generic[Shown]):
    """Wheel, + and − zoom, drag pans, `0` fits, arrows walk; `_cell` is the (query, key) pointed at.

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
        """Rectangle of the cells: of the map at a position if there are several, None without a map."""

    @abstractmethod
    def tell_cell(self, shown: Shown, cell: tuple[int, int]) -> None:
        """Report another cell being pointed at."""

    def _tell_cell(self) -> None:
        if self.shown is None or self._cell is None:
            self.left.emit()
        else:
            self.tell_cell(self.shown, self._cell)

    @abstractmethod
    def paint_cell(self, painter: QPainter, room: QRectF, shown: Shown, cell: tuple[int, int]) -> None:
        """Write out the cell that is pointed at, beside the cursor."""

    def paint_pointed(self, painter: QPainter, room: QRectF) -> None:
        """Paint the values of the cell pointed at, if any."""
        if self.shown is not None and self._cell is not None:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            self.paint_cell(painter, room, self.shown, self._cell)

    def show_cells(self, shown: Shown | None, shape: tuple[int, int]) -> None:
        """Set the content's number of queries and keys. The zoom stays if these do."""
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
        """Zoom about the cell under `position`."""
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
