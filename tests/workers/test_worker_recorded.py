"""The engine with recorded attention open: what only looks is answered, what needs a model is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from worker_tools import ask, traced_whole

import attnscope
from attnscope.records import (
    OWN_TEXTS,
    AttributeOutput,
    Failed,
    Gates,
    HeadRef,
    HeadsMeasured,
    InfluenceShown,
    LoadModel,
    MeasureHeads,
    ModelLoaded,
    ReplaySplits,
    SaveModel,
    ShowHeads,
    ShowInfluence,
    ShowInside,
    ShowLens,
    ShowPositions,
    ShowVocabulary,
    ShowWeights,
    SplitsReplayed,
    Traced,
    TraceText,
    WriteSettings,
    WriteText,
)
from attnscope.trace import Trace
from attnscope.workers import Engine

HEAD = HeadRef(stack="encoder", layer=1, head=1)


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Trace, str]:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    with attnscope.record(model) as recording:
        model(torch.randn(1, 4, 8))
    trace = recording.trace(["[CLS]", "a", "cat", "[SEP]"], name="mine")
    trace.save(tmp_path / "mine.safetensors")
    return trace, str(tmp_path / "mine.safetensors")


def open_recorded(engine: Engine, path: str) -> Traced:
    loaded = ask(engine, LoadModel(number=1, source=path, device="cpu"))[-1]
    assert isinstance(loaded, ModelLoaded), loaded
    sample = loaded.info.samples[0]
    (traced,) = ask(engine, TraceText(number=2, text=sample.text, heads=(HEAD,)))
    assert isinstance(traced, Traced), traced
    return traced


def test_that_a_recording_opens_traces_and_shows_heads(
    engine: Engine, recorded: tuple[Trace, str], crashes: list[str]
) -> None:
    trace, path = recorded
    traced = open_recorded(engine, path)
    torch.testing.assert_close(
        torch.tensor(traced.maps[0].weights), torch.tensor(trace.weights(("encoder", 1), 1))
    )
    assert traced.check == replace(trace.check(), is_read=True)
    assert traced.comparison.after.kind == "nothing"
    assert len(ask(engine, ShowHeads(number=3, heads=(HEAD,)))[0].maps) == 1
    assert crashes == []


def test_that_heads_of_a_recording_are_measured_over_its_text(
    engine: Engine, recorded: tuple[Trace, str], crashes: list[str]
) -> None:
    open_recorded(engine, recorded[1])
    assert ask(engine, MeasureHeads(number=4, path=OWN_TEXTS)) == []
    replies = []
    while engine.is_training:
        replies += list(engine.advance_training())
    (measured,) = (reply.found for reply in replies if isinstance(reply, HeadsMeasured))
    own = {one.head: one for one in attnscope.measure(recorded[0])}
    entropy = dict(zip(measured.table.heads, measured.table.column("entropy"), strict=True))
    assert entropy[HEAD] == pytest.approx(own[HEAD].entropy, abs=1e-5)
    assert crashes == []


def test_that_influence_is_told_as_far_as_weights_tell_it(
    engine: Engine, recorded: tuple[Trace, str], crashes: list[str]
) -> None:
    traced = open_recorded(engine, recorded[1])
    shown = ask(engine, ShowInfluence(number=5, trace=traced.number, text=traced.text, position=1))
    while engine.is_training:
        shown += list(engine.advance_training())
    last = [reply for reply in shown if isinstance(reply, InfluenceShown)][-1]
    refusals = {row.method: row.refusal for row in last.rows}
    assert refusals["raw"] == refusals["rollout"] == refusals["flow"] == ""
    assert "needs a model" in refusals["relevance"]
    assert crashes == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_of",
    [
        lambda: SaveModel(number=9, folder="x"),
        lambda: WriteText(number=9, text="a", settings=WriteSettings()),
        lambda: ShowInside(number=9, head=HEAD, query=0, text="[CLS] a cat [SEP]"),
        lambda: ShowLens(number=9, text="[CLS] a cat [SEP]"),
        lambda: AttributeOutput(number=9, position=0, text="[CLS] a cat [SEP]"),
        lambda: ShowWeights(number=9, head=HEAD),
        lambda: ShowVocabulary(number=9),
        lambda: ReplaySplits(number=9, text="a cat"),
        lambda: MeasureHeads(number=9, path="texts.txt"),
        lambda: ShowPositions(number=9, names=("model",), n_positions=4, d_model=8),
        lambda: TraceText(number=9, text="[CLS] a cat [SEP]", gates=Gates.of({HEAD: 0.0})),
    ],
)
def test_that_what_needs_a_model_is_refused_with_the_reason(
    engine: Engine, recorded: tuple[Trace, str], crashes: list[str], request_of
) -> None:
    open_recorded(engine, recorded[1])
    reply = ask(engine, request_of())[-1]
    assert isinstance(reply, Failed)
    assert "needs a model, and mine is recorded attention" in reply.message
    assert crashes == []


def test_that_what_needs_no_model_is_answered_as_ever(engine: Engine, recorded: tuple[Trace, str]) -> None:
    open_recorded(engine, recorded[1])
    replayed = ask(engine, ReplaySplits(number=9, text="a cat", source="text"))[-1]
    assert isinstance(replayed, SplitsReplayed)


def test_that_other_models_open_as_before_and_damaged_recordings_are_told(
    engine: Engine, recorded: tuple[Trace, str], decoder: str, crashes: list[str]
) -> None:
    path = Path(recorded[1])
    open_recorded(engine, str(path))
    path.write_bytes(path.read_bytes()[:-30])
    failed = ask(engine, LoadModel(number=7, source=str(path), device="cpu"))[-1]
    assert isinstance(failed, Failed)
    assert "cut short" in failed.message
    assert isinstance(ask(engine, LoadModel(number=8, source=decoder, device="cpu"))[-1], ModelLoaded)
    traced_whole(ask(engine, TraceText(number=9, text="the cat sat")))
    assert crashes == []
