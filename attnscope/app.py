"""Composition: makes the worker, the states and the window, connects them, and shuts them down.

Must not import torch: the worker thread does, once the window has been painted.
"""

import dataclasses
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QFileOpenEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from attnscope import paths
from attnscope.collector import OneThread
from attnscope.crash import CrashLog
from attnscope.errors import LoadError, UserError
from attnscope.figures.figure_file import is_figure_file
from attnscope.files import replace_file
from attnscope.labs.findings import kept_findings
from attnscope.outside import read_outside
from attnscope.records.messages import Failed, HeadsShown, ModelLoaded, Ready, ShowHeads, Traced
from attnscope.records.models import ShelfReply
from attnscope.records.requests import Reply, Request
from attnscope.records.tiles import RefineGrids, TileReply
from attnscope.settings import SETTINGS_NAME, Settings, StartOptions, write_settings
from attnscope.viewmodels.session.file import ENDING as SESSION_ENDING
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.states import (
    Posts,
    Replies,
    States,
    watch_downloads,
    watch_flow,
    watch_heads,
    watch_pages,
    watch_pass,
    watch_session,
    watch_sweep,
    watch_training,
    watch_writing,
)
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.widgets.labels import when
from attnscope.widgets.window.main_window import MainWindow
from attnscope.workers.threads import (
    PAINT_WITHIN_S,
    BuildEngine,
    WorkerThread,
    build_engine,
    fetch_thread,
    tile_thread,
)
from attnscope.workers.views import Views

# Edits of recipes that are in no file, kept from one start to the next.

DRAFT_NAME = "recipe-draft.json"
_MAX_BYTES = 10_000_000


def keep_draft(training: TrainingState, folder: Path) -> None:
    """Save the edits to a file in this folder. Raises SaveError or OSError."""
    kept = training.recipe.unsaved
    if kept:
        replace_file(folder / DRAFT_NAME, json.dumps(kept).encode())
    else:
        (folder / DRAFT_NAME).unlink(missing_ok=True)


def bring_draft_back(training: TrainingState, folder: Path) -> None:
    """Restore saved edits; if there are none, or they are damaged, nothing changes."""
    file = folder / DRAFT_NAME
    try:
        kept = json.loads(read_outside(file, expected="the edits of a recipe", max_bytes=_MAX_BYTES))
    except (LoadError, ValueError, RecursionError):
        return
    if training.recipe.take_unsaved(kept):
        training.place.offer(training.run.folder)


# Closing the window during training: the user is asked, and it closes once the run is saved.

Ask = Callable[[QWidget, str], bool]


def ask_to_leave(parent: QWidget, what: str) -> bool:
    """Ask whether to save the training in progress and close; Esc continues training."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle("Close AttnScope?")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(what)
    box.setInformativeText("Training pauses while the program is closed and can be continued later.")
    save = box.addButton("Save and close", QMessageBox.ButtonRole.AcceptRole)
    keep = box.addButton("Keep training", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(keep)
    box.exec()
    return box.clickedButton() is save


class Leaving(QObject):
    """Decides whether the window may close. `is_asked` is False if nobody can answer: after a signal."""

    def __init__(self, training: TrainingState, sweep: SweepState, window: QWidget) -> None:
        super().__init__(window)
        self._training, self._sweep, self._window = training, sweep, window
        self._is_waiting = False
        self.is_asked = True
        self.ask: Ask = ask_to_leave
        when(window, self._look, training.changed.status, sweep.changed)

    def may_close(self) -> bool:
        """Ask if training is in progress. While it is being saved, closing again does not wait any longer."""
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
        """The training in progress, in words; empty if there is none."""
        training, sweep = self._training, self._sweep
        if training.run.is_active:
            step = (
                f" It has completed {training.run.step:,} of {training.run.n_steps:,} steps."
                if training.run.n_steps
                else ""
            )
            return f"A model is being trained.{step}"
        return "Several runs are being trained, one after another." if sweep.is_active else ""

    def _look(self) -> None:
        """Stop work begun meanwhile; close when none is left, unless saving failed."""
        if not self._is_waiting:
            return
        if self._training.run.status.can_stop:
            self._training.stop()
        if not self._what:
            self._is_waiting = False
            if not self._training.run.save_warning:
                QTimer.singleShot(0, self._window, self._window.close)


PREFERRED_DEMO = "english-french"
_RETRY_MS = 300
_COLLECT_MS = 50
_PLOTS_AFTER_MS, _SLICES_EVERY_MS, _SLICE_S = 500, 20, 0.004


class Collecting(QObject):
    """Runs Python's garbage collector on the window's thread, between two events of Qt; see `collector`."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        one = self._one = OneThread()
        self._timer = QTimer(self, interval=_COLLECT_MS)
        self._timer.timeout.connect(one.collect_due)
        self._timer.start()
        self.destroyed.connect(lambda: one.end())

    def end(self) -> None:
        """Restore Python's own collection; no thread of the program may still run."""
        self._timer.stop()
        self._one.end()


class PlotsAhead(QObject):
    """Imports the plotting library while the user is idle, before a page with a plot is opened.

    It does so on the window's thread and on no other. Up to Python 3.11 PySide keeps what it knows of its
    classes in one table, which Qt reads without Python's lock: a class of Qt that another thread makes
    meanwhile can end the process, and this import makes five hundred. The classes of Qt that the library asks
    for are made in advance, a few milliseconds at a time.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._go_on)
        self._names = ((module, name) for module in (QtCore, QtGui, QtWidgets) for name in dir(module))

    def wait(self) -> None:
        """The user is active: postpone the import."""
        if "pyqtgraph" not in sys.modules:
            self._timer.start(_PLOTS_AFTER_MS)

    def _go_on(self) -> None:
        until_s = time.monotonic() + _SLICE_S
        for module, name in self._names:
            getattr(module, name)
            if time.monotonic() > until_s:
                self._timer.start(_SLICES_EVERY_MS)
                return
        importlib.import_module("pyqtgraph")


class Program(QObject):
    """The running program: one window, one worker, and everything between them.

    `milestones` holds the wall-clock seconds of `painted`, `ready`, `loaded` and `traced`, each at its first
    time. With `is_measuring` the heads of a model are measured as soon as the user wants nothing else, and
    what the first page with a plot needs is imported. `ended` is emitted once, when the worker has stopped
    and the settings are saved.
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
        is_measuring: bool = False,
        make_engine: BuildEngine | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._crash_log = crash_log
        self._source, self._handed = options.source, list[str]()
        self._is_remembering, self._is_measuring = is_remembering, is_measuring
        self._is_ending = False
        self.collecting, self.plots = Collecting(self), PlotsAhead(self)
        self.milestones: dict[str, float] = {}
        views = Views()
        make_engine = make_engine or functools.partial(
            build_engine, views=views, may_choose_threads=options.may_choose_threads
        )
        self.worker = WorkerThread(make_engine, crash_log.write, self, paint_within_s=PAINT_WITHIN_S)
        self.tiles = tile_thread(views, crash_log.write, self)
        self.fetches = fetch_thread(crash_log.write, self)
        posts = Posts(
            worker=self.worker.post,
            tiles=self.tiles.post,
            downloads=self.fetches.post,
            cancel=self.worker.cancel,
        )
        self.replies = Replies(posts)
        self.session = self.replies.join(Session, Ready, ModelLoaded, post=self._post_for_session)
        self.states = States(self.session, self.replies, read_kept=kept_findings)
        self.training, self.heads = self.states.training, self.states.heads
        self.training.runs.restore(settings.listed_runs, settings.removed_runs, settings.unticked_runs)
        self.window = MainWindow(self.states, settings)
        self.leaving = Leaving(self.training, self.states.sweep, self.window)
        self.window.may_close = self.leaving.may_close
        if is_remembering:
            bring_draft_back(self.training, paths.settings_folder())
        self._watch_work()
        self.worker.replied.connect(self._on_replied)
        self.tiles.replied.connect(self._on_tiles_replied)
        self.fetches.replied.connect(self._on_fetches_replied)
        self.fault_told.connect(self._on_fault_told)
        self.window.closing.connect(self.end)
        self.window.installEventFilter(self)

    def _watch_work(self) -> None:
        work, states = self.window.status_bar.work.state, self.states
        watch_session(work, self.session, self.worker.cancel)
        watch_training(work, self.training)
        watch_sweep(work, states.sweep)
        watch_heads(work, self.heads, states.curves, states.alike)
        watch_pass(work, "A head's weights", states.weights)
        watch_writing(work, states.generation)
        watch_pages(work, states.compare, states.pruning, states.labs.experiments, self.worker.cancel)
        watch_pass(work, "Patching", states.patching)
        watch_flow(work, states.across)
        watch_downloads(work, states.shelf)

    def show(self) -> None:
        """Show the window; the worker starts when it has been painted."""
        self.window.show()
        if self._is_remembering:
            if not (paths.settings_folder() / SETTINGS_NAME).exists():
                self.window.learning.invite()
            self.window.workspace.start_autosave(paths.settings_folder() / "sessions")

    def close(self) -> None:
        """Close the window, without asking."""
        self.leaving.is_asked = False
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
        popup = QApplication.activePopupWidget()
        if popup is not None:
            popup.close()  # an open list or menu is a window of its own
        self.tiles.stop()
        self.fetches.stop()
        self.states.sweep.stop()
        self.worker.stop()
        if not self.worker.isRunning():
            self.collecting.end()
        if self._is_remembering and snapshot is not None:
            try:
                keep_draft(self.training, paths.settings_folder())
                write_settings(snapshot, paths.settings_folder())
            except (UserError, OSError):
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
        """Pass a reply to the object that asked; the program itself notes the progress."""
        if self._is_ending:
            return
        self.replies.deliver(reply)
        match reply:
            case Ready():
                self._reach("ready")
                self._open_first(reply)
            case ModelLoaded():
                self._reach("loaded")
                self._settings = self._settings.with_recent(reply.info.source)
                if self._is_measuring:
                    self.heads.measure_when_idle()
            case Traced():
                self._reach("traced")
                self._refine(reply)
                if self._is_measuring:
                    self.plots.wait()
                QTimer.singleShot(0, self.worker, self.worker.maps_painted)
            case _:
                pass

    def _post_for_session(self, request: Request) -> None:
        """Show heads of a finished trace beside the worker, which may be generating a continuation."""
        is_of_trace = isinstance(request, ShowHeads) and bool(request.trace)
        (self.tiles if is_of_trace else self.worker).post(request)

    @Slot(object)
    def _on_tiles_replied(self, reply: TileReply | HeadsShown | Failed) -> None:
        """Pass a reply of the tile thread to the views of maps."""
        if self._is_ending:
            return
        self.replies.deliver(reply)

    @Slot(object)
    def _on_fetches_replied(self, reply: ShelfReply | Failed) -> None:
        """Pass a reply of the download thread to the shelf; also report a fault of the program."""
        if self._is_ending:
            return
        self.replies.deliver(reply)
        if isinstance(reply, Failed) and reply.crash_log:
            self.session.handle(reply)

    def _refine(self, traced: Traced) -> None:
        """Have the rough thumbnails of a long text made exact when there is time."""
        if not traced.view and traced.is_whole and any(map(attrgetter("is_sampled"), traced.grids)):
            self.tiles.post(RefineGrids(number=traced.number, model=traced.model, trace=traced.number))

    @Slot(str)
    def _on_fault_told(self, message: str) -> None:
        if not self._is_ending:
            self.session.notices.say(message, is_error=True)

    def tell_fault(self, message: str) -> None:
        """Show a message about a fault; may be called on any thread, never raises."""
        try:
            self.fault_told.emit(message)
        except RuntimeError:
            pass  # the program is being taken apart

    def _open_first(self, ready: Ready) -> None:
        """Open the model or file that the user named, or a demo model with its first sample."""
        device = self._settings.device
        path = Path(self._source) if self._source else None
        if path is not None and (path.suffix.lower() == SESSION_ENDING or is_figure_file(path)):
            self.window.workspace.files.open_path(str(path))
            if self.session.opening.busy is not None:
                return
            path = None
        elif path is not None and path.is_file() and path.suffix.lower() == ".txt":
            self.session.texts.open_file(str(path))
            path = None
        elif path is not None and (path / "recipe.toml").is_file():
            self.training.reading.open(str(path))
        source = self._source if path is not None else first_demo(ready.demo_models)
        if source:
            self.session.opening.load(source, device)

    @Slot(str)
    def take_source(self, source: str) -> None:
        """Come to the front and open a path or model name from a later start or the desktop.

        Before the engine is there it takes the place of what was to be opened first. While a dialog wants an
        answer it waits for that.
        """
        if self._is_ending:
            return
        self._come_forward()
        if "ready" not in self.milestones:
            self._source = source
        else:
            self._handed.append(source)
            self._open_handed()

    @Slot()
    def _open_handed(self) -> None:
        """Open it once no dialog is open."""
        if self._is_ending or not self._handed:
            return
        if QApplication.activeModalWidget() is not None:
            QTimer.singleShot(_RETRY_MS, self, self._open_handed)
            return
        source = self._handed[-1]
        self._handed.clear()
        if os.path.exists(source):
            self.window.workspace.files.open_path(source)
        else:
            self.session.opening.load(source, self._settings.device)

    def _come_forward(self) -> None:
        """Raise the window, and restore it if it was minimised."""
        window = self.window
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.raise_()
        window.activateWindow()

    def _snapshot(self) -> Settings | None:
        """The state to save; None if the window cannot provide it."""
        try:
            shown = self.window.settings_snapshot()
        except Exception as error:  # noqa: BLE001  an edge: a fault here must not keep a run from being saved
            self._crash_log.write(error, "reading the layout while closing")
            return None
        listed, removed, unticked = self.training.runs.remembered
        return dataclasses.replace(
            shown,
            recent=self._settings.recent,
            listed_runs=listed,
            removed_runs=removed,
            unticked_runs=unticked,
        )

    def _reach(self, milestone: str) -> None:
        self.milestones.setdefault(milestone, time.time())


def first_demo(names: tuple[str, ...]) -> str:
    """The demo model to begin with; empty if there is none."""
    return PREFERRED_DEMO if PREFERRED_DEMO in names else next(iter(names), "")


class Application(QApplication):
    """The Qt application; `file_wanted` is emitted with the file that a desktop asks it to open (macOS)."""

    file_wanted = Signal(str)

    def event(self, event: QEvent) -> bool:
        """Report a file to open."""
        if isinstance(event, QFileOpenEvent):
            if event.file():
                self.file_wanted.emit(event.file())
            return True
        return super().event(event)


def make_application() -> QApplication:
    """The Qt application, with its name; made once."""
    existing = QApplication.instance()
    application = existing if isinstance(existing, QApplication) else Application(["attnscope"])
    application.setApplicationName("AttnScope")
    application.setDesktopFileName("io.github.attnscope.AttnScope")
    application.setQuitOnLastWindowClosed(False)
    return application
