"""The list of runs with its actions, and above it the progress of several runs, and the best of them."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QItemSelectionModel, QPoint, QRectF, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QColor, QFont, QGuiApplication, QIcon, QKeyEvent, QPainter, QPixmap
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QSpinBox,
    QTableView,
    QToolButton,
    QWidget,
)

from attnscope import paths
from attnscope.errors import UserError
from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.style import type_px
from attnscope.records.runs import MAX_RUNS, SEED
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.viewmodels.training.recipe_text import csv_of_table, settings_of
from attnscope.viewmodels.training.runs_list import COLUMN_TIPS, FIXED_COLUMNS, RunRow, RunsState
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState, SweepWish
from attnscope.widgets.actions import allow
from attnscope.widgets.dialogs import ask_file, ask_folder, ask_new_folder, dialog_of, open_one
from attnscope.widgets.form_parts import (
    Column,
    Index,
    TableModel,
    column,
    dress_table,
    inset_text,
    narrow_combo,
    row,
    stacked,
)
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    named,
    plain_tooltip,
    push_button,
    told_failures,
    when,
)
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.theme import Dressing

# Several runs of the recipe: which seeds and values, which go on, and where they are written.

_WIDTH_PX = 520
_N_ROWS = 3
_LAST_STEP = 10**9


class SweepDialog(QDialog):
    """Asks what to vary and starts it; closes once the engine has accepted every recipe."""

    begun = Signal()

    def __init__(self, state: SweepState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state, self._is_asked = state, False
        self.setWindowTitle("Several runs")
        self.setMinimumWidth(round(type_px(_WIDTH_PX)))
        wish = state.suggested
        self.seeds = named(QLineEdit(wish.seeds), "Seeds")
        self.seeds.setToolTip("3 means the seeds 0, 1 and 2; a list such as 4,7 names the seeds")
        self.rows = [self._value_row(k) for k in range(_N_ROWS)]
        self.is_early = QCheckBox("Keep best")
        self.is_early.setToolTip("All runs take their first steps, then only these continue")
        self.keep, self.after = QSpinBox(), QSpinBox()
        inset_text(self.keep, self.after)
        self.out = named(QLineEdit(wish.out), "Folder of the runs")
        self.out.setCursorPosition(0)
        self.told = PlainLabel(wraps=True)
        self.told.setMinimumHeight(round(type_px(54)))
        self.told.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start_button = QPushButton("Start")
        self._build()
        self._fill(wish)
        when(self, self._follow, state.changed)
        when(self, self._show_sum, state.training.planning.changed.plan)
        self._show_sum()

    @property
    def wish(self) -> SweepWish:
        """The request in the fields."""
        texts = [(key.currentText().strip(), values.text().strip()) for key, values in self.rows]
        is_early = self.is_early.isChecked()
        return SweepWish(
            values=tuple(f"{key}={values}" for key, values in texts if key or values),
            seeds=self.seeds.text(),
            keep_best=self.keep.value() if is_early else None,
            after=self.after.value() if is_early else None,
            out=self.out.text().strip(),
        )

    def reject(self) -> None:
        """Close, and cancel the check in progress."""
        if self._state.phase == "checking":
            self._state.stop()
        super().reject()

    def _value_row(self, k: int) -> tuple[QComboBox, QLineEdit]:
        key = narrow_combo(f"Key {k + 1} to vary", 18)
        key.setEditable(True)
        names = [name for name, _ in settings_of(self._state.training.recipe.text) if name != SEED]
        key.addItems(names)
        key.setCurrentIndex(-1)
        if completer := key.completer():
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
        if line := key.lineEdit():
            line.setPlaceholderText("section.key")
        values = named(QLineEdit(placeholderText="value, value"), f"Values of key {k + 1}")
        return key, values

    def _build(self) -> None:
        for box, name in (
            (self.keep, "How many runs continue"),
            (self.after, "The step at which the runs are chosen"),
        ):
            box.setAccessibleName(name)
            box.setGroupSeparatorShown(True)
            box.setEnabled(False)
        plan = self._state.training.planning.plan
        self.keep.setRange(1, MAX_RUNS)
        self.after.setRange(1, _LAST_STEP)
        self.after.setValue(max(1, plan.n_steps // 4) if plan else 100)
        browse = named(QToolButton(), tip="Choose: folder of the runs")
        browse.setText("…")
        browse.clicked.connect(self._on_browse)
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(2, 1)
        grid.addWidget(PlainLabel("Seeds", "muted"), 0, 0)
        grid.addWidget(self.seeds, 0, 1)
        grid.addWidget(PlainLabel("a number, or a list", "hint"), 0, 2)
        for k, (key, values) in enumerate(self.rows):
            grid.addWidget(PlainLabel("" if k else "Vary", "muted"), k + 1, 0)
            grid.addWidget(key, k + 1, 1)
            grid.addWidget(values, k + 1, 2)
        grid.addWidget(PlainLabel("Stop early", "muted"), 4, 0)
        early = row(self.is_early, self.keep, PlainLabel("after step"), self.after, None)
        grid.addLayout(early, 4, 1, 1, 2)
        grid.addWidget(PlainLabel("Folder", "muted"), 5, 0)
        folder = row((self.out, 1), browse)
        grid.addLayout(folder, 5, 1, 1, 2)
        self.buttons.addButton(self.start_button, QDialogButtonBox.ButtonRole.ActionRole)
        column(grid, self.told, None, self.buttons, on=self, margins=(24, 24, 24, 16), spacing=12)
        self.start_button.setDefault(True)  # not before it is in the dialog, or Enter would press the other
        self._connect()

    def _fill(self, wish: SweepWish) -> None:
        """Show the suggested values, and the runs that continue."""
        for (key, values), text in zip(self.rows, wish.values, strict=False):
            name, _, written = text.partition("=")
            key.setCurrentText(name)
            values.setText(written)
        if wish.keep_best is not None and wish.after is not None:
            self.is_early.setChecked(True)
            self.keep.setValue(wish.keep_best)
            self.after.setValue(wish.after)

    def _connect(self) -> None:
        for field in (self.seeds, self.out, *(values for _, values in self.rows)):
            field.textChanged.connect(self._show_sum)
        for key, _ in self.rows:
            key.editTextChanged.connect(self._show_sum)
        for box in (self.keep, self.after):
            box.valueChanged.connect(self._show_sum)
        self.is_early.toggled.connect(self.keep.setEnabled)
        self.is_early.toggled.connect(self.after.setEnabled)
        self.is_early.toggled.connect(self._show_sum)
        self.start_button.clicked.connect(self._on_start)
        self.buttons.rejected.connect(self.reject)

    def _tell(self, text: str, role: str = "") -> None:
        self.told.setText(text)
        self.told.set_role(role)

    @Slot()
    def _show_sum(self) -> None:
        if self._state.is_active:
            self._tell(self._state.what)
            self.start_button.setEnabled(False)
            return
        recipe = self._state.training.recipe
        try:
            text = self._state.summary(self.wish)
        except UserError as error:
            self._tell(str(error), "error")
            self.start_button.setEnabled(False)
            return
        if not recipe.can_run:
            text = "The recipe cannot run yet: see the message below it on the page."
        self._tell(text, "" if recipe.can_run else "error")
        self.start_button.setEnabled(recipe.can_run)

    @Slot()
    def _on_start(self) -> None:
        try:
            self._is_asked = True
            self._state.start(self.wish)
        except UserError as error:
            self._tell(str(error), "error")

    @Slot()
    def _on_browse(self) -> None:
        suggested = self.out.text().strip() or self._state.suggested.out
        folder = ask_new_folder(self, "Folder of the runs", suggested, "runs")
        if folder:
            self.out.setText(folder)

    def _follow(self) -> None:
        state = self._state
        if state.phase == "running" and self._is_asked:
            self.accept()
            self.begun.emit()
            return
        self._show_sum()
        if state.phase == "failed":
            self._tell(state.problem, "error")


_LOOK_MS = 700
_TITLES = {
    "idle": "",
    "checking": "Checking…",
    "running": "In training",
    "stopping": "Stopping…",
    "done": "Done",
    "stopped": "Stopped",
    "failed": "Some runs failed",
}


class SweepLine(QWidget):
    """Shows a SweepState and keeps checking it; hidden until there was one. `begun`: runs exist."""

    begun = Signal()
    failed = Signal(str, str)

    def __init__(self, state: SweepState) -> None:
        super().__init__()
        self._state = state
        self.title = PlainLabel(role="name")
        self.words = PlainLabel(role="muted", wraps=True)
        self.best_button = push_button("Open best", clicked=state.open_best)
        self.best_button.setToolTip("Show the run with the lowest held-out loss: curves and checkpoints")
        self.stop_button = push_button("Stop", name="Stop: several runs", clicked=state.stop)
        self.stop_button.setToolTip("Save the run in training; the folder can be continued later")
        row(self.title, (self.words, 1), self.best_button, self.stop_button, on=self)
        self._timer = QTimer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(state.tick)
        when(self, self._follow, state.changed)
        when(self, self._show, state.training.changed.status)
        self._show()

    @Slot()
    def open_dialog(self) -> None:
        """Ask what to vary."""
        open_one(self.window(), SweepDialog, self._make_dialog)

    @property
    def dialog(self) -> SweepDialog | None:
        """The dialog that asks, while it is open."""
        return dialog_of(self.window(), SweepDialog)

    def _make_dialog(self) -> SweepDialog:
        dialog = SweepDialog(self._state, self.window())
        dialog.begun.connect(self.begun)
        return dialog

    def _follow(self) -> None:
        if self._state.is_active != self._timer.isActive():
            (self._timer.start if self._state.is_active else self._timer.stop)()
        self._show()
        if not self._state.problem or self.dialog is None:  # an open dialog tells it itself
            self.failed.emit("several runs", self._state.problem)

    def _show(self) -> None:
        state = self._state
        how = "start them again in the same folder to continue" if state.phase == "stopped" else ""
        text = state.what if state.is_active else " · ".join(filter(None, (state.best.words, how)))
        self.title.setText(f"Several runs: {_TITLES[state.phase].lower()}")
        self.words.setText(text)
        self.words.setToolTip(plain_tooltip(state.problem))
        self.best_button.setVisible(bool(state.best.words))
        self.best_button.setEnabled(not state.training.run.is_active)
        self.stop_button.setVisible(state.is_active)
        self.stop_button.setEnabled(state.phase != "stopping")
        is_unbegun = state.phase == "failed" and not state.best.words
        self.setVisible(state.phase not in ("idle", "checking") and not is_unbegun)


# The table of runs: a tick and a colour, how each stands, and the values in which they differ.

_LEFT = ("run", "state")
_ROW_PX, _NAME_PX, _LEAST_PX, _MOST_PX = 26, 190, 64, 170


class RunsModel(TableModel):
    """The rows of a RunsState for Qt."""

    def __init__(self, state: RunsState, palette: Palette) -> None:
        super().__init__()
        self._state = state
        self.palette = palette
        self.rows: tuple[RunRow, ...] = ()
        self.columns: tuple[str, ...] = FIXED_COLUMNS
        self.heads = _heads(FIXED_COLUMNS)

    def reload(self) -> bool:
        """Read the state again; True if there are other rows or columns."""
        rows, columns = self._state.table.rows, self._state.table.columns
        is_same = columns == self.columns and [r.folder for r in rows] == [r.folder for r in self.rows]
        if is_same:
            self.rows = rows
            if rows:
                last = self.index(len(rows) - 1, len(columns) - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            return False
        self.beginResetModel()
        self.rows, self.columns, self.heads = rows, columns, _heads(columns)
        self.endResetModel()
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        found = super().flags(index)
        return found | Qt.ItemFlag.ItemIsUserCheckable if index.column() == 0 else found

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
                return self.heads[index.column()].side
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


class RunsTable(Dressing, QTableView):
    """Shows a RunsState; `run_chosen` carries the folder of a row clicked, `run_opened` of one opened."""

    run_chosen = Signal(str)
    run_opened = Signal(str)
    menu_wanted = Signal(str, QPoint)

    def __init__(self, state: RunsState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._rows = RunsModel(state, self.theme)
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
        self.dress()
        self.show_runs()

    def dress(self) -> None:
        self._rows.palette = self.theme
        self.verticalHeader().setDefaultSectionSize(round(type_px(_ROW_PX)))
        self._fit()

    def show_runs(self) -> None:
        at = self.current_folder()
        if self._rows.reload():
            self._fit()
        columns = self._rows.columns
        if self._state.table.sorted_by in columns:
            down = self._state.table.is_descending
            order = Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder
            self.horizontalHeader().setSortIndicator(columns.index(self._state.table.sorted_by), order)
        folders = [row.folder for row in self._rows.rows]
        if at in folders:
            index = self._rows.index(folders.index(at), 0)
            how = QItemSelectionModel.SelectionFlag
            self.selectionModel().setCurrentIndex(index, how.ClearAndSelect | how.Rows)

    def current_folder(self) -> str:
        """The run of the keyboard's row, empty without one."""
        return self._folder(self.currentIndex())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space ticks, Enter chooses, Ctrl+Enter opens, Delete removes from the list."""
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
        for k, name in enumerate(self._rows.columns):
            title = metrics.horizontalAdvance(name.rpartition(".")[2]) + round(type_px(26))
            cells = max((metrics.horizontalAdvance(row.cell(name)) for row in self._rows.rows), default=0)
            wide = max(title, cells + round(type_px(62 if k == 0 else 20)))
            least, most = (_NAME_PX, 280) if k == 0 else (_LEAST_PX, _MOST_PX)
            self.setColumnWidth(k, min(max(wide, round(type_px(least))), round(type_px(most))))

    def _folder(self, index: Index) -> str:
        return self._rows.rows[index.row()].folder if index.isValid() else ""

    def _on_section(self, section: int) -> None:
        self._state.table.sort_by(self._rows.columns[section])

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


def _heads(columns: Iterable[str]) -> tuple[Column, ...]:
    tips = {name: f"{name} of the recipe; the shown runs differ in it" for name in columns} | COLUMN_TIPS
    return tuple(Column(name.rpartition(".")[2], tips[name], name in _LEFT) for name in columns)


def _tip(row: RunRow, column: str) -> str:
    run = row.summary
    if column == "best loss":
        return f"at step {run.best_step:,}"
    if column == "state" and run.writer is not None:
        return f"Written by {run.writer.words}"
    if column in FIXED_COLUMNS:
        return f"{run.folder}\n{run.note}".strip()
    return f"{column} = {row.cell(column)}"


_EMPTY = Placeholder(
    kind="empty",
    title="Compare runs here",
    hint="Add a run, or a whole folder of runs: their curves are drawn together above, each in its own "
    "colour, and this table shows only the recipe values in which they differ.",
)


class RunsPanel(QWidget):
    """Shows the runs of a TrainingState and reports the user's actions."""

    failed = Signal(str, str)

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state, self._runs = state, state.runs
        self._told: str | None = ""
        self._card = StateCard()
        self._card.show_stage(_EMPTY)
        self.table = RunsTable(self._runs)
        self.table.run_chosen.connect(self.choose)
        self.table.run_opened.connect(self._on_opened)
        self.table.menu_wanted.connect(self._on_menu)
        self._pages = stacked(self._card, self.table)
        self._lines = layout = column(on=self, spacing=6)
        layout.addLayout(self._build_bar())
        layout.addWidget(self._pages, 1)
        self.show_runs()

    def add_line(self, line: QWidget) -> None:
        """Put a line above everything else."""
        self._lines.insertWidget(0, line)

    def show_runs(self) -> None:
        runs = self._runs
        self._pages.setCurrentWidget(self.table if runs.n_listed else self._card)
        self.table.show_runs()
        self._export.setEnabled(runs.n_listed > 0)
        rows = runs.table.rows
        n_shown = sum(row.is_shown for row in rows)
        hidden = runs.n_listed - len(rows)
        words = f"{n_shown} of {runs.n_listed} drawn" if runs.n_listed else ""
        words += f" · {hidden} filtered out" if hidden else ""
        self._note.set_full_text(" · ".join(text for text in (words, runs.note) if text))
        if runs.note != self._told:
            self.failed.emit("list of runs", runs.note)
        self._told = runs.note

    def choose(self, folder: str) -> None:
        """Emphasise a run and open its recipe in the editor, unless a run is in progress."""
        self._runs.choose(folder)
        recipe = self._runs.recipe_of(folder)
        if recipe and not self._state.run.is_active and recipe != self._state.recipe.text:
            self._state.take_recipe(recipe, Path(folder).name)

    def _build_bar(self) -> QHBoxLayout:
        add = push_button("Add run…", tip="Add the curves of a run to the plot", clicked=self._on_add)
        folder = push_button("Add folder of runs…", clicked=self._on_add_folder)
        folder.setToolTip("Add every run of a folder, for instance of a sweep")
        self._filter = named(QLineEdit(placeholderText="Filter…", clearButtonEnabled=True), "Filter runs")
        self._filter.setToolTip("Only runs with this in their name, or with a value such as n_layers=4")
        self._filter.textChanged.connect(self._runs.table.filter)
        self._note = ElidedLabel(role="muted")
        self._export = push_button("Export table…", clicked=self._on_export)
        self._export.setToolTip("Write the table as CSV: the runs and the values in which they differ")
        bar = row(add, folder, (self._filter, 3), (self._note, 2), self._export)
        return bar

    def _on_opened(self, folder: str) -> None:
        self._state.reading.open(folder)

    @Slot()
    def _on_add(self) -> None:
        folder = ask_folder(self, "Add a run", str(paths.runs_folder()))
        if folder:
            self._add(folder)

    def _add(self, folder: str) -> None:
        """List the new runs; report again a folder once reported empty."""
        self._told = None
        self._runs.add(folder)

    @Slot()
    def _on_add_folder(self) -> None:
        folder = ask_folder(self, "Add a folder of runs", str(paths.runs_folder()))
        if folder:
            self._add(folder)

    @Slot()
    def _on_export(self) -> None:
        path = ask_file(self, "Export the table of runs", "runs.csv", "CSV (*.csv)")
        if path:
            with told_failures(self.failed, "table of runs"):
                self._runs.table.save(path)

    @Slot(str, QPoint)
    def _on_menu(self, folder: str, place: QPoint) -> None:
        menu = QMenu(self, toolTipsVisible=True)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        open_action = menu.addAction("Open: replay its checkpoints")
        allow(open_action, "A model is being trained: stop it first" if self._state.run.is_active else "")
        open_action.triggered.connect(partial(self._state.reading.open, folder))
        menu.addAction("Put its recipe into the editor").triggered.connect(partial(self.choose, folder))
        menu.addSeparator()
        menu.addAction("Draw only this").triggered.connect(partial(self._runs.show_only, folder))
        menu.addAction("Draw all in the list").triggered.connect(partial(self._runs.show_all, True))
        menu.addAction("Draw none").triggered.connect(partial(self._runs.show_all, False))
        menu.addSeparator()
        menu.addAction("Copy the table").triggered.connect(self._on_copy)
        menu.addAction("Remove from the list").triggered.connect(partial(self._runs.remove, folder))
        menu.addAction("Clear the list").triggered.connect(self._runs.clear)
        menu.popup(place)

    @Slot()
    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(csv_of_table(*self._runs.table.cells()))
