"""Where a run takes its data, where it is written, and on which device it is made."""

from collections.abc import Callable

from PySide6.QtCore import Slot
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QGridLayout,
    QLineEdit,
    QMenu,
    QToolButton,
    QWidget,
)

from attnscope.viewmodels.training.recipe_text import recipe_value
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.dialogs import ask_folder, ask_new_folder
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, push_button

_DATA_HINT = "Text or pairs to train on"
_PICTURES_HINT = "A folder of pictures, or an NPZ file"


class RunPlaces(QWidget):
    """Shows the places of the state's recipe and run, and reports other ones."""

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self._state = state
        self._data, self._browse_data = self._path_row(
            "Data", _DATA_HINT, self._on_data_typed, self._on_browse_data
        )
        self._out, browse_out = self._path_row(
            "Run folder", "Folder for the run", self._on_out_typed, self._on_browse_out
        )
        self._pictures_menu = QMenu(self)
        self._pictures_menu.addAction("Folder of pictures…", self._on_browse_pictures)
        self._pictures_menu.addAction("NPZ file…", self._on_browse_data)
        self._device = named(QComboBox(), "Device")
        self._device.activated.connect(self._on_device_chosen)
        self._out_note = PlainLabel(role="muted", wraps=True)
        new_folder = push_button("New folder", clicked=self._on_new_folder)
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

    def _path_row(
        self, name: str, hint: str, typed: Callable[[], None], browse: Callable[[], None]
    ) -> tuple[QLineEdit, QToolButton]:
        field = QLineEdit(placeholderText=hint)
        field.editingFinished.connect(typed)
        button = named(QToolButton(), tip=f"Choose: {name.lower()}")
        button.setText("…")
        button.clicked.connect(browse)
        return field, button

    def show_recipe(self) -> None:
        """Show the data of the recipe and the folder of the run."""
        recipe = self._state.recipe
        self._data.setText(recipe.data_path)
        reads_pictures = recipe_value(recipe.text, "data", "kind") == "pictures"
        hint = _PICTURES_HINT if reads_pictures else _DATA_HINT
        self._data.setPlaceholderText(hint if recipe.needs_data else "Generates its own data")
        menu = self._pictures_menu if reads_pictures else None
        self._browse_data.setMenu(menu)  # type: ignore[arg-type]  # None takes it away
        at_once = QToolButton.ToolButtonPopupMode.InstantPopup
        self._browse_data.setPopupMode(at_once if menu else QToolButton.ToolButtonPopupMode.DelayedPopup)
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
        """Show what the folder holds, and what may be changed while a run is in progress."""
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

    # What the person wants

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
    def _on_browse_pictures(self) -> None:
        folder = ask_folder(self, "Pictures, a folder for each label", self._data.text())
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

    @Slot()
    def _on_new_folder(self) -> None:
        self._state.place.take_fresh()

    @Slot(int)
    def _on_device_chosen(self, index: int) -> None:
        self._state.place.set_device(str(self._device.itemData(index)))
