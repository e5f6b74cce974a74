"""Every head of a comparison as a small difference: hover, select, walk with the arrows."""

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.paint_changes import ChangedHead, ChangesLayout, changes_layout, paint_changes
from attnscope.figures.raster import ImageCache
from attnscope.records.compare import DifferenceGrid
from attnscope.records.sites import HeadRef
from attnscope.widgets.panning import ARROWS
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil


class CompareGrid(QWidget):
    """Shows differences of heads; reports which head is wanted."""

    head_selected = Signal(object)
    """HeadRef to look at large."""
    head_hovered = Signal(str)
    """The head under the cursor in words; empty: none."""

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self._grids: tuple[DifferenceGrid, ...] = ()
        self._selected: HeadRef | None = None
        self._hovered: ChangedHead | None = None
        self._is_sorted = False
        self._end = 0.0
        self._colour_map = "viridis"
        self._is_stale = False
        self._cache = ImageCache()
        self._empty = ("", "")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Differences of all heads")
        self.setMinimumSize(160, 96)

    def set_grids(self, grids: tuple[DifferenceGrid, ...], *, is_sorted: bool, end: float) -> None:
        """Show these sites; `end` is the |Δ| at the ends of the colours, 0: each head's largest."""
        if len(grids) != len(self._grids) or any(a is not b for a, b in zip(grids, self._grids, strict=True)):
            self._cache.clear()
        self._grids, self._is_sorted, self._end = grids, is_sorted, end
        self._hovered = None
        self.update()

    def set_selected(self, head: HeadRef | None) -> None:
        """Frame this head; arrow keys start here."""
        self._selected = head
        self.setAccessibleDescription(self._sentence(head))
        self.update()

    def set_colour_map(self, name: str) -> None:
        """Draw the stripes with another colour map."""
        self._colour_map = name
        self.update()

    def set_theme(self, palette: Palette) -> None:
        """Draw in these colours."""
        self._palette = palette
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

    def layout_now(self) -> ChangesLayout:
        """Where everything lies at this moment."""
        return changes_layout(QRectF(self.rect()), self._grids, is_sorted=self._is_sorted)

    def sizeHint(self) -> QSize:
        return QSize(480, 280)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            rect = QRectF(self.rect())
            painter.fillRect(rect, QColor(self._palette.background))
            if not self._grids:
                paint_placeholder(painter, rect, self._palette, *self._empty)
                return
            layout = paint_changes(
                painter,
                rect,
                self._grids,
                palette=self._palette,
                colour_map=self._colour_map,
                is_sorted=self._is_sorted,
                end=self._end,
                selected=self._selected,
                hovered=self._hovered.head if self._hovered else None,
                cache=self._cache,
            )
            if self._is_stale:
                paint_veil(painter, layout.area, self._palette)
            if self.hasFocus():
                paint_focus(painter, self.rect(), self._palette)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.layout_now().hit(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        found = self.layout_now().hit(event.position())
        if found is not None and event.button() == Qt.MouseButton.LeftButton:
            self.head_selected.emit(found.head)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in ARROWS and self._grids:
            self._walk(ARROWS[key])
        elif key == Qt.Key.Key_Home and self._grids:
            self.head_selected.emit(self.layout_now().rows[0][0].head)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._hover(None)

    def _walk(self, step: tuple[int, int]) -> None:
        layout = self.layout_now()
        place = layout.place(self._selected)
        if place is None:
            self.head_selected.emit(layout.rows[0][0].head)
            return
        row = min(max(place[0] + step[0], 0), len(layout.rows) - 1)
        column = min(max(place[1] + step[1], 0), len(layout.rows[row]) - 1)
        if (row, column) != place:
            self.head_selected.emit(layout.rows[row][column].head)

    def _hover(self, found: ChangedHead | None) -> None:
        if (found and found.head) != (self._hovered and self._hovered.head):
            self._hovered = found
            self.head_hovered.emit(found.sentence if found else "")
            self.update()

    def _sentence(self, head: HeadRef | None) -> str:
        layout = self.layout_now()
        place = layout.place(head)
        return layout.rows[place[0]][place[1]].sentence if place is not None else ""
