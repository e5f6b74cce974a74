"""One line above the list of runs: how several runs go, and which was best."""

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, push_button, when
from attnscope.widgets.training.sweep_dialog import SweepDialog

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
        self.dialog: SweepDialog | None = None
        self.title = PlainLabel(role="name")
        self.words = PlainLabel(role="muted", wraps=True)
        self.best_button = push_button("Open best", clicked=state.open_best)
        self.best_button.setToolTip("Show the run with the lowest held-out loss: curves and checkpoints")
        self.stop_button = push_button("Stop", name="Stop: several runs", clicked=state.stop)
        self.stop_button.setToolTip("Save the run in training; the folder can be continued later")
        layout = row(self.title, self.words, self.best_button, self.stop_button)
        layout.setStretch(1, 1)
        self.setLayout(layout)
        self._timer = QTimer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(state.tick)
        when(self, self._follow, state.changed)
        when(self, self._show, state.training.changed.status)
        self._show()

    @Slot()
    def open_dialog(self) -> None:
        """Ask what to vary."""
        if self.dialog is None:
            self.dialog = SweepDialog(self._state, self.window())
            self.dialog.begun.connect(self.begun)
            self.dialog.finished.connect(self._on_finished)
        self.dialog.show()
        self.dialog.raise_()

    @Slot()
    def _on_finished(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None

    def _follow(self) -> None:
        if self._state.is_active != self._timer.isActive():
            (self._timer.start if self._state.is_active else self._timer.stop)()
        self._show()
        if self.dialog is None or not self._state.problem:  # an open dialog tells it itself
            self.failed.emit("several runs", self._state.problem)

    def _show(self) -> None:
        state = self._state
        words = [state.best.words] if state.best else []
        words += ["start them again in the same folder to continue"] if state.phase == "stopped" else []
        text = state.what if state.is_active else " · ".join(words)
        self.title.setText(f"Several runs: {_TITLES[state.phase].lower()}")
        self.words.setText(text)
        self.words.setToolTip(plain_tooltip(state.problem))
        self.best_button.setVisible(state.best is not None)
        self.best_button.setEnabled(not state.training.is_active)
        self.stop_button.setVisible(state.is_active)
        self.stop_button.setEnabled(state.phase != "stopping")
        is_unbegun = state.phase == "failed" and state.best is None
        self.setVisible(state.phase not in ("idle", "checking") and not is_unbegun)
