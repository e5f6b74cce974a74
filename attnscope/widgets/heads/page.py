"""The Heads page: every head over texts in one table, sorted, filtered, and the role of the chosen one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QItemSelectionModel, QPoint, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QFrame,
    QLineEdit,
    QMenu,
    QProgressBar,
    QScrollArea,
    QSplitter,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from attnscope.counting import plural
from attnscope.figures.style import isolated, plain_piece, type_px
from attnscope.files import replace_file
from attnscope.outside import json_text
from attnscope.records.findings import OWN_TEXTS, Findings
from attnscope.records.measures import HeadCard, TellingText
from attnscope.records.sites import STACKS
from attnscope.viewmodels.heads.state import HEAD_COLUMN, ROLE_COLUMN, SPECIAL_NAMES, HeadsState
from attnscope.viewmodels.session.head_measures import cell_tip, estimate_text
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.widgets.dialogs import ask_file
from attnscope.widgets.form_parts import (
    ChoiceButton,
    Column,
    FlowRow,
    Index,
    TableModel,
    column,
    dress_table,
    in_one,
    split,
    stacked,
    together,
)
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    ground,
    named,
    plain_tooltip,
    push_button,
    rule,
    told_failures,
    tool_button,
    watch_seen,
    when,
    when_seen,
)
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.theme import Dressing, theme_of

SHARE_ROLE = Qt.ItemDataRole.UserRole
"""Where a number lies between the least and the most of its column, 0…1; None without one."""
_NAMES = (
    ("head", "Stack, layer and head, both counted from 0"),
    (
        "what it does",
        "A role is given only if a measure exceeds a published threshold; in brackets: its strongest"
        " tendency, below the bar of a role",
    ),
)
_IN_BRACKETS = "In brackets: its strongest tendency, below the bar of a role."
_OPEN_UNITS = frozenset({"nats", "length", "tokens", "random number"})
"""Units of numbers that have no largest; all others are shares of 1."""
_N_NAMES = len(_NAMES)
_COLUMN_PX, _WIDE_PX, _NAME_PX, _ROLE_PX, _ROW_PX = 76, 136, 104, 126, 26


class HeadTableModel(TableModel):
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
        named = (Column(*words, is_left=True) for words in _NAMES)
        of_measures = (Column(m.title, f"{m.title}, {m.unit}\n{m.definition}") for m in measures)
        self.heads = (*named, *of_measures)
        if state.table.heads:
            columns = [state.table.names.index(name) for name in self.names]
            most = np.array([-np.inf if measure.unit in _OPEN_UNITS else 1.0 for measure in measures])
            self._shares = bar_shares(state.table.values[:, columns].astype(np.float64), most)
        self.endResetModel()

    def column_name(self, column: int) -> str:
        return (HEAD_COLUMN, ROLE_COLUMN, *self.names)[column]

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
                return self.heads[column].side
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
    """Paints a bar behind each number, proportional to it: of 1 for shares, else within its column."""

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
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End):
            self._on_row(self.currentIndex())

    def _fit(self) -> None:
        number = _WIDE_PX if self._state.order.has_intervals else _COLUMN_PX
        for index in range(self._rows.columnCount()):
            width = (_NAME_PX, _ROLE_PX)[index] if index < _N_NAMES else number
            title = str(self._rows.headerData(index, Qt.Orientation.Horizontal) or "")
            wanted = self.fontMetrics().horizontalAdvance(title) + round(type_px(20))
            if index == 0:  # a name that is cut off is no name
                wanted = max(wanted, self.sizeHintForColumn(index))
            self.setColumnWidth(index, max(round(type_px(width)), wanted))

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
    """Each number between 0, or the smallest of its column, and the largest: 0…1, NaN stays.

    `most` [n_columns] is what a whole bar stands for at least: 1 for shares, so that 0.02 is a short bar.
    """
    if values.size == 0:
        return np.zeros(values.shape)
    known = np.maximum(most, np.where(np.isnan(values), -np.inf, values).max(axis=0))
    least = np.minimum(0.0, np.where(np.isnan(values), np.inf, values).min(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: NDArray[np.float64] = (values - least) / (known - least)
    return np.where(np.isnan(values), np.nan, np.nan_to_num(shares, nan=0.0, posinf=0.0))


# What one head does: a sentence, its roles with their numbers, and the texts that show it best.

_N_EDGES = 5


class HeadCardPanel(QScrollArea):
    """The card of the selected head; `look_wanted` carries the index of a text to show in Explore."""

    look_wanted = Signal(int)

    def __init__(self, state: HeadsState) -> None:
        super().__init__()
        self._state = state
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMinimumWidth(280)
        when_seen(self, self._show, state.changed.card, state.changed.table)
        self._show()

    def _show(self) -> None:
        inner = ground(QWidget(), "panel")
        self._layout = column(on=inner, margins=12, spacing=8)
        self._fill()
        before = self.takeWidget()
        self.setWidget(inner)
        if before is not None:
            before.deleteLater()  # events for it may still be on their way

    def _fill(self) -> None:
        card = self._state.card
        if card is None:
            self._add("Choose a head in the table to see what it does.", "hint")
            self._layout.addStretch(1)
            return
        self._add(self._state.full_name(card.head), "large")
        self._add(_sentence(card.sentence))
        self._add_roles(card)
        if card.texts:
            self._layout.addWidget(rule())
            self._add("Most typical texts", "section")
        for index, text in enumerate(card.texts):
            self._add_text(index, text)
        self._layout.addWidget(rule())
        self._add(card.statement + ".", "muted")
        self._layout.addStretch(1)
        self.setAccessibleName(f"{card.head.stack} {card.head.label} {card.sentence}")

    def _add_roles(self, card: HeadCard) -> None:
        if len(card.roles) < 2:
            return
        self._add("Also", "section")
        for role in card.roles[1:]:
            self._add(_sentence(role.sentence), "small")

    def _add_text(self, index: int, text: TellingText) -> None:
        self._add(f"“{_short(text.source)}”")
        if text.target is not None:
            self._add(f"→ “{_short(text.target)}”", "hint")
        edges = "\n".join(
            f"{isolated(plain_piece(text.queries[i]))} → {isolated(plain_piece(text.keys[j]))}   {weight:.2f}"
            for i, j, weight in text.edges[:_N_EDGES]
        )
        self._add(edges, "muted")
        button = tool_button("See in Explore", f"See text {index + 1} in Explore", clicked=self._on_look)
        button.setProperty("text_number", index)
        self._layout.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)

    def _add(self, text: str, role: str = "") -> None:
        label = PlainLabel(text, role, wraps=True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._layout.addWidget(label)

    def _on_look(self) -> None:
        self.look_wanted.emit(int(self.sender().property("text_number")))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _short(text: str, n: int = 160) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"


AskPath = Callable[[QWidget, str, str], str]
_STACKS: dict[str, str] = {"all": "all stacks"} | {str(stack): str(stack) for stack in STACKS}


def ask_open_path(parent: QWidget, title: str, kinds: str) -> str:
    """Ask for a file to read; empty if none was chosen."""
    return QFileDialog.getOpenFileName(parent, title, str(Path.home()), kinds)[0]


def ask_save_path(parent: QWidget, title: str, kinds: str) -> str:
    """Ask for a file to write; empty if none was chosen."""
    name = "heads.json" if kinds.startswith("JSON") else "heads.csv"
    return ask_file(parent, title, str(Path.home() / name), kinds)


class HeadsPage(QWidget):
    """Shows a HeadsState; `failed` carries a message, `explore_wanted` turns to the Explore page."""

    failed = Signal(str, str)
    explore_wanted = Signal()

    def __init__(
        self,
        state: HeadsState,
        *,
        ask_open: AskPath = ask_open_path,
        ask_save: AskPath = ask_save_path,
    ) -> None:
        super().__init__()
        self._state, self._ask_open, self._ask_save = state, ask_open, ask_save
        ground(self, "page")
        self.run_row = in_one(self._build_run_row())
        layout = column(self.run_row, self._build_filter_row(), on=self, margins=12)
        self._stage = StateCard()
        self.table = HeadTableView(state)
        self.card = HeadCardPanel(state)
        self.card.look_wanted.connect(self._on_look_wanted)
        across = Qt.Orientation.Horizontal
        self._splitter = split(across, self.table, self.card, sizes=(820, 320), stretches=(1,))
        self._pages = stacked(self._stage, self._splitter)
        layout.addWidget(self._pages, 1)
        self._statement = ElidedLabel(role="muted", n_lines=2)
        layout.addWidget(self._statement)
        changed = state.changed
        when_seen(self, self._show_all, changed.choice, changed.progress, changed.table, changed.order)
        self._show_all()
        watch_seen(self, state.first_look.look)

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose positions are saved."""
        return (self._splitter,)

    # --- building ---------------------------------------------------------------------------------

    def _build_run_row(self) -> FlowRow:
        self._texts = ChoiceButton(
            "Texts",
            "Texts to measure over",
            {"own": "the model's own texts", "file": "a file: texts, pairs with a tab, or CoNLL-U trees…"},
        )
        self._texts.chosen.connect(self._on_texts_chosen)
        self._links = ChoiceButton(
            "Gold links",
            "Gold word links of the pairs, to find heads that align words",
            {
                "none": "none",
                "0": "a file, one line for each pair (0-0 1-2), words counted from 0…",
                "1": "a file, one line for each pair (1-1 2-3), words counted from 1…",
            },
        )
        self._links.chosen.connect(self._on_links_chosen)
        self._special = ChoiceButton("Special tokens", "Special tokens in the measures", SPECIAL_NAMES)
        self._special.chosen.connect(self._state.texts.choose_specials)
        self.run_button = push_button("Measure", is_default=True, clicked=self._state.run)
        self.run_button.setAccessibleName("Measure every head over the texts")
        self.stop_button = tool_button("Cancel", "Cancel the measuring pass", clicked=self._state.stop)
        self._progress = named(QProgressBar(textVisible=False), "Progress of the measuring pass")
        self._progress.setFixedWidth(160)
        self._progress_text = PlainLabel(role="muted")
        self._export = tool_button("Export table…", "Export the table as CSV or JSON")
        self._export.clicked.connect(self._on_export)
        line = FlowRow(
            self._texts,
            self._links,
            self._special,
            self.run_button,
            self.stop_button,
            self._progress,
            self._progress_text,
        )
        line.add_stretch()
        line.addWidget(self._export)
        return line

    def _build_filter_row(self) -> FlowRow:
        self._stack = ChoiceButton("Show", "Stacks shown", _STACKS)
        self._stack.chosen.connect(self._state.order.show_stack)
        self._filter = named(QLineEdit(placeholderText="Filter: L3, induction"), "Filter the heads")
        self._filter.setClearButtonEnabled(True)
        self._filter.setToolTip("Layers, heads and roles, separated by spaces, such as L3 or induction")
        self._filter.setMinimumWidth(240)
        self._filter.textEdited.connect(self._state.order.filter)
        self._all = QCheckBox("all measures")
        self._all.clicked.connect(self._state.order.show_all_measures)
        self._intervals = QCheckBox("intervals")
        self._intervals.clicked.connect(self._state.order.show_intervals)
        self._count = PlainLabel(role="muted")
        line = FlowRow(self._stack, self._filter, self._count)
        line.add_stretch()
        line.addWidget(together(self._intervals, self._all, spacing=8))
        return line

    # --- showing ----------------------------------------------------------------------------------

    def _show_all(self) -> None:
        state = self._state
        is_running, has_table = state.phase == "running", bool(state.table.heads)
        self._texts.setText(f"Texts: {state.texts.corpus_name} ▾")
        self._links.setVisible(state.texts.has_cross)
        self._links.setEnabled(state.texts.can_link)
        self._links.show_choice(str(state.texts.links_from) if state.texts.links else "none")
        self._links.setText(f"Gold links: {state.texts.links_name} ▾")
        self._special.show_choice(state.texts.specials)
        self.run_button.setEnabled(state.can_run)
        self.stop_button.setVisible(is_running)
        self._progress.setVisible(is_running and has_table)
        self._progress.setRange(0, 0 if state.job.fraction is None else 100)
        self._progress.setValue(round(100 * (state.job.fraction or 0.0)))
        self._progress_text.set_role("error" if state.error else "muted")
        self._progress_text.setText((state.progress or state.error) if has_table else "")
        self._export.setEnabled(has_table)
        for widget in (self._stack, self._filter, self._all, self._intervals):
            widget.setEnabled(has_table)
        self._stack.show_choice(state.order.stack or "all")
        n_shown, n_all = len(state.order.rows), len(state.cards)
        heads = plural(n_all, "head")
        self._count.setText(f"{n_shown} of {heads}" if n_shown != n_all else heads)
        self._count.setVisible(has_table)
        self._statement.set_full_text(state.statement)
        if not has_table:
            self._stage.show_stage(self._stage_now())
        self._pages.setCurrentWidget(self._splitter if has_table else self._stage)

    def _stage_now(self) -> Placeholder:
        state = self._state
        match state.phase:
            case "running":
                return Placeholder(
                    kind="waiting",
                    title=state.progress or "Measuring…",
                    hint="Other pages stay usable.",
                    is_working=True,
                    fraction=state.job.fraction,
                )
            case "failed":
                return Placeholder(kind="failed", title="These texts cannot be measured", hint=state.error)
            case _:
                return Placeholder(
                    kind="empty",
                    title="What does each head do?",
                    hint="Choose texts and press Measure: every head in numbers with intervals, what it does"
                    f" in one sentence, and the texts that show it best.{state.first_look.words}",
                )

    # --- user actions ----------------------------------------------------------------------------

    @Slot(str)
    def _on_texts_chosen(self, key: str) -> None:
        if key == "own":
            self._state.texts.choose_texts(OWN_TEXTS)
            return
        path = self._ask_open(
            self, "Texts to measure over", "Texts and trees (*.txt *.tsv *.conllu *.gz);;All files (*)"
        )
        if path:
            self._state.texts.choose_texts(path)

    @Slot(str)
    def _on_links_chosen(self, key: str) -> None:
        if key == "none":
            self._state.texts.choose_links("")
            return
        path = self._ask_open(self, "Gold links of the pairs", "All files (*)")
        if path:
            self._state.texts.choose_links(path, int(key))
        self._show_all()

    @Slot(int)
    def _on_look_wanted(self, index: int) -> None:
        self._state.look_at(index)
        self.explore_wanted.emit()

    @Slot()
    def _on_export(self) -> None:
        state = self._state
        if not state.table.heads:
            return
        path = self._ask_save(self, "Export the table", "CSV (*.csv);;JSON (*.json)")
        if not path:
            return
        found = Findings(
            table=state.table,
            cards=state.cards,
            syntax=state.measured.syntax,
            alignment=state.measured.alignment,
        )
        is_json = path.lower().endswith(".json")
        content = json_text(found.to_dict(state.order.rows)) if is_json else found.to_csv(state.order.rows)
        with told_failures(self.failed, "table of heads"):
            replace_file(Path(path), content.encode())
