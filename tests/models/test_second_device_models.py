"""Looking at models on a device that is not the CPU, with the tests' second one; and how often that waits."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from second_device import Watch, second_device
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope import importance, measure
from attnscope.analysis import (
    Patching,
    attribute_logits,
    build_batches,
    head_pairs,
    learn_gates,
    logit_lens,
    patch_map,
    rank_collapse,
    relevance,
    rollout,
    subject_of,
)
from attnscope.models import Model, OwnNetwork
from attnscope.nn import attention
from attnscope.records import CopyPattern, Gates, MakeMean, MakeUniform, RemoveEdge, WriteSettings
from attnscope.trace import load_trace

pytestmark = pytest.mark.slow

CLEAN, CORRUPT = "the cat sat on the mat", "the dog sat on the bird"
VARIANTS = [
    ("decoder", {"position": "alibi", "mask": "bigbird", "window": 2, "mask_block": 2}),
    ("decoder", {"position": "rotary", "score": "cosine"}),
    ("encoder", {"position": "t5", "norm_place": "post"}),
    ("encoder-decoder", {"position": "shaw", "score": "general"}),
    ("encoder-decoder", {"body": "gru", "n_heads": 2, "n_kv_heads": 2, "feeds_context": True}),
]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The second device; attention takes the way of GPUs everywhere, so that numbers can be the same."""
    monkeypatch.setattr(attention, "_fits_cpu_operator", lambda *_: False)
    with second_device() as found:
        yield found


def _there(model: Model) -> Model:
    own = model.own
    return Model(OwnNetwork(own.module.to("second_device"), own.vocabulary, own.card))


def _pair(form: str, **choices: object) -> tuple[Model, Model]:
    """The same model here and there."""
    return tiny_model(form, **choices), _there(tiny_model(form, **choices))


def _plain(value: Any) -> Any:
    """Records as nested lists of numbers, so that they can be compared."""
    if is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, field.name)) for field in fields(value) if "per_s" not in field.name]
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.flatten().tolist()]
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _interventions(model: Model) -> tuple[object, ...]:
    heads = model.sites[-1].heads
    form = model.info.form
    return (
        RemoveEdge(head=heads[0], query=2, key=1),
        MakeUniform(head=heads[1]),
        CopyPattern(head=heads[0], from_head=heads[1], text=SENTENCE, target=target_of(form)),
        MakeMean(head=heads[-1]),
    )


@pytest.mark.parametrize(("form", "choices"), VARIANTS, ids=str)
def test_that_a_trace_on_another_device_shows_the_same(
    form: str, choices: dict[str, object], watch: Watch, tmp_path: Any
) -> None:
    here, there = _pair(form, **choices)
    gates = Gates.of({here.sites[0].heads[1]: 0.5})
    one, other = (model.trace(SENTENCE, target_of(form), gates) for model in (here, there))
    assert other.check().is_good
    np.testing.assert_allclose(other.logits, one.logits, atol=1e-6)
    for site in one.sites:
        whole = one.all_weights(site).numpy()
        np.testing.assert_allclose(other.all_weights(site).cpu().numpy(), whole, atol=1e-6)
        np.testing.assert_allclose(other.row(site, 1, 2), whole[1, 2], atol=1e-6)
        for size in (None, (3, 2)):
            tiles = [trace.tile(site, 0, slice(1, 6), slice(0, 5), size=size) for trace in (one, other)]
            np.testing.assert_allclose(tiles[1], tiles[0], atol=1e-6)
        np.testing.assert_array_equal(other.grid(site, 4).levels, one.grid(site, 4).levels)
        np.testing.assert_array_equal(
            other.head_tile(site.heads[0]).levels, one.head_tile(site.heads[0]).levels
        )
    other.save(tmp_path / "trace.safetensors")
    saved = load_trace(tmp_path / "trace.safetensors")
    np.testing.assert_allclose(saved.weights(0, 1), one.weights(0, 1), atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_that_edits_pruning_and_predictions_are_the_same_there(form: str, watch: Watch) -> None:
    here, there = _pair(form)
    target, changes = target_of(form), _interventions(here)
    one, other = (model.trace(SENTENCE, target, interventions=changes) for model in (here, there))
    assert other.check().is_good
    np.testing.assert_allclose(other.logits, one.logits, atol=1e-6)
    compared = [_plain(m.compare(SENTENCE, target, interventions=changes).kl_nats) for m in (here, there)]
    assert compared[0] == compared[1]
    assert _plain(here.predict(SENTENCE, target)) == _plain(there.predict(SENTENCE, target))
    gates = Gates.of({here.sites[0].heads[1]: 0.0})
    smaller = [model.prune(gates, SENTENCE, target) for model in (here, there)]
    np.testing.assert_allclose(
        *(model.trace(SENTENCE, target).logits for model in smaller),
        atol=1e-6,
    )


@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
def test_that_the_same_is_written_there(form: str, watch: Watch) -> None:
    here, there = _pair(form)
    gates = Gates.of({here.sites[0].heads[1]: 0.0})
    assert here.generate("the cat", max_tokens=6) == there.generate("the cat", max_tokens=6)
    for settings in (
        WriteSettings(max_tokens=4),
        WriteSettings(mode="beams", n_beams=3, max_tokens=4),
        WriteSettings(mode="sample", temperature=0.7, seed=3, max_tokens=4),
    ):
        texts = [model.write("the cat", settings, gates).text for model in (here, there)]
        assert _plain(texts[0]) == _plain(texts[1]), settings


ANALYSES: dict[str, Callable[[Model, str, str | None], Any]] = {
    "measures": lambda m, t, u: measure(m.trace(t, u)),
    "rollout": lambda m, t, u: rollout(m.trace(t, u)).weights,
    "importance": lambda m, t, u: importance(m, [(t, u) if u else t]),
    "leave one out": lambda m, t, u: importance(m, [(t, u) if u else t], "leave-one-out"),
    "lens": lambda m, t, u: logit_lens(m, t, u),
    "attribution": lambda m, t, u: attribute_logits(m, t, u, position=3, answer=7, other=5),
    "relevance": lambda m, t, u: relevance(m, t, u, position=2).weights,
    "rank": lambda m, t, u: rank_collapse(m, t, u),
    "alike": lambda m, t, u: list(head_pairs(m, [(t, u) if u else t])),
    "patching": lambda m, t, u: list(patch_map(m, (CLEAN, u), (CORRUPT, u), Patching(answer=7, other=5))),
    "gates": lambda m, t, u: list(
        learn_gates(subject_of(m), build_batches(m, [(t, u) if u else t]), n_steps=2)
    ),
}


@pytest.mark.parametrize(
    ("name", "form"),
    [*((name, "encoder-decoder") for name in ANALYSES), ("importance", "encoder"), ("lens", "decoder")],
)
def test_that_an_analysis_gives_the_same_there(name: str, form: str, watch: Watch) -> None:
    one, other = (_plain(ANALYSES[name](model, SENTENCE, target_of(form))) for model in _pair(form))
    assert one == other


@pytest.mark.parametrize(
    ("form", "n_reads", "n_copies"), [("decoder", 1, 1), ("encoder", 1, 1), ("encoder-decoder", 2, 2)]
)
def test_how_often_a_trace_waits_for_the_device(form: str, n_reads: int, n_copies: int, watch: Watch) -> None:
    """One proof for all sites that are alike and one copy for each text; then each look at the numbers."""
    model = _there(tiny_model(form))
    watch.forget()
    trace = model.trace(SENTENCE, target_of(form))
    assert (len(watch.reads), len(watch.copies)) == (n_reads, n_copies), watch.told()
    watch.forget()
    trace.weights(0, 1)
    trace.row(0, 1, 2)
    assert (len(watch.reads), len(watch.copies)) == (2, 0), watch.told()


def test_how_often_writing_waits_for_the_device(watch: Watch) -> None:
    """A token is read back and put in again; nothing else is waited for."""
    model = _there(tiny_model("decoder"))
    for n_tokens in (2, 5):
        watch.forget()
        model.write("the cat", WriteSettings(max_tokens=n_tokens))
        proofs = [where for where in watch.reads if where.startswith("trace.check")]
        assert len(watch.reads) - len(proofs) == n_tokens, watch.told()
        assert len(watch.copies) == n_tokens + 1, watch.told()  # the text first
        assert len(proofs) == 1  # of the text and what was written after it, in both layers
