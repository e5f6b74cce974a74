"""What every painted view of attention is told: its style and colours, and what is stale or missing."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import LIGHT, Palette
from attnscope.figures.style import MapStyle


class MapWidget(QWidget):
    """Reached by mouse and keyboard; paints itself by its style, palette, staleness and words when empty."""

    def __init__(
        self,
        name: str,
        palette: Palette = LIGHT,
        parent: QWidget | None = None,
        *,
        empty: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(parent)
        self._style, self._palette = MapStyle(), palette
        self._is_stale = False
        self._empty = empty
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName(name)
        self.setMinimumSize(200, 160)

    def set_style(self, style: MapStyle) -> None:
        """Draw with this colour map and scale."""
        self._style = style
        self.update()

    def set_theme(self, palette: Palette) -> None:
        """Draw in these colours."""
        self._palette = palette
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
