"""One line above the list of runs: how several runs go, and which was best."""

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QToolButton,
    QWidget,
)

from attnscope.errors import UserError
from attnscope.figures.style import type_px
from attnscope.records.runs import MAX_RUNS, SEED
from attnscope.viewmodels.training.recipe_text import settings_of
from attnscope.viewmodels.training.sweeping import SweepState, SweepWish
from attnscope.widgets.dialogs import ask_new_folder, dialog_of, open_one
from attnscope.widgets.form_parts import column, inset_text, narrow_combo, row
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, push_button, when

# Several runs of the recipe: which seeds and values, which go on, and where they are written.

_WIDTH_PX = 520
_N_ROWS = 3
_LAST_STEP = 10**9


class SweepDialog(QDialog):
    """Asks what to vary and starts it; closes once the engine has found every recipe well formed."""

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
        """What the fields say."""
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
        """Close; what is still being checked is given up."""
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
        """Show what is suggested to vary, and which runs go on."""
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
        """How much is asked for, or what is wrong with it."""
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
    """Shows a SweepState and keeps looking at it; hidden while there was nothing. `begun`: runs are there."""

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
