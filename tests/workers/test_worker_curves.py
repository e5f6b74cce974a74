"""Pruning curves in the worker: in the background, one ranking after the other, with views in between."""

from pathlib import Path

import pytest
from worker_tools import ask, save_tiny, traced_whole, train_to_end

from attnscope.models import load
from attnscope.records import (
    RANKINGS,
    CurveMeasured,
    CurvesMeasured,
    CurvesNews,
    Failed,
    HeadsRanked,
    LoadModel,
    MeasureCurves,
    Reply,
    StopWork,
    Traced,
    TraceText,
)
from attnscope.workers import BackgroundJobs, Engine, batch_size, ranking_runs, run_cost, samples_asked


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    found = Engine(lambda error, what: None)
    ask(found, LoadModel(number=1, source=save_tiny(tmp_path / "model", "decoder"), device="cpu"))
    return found


@pytest.fixture
def texts(tmp_path: Path) -> str:
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat on the mat\na dog and a bird saw the cat\n" * 6, encoding="utf-8")
    return str(path)


def test_that_curves_come_one_by_one_between_views(engine: Engine, texts: str) -> None:
    rankings = ("random", "gradient")
    asked = MeasureCurves(
        number=2, rankings=rankings, source="file", path=texts, n_random=2, step_share=0.5, max_texts=8
    )
    assert ask(engine, asked) == []
    assert isinstance(next(iter(engine.advance_training())), CurvesNews)
    traced = traced_whole(ask(engine, TraceText(number=3, text="a dog", model="")))
    assert isinstance(traced, Traced)
    found = list(train_to_end(engine))
    curves = [one.curve for one in found if isinstance(one, CurveMeasured) and one.is_whole]
    parts = [one.curve for one in found if isinstance(one, CurveMeasured) and not one.is_whole]
    assert [len(part.points) for part in parts if part.ranking == "gradient"] == list(
        range(1, len(curves[0].points) + 1)
    )
    assert parts[0].points == curves[0].points[:1]
    assert [(curve.ranking, curve.seed) for curve in curves] == [
        ("gradient", 0),
        ("random", 0),
        ("random", 1),
    ]
    assert {curve.n_texts for curve in curves} == {8}
    assert curves[1].points[1].gates != curves[2].points[1].gates
    assert next(one.importance.ranking for one in found if isinstance(one, HeadsRanked)) == "gradient"
    assert isinstance(found[-1], CurvesMeasured)
    assert found[-1].texts == "texts.txt"
    assert not engine.is_training


@pytest.mark.slow
def test_that_progress_never_goes_back_and_says_how_long(engine: Engine, texts: str) -> None:
    ask(engine, MeasureCurves(number=2, rankings=RANKINGS, source="file", path=texts, n_random=1))
    job = engine.desk.background._jobs["MeasureCurves"]
    job._limit.take = lambda: True  # type: ignore[method-assign]
    news = [one for one in train_to_end(engine) if isinstance(one, CurvesNews)]
    shares = [one.fraction for one in news if one.fraction is not None]
    assert shares == sorted(shares)
    assert 0.8 < shares[-1] <= 1.0
    assert news[-1].left_s is not None


def test_that_a_pass_ends_by_cancel_by_another_model_and_by_a_fault(engine: Engine, tmp_path: Path) -> None:
    ask(engine, MeasureCurves(number=2, rankings=("random",), source="samples"))
    ask(engine, StopWork(work="MeasureCurves", number=3))
    assert not engine.is_training
    ask(engine, MeasureCurves(number=4, rankings=("random",), metric="alignment-error", source="samples"))
    (*_, failed) = train_to_end(engine)
    assert isinstance(failed, Failed)
    assert (failed.number, "alignment" in failed.message) == (4, True)
    ask(engine, MeasureCurves(number=5, rankings=("random",), source="samples"))
    ask(engine, LoadModel(number=6, source=save_tiny(tmp_path / "other", "encoder"), device="cpu"))
    assert not engine.is_training


def test_that_rankings_run_from_the_quick_to_the_slow() -> None:
    asked = MeasureCurves(number=1, rankings=RANKINGS, n_random=2, seed=7)
    order = [("gradient", 7), ("random", 7), ("random", 8), ("learned", 7), ("leave-one-out", 7)]
    assert ranking_runs(asked) == order
    costs = [run_cost(ranking, 48, 4, asked) for ranking in ("random", "gradient", "leave-one-out")]
    assert costs == sorted(costs)


def test_that_every_source_of_texts_is_read(tmp_path: Path) -> None:
    model = load("grammar", device="cpu")
    own, name = samples_asked(model, "own", "", 5)
    assert (len(own), "held out" in name) == (5, True)
    assert any(example.links for example in own)
    samples, name = samples_asked(model, "samples", "", 100)
    assert name == "sample sentences"
    assert 1 <= batch_size(model, samples) <= 16
    tree = tmp_path / "trees.conllu"
    tree.write_text("1\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n\n" * 3, encoding="utf-8")
    assert samples_asked(model, "file", str(tree), 2)[0] == ["cat", "cat"]


class Job:
    def __init__(self, number: int, n_steps: int) -> None:
        self.number, self.is_active, self._left = number, True, n_steps

    def advance(self) -> Reply | None:
        self._left -= 1
        self.is_active = self._left > 0
        return CurvesNews(number=self.number, what="")

    def stop(self) -> None:
        self.is_active = False


def test_that_passes_take_turns_and_a_new_one_ends_its_like() -> None:
    jobs = BackgroundJobs()
    first, second = Job(1, 3), Job(2, 2)
    jobs.start("a", first)
    jobs.start("b", second)
    told = []
    while jobs.is_active:
        told += [one.number for one in jobs.advance(lambda *_: CurvesNews(number=0, what="failed"))]
    assert told == [1, 2, 1, 2, 1]
    third = Job(3, 5)
    jobs.start("a", third)
    jobs.start("a", Job(4, 1))
    assert not third.is_active
