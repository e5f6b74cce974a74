"""Closing the window over a training: the person is asked, and it closes once that is saved."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QWidget

from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.widgets.labels import when

Ask = Callable[[QWidget, str], bool]


def ask_to_leave(parent: QWidget, what: str) -> bool:
    """Ask whether to save what is in training and close; Esc goes on training."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle("Close AttnScope?")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(what)
    box.setInformativeText("It trains no further while the program is closed, and goes on from there later.")
    save = box.addButton("Save and close", QMessageBox.ButtonRole.AcceptRole)
    keep = box.addButton("Keep training", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(keep)
    box.exec()
    return box.clickedButton() is save


class Leaving(QObject):
    """Says whether the window may close. `is_asked` is False where nobody is there to answer: at a signal."""

    def __init__(self, training: TrainingState, sweep: SweepState, window: QWidget) -> None:
        super().__init__(window)
        self._training, self._sweep, self._window = training, sweep, window
        self._is_waiting = False
        self.is_asked = True
        self.ask: Ask = ask_to_leave
        when(window, self._look, training.changed.status, sweep.changed)

    def may_close(self) -> bool:
        """Ask where something is in training. While that is being saved, closing again waits no longer."""
        application = QGuiApplication.instance()
        is_ending = isinstance(application, QGuiApplication) and application.isSavingSession()
        if not self.is_asked or self._is_waiting or is_ending or not self._what:
            return True
        if self.ask(self._window, self._what):
            self._is_waiting = True
            self._sweep.stop()
            self._look()
        return not self._what

    @property
    def _what(self) -> str:
        """What is in training, in words; empty when nothing is."""
        training, sweep = self._training, self._sweep
        if training.is_active:
            step = (
                f" It has made {training.step:,} of {training.n_steps:,} steps." if training.n_steps else ""
            )
            return f"A model is in training.{step}"
        return "Several runs are in training, one after another." if sweep.is_active else ""

    def _look(self) -> None:
        """Stop what has begun by now; close when nothing is left, unless it could not be saved."""
        if not self._is_waiting:
            return
        if self._training.status.can_stop:
            self._training.stop()
        if not self._what:
            self._is_waiting = False
            if not self._training.save_warning:
                QTimer.singleShot(0, self._window, self._window.close)
