"""Every head of a comparison as a small difference: hover, select, walk with the arrows."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)

from attnscope.figures.difference_codes import DifferenceCodes, difference_codes
from attnscope.figures.difference_layout import DifferenceLayout, difference_layout
from attnscope.figures.map_layout import MapLayout
from attnscope.figures.paint_changes import ChangedHead, ChangesLayout, changes_layout, paint_changes
from attnscope.figures.paint_difference import paint_difference
from attnscope.figures.paint_map import paint_note
from attnscope.figures.plain import plain_text
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import MapStyle
from attnscope.records.compare import DifferenceGrid
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.compare.difference import ComparedMaps, cell_words
from attnscope.widgets.cell_map import CellMap
from attnscope.widgets.map_widget import MapWidget
from attnscope.widgets.panning import ARROWS
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil

# The maps of both sides and their difference with one zoom, one cursor and one highlight for all three.


class CompareMaps(CellMap):
    """Shows a ComparedMaps; wheel zooms, drag pans, `0` fits, arrows walk the cells of all three at once."""

    cell_pointed = Signal(str)
    """The cell under the cursor in words; empty: none."""

    def __init__(self) -> None:
        super().__init__("Attention of A, of B, and B minus A")
        self._shown: ComparedMaps | None = None
        self._codes: DifferenceCodes | None = None
        self._cache = ImageCache()
        self._layout: tuple[object, DifferenceLayout] | None = None
        self.setMinimumSize(360, 160)

    @property
    def shown(self) -> ComparedMaps | None:
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

    def dress(self) -> None:
        self._cache.clear()

    def layout_now(self) -> DifferenceLayout | None:
        """Where everything lies at this moment; None without maps."""
        if self._shown is None:
            return None
        view = self._view.getRect() if self._view is not None else None
        key = (self.width(), self.height(), self.theme.type_factor, view)
        if self._layout is None or self._layout[0] != key:
            self._layout = (key, difference_layout(QRectF(self.rect()), self._shown, view=self._view))
        return self._layout[1]

    def sizeHint(self) -> QSize:
        return QSize(1100, 360)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            rect = QRectF(self.rect())
            painter.fillRect(rect, QColor(self.theme.background))
            if self._shown is None or 0 in self._shown.delta.shape:
                paint_placeholder(painter, rect, self.theme, *self._empty)
                return
            self._codes = self._codes or difference_codes(self._shown, self._style)
            layout = paint_difference(
                painter,
                rect,
                self._shown,
                style=self._style,
                palette=self.theme,
                view=self._view,
                highlight=self._cell or (None, None),
                cache=self._cache,
                codes=self._codes,
                layout=self.layout_now(),
            )
            if self._is_stale:
                for cells in layout.cells:
                    paint_veil(painter, cells, self.theme)
            if self._cell is not None:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
                value, names = (plain_text(words) for words in cell_words(self._shown, *self._cell))
                paint_note(painter, rect, value, names, self._cursor, self.theme)
            if self.hasFocus():
                paint_focus(painter, self.rect(), self.theme)

    @property
    def shape(self) -> tuple[int, int]:
        """How many slots of queries and of keys the three maps have."""
        return self._shown.delta.shape if self._shown is not None else (0, 0)

    def panel_at(self, position: QPointF | None = None) -> MapLayout | None:
        """The map under a position, else that of the difference."""
        layout = self.layout_now()
        if layout is None:
            return None
        found = layout.panel_at(position) if position is not None else None
        return found or layout.panels[2]

    def _tell_cell(self) -> None:
        words = ""
        if self._cell is not None and self._shown is not None:
            value, names = cell_words(self._shown, *self._cell)
            words = plain_text(f"{names}   {value}")
        self.setAccessibleDescription(words)
        self.cell_pointed.emit(words)


class CompareGrid(MapWidget):
    """Shows differences of heads; reports which head is wanted."""

    head_selected = Signal(object)
    """HeadRef to look at large."""
    head_hovered = Signal(str)
    """The head under the cursor in words; empty: none."""

    def __init__(self) -> None:
        super().__init__("Differences of all heads")
        self._grids: tuple[DifferenceGrid, ...] = ()
        self._selected: HeadRef | None = None
        self._hovered: ChangedHead | None = None
        self._is_sorted = False
        self._end = 0.0
        self._off: frozenset[HeadRef] = frozenset()
        self._cache = ImageCache()
        self.setMinimumSize(160, 96)

    def set_grids(
        self,
        grids: tuple[DifferenceGrid, ...],
        *,
        is_sorted: bool,
        end: float,
        off: frozenset[HeadRef] = frozenset(),
    ) -> None:
        """Show these sites; `end` is the |Δ| at the ends of the colours, 0: each head's largest.

        Heads in `off` are off on a side, and struck through.
        """
        if len(grids) != len(self._grids) or any(a is not b for a, b in zip(grids, self._grids, strict=True)):
            self._cache.clear()
        self._grids, self._is_sorted, self._end, self._off = grids, is_sorted, end, off
        self._hovered = None
        self.update()

    def set_selected(self, head: HeadRef | None) -> None:
        """Frame this head; arrow keys start here."""
        self._selected = head
        self.setAccessibleDescription(self._sentence(head))
        self.update()

    def layout_now(self) -> ChangesLayout:
        """Where everything lies at this moment."""
        return changes_layout(QRectF(self.rect()), self._grids, is_sorted=self._is_sorted)

    def sizeHint(self) -> QSize:
        return QSize(480, 280)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            rect = QRectF(self.rect())
            painter.fillRect(rect, QColor(self.theme.background))
            if not self._grids:
                paint_placeholder(painter, rect, self.theme, *self._empty)
                return
            layout = paint_changes(
                painter,
                rect,
                self._grids,
                palette=self.theme,
                colour_map=self._style.colour_map,
                is_sorted=self._is_sorted,
                end=self._end,
                selected=self._selected,
                hovered=self._hovered.head if self._hovered else None,
                off=self._off,
                cache=self._cache,
            )
            if self._is_stale:
                paint_veil(painter, layout.area, self.theme)
            if self.hasFocus():
                paint_focus(painter, self.rect(), self.theme)

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
            self.head_hovered.emit(self._told(found) if found else "")
            self.update()

    def _sentence(self, head: HeadRef | None) -> str:
        layout = self.layout_now()
        place = layout.place(head)
        return self._told(layout.rows[place[0]][place[1]]) if place is not None else ""

    def _told(self, changed: ChangedHead) -> str:
        return changed.sentence + (" · off on one side" if changed.head in self._off else "")
