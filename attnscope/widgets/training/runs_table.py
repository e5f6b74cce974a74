"""The table of runs: a tick and a colour, how each stands, and the values in which they differ."""

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QIcon, QKeyEvent, QPainter, QPixmap
from PySide6.QtWidgets import QTableView, QWidget

from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.style import type_px
from attnscope.viewmodels.training.run_rows import COLUMN_TIPS, FIXED_COLUMNS, RunRow
from attnscope.viewmodels.training.runs_list import RunsState
from attnscope.widgets.form_parts import dress_table
from attnscope.widgets.labels import plain_tooltip

Index = QModelIndex | QPersistentModelIndex
_LEFT = ("run", "state")
_ROW_PX, _NAME_PX, _LEAST_PX, _MOST_PX = 26, 190, 64, 170


class RunsModel(QAbstractTableModel):
    """The rows of a RunsState for Qt."""

    def __init__(self, state: RunsState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.palette = palette
        self.rows: tuple[RunRow, ...] = ()
        self.columns: tuple[str, ...] = FIXED_COLUMNS

    def reload(self) -> bool:
        """Read the state again; True when there are other rows or columns."""
        rows, columns = self._state.rows, self._state.columns
        is_same = columns == self.columns and [r.folder for r in rows] == [r.folder for r in self.rows]
        if is_same:
            self.rows = rows
            if rows:
                last = self.index(len(rows) - 1, len(columns) - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            return False
        self.beginResetModel()
        self.rows, self.columns = rows, columns
        self.endResetModel()
        return True

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.columns)

    def flags(self, index: Index) -> Qt.ItemFlag:
        found = super().flags(index)
        return found | Qt.ItemFlag.ItemIsUserCheckable if index.column() == 0 else found

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation is not Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        name = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return name.rpartition(".")[2]
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(COLUMN_TIPS.get(name, f"{name} of the recipe; the shown runs differ in it"))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _side(name)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row, column = self.rows[index.row()], self.columns[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return row.cell(column)
            case Qt.ItemDataRole.CheckStateRole if column == "run":
                return Qt.CheckState.Checked if row.is_shown else Qt.CheckState.Unchecked
            case Qt.ItemDataRole.DecorationRole if column == "run":
                return colour_chip(
                    series_colour(self.palette, row.colour) if row.is_shown else self.palette.grid
                )
            case Qt.ItemDataRole.TextAlignmentRole:
                return _side(column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tooltip(_tip(row, column))
            case Qt.ItemDataRole.FontRole if row.folder == self._state.chosen and column == "run":
                font = QFont()
                font.setBold(True)
                return font
            case Qt.ItemDataRole.ForegroundRole if column == "state" and row.summary.end in _BAD:
                return QColor(self.palette.error)
            case _:
                return None

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole or index.column() != 0:
            return False
        self._state.show(self.rows[index.row()].folder, Qt.CheckState(value) == Qt.CheckState.Checked)
        return True


_BAD = ("diverged", "broken off")


class RunsTable(QTableView):
    """Shows a RunsState; `run_chosen` carries the folder of a row clicked, `run_opened` of one opened."""

    run_chosen = Signal(str)
    run_opened = Signal(str)
    menu_wanted = Signal(str, QPoint)

    def __init__(self, state: RunsState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._rows = RunsModel(state, palette)
        self._rows.setParent(self)
        dress_table(self, "Runs")
        self.setModel(self._rows)
        self.setTabKeyNavigation(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header = self.horizontalHeader()
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.sectionClicked.connect(self._on_section)
        self.clicked.connect(self._on_clicked)
        self.doubleClicked.connect(self._on_opened)
        self.customContextMenuRequested.connect(self._on_menu)
        self.set_theme(palette)
        self.show_runs()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours and at another size."""
        self._rows.palette = palette
        self.verticalHeader().setDefaultSectionSize(round(type_px(_ROW_PX)))
        self._fit()
        self.viewport().update()

    def show_runs(self) -> None:
        """Show the list as it is now."""
        at = self.current_folder()
        if self._rows.reload():
            self._fit()
        columns = self._rows.columns
        if self._state.sorted_by in columns:
            down = self._state.is_descending
            order = Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder
            self.horizontalHeader().setSortIndicator(columns.index(self._state.sorted_by), order)
        folders = [row.folder for row in self._rows.rows]
        if at in folders:
            index = self._rows.index(folders.index(at), 0)
            how = QItemSelectionModel.SelectionFlag
            self.selectionModel().setCurrentIndex(index, how.ClearAndSelect | how.Rows)

    def current_folder(self) -> str:
        """The run of the row that the keyboard is at, empty without one."""
        return self._folder(self.currentIndex())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space ticks, Enter chooses, Ctrl+Enter opens, Delete takes off the list."""
        folder = self.current_folder()
        match event.key():
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if folder:
                is_opening = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
                (self.run_opened if is_opening else self.run_chosen).emit(folder)
            case Qt.Key.Key_Space if folder:
                row = next(row for row in self._rows.rows if row.folder == folder)
                self._state.show(folder, not row.is_shown)
            case Qt.Key.Key_Delete if folder:
                self._state.remove(folder)
            case _:
                super().keyPressEvent(event)

    def _fit(self) -> None:
        metrics = self.fontMetrics()
        for k, column in enumerate(self._rows.columns):
            title = metrics.horizontalAdvance(column.rpartition(".")[2]) + round(type_px(26))
            cells = max((metrics.horizontalAdvance(row.cell(column)) for row in self._rows.rows), default=0)
            wide = max(title, cells + round(type_px(62 if k == 0 else 16)))
            least, most = (_NAME_PX, 280) if k == 0 else (_LEAST_PX, _MOST_PX)
            self.setColumnWidth(k, min(max(wide, round(type_px(least))), round(type_px(most))))

    def _folder(self, index: Index) -> str:
        return self._rows.rows[index.row()].folder if index.isValid() else ""

    def _on_section(self, section: int) -> None:
        self._state.sort_by(self._rows.columns[section])

    def _on_clicked(self, index: Index) -> None:
        if index.column() == 0 and self._is_on_box():
            return
        self.run_chosen.emit(self._folder(index))

    def _is_on_box(self) -> bool:
        place = self.viewport().mapFromGlobal(self.cursor().pos())
        return place.x() - self.columnViewportPosition(0) < type_px(24)

    def _on_opened(self, index: Index) -> None:
        self.run_opened.emit(self._folder(index))

    def _on_menu(self, place: QPoint) -> None:
        folder = self._folder(self.indexAt(place))
        if folder:
            self.menu_wanted.emit(folder, self.viewport().mapToGlobal(place))


def colour_chip(colour: str) -> QIcon:
    """A small square of a colour."""
    pixmap = QPixmap(24, 24)
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        painter.drawRoundedRect(QRectF(4, 4, 16, 16), 4, 4)
    return QIcon(pixmap)


def _side(column: str) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignLeft if column in _LEFT else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter


def _tip(row: RunRow, column: str) -> str:
    run = row.summary
    if column == "best loss":
        return f"at step {run.best_step:,}"
    if column == "state" and run.writer is not None:
        return f"Written by {run.writer.words}"
    if column in FIXED_COLUMNS:
        return f"{run.folder}\n{run.note}".strip()
    return f"{column} = {row.cell(column)}"
