"""The table of all heads: numbers with a bar behind each, sorted and filtered by its state."""

import numpy as np
from numpy.typing import NDArray
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
from PySide6.QtGui import QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from attnscope.figures.style import type_px
from attnscope.viewmodels.heads.columns import cell_tip, estimate_text
from attnscope.viewmodels.heads.state import HEAD_COLUMN, ROLE_COLUMN, HeadsState
from attnscope.widgets.form_parts import dress_table
from attnscope.widgets.labels import plain_tooltip, when
from attnscope.widgets.theme import Dressing, theme_of

Index = QModelIndex | QPersistentModelIndex
SHARE_ROLE = Qt.ItemDataRole.UserRole
"""Where a number lies between the least and the most of its column, 0…1; None without one."""
_NAME_TIPS = (
    "Stack, layer and head, both counted from 0",
    "A role is given only if a measure exceeds a published threshold; in brackets: its strongest"
    " tendency, below the bar of a role",
)
_IN_BRACKETS = "In brackets: its strongest tendency, below the bar of a role."
_OPEN_UNITS = frozenset({"nats", "length", "tokens", "random number"})
"""Units of numbers that have no largest; all others are shares of 1."""
_N_NAMES = 2
_COLUMN_PX, _WIDE_PX, _NAME_PX, _ROLE_PX, _ROW_PX = 76, 136, 104, 126, 26


class HeadTableModel(QAbstractTableModel):
    """The rows of a HeadsState for Qt: head, role, then one column for each measure."""

    def __init__(self, state: HeadsState) -> None:
        super().__init__()
        self._state = state
        self.rows: tuple[int, ...] = ()
        self.names: tuple[str, ...] = ()
        self._shares = np.zeros((0, 0))
        self.reload()

    def reload(self) -> None:
        """Read rows and columns from the state again."""
        self.beginResetModel()
        state = self._state
        self.rows = state.order.rows
        measures = state.order.measures
        self.names = tuple(measure.name for measure in measures)
        if state.table.heads:
            columns = [state.table.names.index(name) for name in self.names]
            most = np.array([-np.inf if measure.unit in _OPEN_UNITS else 1.0 for measure in measures])
            self._shares = bar_shares(state.table.values[:, columns].astype(np.float64), most)
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008  Qt's own signature
        return 0 if parent.isValid() else _N_NAMES + len(self.names)

    def column_name(self, column: int) -> str:
        """The name by which a column is sorted."""
        return (HEAD_COLUMN, ROLE_COLUMN, *self.names)[column]

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        measure = self._state.order.measures[section - _N_NAMES] if section >= _N_NAMES else None
        if role == Qt.ItemDataRole.DisplayRole:
            return measure.title if measure else ("head", "what it does")[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            if measure is None:
                return plain_tooltip(_NAME_TIPS[section])
            return plain_tooltip(f"{measure.title}, {measure.unit}\n{measure.definition}")
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if measure is None else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row, column = self.rows[index.row()], index.column()
        if column < _N_NAMES:
            return self._name_data(row, column, role)
        match role:
            case (
                Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.ToolTipRole | Qt.ItemDataRole.AccessibleTextRole
            ):
                return self._number_text(row, self.names[column - _N_NAMES], role)
            case Qt.ItemDataRole.TextAlignmentRole:
                return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            case _ if role == SHARE_ROLE:
                share = float(self._shares[row, column - _N_NAMES])
                return share if share == share else None
        return None

    def _name_data(self, row: int, column: int, role: int) -> object:
        card = self._state.cards[row]
        if role == Qt.ItemDataRole.DisplayRole:
            is_one_of_many = len(self._state.order.stacks) > 1
            name = f"{card.head.stack} {card.head.label}" if is_one_of_many else card.head.label
            return self._state.role(row) if column else name
        if role == Qt.ItemDataRole.ToolTipRole:
            is_tendency = column == 1 and self._state.role(row).startswith("(")
            return plain_tooltip(f"{card.sentence}\n\n{_IN_BRACKETS}" if is_tendency else card.sentence)
        return None

    def _number_text(self, row: int, name: str, role: int) -> object:
        table = self._state.table
        found = table.estimate(table.heads[row], name)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(cell_tip(found))
        return estimate_text(name, found, has_interval=self._state.order.has_intervals)


class BarDelegate(QStyledItemDelegate):
    """Paints a bar behind each number, as long as it is large: of 1 for shares, else among its column."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        share = index.data(SHARE_ROLE)
        if isinstance(share, float):
            rect = QRectF(option.rect).adjusted(3, 4, -3, -4)
            colour = QColor(theme_of(option.widget).accent)
            colour.setAlphaF(0.22)
            width = rect.width() * share
            painter.fillRect(QRectF(rect.right() - width, rect.y(), width, rect.height()), colour)
        super().paint(painter, option, index)


class HeadTableView(Dressing, QTableView):
    """Shows the heads of a HeadsState; a click on a column's name sorts, one on a row selects its head."""

    frames_wanted = Signal(str)
    """The column that is to frame the heads of the grid."""

    def __init__(self, state: HeadsState) -> None:
        super().__init__()
        self._state = state
        dress_table(self, "Heads and their measures")
        self._rows = HeadTableModel(state)
        self._rows.setParent(self)
        self._delegate = BarDelegate(self)
        self.setModel(self._rows)
        self.setItemDelegate(self._delegate)
        header = self.horizontalHeader()
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.sectionClicked.connect(self._on_section_clicked)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._on_header_menu)
        self.clicked.connect(self._on_row)
        self.activated.connect(self._on_row)
        changed = state.changed
        when(self, self._show_rows, changed.table, changed.order)
        when(self, self._show_selection, changed.table, changed.order, changed.selection)
        self.dress()
        self._fit()

    def dress(self) -> None:
        self.verticalHeader().setDefaultSectionSize(round(type_px(_ROW_PX)))
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrow keys select the head they come to."""
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End):
            self._on_row(self.currentIndex())

    def _fit(self) -> None:
        number = _WIDE_PX if self._state.order.has_intervals else _COLUMN_PX
        for column in range(self._rows.columnCount()):
            width = (_NAME_PX, _ROLE_PX)[column] if column < _N_NAMES else number
            title = str(self._rows.headerData(column, Qt.Orientation.Horizontal) or "")
            wanted = self.fontMetrics().horizontalAdvance(title) + round(type_px(20))
            if column == 0:  # a name that is cut off is no name
                wanted = max(wanted, self.sizeHintForColumn(column))
            self.setColumnWidth(column, max(round(type_px(width)), wanted))

    def _show_rows(self) -> None:
        self._rows.reload()
        self._fit()
        names = [self._rows.column_name(k) for k in range(self._rows.columnCount())]
        order = self._state.order
        if order.sorted_by in names:
            way = Qt.SortOrder.DescendingOrder if order.is_descending else Qt.SortOrder.AscendingOrder
            self.horizontalHeader().setSortIndicator(names.index(order.sorted_by), way)

    def _show_selection(self) -> None:
        row = self._state.selected_row
        if row not in self._rows.rows:
            self.clearSelection()
            return
        index = self._rows.index(self._rows.rows.index(row), 0)
        how = QItemSelectionModel.SelectionFlag
        self.selectionModel().setCurrentIndex(index, how.ClearAndSelect | how.Rows)
        self.scrollTo(index)

    def _on_section_clicked(self, section: int) -> None:
        self._state.order.sort_by(self._rows.column_name(section))

    def _on_header_menu(self, place: QPoint) -> None:
        section = self.horizontalHeader().logicalIndexAt(place)
        if section < _N_NAMES:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        name = self._rows.column_name(section)
        menu.addAction("Frame the heads in Explore by this").triggered.connect(
            lambda: self.frames_wanted.emit(name)
        )
        menu.popup(self.horizontalHeader().mapToGlobal(place))

    def _on_row(self, index: Index) -> None:
        if index.isValid():
            self._state.select(self._rows.rows[index.row()])


def bar_shares(values: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each number between 0, or the least of its column, and the most: 0…1, NaN stays.

    `most` [n_columns] is what a whole bar stands for at least: 1 for shares, so that 0.02 is a short bar.
    """
    if values.size == 0:
        return np.zeros(values.shape)
    known = np.maximum(most, np.where(np.isnan(values), -np.inf, values).max(axis=0))
    least = np.minimum(0.0, np.where(np.isnan(values), np.inf, values).min(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: NDArray[np.float64] = (values - least) / (known - least)
    return np.where(np.isnan(values), np.nan, np.nan_to_num(shares, nan=0.0, posinf=0.0))
