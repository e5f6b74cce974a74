"""The table of the shelf: a model in each row, and what to look for in it."""

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.records.shelf import ShelfRow, size_words
from attnscope.viewmodels.shelf import ShelfState, place_words
from attnscope.widgets.form_parts import dress_table
from attnscope.widgets.labels import plain_tooltip

Index = QModelIndex | QPersistentModelIndex
COLUMNS = ("Model", "What to look for", "Size", "Licence", "State")
_WORDS, _SIZE = 1, 2
_WIDTHS_PX = {0: 184, 2: 112, 3: 96, 4: 138}
_ROW_PX = 28


class ShelfModel(QAbstractTableModel):
    """The rows of a ShelfState for Qt."""

    def __init__(self, state: ShelfState, parent: QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.rows: tuple[ShelfRow, ...] = ()

    def reload(self) -> None:
        """Read the state again."""
        if self._state.rows != self.rows:
            self.beginResetModel()
            self.rows = self._state.rows
            self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section]
        return _side(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row, column = self.rows[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return _cell(row, column)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _side(column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tooltip(row.entry.name if column == 0 else _cell(row, column))
            case Qt.ItemDataRole.FontRole if column == 0 and row.is_here:
                font = QFont()
                font.setBold(True)
                return font
            case _:
                return None


class ShelfTable(QTableView):
    """Shows a ShelfState; `opened` when a row is double-clicked."""

    opened = Signal()

    def __init__(self, state: ShelfState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._rows = ShelfModel(state, self)
        dress_table(self, "Models")
        self.setModel(self._rows)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.horizontalHeader()
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(round(type_px(60)))
        for column in range(len(COLUMNS)):
            is_words = column == _WORDS
            mode = QHeaderView.ResizeMode.Stretch if is_words else QHeaderView.ResizeMode.Interactive
            header.setSectionResizeMode(column, mode)
        for column, width_px in _WIDTHS_PX.items():
            self.setColumnWidth(column, round(type_px(width_px)))
        self.verticalHeader().setDefaultSectionSize(round(type_px(_ROW_PX)))
        self.selectionModel().currentRowChanged.connect(self._on_current)
        self.doubleClicked.connect(lambda _index: self.opened.emit())

    def show_rows(self) -> None:
        """Show the list as it is now."""
        self._rows.reload()
        self.show_chosen()

    def show_chosen(self) -> None:
        """Mark the chosen row."""
        names = [row.entry.name for row in self._rows.rows]
        if self._state.chosen not in names:
            self.clearSelection()
            return
        at = names.index(self._state.chosen)
        if self.currentIndex().row() != at:
            self.setCurrentIndex(self._rows.index(at, 0))

    def _on_current(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if current.isValid() and current.row() < len(self._rows.rows):
            self._state.choose(self._rows.rows[current.row()].entry.name)


def _cell(row: ShelfRow, column: int) -> str:
    entry = row.entry
    cells = (entry.title, entry.look_for, size_words(row), entry.licence, place_words(row))
    return plain_text(cells[column])


def _side(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column == _SIZE else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
