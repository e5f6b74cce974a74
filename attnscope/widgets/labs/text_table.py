"""A table of texts that are made when they are shown: as quick with 250,000 rows as with ten."""

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from attnscope.figures.style import type_px
from attnscope.widgets.labels import plain_tooltip

MAX_COPIED = 5_000
_NO_INDEX = QModelIndex()
_Index = QModelIndex | QPersistentModelIndex


class TextTableModel(QAbstractTableModel):
    """`columns` are (title, tooltip); `cells` makes the texts of one row."""

    def __init__(
        self,
        columns: Sequence[tuple[str, str]],
        cells: Callable[[int], Sequence[str]],
        *,
        left: frozenset[int] = frozenset({0}),
    ) -> None:
        super().__init__()
        self._columns, self._cells, self._left = tuple(columns), cells, left
        self._n_rows = 0
        self._last: tuple[int, Sequence[str]] = (-1, ())

    def show_rows(self, n_rows: int) -> None:
        self.beginResetModel()
        self._n_rows, self._last = n_rows, (-1, ())
        self.endResetModel()

    def rowCount(self, parent: _Index = _NO_INDEX) -> int:
        return 0 if parent.isValid() else self._n_rows

    def columnCount(self, parent: _Index = _NO_INDEX) -> int:
        return 0 if parent.isValid() else len(self._columns)

    def texts(self, row: int) -> Sequence[str]:
        if self._last[0] != row:
            self._last = (row, self._cells(row))
        return self._last[1]

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or not 0 <= index.row() < self._n_rows:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.texts(index.row())[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(self.texts(index.row())[index.column()])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if index.column() in self._left else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._columns[section][0]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(self._columns[section][1])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if section in self._left else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None


class TextTable(QTableView):
    """Shows a model; `row_chosen` carries the row that keys or mouse are on. Ctrl+C copies rows with tabs."""

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
        """Rows as high as the present size of type."""
        self.verticalHeader().setDefaultSectionSize(round(type_px(24)))

    def set_widths(self, widths_px: Sequence[int], stretched: int | None = None) -> None:
        """Columns in pixels of type; `stretched` takes the rest."""
        for column, width in enumerate(widths_px):
            self.setColumnWidth(column, round(type_px(width)))
        if stretched is not None:
            self.horizontalHeader().setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)

    def choose_row(self, row: int) -> None:
        """Put the mark on a row without telling anyone."""
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
        """Ctrl+C is the table's own while it has the focus."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.matches(QKeySequence.StandardKey.Copy):
                event.accept()
                return True
        return super().event(event)

    def copy_rows(self) -> None:
        """The chosen rows on the clipboard, columns divided by tabs."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})[:MAX_COPIED]
        QGuiApplication.clipboard().setText("\n".join("\t".join(self._texts.texts(row)) for row in rows))

    def _on_current(self, now: QModelIndex, _before: QModelIndex) -> None:
        if now.isValid():
            self.row_chosen.emit(now.row())
