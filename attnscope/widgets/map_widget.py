"""What every painted view of attention is told: its style and colours, and what is stale or missing."""

import math
from abc import abstractmethod

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from attnscope.figures.style import SMALL_PX, MapStyle, type_at, type_px
from attnscope.widgets.panning import Drag
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil
from attnscope.widgets.theme import Dressed

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
