"""Experiments of labs through the engine: in the background, one of each kind, given up when asked."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Slot
from pytestqt.qtbot import QtBot
from session_samples import Desk, state_of
from worker_tools import ask, save_tiny, train_to_end

from attnscope.analysis import rank_collapse
from attnscope.labs import LABS
from attnscope.models import load
from attnscope.records import (
    CollapseFinding,
    CollapseQuestion,
    ExperimentNews,
    Failed,
    GradientQuestion,
    LoadModel,
    ReachQuestion,
    Reply,
    RunExperiment,
    StopWork,
    WritingFinding,
)
from attnscope.workers import Engine, WorkerThread, build_engine
from attnscope.workers.experiments.writing_lengths import compare_writers

LAB = LABS["Quality by length"]

pytestmark = pytest.mark.slow

TEXT = "the cat sat on the mat"


def test_that_the_open_models_collapse_is_that_of_the_analysis(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", "encoder")
    engine = Engine(lambda error, what: None)
    question = CollapseQuestion(model="x", text=TEXT)
    ask(engine, RunExperiment(number=1, question=question))
    (refused,) = train_to_end(engine)
    assert isinstance(refused, Failed)
    ask(engine, LoadModel(number=2, source=folder, device="cpu"))
    ask(engine, RunExperiment(number=3, question=question))
    (news,) = train_to_end(engine)
    assert isinstance(news, ExperimentNews)
    assert isinstance(news.finding, CollapseFinding)
    assert news.finding.name == "tiny encoder"
    assert news.finding.curves == rank_collapse(load(folder, device="cpu"), TEXT)


def test_that_a_newer_question_of_a_kind_ends_the_one_before_and_a_stop_ends_it() -> None:
    engine = Engine(lambda error, what: None)
    small = GradientQuestion(n_layers=1, d_model=8, n_draws=1)
    ask(engine, RunExperiment(number=1, question=ReachQuestion()))
    next(iter(engine.advance_training()))
    ask(engine, RunExperiment(number=2, question=ReachQuestion(seed=1)))
    ask(engine, RunExperiment(number=3, question=small))
    replies = [*engine.advance_training(), *engine.advance_training(), *engine.advance_training()]
    assert {r.number for r in replies} == {2, 3}
    ask(engine, StopWork(number=4, work="ReachQuestion"))
    rest = list(train_to_end(engine))
    assert all(r.number == 3 for r in rest)
    assert [*replies, *rest][-1].is_done
    assert not engine.is_training


class Lab(QObject):
    """The lab's own state on the GUI thread, with every news that came for it."""

    def __init__(self, worker: WorkerThread) -> None:
        super().__init__()
        self.state = state_of("labs.experiments", worker.post, session=Desk().open().session)
        self.news: list[ExperimentNews] = []

    @Slot(object)
    def take(self, reply: Reply) -> None:
        self.state.handle(reply)
        if isinstance(reply, ExperimentNews):
            self.news.append(reply)


@pytest.mark.qt
def test_that_quality_by_length_is_asked_of_a_running_worker_and_told_as_it_grows(qtbot: QtBot) -> None:
    worker = WorkerThread(build_engine, lambda error, what: None)
    lab, choice = Lab(worker), replace(LAB.example, n_trained=4, d_model=8, n_steps=60)
    question = LAB.question(choice, None)
    worker.replied.connect(lab.take)
    worker.start()
    try:
        lab.state.ask(question)
        lab.state.ask(question)  # it is under way: asked once
        assert lab.state.answer(question).is_asked
        qtbot.waitUntil(lambda: lab.state.answer(question).is_exact, timeout=60_000)
    finally:
        assert worker.stop()
    assert {news.number for news in lab.news} == {lab.news[0].number}
    n_done = [news.n_done for news in lab.news]
    assert n_done == sorted(n_done)
    assert n_done[-1] == lab.news[-1].n_total == 4 * 60
    assert len({news.finding for news in lab.news}) > 2  # curves came one by one
    *_, alone = compare_writers(question)
    found = lab.state.answer(question)
    assert found.finding == alone.finding
    shown = LAB.resolve(replace(choice, answer=found))
    assert isinstance(alone.finding, WritingFinding)
    for curve in alone.finding.curves:
        assert shown.exact[curve.writer].tolist() == [n / 100 for n in curve.n_exact]
        assert shown.steps[curve.writer].tolist() == [50.0, 60.0]
