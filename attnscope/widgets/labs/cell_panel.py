"""A small map on the screen; the cell under the cursor is told, and the one that is clicked."""

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy

from attnscope.counting import number_text, plural
from attnscope.figures.paint_cells import layout_cells, paint_cells
from attnscope.records.charts import CellMap
from attnscope.widgets.map_widget import ARROWS
from attnscope.widgets.theme import Dressed


class CellPanel(Dressed):
    """Shows a CellMap; `hovered` carries row and column, (-1, -1) when the cursor leaves.

    `clicked` carries those of the cell that is clicked, or framed when Enter is pressed. Where it can have
    the focus, arrow keys walk the cells.
    """

    hovered = Signal(int, int)
    clicked = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
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
            said = shown.legend[-1] if shown.legend else "not allowed by the mask"
        elif shown.kind == "kinds":
            said = shown.legend[round(value) - 1]
        elif shown.kind == "steps":
            said = plural(round(value), "layer")
        else:
            said = number_text(value)
        return f"{shown.row_title} {shown.row_name(i)} → {shown.column_title} {shown.column_name(j)}  {said}"

    def minimumSizeHint(self) -> QSize:
        return QSize(120, 120)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._shown is not None:
            found = layout_cells(self._area(), self._shown).at(event.position())
            self.hovered.emit(*(found or (-1, -1)))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self._shown and layout_cells(self._area(), self._shown).at(event.position())
        if found and event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(*found)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step, (i, j) = ARROWS.get(Qt.Key(event.key())), self._cursor
        if self._shown is None:
            super().keyPressEvent(event)
        elif step is not None:
            n_rows, n_columns = self._shown.values.shape
            self.hovered.emit(min(max(i + step[0], 0), n_rows - 1), min(max(j + step[1], 0), n_columns - 1))
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and i >= 0:
            self.clicked.emit(i, j)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(-1, -1)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._shown is None:
            return
        with QPainter(self) as painter:
            layout = paint_cells(painter, self._area(), self._shown, palette=self.theme)
            i, j = self._cursor
            if 0 <= i < layout.n_rows and 0 <= j < layout.n_columns:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(QColor(self.theme.accent), 1.0))
                row, cell = layout.cell(i, 0), layout.cell(i, j)
                painter.drawRect(QRectF(layout.cells.left(), row.top(), layout.cells.width(), row.height()))
                painter.setPen(QPen(QColor(self.theme.text), 2.0))
                painter.drawRect(cell)

    def _area(self) -> QRectF:
        return QRectF(self.rect()).adjusted(0, 0, -1, -1)
