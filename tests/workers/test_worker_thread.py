"""The worker thread, with engines written here: order, newest wins, failure, cancel, stopping while busy."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Signal, Slot
from pytestqt.qtbot import QtBot

from attnscope.errors import Stopped
from attnscope.nn import stop_if_unwanted
from attnscope.records import (
    Failed,
    LoadModel,
    MeasureHeads,
    ModelSaved,
    Progress,
    Ready,
    Reply,
    Request,
    SaveModel,
    TraceText,
    TrainingNews,
)
from attnscope.workers import WorkerThread

pytestmark = pytest.mark.qt


class EchoEngine:
    """Answers every request with its number; waits for `gate` in each load; trains while `n_left`."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.closed: list[int] = []
        self.served: list[int] = []
        self.n_left = 0
        self.n_advanced = 0
        self.is_stop_asked = False
        self.threads: set[int] = set()

    def ready(self) -> Ready:
        return Ready(devices=("cpu",), demo_models=())

    def handle(self, request: Request) -> Iterator[Reply]:
        self.threads.add(threading.get_ident())
        self.served.append(request.number)
        try:
            if isinstance(request, LoadModel):
                self.entered.set()
                self.gate.wait(5.0)
                yield Progress(number=request.number, what="half")
            if isinstance(request, MeasureHeads):
                self.entered.set()
                while not self.gate.wait(0.001):
                    stop_if_unwanted()
            yield ModelSaved(number=request.number, folder="done")
        except Stopped:
            pass
        finally:
            self.closed.append(request.number)

    @property
    def is_training(self) -> bool:
        return self.n_left > 0

    def advance_training(self) -> Iterator[Reply]:
        time.sleep(0.001)
        self.n_left -= 1
        self.n_advanced += 1
        yield TrainingNews(number=1, events=())

    def stop_training(self) -> None:
        self.is_stop_asked = True
        self.n_left = min(self.n_left, 1)


class Window(QObject):
    """Receives replies as the program does: in a slot, on the GUI thread."""

    taken = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Reply] = []
        self.threads: set[int] = set()

    @Slot(object)
    def take(self, reply: Reply) -> None:
        self.replies.append(reply)
        self.threads.add(threading.get_ident())
        self.taken.emit()

    def numbers(self, kind: type) -> list[int]:
        return [reply.number for reply in self.replies if isinstance(reply, kind)]  # type: ignore[union-attr]


@pytest.fixture
def engine() -> EchoEngine:
    return EchoEngine()


@pytest.fixture
def window() -> Window:
    return Window()


@pytest.fixture
def worker(qtbot: QtBot, engine: EchoEngine, window: Window) -> Iterator[WorkerThread]:
    thread = WorkerThread(lambda write_crash: engine, lambda error, doing: None)
    thread.replied.connect(window.take)
    yield thread
    engine.gate.set()
    assert thread.stop()


def save(number: int) -> SaveModel:
    return SaveModel(number=number, folder="x")


def wait_for(qtbot: QtBot, is_true: Callable[[], bool]) -> None:
    qtbot.waitUntil(is_true, timeout=5000)


def test_that_ready_comes_first_and_requests_left_before_the_start_are_served(
    qtbot: QtBot, worker: WorkerThread, window: Window
) -> None:
    worker.post(save(1))
    worker.post(save(2))
    with qtbot.waitSignal(window.taken, timeout=5000):
        worker.start()
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [1, 2])
    assert isinstance(window.replies[0], Ready)


def test_that_the_engine_works_on_the_worker_and_replies_arrive_on_the_gui_thread(
    qtbot: QtBot, worker: WorkerThread, engine: EchoEngine, window: Window
) -> None:
    worker.start()
    worker.post(save(1))
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [1])
    assert window.threads == {threading.get_ident()}
    assert engine.threads.isdisjoint(window.threads)


def test_that_a_trace_posted_while_busy_replaces_the_one_before(
    qtbot: QtBot, worker: WorkerThread, engine: EchoEngine, window: Window
) -> None:
    worker.start()
    worker.post(LoadModel(number=1, source="slow"))
    assert engine.entered.wait(5.0)
    for number in range(2, 10):
        worker.post(TraceText(number=number, text="any"))
    engine.gate.set()
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [1, 9])
    assert engine.served == [1, 9]


def test_that_a_cancelled_request_is_given_up_at_its_next_yield(
    qtbot: QtBot, worker: WorkerThread, engine: EchoEngine, window: Window
) -> None:
    worker.start()
    worker.post(LoadModel(number=1, source="slow"))
    assert engine.entered.wait(5.0)
    worker.cancel(1)
    engine.gate.set()
    worker.post(save(2))
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [2])
    assert engine.closed == [1, 2]


def test_that_requests_are_served_between_training_steps(
    qtbot: QtBot, worker: WorkerThread, engine: EchoEngine, window: Window
) -> None:
    engine.n_left = 10_000
    worker.start()
    wait_for(qtbot, lambda: engine.n_advanced > 3)
    worker.post(save(7))
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [7])
    n_then = engine.n_advanced
    wait_for(qtbot, lambda: engine.n_advanced > n_then)


def test_that_idle_work_is_given_up_in_its_middle_for_a_request_and_done_afterwards(
    qtbot: QtBot,
    worker: WorkerThread,
    engine: EchoEngine,
    window: Window,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnscope.workers.mailbox.IDLE_S", 0.0)
    worker.start()
    worker.post(MeasureHeads(number=1, is_idle=True))
    assert engine.entered.wait(5.0)
    worker.post(save(2))
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [2])
    engine.gate.set()
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [2, 1])
    worker.post(save(3))
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [2, 1, 3])
    assert engine.served == [1, 2, 1, 3]


def test_that_idle_work_waits_for_a_run_in_training(
    qtbot: QtBot,
    worker: WorkerThread,
    engine: EchoEngine,
    window: Window,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnscope.workers.mailbox.IDLE_S", 0.0)
    engine.gate.set()
    engine.n_left = 10_000
    worker.post(MeasureHeads(number=1, is_idle=True))
    worker.start()
    wait_for(qtbot, lambda: engine.n_advanced > 9)
    assert engine.served == []
    engine.n_left = 1
    wait_for(qtbot, lambda: window.numbers(ModelSaved) == [1])


def test_that_stopping_lets_a_run_finish_and_serves_nothing_more(
    qtbot: QtBot, worker: WorkerThread, engine: EchoEngine, window: Window
) -> None:
    engine.n_left = 10_000
    worker.start()
    wait_for(qtbot, lambda: engine.n_advanced > 3)
    assert worker.stop()
    assert engine.is_stop_asked
    assert engine.n_left == 0
    worker.post(save(1))
    assert not worker.isRunning()
    assert 1 not in engine.served


def test_that_stopping_a_busy_worker_gives_up_after_the_time_allowed(
    worker: WorkerThread, engine: EchoEngine
) -> None:
    worker.start()
    worker.post(LoadModel(number=1, source="slow"))
    assert engine.entered.wait(5.0)
    begin_s = time.monotonic()
    assert not worker.stop(0.1)
    assert time.monotonic() - begin_s < 2.0


def test_that_stopping_before_the_start_is_no_fault(worker: WorkerThread) -> None:
    assert worker.stop()


class Panic(BaseException):
    """What a native library may raise."""


def test_that_an_engine_that_cannot_be_built_fails_every_request_with_a_sentence(
    qtbot: QtBot, window: Window
) -> None:
    written: list[str] = []

    def break_down(write_crash: object) -> EchoEngine:
        raise Panic("libtorch is missing")

    def write(error: BaseException, doing: str) -> Path:
        written.append(doing)
        return Path("crash.log")

    thread = WorkerThread(break_down, write)
    thread.replied.connect(window.take)
    thread.start()
    thread.post(save(5))
    wait_for(qtbot, lambda: window.numbers(Failed) == [0, 5])
    assert thread.stop()
    last = window.replies[-1]
    assert isinstance(last, Failed)
    assert last.request == "SaveModel"
    assert "libtorch is missing" in last.message
    assert last.crash_log == "crash.log"
    assert written == ["starting the engine"]


def test_that_the_window_need_not_wait_long_for_the_interpreter(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", set_to.append)
    worker = WorkerThread(lambda _write: EchoEngine(), lambda _error, _what: None)
    with qtbot.waitSignal(worker.replied):
        worker.start()
    assert worker.stop()
    assert max(set_to) <= 0.001
