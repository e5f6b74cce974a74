"""What a model writes after a text waits while the window paints the maps, and never for long."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot
from training_fakes import traced

from attnscope.records import ModelSaved, Ready, Reply, Request, TraceText, TrainingNews
from attnscope.workers import WorkerThread

pytestmark = pytest.mark.qt
LONG_S = 60.0


class WritingEngine:
    """Sends maps, then writes; keeps what it did in order."""

    def __init__(self, *, is_writing: bool = True) -> None:
        self._is_writing = is_writing
        self.done: list[str] = []
        self.sent = threading.Event()
        self.wrote = threading.Event()

    def ready(self) -> Ready:
        return Ready(devices=("cpu",), demo_models=())

    def handle(self, request: Request) -> Iterator[Reply]:
        assert isinstance(request, TraceText)
        maps = traced(request)
        try:
            self.done.append(f"maps of {request.text}")
            self.sent.set()
            yield replace(maps, comparison=replace(maps.comparison, is_writing=self._is_writing))
            self.done.append(f"words after {request.text}")
            self.wrote.set()
            yield ModelSaved(number=request.number, folder="done")
        finally:
            self.done.append(f"end of {request.text}")

    @property
    def is_training(self) -> bool:
        return False

    def advance_training(self) -> Iterator[TrainingNews]:
        return iter(())

    def stop_training(self) -> None:
        pass


Start = Callable[[WritingEngine, float], WorkerThread]


@pytest.fixture
def start(qtbot: QtBot) -> Iterator[Start]:
    workers = []

    def begin(engine: WritingEngine, paint_within_s: float) -> WorkerThread:
        worker = WorkerThread(
            lambda _write: engine, lambda _error, _doing: None, paint_within_s=paint_within_s
        )
        workers.append(worker)
        worker.start()
        worker.post(TraceText(number=1, text="one"))
        assert engine.sent.wait(5.0)
        return worker

    yield begin
    for worker in workers:
        assert worker.stop()


def test_that_writing_begins_when_the_maps_have_been_painted(start: Start) -> None:
    engine = WritingEngine()
    worker = start(engine, LONG_S)
    assert not engine.wrote.wait(0.05)
    worker.maps_painted()
    assert engine.wrote.wait(5.0)


def test_that_a_newer_text_is_not_kept_waiting_by_the_painting_of_the_one_before(
    qtbot: QtBot, start: Start
) -> None:
    engine = WritingEngine()
    worker = start(engine, LONG_S)
    worker.post(TraceText(number=2, text="two"))
    qtbot.waitUntil(lambda: "maps of two" in engine.done, timeout=5000)
    assert engine.done == ["maps of one", "end of one", "maps of two"]


def test_that_a_text_given_up_ends_the_wait(qtbot: QtBot, start: Start) -> None:
    engine = WritingEngine()
    worker = start(engine, LONG_S)
    worker.cancel(1)
    qtbot.waitUntil(lambda: "end of one" in engine.done, timeout=5000)
    assert not engine.wrote.is_set()


def test_that_a_window_that_does_not_paint_is_waited_for_as_long_as_was_said(start: Start) -> None:
    engine = WritingEngine()
    begin_s = time.monotonic()
    start(engine, 0.2)
    assert engine.wrote.wait(5.0)
    assert time.monotonic() - begin_s >= 0.2


@pytest.mark.parametrize(("is_writing", "paint_within_s"), [(False, LONG_S), (True, 0.0)])
def test_that_nothing_waits_where_nothing_is_written_or_nobody_paints(
    start: Start, is_writing: bool, paint_within_s: float
) -> None:
    engine = WritingEngine(is_writing=is_writing)
    start(engine, paint_within_s)
    assert engine.wrote.wait(5.0)


def test_that_stopping_ends_the_wait(start: Start) -> None:
    engine = WritingEngine()
    worker = start(engine, LONG_S)
    assert worker.stop(5.0)
    assert not engine.wrote.is_set()
