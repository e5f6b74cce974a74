"""The left side of the training page: the recipe, its folder and device, and the controls of the run."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QMargins, Qt, Signal, Slot
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from attnscope import paths
from attnscope.counting import bytes_text, plural
from attnscope.errors import LoadError
from attnscope.figures.style import type_px
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.training.recipe_text import offered_recipes, recipe_value, take_preset
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.status import several_status
from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.widgets.actions import allow
from attnscope.widgets.dialogs import ask_file, ask_folder, ask_new_folder
from attnscope.widgets.form_parts import column, inset_text, narrow_combo, row
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
    when,
)
from attnscope.widgets.theme import Dressed
from attnscope.widgets.training.recipe_editor import CostBar, RecipeEditor

_DATA_HINT = "Text, pairs, or a folder of texts"
_PICTURES_HINT = "A folder of pictures, or an NPZ file"


class RunPlaces(QWidget):
    """Shows the folders of the state's recipe and run, and reports changes."""

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self._state = state
        self._data, self._browse_data = self._path_row("Data", _DATA_HINT, self._on_data_typed)
        self._out, browse_out = self._path_row("Run folder", "Folder for the run", self._on_out_typed)
        browse_out.clicked.connect(self._on_browse_out)
        self._browse_data.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._texts_menu, self._pictures_menu = QMenu(self), QMenu(self)
        self._texts_menu.addAction("File…", self._on_browse_data)
        self._texts_menu.addAction("Folder of texts…", self._on_browse_texts)
        self._pictures_menu.addAction("Folder of pictures…", self._on_browse_pictures)
        self._pictures_menu.addAction("NPZ file…", self._on_browse_data)
        self._device = named(QComboBox(), "Device")
        self._device.activated.connect(self._on_device_chosen)
        self._out_note = PlainLabel(role="muted", wraps=True)
        new_folder = push_button("New folder", clicked=self._state.place.take_fresh)
        self._out_row = QWidget()
        row((self._out_note, 1), new_folder, on=self._out_row)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(6)
        for i, (name, field, browse) in enumerate(
            (("Data", self._data, self._browse_data), ("Run folder", self._out, browse_out))
        ):
            grid.addWidget(PlainLabel(name, "muted"), i, 0)
            grid.addWidget(field, i, 1)
            grid.addWidget(browse, i, 2)
        grid.addWidget(self._out_row, 2, 0, 1, 3)
        grid.addWidget(PlainLabel("Device", "muted"), 3, 0)
        grid.addWidget(self._device, 3, 1, 1, 2)
        grid.setColumnStretch(1, 1)

    def _path_row(self, name: str, hint: str, typed: Callable[[], None]) -> tuple[QLineEdit, QToolButton]:
        field = QLineEdit(placeholderText=hint)
        field.editingFinished.connect(typed)
        button = named(QToolButton(), tip=f"Choose: {name.lower()}")
        button.setText("…")
        return field, button

    def show_recipe(self) -> None:
        """Show the data of the recipe and the folder of the run."""
        recipe = self._state.recipe
        self._data.setText(recipe.data_path)
        reads_pictures = recipe_value(recipe.text, "data", "kind") == "pictures"
        hint = _PICTURES_HINT if reads_pictures else _DATA_HINT
        self._data.setPlaceholderText(hint if recipe.needs_data else "Makes its own data")
        self._browse_data.setMenu(self._pictures_menu if reads_pictures else self._texts_menu)
        self._data.setEnabled(recipe.needs_data)
        self._browse_data.setEnabled(recipe.needs_data)
        self._data.setCursorPosition(0)
        self._out.setText(self._state.place.folder)
        self._out.setToolTip(plain_tooltip(self._state.place.folder))

    def show_devices(self) -> None:
        """List the devices of this machine."""
        self._device.clear()
        for name in self._state.devices:
            self._device.addItem("Automatic" if name == "auto" else name, name)
        self._device.setCurrentIndex(max(0, self._device.findData(self._state.place.device)))

    def show_status(self) -> None:
        """Show the content of the folder, and what may be changed while a run is in progress."""
        state = self._state
        problem = state.place.problem
        self._out_row.setVisible((state.place.holds_run or bool(problem)) and not state.run.is_active)
        words = "Holds a complete run." if state.is_complete else "Holds a run that can be continued."
        words = problem or words
        writer = state.run.writer if state.is_followed else None
        self._out_note.setText(f"Following, written by process {writer.pid}" if writer else words)
        for field in (self._out, self._device):
            field.setEnabled(not state.run.is_active)
        self._data.setReadOnly(state.run.is_active)

    # User actions

    @Slot()
    def _on_data_typed(self) -> None:
        if self._data.text() != self._state.recipe.data_path:
            self._state.recipe.set_data_path(self._data.text())

    @Slot()
    def _on_browse_data(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Data to train on", self._data.text())
        if path:
            self._state.recipe.set_data_path(path)

    @Slot()
    def _on_browse_texts(self) -> None:
        self._browse_folder("Texts, all .txt files of a folder")

    @Slot()
    def _on_browse_pictures(self) -> None:
        self._browse_folder("Pictures, a folder for each label")

    def _browse_folder(self, title: str) -> None:
        folder = ask_folder(self, title, self._data.text())
        if folder:
            self._state.recipe.set_data_path(folder)

    @Slot()
    def _on_out_typed(self) -> None:
        if self._out.text() != self._state.place.folder:
            self._state.place.choose(self._out.text())

    @Slot()
    def _on_browse_out(self) -> None:
        folder = ask_new_folder(self, "Run folder", self._out.text() or self._state.place.fresh, "run")
        if folder:
            self._state.place.choose(folder)

    @Slot(int)
    def _on_device_chosen(self, index: int) -> None:
        self._state.place.set_device(str(self._device.itemData(index)))


# The way back to the run before, or to several that were left, while the page shows none.

_LONG = 28
"""The most letters that it says of a run's name."""


class LastRunButton(QPushButton):
    """Opens the last run trained or opened, or continues several that were active when the program was
    closed, whichever was later; hidden if there is neither, or one is shown.

    `several_wanted`: the sweep stands as it was left, and can be started. `failed` says why it does not.
    """

    several_wanted = Signal()
    failed = Signal(str, str)

    def __init__(self, state: TrainingState, sweep: SweepState, recents: Recents) -> None:
        super().__init__()
        self._state, self._sweep, self._recents = state, sweep, recents
        self.clicked.connect(self._on_clicked)
        when(self, self.show_run, recents.changed)

    def show_run(self) -> None:
        """Name the run to open."""
        folder, is_sweep = self._found
        name = Path(folder).name
        what = "Continue several runs" if is_sweep else "Open the last run"
        self.setText(f"{what}: {name if len(name) <= _LONG else name[: _LONG - 1] + '…'}")
        self.setToolTip(plain_tooltip(folder))
        self.setVisible(bool(folder))

    @property
    def run(self) -> str:
        """The folder of the last run trained or opened; empty for none."""
        return next((run for run in self._recents.runs[:1] if _time_of(run)), "")

    @property
    def _found(self) -> tuple[str, bool]:
        """The folder to open, empty for none, and whether it holds several unfinished runs."""
        if self._state.run.status.phase != "idle":
            return "", False
        run = self.run
        sweep, left_at = self._sweep.left if self._sweep.phase == "idle" else ("", 0.0)
        return (sweep, True) if left_at > _time_of(run) else (run, False)

    @Slot()
    def _on_clicked(self) -> None:
        folder, is_sweep = self._found
        if folder and is_sweep:
            try:
                self._sweep.take_up(folder)
            except LoadError as error:
                self.failed.emit("several runs", str(error))
                return
            self.several_wanted.emit()
        elif folder:
            self._state.reading.open(folder)


def _time_of(run: str) -> float:
    """Time at which a run was last written; 0 if it is not a run, or is gone."""
    folder = Path(run)
    times = []
    for name in ("recipe.toml", "metrics.jsonl") if run else ():
        try:
            times.append((folder / name).stat().st_mtime)
        except (OSError, ValueError):
            if name == "recipe.toml":
                return 0.0
    return max(times, default=0.0)


# The models of the literature behind one button: each with its size, chosen into the recipe.


class PresetButton(QToolButton):
    """Offers the presets of a TrainingState; `table_wanted` asks for the whole table."""

    table_wanted = Signal()

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self._state = state
        self.setText("Preset ▾")
        self.setAccessibleName("Preset")
        self.setToolTip("Insert a published model into the recipe, or start a new recipe from it")
        self.setProperty("role", "flat")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self, toolTipsVisible=True)
        self._menu.aboutToShow.connect(self._state.planning.ask_presets)
        self.setMenu(self._menu)
        self._fill()
        when(self, self._fill, state.planning.changed.presets)
        when(self, self._show_status, state.changed.status)

    def _show_status(self) -> None:
        self.setEnabled(not self._state.run.is_active)

    def _fill(self) -> None:
        self._menu.clear()
        planning = self._state.planning
        if not planning.presets:
            self._menu.addAction("Counting…").setEnabled(False)
            return
        for objective in OBJECTIVES.values():
            title = objective.presets
            rows = [preset for preset in planning.presets if preset.objective == objective.name]
            if rows:
                self._menu.addSeparator()
                self._menu.addAction(title).setEnabled(False)
            for preset in rows:
                fits = preset.least_bytes <= planning.available_bytes
                note = "" if fits else f" · needs {bytes_text(preset.least_bytes)}"
                action = self._menu.addAction(f"{preset.name}\t{preset.n_parameters:,}{note}")
                action.setToolTip(
                    f"{preset.n_layers} layers, {preset.d_model} wide, {preset.n_heads} heads; to train it "
                    f"takes {bytes_text(preset.least_bytes)} with one text of {preset.n_tokens} tokens"
                )
                action.triggered.connect(partial(self._on_chosen, preset.name))
        self._menu.addSeparator()
        self._menu.addAction("All sizes as a table…").triggered.connect(self.table_wanted)

    def _on_chosen(self, name: str, _is_checked: bool = False) -> None:
        for preset in self._state.planning.presets:
            if preset.name == name:
                take_preset(self._state, preset)


# What it means to give a complete run more steps, in words.

DEFAULT_SCHEDULE, DEFAULT_WARMUP = "cosine", 100
"""Default for a recipe that names none (`training.parts.SchedulePart`)."""
_STEADY = ("constant", "noam")


def longer_words(recipe: str, step: int, n_more: int) -> str:
    """Length of a longer run of a recipe, and the effect on its learning rate."""
    n_steps = step + n_more
    told = [f"The run will be {plural(n_steps, 'step')} long and continue in its own folder."]
    kind = recipe_value(recipe, "schedule", "kind") or DEFAULT_SCHEDULE
    has_pool = bool(recipe_value(recipe, "data", "repeated_share"))
    warmup = recipe_value(recipe, "schedule", "warmup_steps")
    is_warming = step <= (warmup if isinstance(warmup, int) else DEFAULT_WARMUP)
    if (kind in _STEADY or is_warming) and not has_pool:
        why = f"Its schedule is {kind}" if kind in _STEADY else "Its warm-up is not over"
        told.append(f"{why}: it continues as if it had been that long from the start.")
        return " ".join(told)
    if kind not in _STEADY:
        told.append(
            f"Its learning rate jumps at step {step + 1:,}: from there on it is that of a {kind} schedule "
            f"of {n_steps:,} steps."
        )
    if has_pool:
        told.append("Repeated words are drawn as in a run of that length.")
    told.append("A run of that length from the start would end with different weights.")
    return " ".join(told)


# More steps for a complete run: how many, and what becomes of its learning rate.

_WIDTH_PX, _TOLD_PX = 440, 56
_MOST = 10**9


class LongerDialog(QDialog):
    """Asks for the number of additional steps; the state then continues the run."""

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setWindowTitle("More steps")
        self.setMinimumWidth(round(type_px(_WIDTH_PX)))
        self.n_more = named(QSpinBox(minimum=1, maximum=max(1, _MOST - state.run.step)), "More steps")
        self.n_more.setGroupSeparatorShown(True)
        self.n_more.setValue(max(state.recipe.n_steps - state.run.step, 0) or max(1, state.run.step))
        self.n_more.selectAll()
        inset_text(self.n_more)
        self._told = PlainLabel("", "muted", wraps=True)
        self._told.setMinimumHeight(round(type_px(_TOLD_PX)))
        self._told.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.go_on = QPushButton("Go on")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(self.go_on, QDialogButtonBox.ButtonRole.AcceptRole)
        column(
            row(
                PlainLabel(f"{plural(state.run.step, 'step is', 'steps are')} completed. More steps"),
                self.n_more,
                None,
            ),
            self._told,
            None,
            buttons,
            on=self,
            margins=(24, 24, 24, 16),
            spacing=12,
        )
        self.go_on.setDefault(True)  # not before it is in the dialog, or Enter would press the other
        self.n_more.valueChanged.connect(self._show_words)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self._show_words()

    def accept(self) -> None:
        """Continue the run and close."""
        super().accept()
        self._state.lengthen(self.n_more.value())

    @Slot()
    def _show_words(self) -> None:
        self._told.setText(longer_words(self._state.recipe.text, self._state.run.step, self.n_more.value()))


_LEAST_PX, _MOST_FACTOR = 300, 1.5
"""The panel's least width, and how much larger type may make it."""
_MORE = "Go on…"
_RECIPE, _NO_DATA = "recipe file", "Give the file to train on, after Data."
_TOML = "Recipes (*.toml);;All files (*)"


class RecipeRow(QWidget):
    """The choice of recipe: the list of bundled ones, presets, files, and the way back."""

    failed = Signal(str, str)

    def __init__(self, state: TrainingState, parent: QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self._recipes = narrow_combo("Recipe file", 0)
        self._recipes.setPlaceholderText("Choose a recipe")
        self._recipes.activated.connect(self._on_recipe_chosen)
        for recipe in offered_recipes():
            self._recipes.addItem(recipe.name, recipe.path)
        self.open_action = action_of(parent, "Open recipe…", self._on_open_recipe)
        self.save_action = action_of(parent, "Save recipe as…", self._on_save_recipe)
        self.revert_action = action_of(parent, "Undo all edits", self._on_revert)
        more = named(QToolButton(), tip="Open, save or restore the recipe")
        more.setText("⋯")
        menu = QMenu(more, toolTipsVisible=True)
        menu.addActions([self.open_action, self.save_action, self.revert_action])
        more.setMenu(menu)
        more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.presets = PresetButton(state)
        row((self._recipes, 1), self.presets, more, on=self)

    def show_recipe(self) -> None:
        """Show the open recipe, listed or not, and whether it was edited."""
        recipe = self._state.recipe
        index = self._recipes.findData(recipe.path)
        if recipe.path and index < 0:
            self._recipes.addItem(Path(recipe.path).stem, recipe.path)
            index = self._recipes.count() - 1
        self._recipes.setCurrentIndex(index)
        self._recipes.setPlaceholderText(f"recipe of {recipe.origin}" if recipe.origin else "Choose a recipe")
        allow(self.revert_action, "" if recipe.is_changed and recipe.path else "There are no edits")

    def show_status(self) -> None:
        """Prevent another choice of recipe while a run is in progress."""
        self._recipes.setEnabled(not self._state.run.is_active)

    @Slot(int)
    def _on_recipe_chosen(self, index: int) -> None:
        self._open_recipe(str(self._recipes.itemData(index)))

    @Slot()
    def _on_open_recipe(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open recipe", "", _TOML)
        if path:
            self._open_recipe(path)

    def _open_recipe(self, path: str) -> None:
        with told_failures(self.failed, _RECIPE):
            self._state.open_recipe(path)
        self.show_recipe()

    @Slot()
    def _on_save_recipe(self) -> None:
        path = ask_file(self, "Save recipe", self._state.recipe.path, _TOML)
        if path:
            with told_failures(self.failed, _RECIPE):
                self._state.recipe.save(path)

    @Slot()
    def _on_revert(self) -> None:
        with told_failures(self.failed, _RECIPE):
            self._state.recipe.revert()


def action_of(widget: QWidget, text: str, slot: Callable[[], None], key: str = "") -> QAction:
    """An action of a widget; its key works in the widget and its children."""
    action = QAction(text, widget)
    if key:
        action.setShortcut(QKeySequence(key))
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    action.triggered.connect(slot)
    widget.addAction(action)
    return action


class RunPanel(Dressed):
    """Shows the state's recipe and run, and reports the user's actions."""

    failed = Signal(str, str)

    def __init__(
        self, state: TrainingState, sweep: SweepState, recents: Recents, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        ground(self, "panel")
        self._state, self._sweep = state, sweep
        self.last_button = LastRunButton(state, sweep, recents)
        self._shown_path: str | None = None
        self._build_actions()
        self.recipe_row = RecipeRow(state, self)
        self.recipe_row.failed.connect(self.failed)
        self._editor = RecipeEditor()
        self._editor.textChanged.connect(self._on_text_changed)
        self._problem = ElidedLabel(role="good")
        self._problem.setFixedHeight(18)
        self._cost = CostBar(state)
        self.recipe_row.presets.table_wanted.connect(self._cost.open_presets)
        self._places = RunPlaces(state)
        self._buttons = self._build_buttons()
        layout = column(
            self.recipe_row,
            (self._editor, 1),
            self._problem,
            self._cost,
            self._places,
            self._buttons,
            rule(),
            on=self,
            margins=12,
        )
        self._build_status(layout)
        self._fit_width()
        self.show_recipe()
        self.show_devices()
        self.show_status()
        when(self, self.show_status, sweep.changed)

    def dress(self) -> None:
        self._fit_width()

    def _fit_width(self) -> None:
        """Leave room for the buttons in type of this size, whatever their current names."""
        layout = self.layout()
        margins = layout.contentsMargins() if layout is not None else QMargins()
        self._buttons.invalidate()  # it remembers the widths in type of the size before
        needed = self._buttons.minimumSize().width() + margins.left() + margins.right()
        self.setMinimumWidth(max(round(_LEAST_PX * min(self.theme.type_factor, _MOST_FACTOR)), needed))

    def open_cost(self, tab: str) -> None:
        self._cost.open_tab(tab)

    # --- building ---------------------------------------------------------------------------------

    def _build_actions(self) -> None:
        self.start_action = action_of(self, "Start", self._on_start, "Ctrl+Return")
        self.hold_action = action_of(self, "Pause", self._on_hold, "Ctrl+Shift+Return")
        self.stop_action = action_of(self, "Stop", self._on_stop, "Ctrl+.")
        self.open_run_action = action_of(self, "Open run…", self._on_open_run)

    def _build_buttons(self) -> QHBoxLayout:
        self._start = QPushButton("Start", default=True)
        self._hold = QPushButton("Pause")
        self._stop = QPushButton("Stop")
        self._open = push_button("Open…", name="Open run")
        for button, action in (
            (self._start, self.start_action),
            (self._hold, self.hold_action),
            (self._stop, self.stop_action),
            (self._open, self.open_run_action),
        ):
            button.clicked.connect(action.trigger)
            key = _key_text(action)
            button.setToolTip(f"{button.text()} ({key})" if key else "Open a run, finished or in progress")
        self.several_button = tool_button("×n", "Several runs", tip="Several runs: seeds and values")
        layout = row(self._start, self.several_button, self._hold, self._stop, self._open, spacing=6)
        for button in (self._start, self._hold, self._stop, self._open):
            layout.setStretchFactor(button, 1)
        return layout

    def _build_status(self, layout: QVBoxLayout) -> None:
        self._title = PlainLabel(role="name")
        self._remaining = PlainLabel(role="muted")
        self._progress = QProgressBar(textVisible=False, minimum=0, maximum=1000)
        self._detail = PlainLabel(role="muted", wraps=True)
        self._detail.setMinimumHeight(3 * 14)
        self._detail.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._warning = PlainLabel(role="warning", wraps=True)
        self.last_button.failed.connect(self.failed)
        layout.addLayout(row(self._title, None, self._remaining))
        for widget in (self._progress, self._detail, self.last_button, self._warning):
            layout.addWidget(widget)

    # --- showing ----------------------------------------------------------------------------------

    def show_recipe(self) -> None:
        recipe = self._state.recipe
        self.recipe_row.show_recipe()
        if recipe.path != self._shown_path:
            self.failed.emit(_RECIPE, "")
        self._editor.set_text(recipe.text, is_edit=recipe.path == self._shown_path)
        self._shown_path = recipe.path
        self._show_problem()
        self._places.show_recipe()
        self.show_status()

    def show_plan(self) -> None:
        """Show the cost of the recipe, or its fault."""
        self._cost.show_plan()
        self._show_problem()
        self._show_start()

    def show_devices(self) -> None:
        """List the devices of this machine."""
        self._places.show_devices()

    def show_status(self) -> None:
        """Show the status of the run and the possible actions."""
        state, phase = self._state, self._state.run.status.phase
        status = several_status(self._sweep.what) if self._has_several else state.run.status
        self._title.setText(status.title)
        self._title.set_role("error" if phase in ("failed", "diverged") else "name")
        self._detail.setText(status.detail)
        self._warning.say(state.run.save_warning)
        self.last_button.show_run()
        self._show_start()
        self.hold_action.setText("Resume" if phase == "paused" else "Pause")
        self._hold.setText(self.hold_action.text())
        for control, is_possible in (
            (self._hold, state.run.status.can_pause or state.run.status.can_resume),
            (self.hold_action, state.run.status.can_pause or state.run.status.can_resume),
            (self._stop, state.run.status.can_stop),
            (self.stop_action, state.run.status.can_stop),
            (self._open, not state.run.is_active),
        ):
            control.setEnabled(is_possible)
        self._editor.setReadOnly(state.run.is_active)
        self.recipe_row.show_status()
        self._places.show_status()
        self.show_progress()

    @property
    def _has_several(self) -> bool:
        return self._sweep.is_active and self._state.run.status.phase == "idle"

    def _show_start(self) -> None:
        state = self._state
        for control in (self._start, self.start_action):
            control.setEnabled(state.can_start or state.can_lengthen)
        goes_on = _MORE if state.is_complete else "Continue"
        self._start.setText(goes_on if state.place.holds_run and not state.run.is_active else "Start")
        self._fit_width()
        reason = "Another process writes this run: Start needs a folder of its own."
        if state.recipe.lacks_data:
            reason = _NO_DATA
        elif not state.is_followed:
            reason = state.place.problem or (state.planning.problem if state.planning.is_refused else "")
        self._start.setToolTip(reason or f"{self._start.text()} ({_key_text(self.start_action)})")

    def show_progress(self) -> None:
        """Show the progress of the run; cheap enough for a timer."""
        fraction = self._sweep.fraction if self._has_several else self._state.run.fraction
        if self._state.run.status.phase == "starting":
            self._progress.setRange(0, 0)
        else:
            self._progress.setRange(0, 1000)
            self._progress.setValue(round(1000 * (fraction or 0.0)))
        self._remaining.setText(self._state.run.remaining)

    def _show_problem(self) -> None:
        recipe = self._state.recipe
        self._editor.set_marked_line(recipe.problem.line if recipe.problem else recipe.marked_line)
        if recipe.marked_line is not None and not recipe.problem:
            self._editor.reveal_line(recipe.marked_line)
        if recipe.problem:
            self._problem.set_full_text(recipe.problem.sentence)
        elif not recipe.text.strip():
            self._problem.set_full_text("Choose a recipe above, or write one in TOML.")
        elif recipe.lacks_data:
            self._problem.set_full_text(_NO_DATA)
        else:
            self._problem.set_full_text("TOML is well formed" + (" · edited" if recipe.is_changed else ""))
        self._problem.set_role("error" if recipe.problem else "warning" if recipe.lacks_data else "good")
        is_told = bool(recipe.problem) or recipe.lacks_data
        self._problem.setVisible(is_told or not self._cost.has_words)

    # --- user actions ----------------------------------------------------------------------------

    @Slot()
    def _on_start(self) -> None:
        if self._state.can_lengthen:
            dialog = LongerDialog(self._state, self)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.open()
        else:
            self._state.start()

    @Slot()
    def _on_hold(self) -> None:
        if self._state.run.status.can_resume:
            self._state.resume()
        else:
            self._state.pause()

    @Slot()
    def _on_stop(self) -> None:
        self._state.stop()

    @Slot()
    def _on_open_run(self) -> None:
        folder = ask_folder(self, "Open run", str(paths.runs_folder()))
        if folder:
            self._state.reading.open(folder)

    @Slot()
    def _on_text_changed(self) -> None:
        self._state.recipe.edit(self._editor.toPlainText())


def _key_text(action: QAction) -> str:
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
