"""Composition: makes the worker, the states and the window, connects them, and ends them again.

Must not import torch: the worker thread does, once the window has been painted.
"""

import dataclasses
import time
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer, Signal, Slot
from PySide6.QtWidgets import QApplication

from attnscope import paths
from attnscope.crash import CrashLog
from attnscope.errors import LoadError, UserError
from attnscope.records.messages import ModelLoaded, Ready, Reply, Traced
from attnscope.settings import Settings, StartOptions, write_settings
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.session import Session
from attnscope.viewmodels.training import TrainingState
from attnscope.widgets.main_window import MainWindow
from attnscope.workers.preload import build_engine
from attnscope.workers.thread import BuildEngine, WorkerThread

PREFERRED_DEMO = "english-french"
_MAX_TEXT_BYTES = 100_000


class Program(QObject):
    """The running program: one window, one worker, and everything between them.

    `milestones` holds the wall-clock seconds of `painted`, `ready`, `loaded` and `traced`, each at
    its first time. `ended` is emitted once, when the worker has stopped and the settings are saved.
    """

    fault_told = Signal(str)
    ended = Signal()

    def __init__(
        self,
        *,
        settings: Settings,
        crash_log: CrashLog,
        options: StartOptions,
        is_remembering: bool = True,
        make_engine: BuildEngine = build_engine,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._crash_log = crash_log
        self._source = options.source
        self._is_remembering = is_remembering
        self._is_ending = False
        self.milestones: dict[str, float] = {}
        self.worker = WorkerThread(make_engine, crash_log.write, self)
        numbers = Numbers()
        self.session = Session(self.worker.post, numbers)
        self.training = TrainingState(self.worker.post, numbers)
        self.positions = PositionsState(self.worker.post, numbers)
        self.window = MainWindow(self.session, self.training, self.positions, settings)
        self.worker.replied.connect(self._on_replied)
        self.fault_told.connect(self._on_fault_told)
        self.window.closing.connect(self.end)
        self.window.installEventFilter(self)

    def show(self) -> None:
        """Show the window; the worker starts when it has been painted."""
        self.window.show()

    def close(self) -> None:
        """Close the window as a person would."""
        self.window.close()

    @Slot()
    def end(self) -> None:
        """Stop the worker, save the settings. A run in training saves itself; nothing waits over 3 s."""
        if self._is_ending:
            return
        self._is_ending = True
        self.window.removeEventFilter(self)
        snapshot = self._snapshot()
        self.window.hide()
        self.worker.stop()
        if self._is_remembering and snapshot is not None:
            try:
                write_settings(snapshot, paths.settings_folder())
            except UserError:
                pass  # the window is gone; layout alone is lost
        self.ended.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Start the worker once the window has been painted for the first time."""
        if event.type() == QEvent.Type.Paint and "painted" not in self.milestones:
            self._reach("painted")
            QTimer.singleShot(0, self, self._start_worker)
        return super().eventFilter(watched, event)

    @Slot()
    def _start_worker(self) -> None:
        if not self._is_ending and not self.worker.isRunning():
            self.worker.start()

    @Slot(object)
    def _on_replied(self, reply: Reply) -> None:
        """Hand a reply to every state; each takes what is its own."""
        if self._is_ending:
            return
        self.session.handle(reply)
        self.training.handle(reply)
        self.positions.handle(reply)
        match reply:
            case Ready():
                self._reach("ready")
                self._open_first(reply)
            case ModelLoaded():
                self._reach("loaded")
                self._settings = self._settings.with_recent(reply.info.source)
            case Traced():
                self._reach("traced")
            case _:
                pass

    @Slot(str)
    def _on_fault_told(self, message: str) -> None:
        if not self._is_ending:
            self.session.tell_person(message, is_error=True)

    def tell_fault(self, message: str) -> None:
        """Show a message about a fault; may be called on any thread, never raises."""
        try:
            self.fault_told.emit(message)
        except RuntimeError:
            pass  # the program is being taken apart

    def _open_first(self, ready: Ready) -> None:
        """Open what the person named, or a demo model on its first sample."""
        device = self._settings.device
        path = Path(self._source) if self._source else None
        if path is not None and path.is_file() and path.suffix.lower() == ".txt":
            try:
                self.session.set_text(read_text(path))
            except LoadError as error:
                self.session.tell_person(str(error), is_error=True)
            path = None
        elif path is not None and (path / "recipe.toml").is_file():
            self.training.open_run(str(path))
        source = self._source if path is not None else first_demo(ready.demo_models)
        if source:
            self.session.load_model(source, device)

    def _snapshot(self) -> Settings | None:
        """What to remember; None when the window cannot say."""
        try:
            shown = self.window.settings_snapshot()
        except Exception as error:  # noqa: BLE001  an edge: a fault here must not keep a run from being saved
            self._crash_log.write(error, "reading the layout while closing")
            return None
        return dataclasses.replace(shown, recent=self._settings.recent)

    def _reach(self, milestone: str) -> None:
        self.milestones.setdefault(milestone, time.time())


def first_demo(names: tuple[str, ...]) -> str:
    """The demo model to begin with; empty when there is none."""
    return PREFERRED_DEMO if PREFERRED_DEMO in names else next(iter(names), "")


def read_text(path: Path) -> str:
    """The text of a small UTF-8 file; raises LoadError."""
    try:
        if path.stat().st_size > _MAX_TEXT_BYTES:
            raise LoadError(
                f"The text {path} has {path.stat().st_size:,} bytes.",
                kind="too-large",
                expected=f"at most {_MAX_TEXT_BYTES:,}",
                action="Cut out the part to look at.",
            )
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(
            f"The text {path} cannot be read: {error}.",
            kind="unreadable",
            expected="a UTF-8 text file",
            action="Save it as UTF-8 and open it again.",
        ) from error


def make_application() -> QApplication:
    """The Qt application, with its name; made once."""
    existing = QApplication.instance()
    application = existing if isinstance(existing, QApplication) else QApplication(["attnscope"])
    application.setApplicationName("AttnScope")
    application.setDesktopFileName("attnscope")
    application.setQuitOnLastWindowClosed(False)
    return application
