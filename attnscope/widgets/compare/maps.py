"""The maps of both sides and their difference with one zoom, one cursor and one highlight for all three."""

from PySide6.QtCore import QPointF, QRectF, QSize, Signal
from PySide6.QtGui import (
    QColor,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.difference_codes import DifferenceCodes, difference_codes
from attnscope.figures.difference_layout import DifferenceLayout, difference_layout
from attnscope.figures.map_layout import MapLayout
from attnscope.figures.paint_difference import paint_difference
from attnscope.figures.paint_map import paint_note
from attnscope.figures.plain import plain_text
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import MapStyle
from attnscope.viewmodels.compare.difference import ComparedMaps, cell_words
from attnscope.widgets.cell_map import CellMap
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil


class CompareMaps(CellMap):
    """Shows a ComparedMaps; wheel zooms, drag pans, `0` fits, arrows walk the cells of all three at once."""

    cell_pointed = Signal(str)
    """The cell under the cursor in words; empty: none."""

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__("Attention of A, of B, and B minus A", palette, parent)
        self._shown: ComparedMaps | None = None
        self._codes: DifferenceCodes | None = None
        self._cache = ImageCache()
        self._layout: tuple[object, DifferenceLayout] | None = None
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

    def layout_now(self) -> DifferenceLayout | None:
        """Where everything lies at this moment; None without maps."""
        if self._shown is None:
            return None
        view = self._view.getRect() if self._view is not None else None
        key = (self.width(), self.height(), self._palette.type_factor, view)
        if self._layout is None or self._layout[0] != key:
            self._layout = (key, difference_layout(QRectF(self.rect()), self._shown, view=self._view))
        return self._layout[1]

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
