"""The way back to the run before, while the page shows none."""

from pathlib import Path

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QPushButton, QWidget

from attnscope.viewmodels.session.recents import Recents
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.labels import listen, plain_tooltip

_LONG = 28
"""The most letters that it says of a run's name."""


class LastRunButton(QPushButton):
    """Opens the run that was trained or opened last; hidden where there is none, or one is shown."""

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._recents: Recents | None = None
        self.clicked.connect(self._on_clicked)
        self.hide()

    def offer(self, recents: Recents) -> None:
        """Open the newest of these runs from now on."""
        self._recents = recents
        listen(self, recents, lambda _name: self.show_run())
        self.show_run()

    def show_run(self) -> None:
        """Name the run that would be opened now."""
        folder = self._folder
        name = Path(folder).name
        self.setText(f"Open the last run: {name if len(name) <= _LONG else name[: _LONG - 1] + '…'}")
        self.setToolTip(plain_tooltip(folder))
        self.setVisible(bool(folder))

    @property
    def _folder(self) -> str:
        """The folder of the run before, where it is still there and no run is shown."""
        runs = self._recents.runs[:1] if self._recents and self._state.status.phase == "idle" else ()
        return next((run for run in runs if (Path(run) / "recipe.toml").is_file()), "")

    @Slot()
    def _on_clicked(self) -> None:
        if folder := self._folder:
            self._state.open_run(folder)
