"""The engine's answer to CompareTraces, against the traces of the models themselves."""

from pathlib import Path

import numpy as np
import pytest
from worker_tools import ask, save_tiny, traced_whole

from attnscope.models import load
from attnscope.records import (
    NO_GATES,
    CompareTraces,
    Failed,
    Gates,
    HeadRef,
    HeadsShown,
    LoadModel,
    Progress,
    ShowHeads,
    Traced,
    TracesCompared,
    TraceText,
)
from attnscope.viewmodels.compare import align_stacks, pair_answers
from attnscope.workers import Engine, Mailbox

OFF = Gates.of({HeadRef(stack="decoder", layer=0, head=1): 0.0})


def trace(
    engine: Engine, number: int, view: str, text: str, *, model: str = "", gates: Gates = NO_GATES
) -> Traced:
    replies = ask(engine, TraceText(number=number, text=text, model=model, gates=gates, view=view))
    return traced_whole(reply for reply in replies if not isinstance(reply, Progress))


def compare(engine: Engine, first: Traced, second: Traced) -> TracesCompared:
    answers = tuple(a.pair for a in pair_answers(first, second, "pairs") if a.pair is not None)
    request = CompareTraces(
        number=9,
        first=first.view,
        second=second.view,
        first_trace=first.number,
        second_trace=second.number,
        stacks=align_stacks(first, second),
        answers=answers,
    )
    *_, reply = ask(engine, request)
    assert isinstance(reply, TracesCompared), reply
    return reply


def test_that_gates_before_and_after_are_compared_exactly(engine: Engine, decoder: str) -> None:
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    first = trace(engine, 2, "compare A", "the cat sat on the mat")
    second = trace(engine, 3, "compare B", "the cat sat on the mat", gates=OFF)
    found = compare(engine, first, second)
    model = load(decoder)
    traces = [model.trace("the cat sat on the mat", gates=gates) for gates in (NO_GATES, OFF)]
    for grid, site in zip(found.grids, model.sites, strict=True):
        for k in range(site.n_heads):
            delta = traces[1].weights(site, k) - traces[0].weights(site, k)
            expected = np.abs(delta[np.isfinite(delta)]).mean(dtype=np.float64)
            assert grid.mean_abs[k] == pytest.approx(expected, rel=1e-5, abs=1e-9)
            assert grid.peaks[k] == pytest.approx(np.nanmax(np.abs(delta)), rel=1e-5, abs=1e-9)
            shown = (grid.levels[k].astype(float) - 128) / 127 * grid.peaks[k]
            np.testing.assert_allclose(shown[np.isfinite(delta)], delta[np.isfinite(delta)],
                                       atol=grid.peaks[k] / 200 + 1e-9)  # fmt: skip
            assert (grid.levels[k][np.isnan(delta)] == 0).all()
    assert found.kl_nats == pytest.approx(second.comparison.kl_nats, rel=1e-9)
    assert found.has_one_vocabulary
    assert found.only_first == found.only_second == ()
    same = compare(engine, second, second)
    assert same.kl_nats == pytest.approx([0.0])
    assert max(float(grid.mean_abs.max()) for grid in same.grids) == 0.0


@pytest.mark.slow
def test_that_two_models_and_texts_are_kept_apart(
    engine: Engine, decoder: str, translator: str, tmp_path: Path
) -> None:
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    encoder = save_tiny(tmp_path / "encoder", "encoder")
    replies = ask(engine, TraceText(number=2, text="the dog", model=encoder, view="compare A"))
    assert isinstance(replies[0], Progress)
    first = replies[-1]
    assert isinstance(first, Traced)
    assert first.info is not None
    assert first.info.name == "tiny encoder"
    second = trace(engine, 3, "compare B", "the cat sat")
    ask(engine, TraceText(number=4, text="a bird"))
    head = HeadRef(stack="encoder", layer=1, head=0)
    (shown,) = ask(engine, ShowHeads(number=5, heads=(head,), view="compare A"))
    assert isinstance(shown, HeadsShown)
    assert [token.piece for token in shown.maps[0].keys] == list(first.source.pieces)
    found = compare(engine, first, second)
    assert [grid.heads[0].stack for grid in found.grids] == ["encoder", "encoder"]
    assert found.grids[0].n_keys == len(align_stacks(first, second)[0].keys)
    both = trace(engine, 6, "compare B", "the cat", model=translator)
    mixed = compare(engine, first, both)
    assert {head.stack for head in mixed.only_second} == {"decoder", "cross"}


def test_that_a_trace_that_is_gone_is_an_error(engine: Engine, decoder: str) -> None:
    ask(engine, LoadModel(number=1, source=decoder, device="cpu"))
    trace(engine, 2, "compare A", "the cat")
    request = CompareTraces(
        number=3, first="compare A", second="compare B", first_trace=2, second_trace=1, stacks=()
    )
    (reply,) = ask(engine, request)
    assert isinstance(reply, Failed)
    assert reply.number == 3


def test_that_views_of_one_model_do_not_replace_each_other() -> None:
    box = Mailbox()
    box.post(TraceText(number=1, text="a", view="compare A"))
    box.post(TraceText(number=2, text="b", view="compare B"))
    box.post(TraceText(number=3, text="c"))
    box.post(TraceText(number=4, text="d", view="compare A", model="other"))
    assert len(box) == 3
