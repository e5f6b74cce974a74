"""Token-to-token lines of the selected heads; pointing at a token leaves only its lines."""

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import LIGHT, Palette
from attnscope.figures.paint_lines import (
    LinesLayout,
    StrongLines,
    comparable,
    lines_layout,
    paint_lines,
    strong_lines,
)
from attnscope.figures.style import MapStyle
from attnscope.records.maps import HeadMap
from attnscope.widgets.placeholder import paint_placeholder, paint_veil


class LinesView(QWidget):
    """Shows several heads as lines from queries (left) to keys (right)."""

    token_hovered = Signal(object, object)
    """The query (int) or the key (int) pointed at; None for the other, or for both."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._maps: tuple[HeadMap, ...] = ()
        self._lines: StrongLines | None = None
        self._palette = LIGHT
        self._is_stale = False
        self._pointed: tuple[int | None, int | None] = (None, None)
        self._highlight: tuple[int | None, int | None] = (None, None)
        self._empty_title = "No heads chosen"
        self._empty_text = "Click a small map, and Ctrl+click more, to see their weights as lines."
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Attention as lines")
        self.setMinimumSize(200, 160)

    def set_maps(self, maps: tuple[HeadMap, ...]) -> None:
        """Show these heads, each in its own colour."""
        self._maps = tuple(maps)
        shown = comparable(self._maps) if self._maps else ()
        self._lines = strong_lines(shown) if shown else None
        self._pointed = (None, None)
        self._is_stale = False
        self.update()

    def set_style(self, style: MapStyle) -> None:
        """Lines have no colour map; taken so that all views can be told alike."""

    def set_theme(self, palette: Palette) -> None:
        """Draw in these colours."""
        self._palette = palette
        self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the lines while newer ones are on their way."""
        self._is_stale = is_stale
        self.update()

    def set_highlight(self, query: int | None, key: int | None) -> None:
        """Leave only the lines of a query or a key, as another view asks."""
        self._highlight = (query, key)
        self.update()

    def set_empty_text(self, title: str, text: str) -> None:
        """What to say when there is nothing to show."""
        self._empty_title, self._empty_text = title, text
        self.update()

    def layout_now(self) -> LinesLayout | None:
        """Where everything lies at this moment; None without maps."""
        return lines_layout(QRectF(self.rect()), self._maps[0]) if self._maps else None

    def sizeHint(self) -> QSize:
        return QSize(560, 480)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            rect = QRectF(self.rect())
            painter.fillRect(rect, QColor(self._palette.background))
            if not self._maps:
                paint_placeholder(painter, rect, self._palette, self._empty_title, self._empty_text)
                return
            highlight = self._pointed if self._pointed != (None, None) else self._highlight
            paint_lines(
                painter, rect, self._maps, palette=self._palette, highlight=highlight, lines=self._lines
            )
            if self._is_stale:
                paint_veil(painter, rect, self._palette)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        self._point_at(layout.hit(event.position()) if layout is not None else (None, None))

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at((None, None))

    def _point_at(self, pointed: tuple[int | None, int | None]) -> None:
        if pointed != self._pointed:
            self._pointed = pointed
            self.token_hovered.emit(*pointed)
            self.update()
