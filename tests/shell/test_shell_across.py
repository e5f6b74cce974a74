"""The commands lens, rollout, flow, relevance and patch give the numbers of Python and of the window."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from attnscope.analysis import Patching, flow_row, logit_lens, patch_map, relevance, rollout, trace_levels
from attnscope.cli.main import main
from attnscope.models import Model, load
from attnscope.records import (
    Gates,
    HeadRef,
    InfluenceShown,
    LensShown,
    LoadModel,
    ShowInfluence,
    ShowLens,
    TraceText,
)
from attnscope.workers import Engine

pytestmark = pytest.mark.slow

TEXTS = {"grammar": "the white cat sleeps", "shakespeare-masked": "the <mask> is dead"}
METHODS = ("rollout", "flow", "relevance")
HEADS = {"grammar": ("cross", 1, 0), "shakespeare-masked": ("encoder", 0, 1)}


@pytest.fixture(scope="module", params=TEXTS)
def model(request: pytest.FixtureRequest) -> Model:
    return load(request.param, device="cpu")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    def run(*shell: str) -> dict:
        capsys.readouterr()
        assert main([*shell, "--json", "--device", "cpu"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def target_of(model: Model) -> str | None:
    written = model.encode(TEXTS[model.info.name]).target
    return written.text if written is not None else None


def gated(model: Model) -> tuple[Gates, str]:
    stack, layer, head = HEADS[model.info.name]
    return Gates.of(
        {HeadRef(stack=stack, layer=layer, head=head): 0.5}
    ), f"--gate={stack}:L{layer}H{head}=0.5"


def of_window(model: Model, gates: Gates, position: int) -> tuple[dict[str, np.ndarray], LensShown]:
    """What the worker shows in Across and Lens."""
    engine = Engine(lambda *_: None)
    text = TEXTS[model.info.name]
    list(engine.handle(LoadModel(number=1, source=model.info.name, device="cpu")))
    list(engine.handle(TraceText(number=2, text=text, gates=gates)))
    asked = ShowInfluence(number=3, trace=2, position=position, text=text, gates=gates)
    replies = list(engine.handle(asked))
    while engine.is_training:
        replies += engine.advance_training()
    shown = [reply for reply in replies if isinstance(reply, InfluenceShown)][-1]
    (lens,) = engine.handle(ShowLens(number=4, text=text, gates=gates))
    assert isinstance(lens, LensShown)
    return {row.method: row.weights for row in shown.rows if row.weights is not None}, lens


def test_that_all_three_doors_give_the_same_numbers(model: Model, printed) -> None:
    name, text, target = model.info.name, TEXTS[model.info.name], target_of(model)
    gates, gate = gated(model)
    position = 2
    window, lens = of_window(model, gates, position)
    trace = model.trace(text, target, gates)
    related = relevance(model, text, target, position=position, gates=gates, keeps_start=False)
    ours = {
        "rollout": rollout(trace).weights[position],
        "flow": flow_row(trace_levels(trace), position),
        "relevance": related.weights[0],
    }
    for method in METHODS:
        told = printed(method, name, "--text", text, "--position", "2", gate)
        assert told["method"] == method
        assert len(told["inputs"]) == len(told["weights"]) == len(window[method])
        np.testing.assert_allclose(told["weights"], ours[method], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(told["weights"], window[method], rtol=1e-5, atol=1e-7)
    told = printed("lens", name, "--text", text, gate)
    table = logit_lens(model, text, target, gates=gates)
    for part in ("probability", "rank", "kl_nats", "entropy"):
        np.testing.assert_allclose(told[part], getattr(table, part), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(told[part], getattr(lens.table, part), rtol=1e-4, atol=1e-6)
    assert told["levels"] == list(table.levels)
    assert told["candidates"][-1][0][0]["token"] == lens.table.candidates[-1][0][0].token.piece


def test_that_tables_and_figures_hold_the_same_numbers(tmp_path: Path, printed, qapp) -> None:
    out, drawn = tmp_path / "out.csv", tmp_path / "drawn.csv"
    text = TEXTS["grammar"]
    shell = ("rollout", "grammar", "--text", text, "--csv", str(out), "-o", str(drawn))
    told = printed(*shell)
    with out.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["rollout"]) for row in rows] == pytest.approx(told["weights"])
    assert [row["text"] for row in rows].count("source") == 5
    assert sum(told["weights"]) == pytest.approx(1.0)
    with drawn.open(encoding="utf-8") as stream:
        numbers = [float(line["y"]) for line in csv.DictReader(stream)]
    assert numbers == pytest.approx(told["weights"], rel=1e-5)
    told = printed("lens", "grammar", "--text", text, "--position", "-1", "--top", "2", "--csv", str(out))
    with out.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2 * len(told["levels"])
    assert [float(row["probability"]) for row in rows[::2]] == pytest.approx(
        [level[0] for level in told["probability"]]
    )


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        (("lens", "grammar", "--text", "the cat", "--position", "40"), "no token 40"),
        (("lens", "grammar", "--text", "the cat", "--top", "0"), "argument --top: '0' is not"),
        (("flow", "grammar", "--text", " "), "no text"),
        (("rollout", "stories", "--text", "to be", "--target", "x"), "one text"),
    ],
)
def test_that_what_cannot_be_is_said(shell: tuple[str, ...], said: str, capsys) -> None:
    assert main([*shell]) == 2
    assert said in capsys.readouterr().err


def test_that_patches_are_of_the_stack_that_reads_the_texts_through_every_door(printed) -> None:
    model = load("grammar", device="cpu")
    clean, corrupt, target = "the white cat sleeps", "the black dog sleeps", "le chat blanc dort"
    shell = ("patch", "grammar", "--clean", clean, "--corrupt", corrupt, "--target", target)
    told = printed(*shell, "--position", "1")
    *_, ours = patch_map(model, (clean, target), (corrupt, target), Patching(position=1))
    assert all(row.startswith("encoder") for row in told["rows"])
    assert tuple(told["rows"]) == ours.rows
    np.testing.assert_allclose(told["patched"], ours.patched, atol=1e-5)
