"""A map of a lab on the screen; the cell under the cursor is told."""

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.figures.cell_map import CellMap
from attnscope.figures.colours import Palette
from attnscope.figures.paint_cells import layout_cells, paint_cells
from attnscope.widgets.number_text import number_text


class CellPanel(QWidget):
    """Shows a CellMap; `hovered` carries row and column, (-1, -1) when the cursor leaves."""

    hovered = Signal(int, int)

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self._shown: CellMap | None = None
        self._cursor = (-1, -1)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_cells(self, shown: CellMap) -> None:
        """Show another map."""
        self._shown = shown
        self.setAccessibleName(f"{shown.title}, {shown.values.shape[0]} × {shown.values.shape[1]}")
        self.update()

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns of the map."""
        return self._shown.values.shape if self._shown is not None else ()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self.update()

    def set_cursor(self, i: int, j: int) -> None:
        """Frame one cell; −1 frames none."""
        if (i, j) != self._cursor:
            self._cursor = (i, j)
            self.update()

    def sentence(self, i: int, j: int) -> str:
        """The cell in words."""
        if self._shown is None:
            return ""
        shown, value = self._shown, float(self._shown.values[i, j])
        if value != value:
            said = "not allowed by the mask" if shown.kind != "steps" else shown.legend[-1]
        elif shown.kind == "kinds":
            said = shown.legend[round(value) - 1]
        elif shown.kind == "steps":
            said = f"{value:.0f} {'layer' if value == 1 else 'layers'}"
        else:
            said = number_text(value)
        return f"{shown.row_title} {shown.row_name(i)} → {shown.column_title} {shown.column_name(j)}  {said}"

    def minimumSizeHint(self) -> QSize:
        return QSize(120, 120)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._shown is not None:
            found = layout_cells(self._area(), self._shown).at(event.position())
            self.hovered.emit(*(found or (-1, -1)))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(-1, -1)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._shown is None:
            return
        with QPainter(self) as painter:
            layout = paint_cells(painter, self._area(), self._shown, palette=self._palette)
            i, j = self._cursor
            if 0 <= i < layout.n_rows and 0 <= j < layout.n_columns:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(QColor(self._palette.accent), 1.0))
                row, cell = layout.cell(i, 0), layout.cell(i, j)
                painter.drawRect(QRectF(layout.cells.left(), row.top(), layout.cells.width(), row.height()))
                painter.setPen(QPen(QColor(self._palette.text), 2.0))
                painter.drawRect(cell)

    def _area(self) -> QRectF:
        return QRectF(self.rect()).adjusted(0, 0, -1, -1)
