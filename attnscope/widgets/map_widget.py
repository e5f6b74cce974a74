"""What every painted view of attention is told: its style, what is stale, what mouse and keys mean in it."""

import math
from abc import abstractmethod

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from attnscope.figures.colours import COLOUR_MAPS, ColourMap
from attnscope.figures.style import SMALL_PX, MapStyle, type_at, type_px
from attnscope.settings import Settings
from attnscope.viewmodels.view_state import Scale, ViewState, page_named
from attnscope.widgets.placeholders import paint_focus, paint_placeholder, paint_veil
from attnscope.widgets.theme import Dressed


def map_style(view: ViewState) -> MapStyle:
    """How maps are drawn; an unknown colour map counts as the default."""
    known: dict[str, ColourMap] = {name: name for name in COLOUR_MAPS}
    return MapStyle(
        colour_map=known.get(view.colour_map, "viridis"),
        scale=view.scale,
        least_weight=view.least_weight,
        n_strongest=view.n_strongest,
    )


def remembered_view(settings: Settings) -> ViewState:
    """The view state as remembered; what is not known there is left at its default."""
    view = ViewState()
    view.set_theme(settings.theme)
    view.set_size(settings.size_percent)
    view.set_colour_map(settings.colour_map if settings.colour_map in COLOUR_MAPS else "viridis")
    scales: dict[str, Scale] = {"fixed": "fixed", "head": "head", "row": "row"}
    view.set_scale(scales.get(settings.scale, "fixed"))
    view.show_page(page_named(settings.page) or "explore")
    return view


ARROWS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
"""How many rows and columns further an arrow key goes."""
ZOOM_KEYS = {Qt.Key.Key_Plus: 1.25, Qt.Key.Key_Equal: 1.25, Qt.Key.Key_Minus: 0.8}
"""How much a key zooms."""


class Drag:
    """A press of the mouse, which becomes a drag when it moves far enough; made with its widget."""

    def __init__(self) -> None:
        self._start = self._last = QPointF(0, 0)
        self.is_down = self.is_moving = False

    def press(self, event: QMouseEvent) -> None:
        """The left or the middle button is pressed; any other ends it."""
        self.is_down = event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        self.is_moving = False
        self._start = self._last = event.position()

    def release(self) -> bool:
        """It is over; whether it was a click, of a press that did not move far."""
        was_click = self.is_down and not self.is_moving
        self.is_down = self.is_moving = False
        return was_click

    def move(self, position: QPointF) -> QPointF:
        """How far to pan since the last call; zero while it may still become a click."""
        if not self.is_moving:
            distance = (position - self._start).manhattanLength()
            if distance < QApplication.startDragDistance():
                return QPointF(0, 0)
            self.is_moving = True
        step = position - self._last
        self._last = position
        return step


def zoom_factor(wheel_delta: int) -> float:
    """How much one turn of the wheel zooms: a notch (120) is 25 %."""
    return float(1.25 ** (wheel_delta / 120))


_STAGE_SHARE, _MOST_SHARE, _CELL_SHARE = 0.025, 0.045, 0.16
"""The height of labels on a stage: least and most of the window's height, and between them of a cell's."""


class MapWidget(Dressed):
    """Reached by mouse and keyboard; paints itself by its style, palette, staleness and words when empty."""

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
        """Paint what is shown; False where there is nothing, which is then said in words."""

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
        """Dim parts of what is painted while something newer is on its way."""
        for part in parts:
            paint_veil(painter, part, self.theme)

    def set_on_stage(self, is_on_stage: bool) -> None:
        """Write labels so large that they are read from the back of a room."""
        self._is_on_stage = is_on_stage
        self.update()

    def type_factor(self, cell_px: float = 0.0) -> float:
        """How large type is: on a stage at least 2.5 % of the window's height, more beside large cells."""
        if not self._is_on_stage:
            return type_px(1.0)
        height = self.window().height()
        label_px = max(_STAGE_SHARE * height, min(_CELL_SHARE * cell_px, _MOST_SHARE * height))
        return max(type_px(1.0), math.ceil(label_px) / SMALL_PX)

    def set_style(self, style: MapStyle) -> None:
        """Draw with this colour map and scale."""
        self._style = style
        self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim what is shown while something newer is on its way."""
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            self.update()

    def set_empty_text(self, title: str, text: str) -> None:
        """What to say when there is nothing to show."""
        self._empty = (title, text)
        self.update()
