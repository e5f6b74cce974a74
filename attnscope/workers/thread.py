"""The worker thread: owns every live model, serves one request at a time, trains in between.

The engine is imported by the thread itself, after the window has been painted. Across the border go
only frozen records, through one signal.
"""

import ctypes
import dataclasses
import gc
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QThread, Signal

from attnscope.crash import CrashWriter
from attnscope.nn.long_work import progress_heard, stoppable
from attnscope.records.messages import Failed, Progress, Ready, Traced
from attnscope.records.requests import Reply, Request
from attnscope.workers.mailbox import Mailbox
from attnscope.workers.views import Views

# Importing the engine on the worker thread without freezing the window.
#
# An import holds the interpreter, so torch's big libraries are loaded through ctypes first, which does
# not; and the garbage collector stays off meanwhile, which otherwise walks every object a few times.


if TYPE_CHECKING:
    from attnscope.workers.handlers import Engine

TORCH_LIBRARIES = ("libtorch_global_deps", "libc10", "libtorch_cpu", "libtorch", "libtorch_python")


def build_engine(
    write_crash: Callable[[BaseException, str], Path | None], views: Views | None = None
) -> "Engine":
    """Import torch and make the engine; runs on the worker thread. `views` will hold its traces."""
    was_enabled = gc.isenabled()
    preload_torch()
    gc.disable()
    try:
        from attnscope.workers.handlers import Engine
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
    return Engine(write_crash, views)


def preload_torch() -> None:
    """Load torch's big libraries; whatever fails here is told by the import that follows."""
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


STOP_WITHIN_S = 3.0
SWITCH_S = 0.0005
"""How long the window waits for the interpreter while another thread computes in Python.

It waits at each call of Qt: with Python's 5 ms, painting takes a tenth of a second while libraries load.
"""
PAINT_WITHIN_S = 0.1
"""How long the rest of a request waits for the window to paint the maps that it has sent.

What a model writes after a text is computed in Python: beside it the same painting takes half as long again.
"""


class ThreadEngine(Protocol):
    """What the thread needs of `workers.handlers.Engine`."""

    def ready(self) -> Ready:
        """What this machine offers."""
        ...

    def handle(self, request: Request) -> Iterator[Reply]:
        """Serve one request; never raises."""
        ...

    @property
    def is_training(self) -> bool:
        """Whether `advance_training` would make progress."""
        ...

    def advance_training(self) -> Iterator[Reply]:
        """One piece of training work; never raises."""
        ...

    def stop_training(self) -> None:
        """Ask the run in progress to save and finish."""
        ...


BuildEngine = Callable[[CrashWriter], ThreadEngine]


class BrokenEngine:
    """Stands in for an engine that could not be built: every request fails with the same sentence."""

    is_training = False

    def __init__(self, failed: Failed) -> None:
        self._failed = failed

    def ready(self) -> Ready:
        return Ready(devices=(), demo_models=())

    def handle(self, request: Request) -> Iterator[Reply]:
        """Say what is wrong."""
        yield dataclasses.replace(self._failed, number=request.number, request=type(request).__name__)

    def advance_training(self) -> Iterator[Reply]:
        """Nothing is in training."""
        return iter(())

    def stop_training(self) -> None:
        """Nothing is in training."""


class WorkerThread(QThread):
    """Serves requests; `replied` carries one Reply each. Connect it only to slots of QObjects."""

    replied = Signal(object)

    def __init__(
        self,
        build_engine: BuildEngine,
        write_crash: CrashWriter,
        parent: QObject | None = None,
        *,
        paint_within_s: float = 0.0,
    ) -> None:
        """`paint_within_s` is how long maps that were sent are waited for; `maps_painted` ends the wait."""
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
        """Leave a request; returns at once. Requests left before the thread starts are kept."""
        with self._changed:
            if not self._is_stopping:
                self._mailbox.post(request)
                self._changed.notify()

    def cancel(self, number: int) -> None:
        """Forget a request, or give it up: at its next yield, or between two layers of a pass."""
        with self._changed:
            self._mailbox.cancel(number)
            self._changed.notify()

    def maps_painted(self) -> None:
        """Go on with a request whose maps the window has painted."""
        with self._changed:
            self._is_painted = True
            self._changed.notify()

    def request_stop(self) -> None:
        """Ask the thread to end: what waits is forgotten, a run in training saves and finishes."""
        with self._changed:
            self._is_stopping = True
            self._mailbox.clear()
            self._changed.notify()

    def stop(self, within_s: float = STOP_WITHIN_S) -> bool:
        """Ask the thread to end and wait; False when it is still busy after `within_s`."""
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

    def _start_engine(self) -> ThreadEngine:
        """The engine; when it cannot be had, one that says so to every request."""
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

    def _serve(self, engine: ThreadEngine, request: Request) -> None:
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
        """Leave the interpreter to the window until its maps are painted; whether it was given up then."""
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

    def _finish_training(self, engine: ThreadEngine) -> None:
        """Let the run save; the wait of `stop` bounds how long anybody waits for it."""
        engine.stop_training()
        deadline_s = time.monotonic() + STOP_WITHIN_S
        while engine.is_training and time.monotonic() < deadline_s:
            self._pass_on(engine.advance_training())

    def _next_request(self, *, wait: bool) -> Request | None:
        """The next request that is due; with `wait`, sleeps until one is or the thread must end."""
        with self._changed:
            while not self._is_stopping:
                request = self._mailbox.take() or (self._mailbox.take_idle() if wait else None)
                if request is not None or not wait:
                    return request
                self._changed.wait(self._mailbox.wait_s())
            return None
