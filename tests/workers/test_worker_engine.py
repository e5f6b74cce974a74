"""The engine without Qt: requests in, replies out, nothing lost when something fails."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask, save_tiny, traced_whole

from attnscope.models import Model, load
from attnscope.records import (
    TRAINING_MODEL,
    ControlTraining,
    Failed,
    Gates,
    HeadRef,
    HeadsShown,
    LoadModel,
    ModelLoaded,
    ModelSaved,
    OpenRun,
    PositionsShown,
    Progress,
    Ready,
    Request,
    SaveModel,
    ShowHeads,
    ShowPositions,
    Traced,
    TraceText,
)
from attnscope.workers import Engine

HEAD = HeadRef(stack="decoder", layer=1, head=1)


def load_into(engine: Engine, source: str) -> None:
    replies = ask(engine, LoadModel(number=1, source=source, device="cpu"))
    assert isinstance(replies[-1], ModelLoaded), replies[-1]


def trace(engine: Engine, **more: object) -> Traced:
    request = TraceText(**({"number": 2, "text": "the cat sat on the mat"} | more))  # type: ignore[arg-type]
    return traced_whole(ask(engine, request))


def failure(engine: Engine, request: Request) -> Failed:
    reply = ask(engine, request)[-1]
    assert isinstance(reply, Failed), reply
    assert reply.number == request.number
    assert reply.request == type(request).__name__
    return reply


def test_that_ready_names_the_processor_and_the_demo_models(engine: Engine) -> None:
    ready = engine.ready()
    assert isinstance(ready, Ready)
    assert "cpu" in ready.devices


def test_that_loading_tells_progress_and_then_the_model(engine: Engine, decoder: str) -> None:
    progress, loaded = ask(engine, LoadModel(number=4, source=decoder, device="cpu"))
    assert isinstance(progress, Progress)
    assert isinstance(loaded, ModelLoaded)
    assert progress.number == loaded.number == 4
    assert loaded.info.name == "tiny decoder"


def test_that_an_opening_that_is_given_up_at_its_last_moment_leaves_the_model_before(
    engine: Engine, decoder: str, tmp_path: Path
) -> None:
    load_into(engine, decoder)
    other = save_tiny(tmp_path / "other", "encoder")
    replies = engine.handle(LoadModel(number=8, source=str(other), device="cpu"))
    while not isinstance(next(replies), ModelLoaded):
        pass
    replies.close()
    assert {grid.site.stack for grid in trace(engine).grids} == {"decoder"}


def test_that_a_trace_shows_every_site_every_measure_and_the_wanted_heads(
    engine: Engine, decoder: str
) -> None:
    load_into(engine, decoder)
    traced = trace(engine, heads=(HEAD,))
    assert [grid.site.layer for grid in traced.grids] == [0, 1]
    assert len(traced.measures) == 4
    assert [one.head for one in traced.maps] == [HEAD]
    assert traced.check.is_good
    assert traced.target is None
    assert traced.duration_ms > 0
    assert traced.step is None


def test_that_a_translation_model_writes_its_own_target_unless_given_one(
    engine: Engine, translator: str
) -> None:
    load_into(engine, translator)
    own = trace(engine, text="the cat")
    given = trace(engine, text="the cat", target="le chat")
    assert own.target is not None
    assert given.target is not None
    assert "chat" in given.target.pieces
    assert {grid.site.stack for grid in given.grids} == {"encoder", "decoder", "cross"}


def test_that_gates_change_what_comes_after_and_are_compared_with_what_was(
    engine: Engine, decoder: str
) -> None:
    load_into(engine, decoder)
    gates = Gates.of({HeadRef(stack="decoder", layer=0, head=0): 0.0})
    plain, gated = trace(engine, heads=(HEAD,)), trace(engine, heads=(HEAD,), gates=gates)
    assert gated.gates == gates
    assert not np.array_equal(plain.maps[0].weights, gated.maps[0].weights, equal_nan=True)
    before, now = gated.comparison.before.predictions[0], plain.comparison.after.predictions[0]
    assert [one.token for one in before.candidates] == [one.token for one in now.candidates]
    assert [one.probability for one in before.candidates] == pytest.approx(
        [one.probability for one in now.candidates], rel=1e-4
    )
    assert max(gated.comparison.kl_nats) > 0
    assert max(plain.comparison.kl_nats) == 0


def test_that_heads_are_shown_from_the_newest_trace(engine: Engine, decoder: str) -> None:
    load_into(engine, decoder)
    trace(engine, text="the cat sat")
    newest = trace(engine, heads=(HEAD,))
    (shown,) = ask(engine, ShowHeads(number=5, heads=(HEAD,)))
    assert isinstance(shown, HeadsShown)
    assert np.array_equal(shown.maps[0].weights, newest.maps[0].weights, equal_nan=True)


def test_that_heads_cannot_be_shown_before_a_trace_or_of_another_model(
    engine: Engine, decoder: str, translator: str
) -> None:
    request = ShowHeads(number=5, heads=(HEAD,))
    assert "no trace" in failure(engine, request).message
    load_into(engine, decoder)
    trace(engine)
    load_into(engine, translator)
    assert "no trace" in failure(engine, request).message


def test_that_a_head_the_model_lacks_is_named(engine: Engine, decoder: str) -> None:
    load_into(engine, decoder)
    missing = HeadRef(stack="decoder", layer=7, head=0)
    request = TraceText(number=3, text="the cat", heads=(missing,))
    assert "L7H0" in failure(engine, request).message


@pytest.mark.parametrize(
    "request_",
    [
        TraceText(number=9, text="the cat"),
        TraceText(number=9, text="the cat", model=TRAINING_MODEL),
        TraceText(number=9, text="the cat", model="nowhere/at/all"),
        SaveModel(number=9, folder="anywhere"),
        ShowPositions(number=9, names=("model",), n_positions=4, d_model=4),
        LoadModel(number=9, source="nowhere/at/all"),
        LoadModel(number=9, source=""),
        OpenRun(number=9, folder="nowhere/at/all"),
        ControlTraining(number=9, action="stop"),
    ],
    ids=lambda request: f"{type(request).__name__} {getattr(request, 'model', '')}",
)
def test_that_what_cannot_be_served_says_so_without_a_crash_log(
    engine: Engine, crashes: list[str], request_: Request
) -> None:
    reply = failure(engine, request_)
    assert reply.message
    assert reply.crash_log == ""
    assert crashes == []


def test_that_a_failed_load_leaves_the_open_model(engine: Engine, decoder: str, tmp_path: Path) -> None:
    load_into(engine, decoder)
    broken = tmp_path / "broken"
    save_tiny(broken, "decoder")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    failure(engine, LoadModel(number=8, source=str(broken)))
    assert trace(engine).check.is_good


class Panic(BaseException):
    """What a native library may raise."""


@pytest.mark.parametrize("error", [Panic("in rust"), RuntimeError("of ours"), KeyboardInterrupt()])
def test_that_a_fault_of_the_program_is_logged_and_the_engine_goes_on(
    engine: Engine,
    decoder: str,
    crashes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    load_into(engine, decoder)

    def fail(*arguments: object, **named: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Model, "look", fail)
        reply = failure(engine, TraceText(number=6, text="the cat"))
    assert reply.crash_log == "crash.log"
    assert len(crashes) == 1
    assert "TraceText" in crashes[0]
    assert trace(engine).check.is_good


def test_that_too_little_memory_is_told_as_such(
    engine: Engine, decoder: str, crashes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_into(engine, decoder)

    def fail(*arguments: object, **named: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Model, "look", fail)
    assert "memory" in failure(engine, TraceText(number=6, text="the cat")).message
    assert crashes == []


def test_that_a_saved_model_is_the_open_one(engine: Engine, decoder: str, tmp_path: Path) -> None:
    load_into(engine, decoder)
    reply = ask(engine, SaveModel(number=3, folder=str(tmp_path / "copy")))[-1]
    assert isinstance(reply, ModelSaved)
    original, copy = load(decoder), load(tmp_path / "copy")
    assert original.info.sha256 == copy.info.sha256


def test_that_position_tables_come_in_the_order_asked_for(engine: Engine, decoder: str) -> None:
    load_into(engine, decoder)
    names = ("binary", "model", "sinusoidal")
    (reply,) = ask(engine, ShowPositions(number=3, names=names, n_positions=8, d_model=16))
    assert isinstance(reply, PositionsShown)
    assert len(reply.tables) == 3
    assert reply.tables[0].name == "binary"
    assert reply.tables[2].name == "sinusoidal"


@pytest.mark.slow
def test_that_checkpoints_are_traced_by_folder_and_the_last_four_kept(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_loads = []

    def counting_load(source: str, device: str = "auto") -> Model:
        n_loads.append(source)
        return load(source, device=device)

    monkeypatch.setattr("attnscope.workers.engine.open_source", counting_load)
    folders = [
        save_tiny(tmp_path / "checkpoints" / str(step), "decoder", seed=step) for step in (10, 20, 30, 40, 50)
    ]
    traced = [trace(engine, model=folder) for folder in folders]
    assert [one.step for one in traced] == [10, 20, 30, 40, 50]
    assert [one.model for one in traced] == folders
    trace(engine, model=folders[1])
    assert len(n_loads) == 5
    trace(engine, model=folders[0])
    assert len(n_loads) == 6


def test_that_closing_the_replies_early_gives_a_request_up(engine: Engine, decoder: str) -> None:
    replies = engine.handle(LoadModel(number=1, source=decoder))
    assert isinstance(next(replies), Progress)
    replies.close()  # type: ignore[attr-defined]
    assert "No model is open" in failure(engine, TraceText(number=2, text="the cat")).message
