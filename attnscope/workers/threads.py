"""The threads beside the window's: the worker, and those that handle small requests at a desk. Only frozen
records cross the border, through one signal.

The worker owns every live model, serves one request at a time, and trains in between. It imports the engine
itself, after the window has been painted.

The other threads start with their first request and own no model. The download thread: a slow or dead server
keeps neither the window nor the worker waiting. The tile thread: serves parts of finished traces, so that
panning stays smooth while the worker is busy.

Of each kind (and slot) of request the newest wins, also over one in the making. Between two steps the most
urgent is chosen anew: single cells, heads in full, then what is looked at, the overview, edges, pyramids,
thumbnails.
"""

import ctypes
import dataclasses
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QThread, Signal

from attnscope.collector import collector_resting
from attnscope.crash import CrashWriter
from attnscope.nn import progress_heard, stoppable
from attnscope.records.messages import Failed, HeadsShown, Progress, Ready, ShowHeads, Traced
from attnscope.records.requests import Reply, Request
from attnscope.records.tiles import ReadCell, RefineGrids, ShowEdges, ShowTile, TileReply, TileRequest
from attnscope.workers.mailbox import Mailbox
from attnscope.workers.views import Views

if TYPE_CHECKING:
    from attnscope.workers.engine import Engine
    from attnscope.workers.fetch_desk import FetchDesk
    from attnscope.workers.serve_tiles import TileServer

STOP_WITHIN_S = 3.0


class DeskThread(QThread):
    """Handles the requests of one desk, which only this thread touches.

    `replied` carries one reply or Failed, for slots of QObjects only.

    Of the requests that wait, the newest with the same `key_of` wins.
    """

    replied = Signal(object)

    def __init__(
        self,
        name: str,
        build: "Callable[[], FetchDesk | TileDesk]",
        failed: Callable[[BaseException], Failed],
        parent: QObject | None = None,
        *,
        key_of: Callable[[Any], Hashable] = id,
    ) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self._build, self._failed, self._key_of = build, failed, key_of
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, Any] = {}
        self._is_stopping = False

    def post(self, request: object) -> None:
        """Post a request; returns at once."""
        with self._changed:
            if self._is_stopping:
                return
            self._waiting[self._key_of(request)] = request
            self._changed.notify()
        if not self.isRunning():
            self.start()

    def stop(self, within_s: float = STOP_WITHIN_S) -> bool:
        """Ask the thread to end and wait; False if it is still busy after `within_s`."""
        with self._changed:
            self._is_stopping = True
            self._waiting.clear()
            self._changed.notify()
        return self.wait(int(within_s * 1000))

    def run(self) -> None:
        """The thread's life. Called by Qt."""
        desk: FetchDesk | TileDesk | None = None
        while not self._is_stopping:
            requests = self._take(None if desk is None else desk.wait_s)
            try:
                desk = desk or self._build()
                for request in requests:
                    desk.take(request)
                for reply in desk.step():
                    if not self._is_stopping:
                        self.replied.emit(reply)
            except BaseException as error:  # noqa: BLE001  an edge: a fault here must not end the window
                self.replied.emit(self._failed(error))

    def _take(self, wait_s: float | None) -> tuple[Any, ...]:
        with self._changed:
            if wait_s is None:
                while not self._waiting and not self._is_stopping:
                    self._changed.wait()
            elif wait_s > 0.0 and not self._waiting and not self._is_stopping:
                self._changed.wait(wait_s)
            requests = tuple(self._waiting.values())
            self._waiting.clear()
        return requests


def fetch_thread(write_crash: CrashWriter, parent: QObject | None = None) -> DeskThread:
    """A thread that handles requests of the shelf, in order."""

    def failed(error: BaseException) -> Failed:
        log = write_crash(error, "serving the shelf of models")
        message = f"The shelf of models failed because of a fault in AttnScope ({type(error).__name__})."
        return Failed(number=0, request="shelf", message=message, crash_log=str(log or ""))

    return DeskThread("downloads", _build, failed, parent, key_of=lambda request: request.number)


def _build() -> "FetchDesk":
    from attnscope.workers.fetch_desk import FetchDesk  # not before the first paint

    return FetchDesk()


URGENCY = ("cell", "heads", "view", "overview", "edges", "pyramid", "grids")
Kind = str
MapRequest = TileRequest | ShowHeads
MapReply = TileReply | HeadsShown


def request_kind(request: MapRequest) -> Kind:
    """The kind of a request; a newer one of the same kind replaces it."""
    match request:
        case ReadCell():
            return "cell"
        case ShowHeads():
            return "heads"
        case ShowTile():
            return request.slot
        case ShowEdges():
            return "edges"
        case RefineGrids():
            return "grids"
        case _:
            raise TypeError(f"unknown request {type(request).__name__}")


class TileDesk:
    """Handles requests step by step; not safe for use from two threads."""

    def __init__(self, server: "TileServer") -> None:
        self._server = server
        self._jobs: dict[Kind, Iterator[MapReply | None]] = {}

    def take(self, request: MapRequest) -> None:
        """Begin a request; an older one of its kind is cancelled."""
        self._jobs[request_kind(request)] = self._server.start(request)

    @property
    def has_work(self) -> bool:
        """Whether `step` has something to do."""
        return bool(self._jobs) or self._server.has_idle_work

    @property
    def wait_s(self) -> float | None:
        """Seconds until `step` has something to do: 0 for at once, None if there is nothing to do."""
        return 0.0 if self.has_work else None

    def step(self) -> tuple[MapReply, ...]:
        """Do one piece of the most urgent work, and return its replies; a job that raises is dropped."""
        for kind in URGENCY:
            if kind == "pyramid" and self._server.has_idle_work:
                return tuple(self._server.grow())
            job = self._jobs.get(kind)
            if job is None:
                continue
            try:
                reply = next(job)
            except StopIteration:
                del self._jobs[kind]
                return ()
            except BaseException:
                del self._jobs[kind]
                raise
            return () if reply is None else (reply,)
        return ()


def build_server(views: Views) -> "TileServer":
    """The server; imports the engine's libraries, which the worker has loaded before there is a trace."""
    from attnscope.workers.serve_tiles import TileServer

    return TileServer(views)


def tile_thread(views: Views, write_crash: CrashWriter, parent: QObject | None = None) -> DeskThread:
    """A thread that handles tile requests; of each kind the newest wins."""

    def failed(error: BaseException) -> Failed:
        log = write_crash(error, "serving tiles")
        message = f"This part of the map failed because of a fault in AttnScope ({type(error).__name__})."
        if isinstance(error, MemoryError):
            message = "There is not enough memory for this part of the map. Choose a shorter text."
        return Failed(number=0, request="tiles", message=message, crash_log=str(log or ""))

    return DeskThread("tiles", lambda: TileDesk(build_server(views)), failed, parent, key_of=request_kind)


# Importing the engine on the worker thread without freezing the window.
#
# An import holds the interpreter, so torch's big libraries are loaded through ctypes first, which does
# not; and the garbage collector stays off meanwhile, which otherwise walks every object a few times.


TORCH_LIBRARIES = ("libtorch_global_deps", "libc10", "libtorch_cpu", "libtorch", "libtorch_python")


def build_engine(
    write_crash: Callable[[BaseException, str], Path | None],
    views: Views | None = None,
    *,
    may_choose_threads: bool = False,
) -> "Engine":
    """Import torch and make the engine; runs on the worker thread. `views` will hold its traces."""
    preload_torch()
    with collector_resting():
        from attnscope.workers.engine import Engine
    return Engine(write_crash, views, may_choose_threads=may_choose_threads)


def preload_torch() -> None:
    """Load torch's big libraries; any failure here is reported by the import that follows."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations or sys.platform == "win32":
        return
    folder = Path(spec.submodule_search_locations[0]) / "lib"
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    for name in TORCH_LIBRARIES:
        path = folder / f"{name}{suffix}"
        if not path.is_file():
            continue
        is_global = name == "libtorch_global_deps"
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL if is_global else ctypes.DEFAULT_MODE)
        except OSError:
            return


SWITCH_S = 0.0005
"""How long the window waits for the interpreter while another thread computes in Python.

It waits at each call of Qt: with Python's 5 ms, painting takes a tenth of a second while libraries load.
"""
PAINT_WITHIN_S = 0.1
"""How long the rest of a request waits for the window to paint the maps that it has sent.

What a model writes after a text is computed in Python: beside it the same painting takes half as long again.
"""


BuildEngine = Callable[[CrashWriter], "Engine"]


class BrokenEngine:
    """Replaces an engine that could not be built: every request fails with the same message."""

    is_training = False

    def __init__(self, failed: Failed) -> None:
        self._failed = failed

    def ready(self) -> Ready:
        return Ready(devices=(), demo_models=())

    def handle(self, request: Request) -> Iterator[Reply]:
        """Report the failure."""
        yield dataclasses.replace(self._failed, number=request.number, request=type(request).__name__)

    def advance_training(self) -> Iterator[Reply]:
        """Nothing is in training."""
        return iter(())

    def stop_training(self) -> None:
        """Nothing is in training."""


class WorkerThread(QThread):
    """Handles requests; `replied` carries one Reply each. Connect it only to slots of QObjects."""

    replied = Signal(object)

    def __init__(
        self,
        build_engine: BuildEngine,
        write_crash: CrashWriter,
        parent: QObject | None = None,
        *,
        paint_within_s: float = 0.0,
    ) -> None:
        """`paint_within_s` limits the wait for sent maps to be painted; `maps_painted` ends it."""
        super().__init__(parent)
        self.setObjectName("worker")
        self._paint_within_s = paint_within_s
        self._is_painted = True
        self._build_engine = build_engine
        self._write_crash = write_crash
        self._mailbox = Mailbox()
        self._changed = threading.Condition()
        self._is_stopping = False

    def post(self, request: Request) -> None:
        """Post a request; returns at once. Requests posted before the thread starts are kept."""
        with self._changed:
            if not self._is_stopping:
                self._mailbox.post(request)
                self._changed.notify()

    def cancel(self, number: int) -> None:
        """Cancel a request: waiting, at its next yield, or between two layers of a pass."""
        with self._changed:
            self._mailbox.cancel(number)
            self._changed.notify()

    def maps_painted(self) -> None:
        """Continue with a request whose maps the window has painted."""
        with self._changed:
            self._is_painted = True
            self._changed.notify()

    def request_stop(self) -> None:
        """Ask the thread to end: waiting requests are dropped, a run in training saves and finishes."""
        with self._changed:
            self._is_stopping = True
            self._mailbox.clear()
            self._changed.notify()

    def stop(self, within_s: float = STOP_WITHIN_S) -> bool:
        """Ask the thread to end and wait; False if it is still busy after `within_s`."""
        self.request_stop()
        return self.wait(int(within_s * 1000))

    def run(self) -> None:
        """The thread's life. Called by Qt."""
        sys.setswitchinterval(SWITCH_S)
        engine = self._start_engine()
        while not self._is_stopping:
            request = self._next_request(wait=not engine.is_training)
            while request is not None:
                self._serve(engine, request)
                request = self._next_request(wait=False)
            if engine.is_training and not self._is_stopping:
                self._pass_on(engine.advance_training())
        self._finish_training(engine)

    def _start_engine(self) -> "Engine | BrokenEngine":
        """The engine; if it cannot be built, one that says so to every request."""
        try:
            engine = self._build_engine(self._write_crash)
            self.replied.emit(engine.ready())
        except BaseException as error:  # noqa: BLE001  an edge: a broken installation must not end the window
            log = self._write_crash(error, "starting the engine")
            message = (
                f"The engine could not be started ({type(error).__name__}: {error}). Install AttnScope again."
            )
            failed = Failed(number=0, request="Ready", message=message, crash_log=str(log or ""))
            self.replied.emit(failed)
            return BrokenEngine(failed)
        return engine

    def _serve(self, engine: "Engine | BrokenEngine", request: Request) -> None:
        def hear(what: object) -> None:
            self.replied.emit(Progress(number=request.number, what=what) if isinstance(what, str) else what)

        replies = engine.handle(request)
        with stoppable(lambda: self._is_unwanted(request)), progress_heard(hear):
            for reply in replies:
                if self._is_unwanted(request):
                    break
                self._is_painted = not (isinstance(reply, Traced) and reply.comparison.is_writing)
                self.replied.emit(reply)
                if self._is_given_up_while_painted(request):
                    break
        del replies  # closes the generator here, on this thread
        with self._changed:
            self._mailbox.finish(request)

    def _is_given_up_while_painted(self, request: Request) -> bool:
        """Leave the interpreter to the window until its maps are painted; whether it was cancelled."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_painted or self._is_unwanted(request), self._paint_within_s
            )
            return self._is_unwanted(request)

    def _is_unwanted(self, request: Request) -> bool:
        with self._changed:
            return self._is_stopping or self._mailbox.is_abandoned(request)

    def _pass_on(self, replies: Iterator[Reply]) -> None:
        for reply in replies:
            self.replied.emit(reply)

    def _finish_training(self, engine: "Engine | BrokenEngine") -> None:
        """Let the run save; the wait of `stop` limits the time."""
        engine.stop_training()
        deadline_s = time.monotonic() + STOP_WITHIN_S
        while engine.is_training and time.monotonic() < deadline_s:
            self._pass_on(engine.advance_training())

    def _next_request(self, *, wait: bool) -> Request | None:
        """The next request due; with `wait`, sleeps until there is one or the thread must end."""
        with self._changed:
            while not self._is_stopping:
                request = self._mailbox.take() or (self._mailbox.take_idle() if wait else None)
                if request is not None or not wait:
                    return request
                self._changed.wait(self._mailbox.wait_s())
            return None
