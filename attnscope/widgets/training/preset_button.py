"""The models of the literature behind one button: each with its size, chosen into the recipe."""

from functools import partial

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from attnscope.counting import bytes_text
from attnscope.viewmodels.training.preset_recipe import take_preset
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.labels import when

_GROUPS = {
    "causal": "Decoders: tell the next token",
    "masked": "Encoders: fill in hidden tokens",
    "translation": "Encoder and decoder: translate",
    "span-corruption": "Encoder and decoder: write hidden spans",
}


class PresetButton(QToolButton):
    """Offers the presets of a TrainingState; `table_wanted` asks for the whole table."""

    table_wanted = Signal()

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setText("Preset ▾")
        self.setAccessibleName("Preset")
        self.setToolTip("Write a model of the literature into the recipe, or a new recipe around it")
        self.setProperty("role", "flat")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._on_opening)
        self.setMenu(self._menu)
        self._fill()
        when(self, self._fill, state.planning.changed.presets)
        when(self, self._show_status, state.changed.status)

    def _show_status(self) -> None:
        self.setEnabled(not self._state.is_active)

    @Slot()
    def _on_opening(self) -> None:
        self._state.planning.ask_presets()

    def _fill(self) -> None:
        self._menu.clear()
        planning = self._state.planning
        if not planning.presets:
            self._menu.addAction("Counting…").setEnabled(False)
            return
        for objective, title in _GROUPS.items():
            rows = [row for row in planning.presets if row.objective == objective]
            if rows:
                self._menu.addSeparator()
                self._menu.addAction(title).setEnabled(False)
            for row in rows:
                fits = row.least_bytes <= planning.available_bytes
                note = "" if fits else f" · needs {bytes_text(row.least_bytes)}"
                action = self._menu.addAction(f"{row.name}\t{row.n_parameters:,}{note}")
                action.setToolTip(
                    f"{row.n_layers} layers, {row.d_model} wide, {row.n_heads} heads; to train it takes "
                    f"{bytes_text(row.least_bytes)} with one text of {row.n_tokens} tokens"
                )
                action.triggered.connect(partial(self._on_chosen, row.name))
        self._menu.addSeparator()
        self._menu.addAction("All sizes as a table…").triggered.connect(self.table_wanted)

    def _on_chosen(self, name: str, _is_checked: bool = False) -> None:
        for row in self._state.planning.presets:
            if row.name == name:
                take_preset(self._state, row)
