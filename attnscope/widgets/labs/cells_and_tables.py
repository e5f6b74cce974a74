"""Parts of labs and answers besides charts: small maps of cells, and long tables of texts."""

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QSizePolicy, QTableView

from attnscope.counting import number_text, plural
from attnscope.figures.cells_painting import layout_cells, paint_cells
from attnscope.figures.style import type_px
from attnscope.records.charts import CellMap
from attnscope.widgets.form_parts import Column, Index, TableModel
from attnscope.widgets.labels import plain_tooltip
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


MAX_COPIED = 5_000


class TextTableModel(TableModel):
    """`columns` are (title, tooltip); `cells` gives the texts of one row."""

    def __init__(
        self,
        columns: Sequence[tuple[str, str]],
        cells: Callable[[int], Sequence[str]],
        *,
        left: frozenset[int] = frozenset({0}),
    ) -> None:
        super().__init__()
        self.heads = tuple(Column(*words, k in left) for k, words in enumerate(columns))
        self._cells = cells
        self._last: tuple[int, Sequence[str]] = (-1, ())

    def show_rows(self, n_rows: int) -> None:
        self.beginResetModel()
        self.rows, self._last = range(n_rows), (-1, ())
        self.endResetModel()

    def texts(self, row: int) -> Sequence[str]:
        if self._last[0] != row:
            self._last = (row, self._cells(row))
        return self._last[1]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() not in self.rows:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.texts(index.row())[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(self.texts(index.row())[index.column()])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.heads[index.column()].side
        return None


class TextTable(QTableView):
    """Shows a model; `row_chosen` carries the row of the keyboard or mouse. Ctrl+C copies rows with tabs."""

    row_chosen = Signal(int)

    def __init__(self, model: TextTableModel, name: str) -> None:
        super().__init__()
        self._texts = model
        self.setModel(model)
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setMinimumSectionSize(24)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.selectionModel().currentRowChanged.connect(self._on_current)
        self.fit_rows()

    def fit_rows(self) -> None:
        """Set the rows to the height of the current type."""
        self.verticalHeader().setDefaultSectionSize(round(type_px(24)))

    def set_widths(self, widths_px: Sequence[int], stretched: int | None = None) -> None:
        """Columns in pixels of type; `stretched` takes the rest."""
        for column, width in enumerate(widths_px):
            self.setColumnWidth(column, round(type_px(width)))
        if stretched is not None:
            self.horizontalHeader().setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)

    def choose_row(self, row: int) -> None:
        """Mark a row without emitting a signal."""
        self.selectionModel().blockSignals(True)
        self.selectRow(row) if row >= 0 else self.clearSelection()
        self.selectionModel().blockSignals(False)
        if row >= 0:
            self.scrollTo(self._texts.index(row, 0))
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_rows()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Ctrl+C belongs to the table while it has the focus."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.matches(QKeySequence.StandardKey.Copy):
                event.accept()
                return True
        return super().event(event)

    def copy_rows(self) -> None:
        """Copy the chosen rows to the clipboard, columns separated by tabs."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})[:MAX_COPIED]
        QGuiApplication.clipboard().setText("\n".join("\t".join(self._texts.texts(row)) for row in rows))

    def _on_current(self, now: QModelIndex, _before: QModelIndex) -> None:
        if now.isValid():
            self.row_chosen.emit(now.row())
