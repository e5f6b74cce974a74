"""The list of runs with what can be done to it: add, filter, tick, choose, open, export."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLineEdit, QMenu, QPushButton, QStackedWidget, QWidget

from attnscope import paths
from attnscope.figures.colours import Palette
from attnscope.viewmodels.stage import Stage
from attnscope.viewmodels.training.recipe_differences import csv_of_table
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.failures import told_failures
from attnscope.widgets.folder_dialog import ask_folder
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel
from attnscope.widgets.possible import allow
from attnscope.widgets.state_card import StateCard
from attnscope.widgets.training.runs_table import RunsTable

_EMPTY = Stage(
    kind="empty",
    title="Compare runs here",
    hint="Add a run, or a whole folder of runs: their curves are laid over each other above, each in a "
    "colour, and this table shows only the recipe values in which they differ.",
)


class RunsPanel(QWidget):
    """Shows the runs of a TrainingState and reports what the person wants of them."""

    failed = Signal(str, str)

    def __init__(self, state: TrainingState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state, self._runs = state, state.runs
        self._told: str | None = ""
        self._card = StateCard()
        self._card.show_stage(_EMPTY)
        self.table = RunsTable(self._runs, palette)
        self.table.run_chosen.connect(self.choose)
        self.table.run_opened.connect(self._on_opened)
        self.table.menu_wanted.connect(self._on_menu)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._card)
        self._pages.addWidget(self.table)
        self._lines = layout = column(self, spacing=6)
        layout.addLayout(self._build_bar())
        layout.addWidget(self._pages, 1)
        self.show_runs()

    def add_line(self, line: QWidget) -> None:
        """Put a line above everything else."""
        self._lines.insertWidget(0, line)

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self.table.set_theme(palette)

    def show_runs(self) -> None:
        """Show the list as it is now."""
        runs = self._runs
        self._pages.setCurrentWidget(self.table if runs.n_listed else self._card)
        self.table.show_runs()
        self._export.setEnabled(runs.n_listed > 0)
        rows = runs.rows
        n_shown = sum(row.is_shown for row in rows)
        hidden = runs.n_listed - len(rows)
        words = f"{n_shown} of {runs.n_listed} drawn" if runs.n_listed else ""
        words += f" · {hidden} filtered out" if hidden else ""
        self._note.set_full_text(" · ".join(text for text in (words, runs.note) if text))
        if runs.note != self._told:
            self.failed.emit("list of runs", runs.note)
        self._told = runs.note

    def choose(self, folder: str) -> None:
        """Draw a run strongest and put its recipe into the editor, unless a run is in progress."""
        self._runs.choose(folder)
        recipe = self._runs.recipe_of(folder)
        if recipe and not self._state.is_active and recipe != self._state.recipe.text:
            self._state.take_recipe(recipe, Path(folder).name)

    def _build_bar(self) -> QHBoxLayout:
        add = QPushButton("Add run…")
        add.setToolTip("Lay the curves of a run over the others")
        add.clicked.connect(self._on_add)
        folder = QPushButton("Add folder of runs…")
        folder.setToolTip("Add every run of a folder, for instance of a sweep")
        folder.clicked.connect(self._on_add_folder)
        self._filter = QLineEdit()
        self._filter.setPlaceholderText("Filter…")
        self._filter.setToolTip("Only runs with this in their name, or with a value such as n_layers=4")
        self._filter.setAccessibleName("Filter runs")
        self._filter.setClearButtonEnabled(True)
        self._filter.textChanged.connect(self._runs.filter)
        self._note = ElidedLabel(role="muted")
        self._export = QPushButton("Export table…")
        self._export.setToolTip("Write the table as CSV: the runs and the values in which they differ")
        self._export.clicked.connect(self._on_export)
        bar = row(add, folder, self._filter, self._note, self._export)
        bar.setStretch(2, 3)
        bar.setStretch(3, 2)
        return bar

    def _on_opened(self, folder: str) -> None:
        self._state.open_run(folder)

    @Slot()
    def _on_add(self) -> None:
        folder = ask_folder(self, "Add a run", str(paths.runs_folder()))
        if folder:
            self._add(folder)

    def _add(self, folder: str) -> None:
        """List what is there; a folder that was told to hold no run is told of again."""
        self._told = None
        self._runs.add(folder)

    @Slot()
    def _on_add_folder(self) -> None:
        folder = ask_folder(self, "Add a folder of runs", str(paths.runs_folder()))
        if folder:
            self._add(folder)

    @Slot()
    def _on_export(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Export the table of runs", "runs.csv", "CSV (*.csv)")
        if path:
            with told_failures(self.failed, "table of runs"):
                self._runs.save_table(path if Path(path).suffix else f"{path}.csv")

    @Slot(str, QPoint)
    def _on_menu(self, folder: str, place: QPoint) -> None:
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        open_action = menu.addAction("Open: replay its checkpoints")
        allow(open_action, "A run is in training: stop it first" if self._state.is_active else "")
        open_action.triggered.connect(partial(self._state.open_run, folder))
        menu.addAction("Put its recipe into the editor").triggered.connect(partial(self.choose, folder))
        menu.addSeparator()
        menu.addAction("Draw only this").triggered.connect(partial(self._runs.show_only, folder))
        menu.addAction("Draw all in the list").triggered.connect(partial(self._runs.show_all, True))
        menu.addAction("Draw none").triggered.connect(partial(self._runs.show_all, False))
        menu.addSeparator()
        menu.addAction("Copy the table").triggered.connect(self._on_copy)
        menu.addAction("Take off the list").triggered.connect(partial(self._runs.remove, folder))
        menu.addAction("Empty the list").triggered.connect(self._runs.clear)
        menu.popup(place)

    @Slot()
    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(csv_of_table(*self._runs.table()))
