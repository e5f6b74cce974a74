"""What an output token owes to the inputs, from the worker: the same numbers as the analyses give."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask, save_tiny

from attnscope.analysis import attention_graph, flow_row, relevance, rollout, trace_levels
from attnscope.models import load
from attnscope.records import (
    Failed,
    GraphShown,
    InfluenceShown,
    LoadModel,
    ShowGraph,
    ShowInfluence,
    StopWork,
    TraceText,
)
from attnscope.workers import Engine, serve_causes

TEXT, TARGET = "the cat sat on the mat", "le chat est sur"


def opened(folder: str, text: str = TEXT, target: str | None = None) -> Engine:
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source=folder, device="cpu"))
    ask(engine, TraceText(number=2, text=text, target=target))
    return engine


def shown(engine: Engine, position: int, text: str = TEXT, target: str | None = None) -> InfluenceShown:
    asked = ShowInfluence(number=3, trace=2, position=position, text=text, target=target)
    replies = ask(engine, asked)
    while engine.is_training:
        replies += engine.advance_training()
    last = replies[-1]
    assert isinstance(last, InfluenceShown)
    return last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "target"), [("encoder", None), ("decoder", None), ("encoder-decoder", TARGET)]
)
def test_that_every_method_gives_what_the_analyses_give(
    form: str, target: str | None, tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path / "model", form)
    model = load(folder, device="cpu")
    trace = model.trace(TEXT, target)
    found = shown(opened(folder, target=target), 2, target=target)
    expected = {
        "rollout": rollout(trace).weights[2],
        "flow": flow_row(trace_levels(trace), 2),
        "relevance": relevance(model, TEXT, target, position=2).weights[0].copy(),
    }
    expected["relevance"][found.n_source + 2] -= 1.0
    rows = {row.method: row.weights for row in found.rows}
    for method, weights in expected.items():
        np.testing.assert_allclose(rows[method], weights, atol=1e-6)
    raw = rows["raw"]
    assert raw is not None
    assert np.nansum(raw) == pytest.approx(1.0, abs=1e-5)
    assert int(np.isnan(raw).sum()) == (len(found.keys) - found.n_source if found.n_source else 0)
    assert found.explained.startswith("logit of")


def test_that_quick_methods_come_before_slow_ones(tmp_path: Path) -> None:
    engine = opened(save_tiny(tmp_path / "model", "decoder"))
    asked = ShowInfluence(number=3, trace=2, position=0, text=TEXT)
    steps = [[row.method for row in one.rows] for one in ask(engine, asked)]  # type: ignore[union-attr]
    assert steps == [["raw", "rollout"], ["raw", "rollout", "relevance"]]
    under_way = list(engine.advance_training())
    assert [one.flow_done for one in under_way] == [1]  # type: ignore[union-attr]
    while engine.is_training:
        under_way += engine.advance_training()
    assert [row.method for row in under_way[-1].rows] == [*steps[-1], "flow"]  # type: ignore[union-attr]
    assert under_way[-1].flow_done == 0  # type: ignore[union-attr]


def test_that_a_flow_ends_when_it_is_stopped_or_another_is_asked_for(tmp_path: Path) -> None:
    engine = opened(save_tiny(tmp_path / "model", "decoder"))
    ask(engine, ShowInfluence(number=3, trace=2, position=0, text=TEXT))
    ask(engine, ShowInfluence(number=4, trace=2, position=1, text=TEXT))
    replies = list(engine.advance_training())
    assert {one.number for one in replies} == {4}  # type: ignore[union-attr]
    ask(engine, StopWork(work="ShowInfluence", number=5))
    assert not engine.is_training


def test_that_long_texts_and_old_traces_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(save_tiny(tmp_path / "model", "decoder"))
    monkeypatch.setitem(serve_causes._LIMITS, "flow", 3)
    rows = {row.method: row.refusal for row in shown(engine, 1).rows}
    assert rows["flow"] == f"only for texts of up to 3 tokens; these are {len(shown(engine, 1).keys)}"
    assert rows["rollout"] == ""
    (failed,) = ask(engine, ShowInfluence(number=4, trace=1, position=0, text=TEXT))
    assert isinstance(failed, Failed)
    (failed,) = ask(engine, ShowInfluence(number=5, trace=2, position=99, text=TEXT))
    assert isinstance(failed, Failed)
    other = {row.method: row.refusal for row in shown(engine, 1, text="another text").rows}
    assert "other tokens" in other["relevance"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "target"), [("encoder", None), ("decoder", None), ("encoder-decoder", TARGET)]
)
def test_that_the_graph_is_that_of_the_analysis(form: str, target: str | None, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model", form)
    engine = opened(folder, target=target)
    (reply,) = ask(engine, ShowGraph(number=3, trace=2, position=1, threshold=0.02))
    trace = load(folder, device="cpu").trace(TEXT, target)
    assert reply == GraphShown(number=3, position=1, graph=attention_graph(trace, 1, threshold=0.02))
    (failed,) = ask(engine, ShowGraph(number=4, trace=1, position=1))
    assert isinstance(failed, Failed)
    assert "changed meanwhile" in failed.message
