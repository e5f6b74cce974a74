"""Experiments of labs through the engine: in the background, one of each kind, given up when asked."""

from pathlib import Path

from worker_tools import ask, save_tiny, train_to_end

from attnscope.analysis.rank import rank_collapse
from attnscope.models import load
from attnscope.records.experiments import (
    CollapseFinding,
    CollapseQuestion,
    ExperimentNews,
    GradientQuestion,
    ReachQuestion,
    RunExperiment,
    StopExperiment,
)
from attnscope.records.messages import Failed, LoadModel
from attnscope.workers.handlers import Engine

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
    ask(engine, StopExperiment(number=4, kind="ReachQuestion"))
    rest = list(train_to_end(engine))
    assert all(r.number == 3 for r in rest)
    assert [*replies, *rest][-1].is_done
    assert not engine.is_training
