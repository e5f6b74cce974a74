"""Figures from Python that are not of single heads: graphs, positions, curves, panels, figure files."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_models import tiny_model

import attnscope as at
from attnscope.errors import LoadError, UserError
from attnscope.records import Step
from attnscope.training import line_from_event


@pytest.fixture(scope="module")
def model() -> at.Model:
    return tiny_model("encoder-decoder")


def test_that_encodings_have_the_size_of_the_model_or_the_one_that_is_given(model):
    config = model.own.config
    tables = at.positions_figure(model, has_caption=True).spec.positions
    assert [table.name for table in tables] == ["sinusoidal", "rotary", "model"]
    assert {table.matrix.shape[0] for table in tables} == {config.max_tokens}
    alone = at.positions_figure(encodings=("sinusoidal",), n_positions=12, d_model=8).spec
    (table,) = alone.positions
    place, i = np.arange(12.0)[:, None], np.arange(4.0)[None, :]
    angles = place / 10000.0 ** (2 * i / 8)  # Vaswani et al. 2017, section 3.5
    np.testing.assert_allclose(
        np.sort(table.matrix, 1), np.sort(np.hstack([np.sin(angles), np.cos(angles)]), 1), atol=1e-6
    )
    assert alone.title == "Positional encodings, 12 positions, d_model 8"
    assert alone.caption is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encodings": ("spiral",)}, "spiral"),
        ({"encodings": ()}, "Unknown encodings"),
        ({"encodings": ("rotary",)}, "size of the encodings"),
        ({"encodings": ("model",), "n_positions": 4, "d_model": 8}, "No model"),
        ({"encodings": "rotary", "n_positions": 4, "d_model": 7}, "even"),
        ({"encodings": "rotary", "n_positions": 4, "d_model": 8, "size": "big"}, "big"),
    ],
)
def test_that_encodings_that_cannot_be_drawn_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        at.positions_figure(**options)


def test_that_curves_are_those_of_the_run(tmp_path: Path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").write_text('[objective]\nkind = "language"\n', encoding="utf-8")
    steps = [
        Step(step=k, loss=loss, learning_rate=0.1, gradient_norm=1.0, tokens_per_s=10.0)
        for k, loss in enumerate((3.0, 2.0, 1.5), start=1)
    ]
    lines = "".join(f"{line_from_event(1, one)}\n" for one in steps)
    (run / "metrics.jsonl").write_text(lines, encoding="utf-8")
    shown = at.curves_figure(run, smoothing=0.0, has_caption=True).spec
    assert shown.caption.step == 3
    drawn = [s.ys.tolist() for chart in shown.charts for s in chart.series if chart.title == "Loss"]
    assert [3.0, 2.0, 1.5] in drawn
    assert [chart.title for chart in at.curves_figure(run, charts="loss").spec.charts] == ["Loss"]
    assert len(at.curves_figure(run, charts=("loss", "speed")).spec.charts) == 2
    for wrong, said in (
        ({"charts": ("los",)}, "'los'"),
        ({"charts": "rate", "over_seeds": True}, "over seeds"),
        ({"charts": ("heads",)}, "for these charts: heads"),
    ):
        with pytest.raises(UserError, match=said):
            at.curves_figure(run, **wrong)
    with pytest.raises(UserError, match="held-out loss"):
        at.curves_figure(run, over_seeds=True)
    (run / "metrics.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="has not completed a step"):
        at.curves_figure(run)
    with pytest.raises(UserError, match="smoothing is 1"):
        at.curves_figure(run, smoothing=1)
    with pytest.raises(UserError):
        at.scaling_figure(tmp_path)


def test_that_a_question_is_read_again_by_its_model(tmp_path: Path):
    name = "grammar"
    model = at.load(name)
    trace = model.trace("the cat sleeps")
    origin = at.FigureOrigin(source=model.info.source, text="the cat sleeps")
    shown = at.figure(trace, "head", head="cross:L1H0", origin=origin)
    path = shown.save(tmp_path / "q.figure.json")
    assert json.loads(path.read_bytes())["holds"] == "question"
    assert at.load_figure(path).render("svg") == shown.render("svg")
    path.write_text(path.read_text().replace('"source": "grammar"', '"source": "nowhere"'))
    with pytest.raises(LoadError, match="nowhere"):
        at.load_figure(path)


def test_that_panels_name_what_differs(model):
    about = {
        "the cat": at.Caption(model="m", text="the cat"),
        "the mat": at.Caption(model="m", text="the mat"),
    }
    shown = [
        at.figure(model.trace(text, "le chat"), "head", head="cross:L0H1", caption=said)
        for text, said in about.items()
    ]
    page = at.panels(shown, columns=1).spec
    assert [panel.title for panel in page.panels] == ["“the cat”", "“the mat”"]
    assert page.panels[1].maps[0].keys != page.panels[0].maps[0].keys


def test_that_a_graph_starts_at_the_token_that_is_asked_for(model, tmp_path: Path):
    trace = model.trace("the cat sat", "le chat")
    drawn = at.graph_figure(trace, 1, threshold=0.0, caption=at.Caption(model="tiny"))
    graph = drawn.spec.graph
    assert graph is not None
    assert (graph.levels[graph.nodes[0].level], graph.nodes[0].position) == (graph.levels[-1], 1)
    assert graph.kept_share == pytest.approx(1.0)
    assert drawn.save(tmp_path / "graph.svg").stat().st_size > 1000
    last = at.graph_figure(trace).spec.graph
    assert last is not None
    assert last.nodes[0].position == len(trace.target.tokens) - 1
    encoder = at.graph_figure(trace, stack="encoder").spec.graph
    assert encoder is not None
    assert {level.split()[0] for level in encoder.levels} == {"encoder"}
    for wrong in ({"token": 99}, {"threshold": 2.0}, {"stack": "cross"}, {"size": "big"}):
        with pytest.raises(UserError):
            at.graph_figure(trace, **wrong)
