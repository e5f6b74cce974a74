"""What every painted view of attention is told: its style and colours, and what is stale or missing."""

import math

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from attnscope.figures.style import SMALL_PX, MapStyle, type_px
from attnscope.widgets.panning import Drag
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
