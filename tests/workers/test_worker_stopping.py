"""Stopping a trace, a comparison and a removal: the worker ends them in their middle and is free at once."""

import time
from pathlib import Path

import pytest
from compare_fakes import CompareDesk
from PySide6.QtCore import QObject, Slot
from pytestqt.qtbot import QtBot
from session_samples import Desk, gates_off, ref, state_of

from attnscope.nn import stoppable
from attnscope.records import (
    Failed,
    LoadModel,
    ModelLoaded,
    OutputWritten,
    PruningTried,
    Reply,
    Traced,
    TraceText,
    TryPruning,
)
from attnscope.viewmodels import WorkState, watch_pages, watch_session
from attnscope.workers import Engine, WorkerThread, build_engine


def write_nothing(_error: BaseException, _what: str) -> Path | None:
    return None


def opened() -> Engine:
    engine = Engine(write_nothing)
    replies = list(engine.handle(LoadModel(number=1, source="stories", device="cpu")))
    assert any(isinstance(reply, ModelLoaded) for reply in replies)
    return engine


@pytest.mark.slow
def test_that_a_stopped_request_ends_without_a_reply_and_leaves_the_model_as_it_was() -> None:
    engine = opened()
    model = engine.desk.models.get("")
    whole = list(engine.handle(TraceText(number=2, text="to be or not to be")))
    asked: list[int] = []

    def after(n: int) -> list[Reply]:
        asked.clear()
        with stoppable(lambda: asked.append(1) or len(asked) > n):  # type: ignore[func-returns-value]
            return list(engine.handle(TraceText(number=3, text="to be or not to be")))

    shown: list[int] = []

    def count(reply: Reply) -> type:
        shown.append(len(asked))
        return type(reply)

    with stoppable(lambda: bool(asked.append(1))):  # type: ignore[func-returns-value]
        replies = map(count, engine.handle(TraceText(number=3, text="to be or not to be")))
        assert list(replies) == [Traced, OutputWritten]
    n_places, n_written = shown
    assert n_places > 2 * len(model.sites)  # each layer, and each head that is measured
    assert n_written - n_places > len(model.sites)  # each layer of what is written
    for n in range(0, n_places, 3):
        assert after(n) == []
    for n in range(n_places, n_written, 3):
        assert [type(reply) for reply in after(n)] == [Traced]
    again = list(engine.handle(TraceText(number=4, text="to be or not to be")))
    assert again[1].comparison == whole[1].comparison  # type: ignore[attr-defined]
    gates = gates_off(model.sites[0].heads[0])
    with stoppable(lambda: True):
        tried = list(engine.handle(TryPruning(number=5, gates=gates, text="to be")))
    assert not any(isinstance(reply, PruningTried | Failed) for reply in tried)
    assert any(
        isinstance(r, PruningTried) for r in engine.handle(TryPruning(number=6, gates=gates, text="x"))
    )


class Taker(QObject):
    """Takes replies on the GUI thread."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Reply] = []

    @Slot(object)
    def take(self, reply: Reply) -> None:
        self.replies.append(reply)

    def has(self, kind: type, number: int) -> bool:
        return any(isinstance(reply, kind) and reply.number == number for reply in self.replies)


@pytest.mark.qt
def test_that_the_worker_is_free_within_a_second_of_a_cancel(qtbot: QtBot) -> None:
    worker, taker = WorkerThread(build_engine, write_nothing), Taker()
    worker.replied.connect(taker.take)
    worker.start()
    try:
        worker.post(LoadModel(number=1, source="stories", device="cpu"))
        qtbot.waitUntil(lambda: taker.has(ModelLoaded, 1), timeout=30_000)
        worker.post(TraceText(number=2, text="to be or not to be, " * 700, past_trained=True))
        qtbot.wait(150)
        worker.cancel(2)
        began = time.process_time()  # of this process: others may be busy
        worker.post(TraceText(number=3, text="to be"))
        qtbot.waitUntil(lambda: taker.has(Traced, 3), timeout=30_000)
        took_s = time.process_time() - began
    finally:
        assert worker.stop()
    assert not taker.has(Traced, 2), "it was quicker than the cancel"
    assert took_s < 1.0


def test_that_a_trace_is_stopped_told_of_and_traced_again() -> None:
    desk, work, cancelled = Desk().open(), WorkState(), []
    session = desk.session
    watch_session(work, session, cancelled.append)
    session.texts.set_text("a long text")
    number = session.tracing.number
    assert work.waited_for is not None
    assert work.waited_for.name == "Tracing the text"
    work.stop("Tracing the text")
    assert cancelled == [number]
    assert work.jobs == ()
    assert session.tracing.is_stale  # the old pictures stay, dimmed
    assert session.notices.shown is not None
    assert session.notices.shown.action == "trace-again"
    session.tracing.again()
    assert work.waited_for is not None
    n_traces = len(desk.traces())
    session.tracing.again()  # it is on its way
    assert len(desk.traces()) == n_traces


def test_that_a_comparison_and_a_removal_are_stopped() -> None:
    desk, work, cancelled = CompareDesk().open(), WorkState(), []
    pruning = state_of("pruning", lambda _request: None, cancel=cancelled.append)
    experiments = state_of("labs.experiments", lambda _request: None, session=desk.session)
    watch_pages(work, desk.state, pruning, experiments, cancelled.append)
    desk.state.choosing.set_text("B", "another one")
    wanted = {trace.number for trace in desk.traces()}
    work.stop("Comparing A and B")
    assert wanted <= set(cancelled)
    assert not desk.state.is_waiting
    desk.asked.clear()
    desk.state.again()
    assert [trace.text for trace in desk.traces()] == ["another one"]
    pruning.begin(gates_off(ref(0, 1)), "a text", None)
    work.stop("Removing heads")
    assert pruning.step == "failed"
    assert pruning.message.startswith("Stopped")
    assert len(cancelled) == len(set(cancelled))
