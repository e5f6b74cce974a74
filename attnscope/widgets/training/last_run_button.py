"""The way back to the run before, or to several that were left, while the page shows none."""

from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QPushButton, QWidget

from attnscope.errors import LoadError
from attnscope.viewmodels.session.recents import Recents
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.widgets.labels import plain_tooltip, when

_LONG = 28
"""The most letters that it says of a run's name."""


class LastRunButton(QPushButton):
    """Opens the run that was trained or opened last, or goes on with several that the program was closed
    over, whichever was later; hidden where there is neither, or one is shown.

    `several_wanted`: the sweep stands as it was left, and can be started. `failed` says why it does not.
    """

    several_wanted = Signal()
    failed = Signal(str, str)

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._recents: Recents | None = None
        self._sweep: SweepState | None = None
        self.clicked.connect(self._on_clicked)
        self.hide()

    def offer(self, recents: Recents) -> None:
        """Open the newest of these runs from now on."""
        self._recents = recents
        when(self, self.show_run, recents.changed)
        self.show_run()

    def offer_sweep(self, sweep: SweepState) -> None:
        """Go on with several runs as well."""
        self._sweep = sweep
        self.show_run()

    def show_run(self) -> None:
        """Name what would be opened now."""
        folder, is_sweep = self._found
        name = Path(folder).name
        what = "Go on with several runs" if is_sweep else "Open the last run"
        self.setText(f"{what}: {name if len(name) <= _LONG else name[: _LONG - 1] + '…'}")
        self.setToolTip(plain_tooltip(folder))
        self.setVisible(bool(folder))

    @property
    def run(self) -> str:
        """The folder of the run that was trained or opened last; empty for none."""
        runs = self._recents.runs[:1] if self._recents is not None else ()
        return next((run for run in runs if _time_of(run)), "")

    @property
    def _found(self) -> tuple[str, bool]:
        """The folder to open, empty for none, and whether it holds several runs that were left."""
        if self._state.status.phase != "idle" or self._recents is None:
            return "", False
        run = self.run
        sweep, left_at = self._sweep.left if self._sweep and self._sweep.phase == "idle" else ("", 0.0)
        return (sweep, True) if left_at > _time_of(run) else (run, False)

    @Slot()
    def _on_clicked(self) -> None:
        folder, is_sweep = self._found
        if folder and is_sweep and self._sweep is not None:
            try:
                self._sweep.take_up(folder)
            except LoadError as error:
                self.failed.emit("several runs", str(error))
                return
            self.several_wanted.emit()
        elif folder:
            self._state.open_run(folder)


def _time_of(run: str) -> float:
    """When a run was last written; 0 for what is no run, or is there no more."""
    folder = Path(run)
    times = []
    for name in ("recipe.toml", "metrics.jsonl") if run else ():
        try:
            times.append((folder / name).stat().st_mtime)
        except (OSError, ValueError):
            if name == "recipe.toml":
                return 0.0
    return max(times, default=0.0)
