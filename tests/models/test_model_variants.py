"""Models of every mask, score and position are traced, pruned, saved and written with like any other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.errors import UserError
from attnscope.models import Model, own_cost, prune_module
from attnscope.models.writing import OwnWriter, RecomputingWriter
from attnscope.nn import ModelConfig, graph_mask
from attnscope.records import HeadRef, MakeUniform, RemoveEdge
from attnscope.trace import load_trace

VARIANTS = [
    {"mask": "window", "window": 2},
    {"mask": "dilated", "window": 2},
    {"mask": "bigbird", "window": 1, "mask_block": 2, "random_blocks": 1},
    {"mask": "prefix", "prefix_tokens": 3},
    {"score": "dot"},
    {"score": "general", "position": "rotary"},
    {"score": "cosine", "position": "binary"},
    {"score": "gaussian", "position": "t5", "n_buckets": 8, "max_distance": 6},
    {"score": "additive", "position": "alibi"},
    {"score": "kernel"},
    {"score": "kernel", "mask": "global", "window": 1},
    {"position": "shaw", "max_distance": 3},
    {"norm": "none", "activation": "glu"},
    {"norm_place": "sandwich", "norm": "rms", "activation": "geglu"},
    {"has_residual": False, "has_feed_forward": False},
]


def forms(variant: dict) -> tuple[str, ...]:
    """Without norms a ramp's stream grows past what absolute tolerances are for, so those stay small."""
    is_small = variant.get("mask") == "prefix" or variant.get("norm") == "none"
    return ("decoder",) if is_small else ("decoder", "encoder-decoder")


CASES = [(form, variant) for variant in VARIANTS for form in forms(variant)]
HEAD = HeadRef(stack="decoder", layer=1, head=2)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "variant"), CASES, ids=str)
def test_that_a_trace_of_it_proves_itself_and_survives_a_file(form, variant, tmp_path):
    model = tiny_model(form, **variant)
    trace = model.trace(SENTENCE, target_of(form))
    assert trace.check().is_good, trace.check()
    trace.save(tmp_path / "trace.safetensors")
    again = load_trace(tmp_path / "trace.safetensors")
    for site in trace.sites:
        for head in range(site.n_heads):
            weights = trace.weights(site, head)
            np.testing.assert_allclose(np.nansum(weights, axis=1), 1.0, atol=1e-5)
            np.testing.assert_array_equal(again.weights(site, head), weights)
            tile = trace.head_tile(HeadRef(stack=site.stack, layer=site.layer, head=head))
            # exp(score − lse): what float32 rounds off scores of up to 10, a cosine over 0.1, is 2e-6
            np.testing.assert_allclose(
                tile.weights, weights, atol=4e-6 if variant.get("score") == "cosine" else 1e-6
            )
            np.testing.assert_allclose(trace.row(site, head, 2), weights[2], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "variant"), CASES, ids=str)
def test_that_it_is_the_same_after_it_was_saved_and_opened(form, variant, tmp_path):
    model = tiny_model(form, **variant)
    model.save(tmp_path / "model")
    again = at.load(tmp_path / "model")
    assert again.own.config == model.own.config
    text, target = SENTENCE, target_of(form)
    np.testing.assert_array_equal(again.trace(text, target).logits, model.trace(text, target).logits)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "variant"), CASES, ids=str)
def test_that_a_pruned_head_leaves_what_a_closed_gate_leaves(form, variant):
    model = tiny_model(form, **variant)
    gates = model.gates()
    gates["decoder", 1, 2] = 0.0
    gates["decoder", 0, 1] = 0.0
    if form == "encoder-decoder":
        gates["cross", 0, 3] = gates["encoder", 1, 0] = 0.0
    gated = model.trace(SENTENCE, target_of(form), gates).logits
    smaller = prune_module(model.own.module, gates.frozen())
    network = model.own
    pruned = type(network)(smaller, network.vocabulary, network.card)
    found = Model(pruned).trace(SENTENCE, target_of(form))
    np.testing.assert_allclose(found.logits, gated, atol=2e-5)
    assert found.check().is_good


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_that_edits_of_heads_prove_themselves_too(variant):
    model = tiny_model("decoder", **variant)
    changes = (MakeUniform(head=HEAD), RemoveEdge(head=replace(HEAD, head=0), query=3, key=3))
    trace = model.trace(SENTENCE, interventions=changes)
    assert trace.check().is_good
    row = trace.weights(("decoder", 1), 2)[4]
    np.testing.assert_allclose(row[~np.isnan(row)], 1.0 / np.sum(~np.isnan(row)), atol=1e-5)
    assert np.isnan(trace.weights(("decoder", 1), 0)[3, 3])


@pytest.mark.slow
@pytest.mark.parametrize(("form", "variant"), CASES, ids=str)
def test_that_it_writes_step_by_step_what_it_writes_anew_each_time(form, variant):
    model = tiny_model(form, **variant)
    network = model.network
    inputs = network.encode(SENTENCE)
    source = inputs.source.ids if form == "encoder-decoder" else ()
    prefix = [network.vocabulary.begin_id] if source else list(inputs.source.ids)[:3]
    writers = (network.writer(), RecomputingWriter(network))
    assert isinstance(writers[0], OwnWriter) == (variant.get("mask") != "prefix")
    logits = [writer.begin(source, prefix) for writer in writers]
    ids = list(prefix)
    for _ in range(6):
        torch.testing.assert_close(logits[0], logits[1], atol=2e-5, rtol=0.0)
        ids.append(int(logits[0][0].argmax()))
        logits = [writer.step(ids[-1:], [0]) for writer in writers]
    if form == "decoder":
        text = Model(network).network.write(inputs, n_tokens=5)
        slow = RecomputingWriter(network)
        found, last = [], slow.begin((), list(inputs.source.ids))
        while len(found) < 5 and int(last[0].argmax()) != network.vocabulary.end_id:
            found.append(int(last[0].argmax()))
            last = slow.step(found[-1:], [0])
        assert text == found


def test_that_the_cost_on_paper_follows_the_mask_the_score_and_the_blocks():
    plain = ModelConfig(form="decoder", vocab_size=100, d_model=32, n_heads=4, n_layers=1, d_ff=64)
    parts = {name: dict(own_cost(replace(plain, **choice), 50).parts) for name, choice in {
        "full": {}, "window": {"mask": "window", "window": 3}, "kernel": {"score": "kernel"},
        "general": {"score": "general"}, "gaussian": {"score": "gaussian"}, "additive": {"score": "additive"},
        "shaw": {"position": "shaw", "max_distance": 5}, "attention alone": {"has_feed_forward": False},
        "gated": {"activation": "reglu"}, "wide": {"d_head": 12},
    }.items()}  # fmt: skip
    assert parts["full"]["attention"] == 4 * 50 * 50 * 32
    assert parts["window"]["attention"] == 4 * (50 * 7 - 2 * (3 + 2 + 1)) * 32
    assert parts["kernel"]["attention"] == 4 * 50 * 4 * 8 * 9
    assert parts["wide"]["attention"] == 4 * 50 * 50 * 48
    assert parts["wide"]["decoder matrices"] == 50 * 2 * (4 * 48 * 32 + 2 * 32 * 64)
    assert parts["gaussian"]["attention"] == 2 * 50 * 50 * 4 * (10 + 8)
    assert parts["additive"]["attention"] == parts["full"]["attention"]
    matrices = parts["full"]["decoder matrices"]
    assert parts["general"]["decoder matrices"] == matrices + 50 * 2 * 4 * 8 * 8
    assert parts["shaw"]["decoder matrices"] == matrices + 50 * 2 * 32 * 11
    assert parts["attention alone"]["decoder matrices"] == matrices - 50 * 2 * 2 * 32 * 64
    assert parts["gated"]["decoder matrices"] == matrices + 50 * 2 * 32 * 64


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_that_a_trace_stays_what_it_was_when_the_model_goes_on_learning(variant):
    model = tiny_model("decoder", **variant)
    trace = model.trace(SENTENCE)
    before = [trace.weights(site, 1) for site in trace.sites]
    with torch.no_grad():
        for parameter in model.own.module.parameters():
            parameter.mul_(1.5)
    for site, weights in zip(trace.sites, before, strict=True):
        np.testing.assert_array_equal(trace.weights(site, 1), weights)


@pytest.mark.parametrize("form", ["encoder", "decoder", "encoder-decoder"])
def test_that_a_text_is_read_under_a_mask_of_edges(form, tmp_path):
    model = tiny_model(form)
    n = len(model.encode(SENTENCE, target_of(form)).source)
    chain = graph_mask([(i, i + 1) for i in range(n - 1)], n)
    trace = model.trace(SENTENCE, target_of(form), pattern=chain)
    assert trace.check().is_good
    seen = ~np.isnan(trace.weights(0, 1))
    reach = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    np.testing.assert_array_equal(seen, np.tril(reach) if form == "decoder" else reach)
    trace.save(tmp_path / "chain.safetensors")
    np.testing.assert_array_equal(
        load_trace(tmp_path / "chain.safetensors").weights(0, 1), trace.weights(0, 1)
    )
    with pytest.raises(UserError, match=f"does not fit the text of {n} tokens"):
        model.trace(SENTENCE, target_of(form), pattern=graph_mask([], n + 1))


def test_that_slots_and_matching_cost_what_their_products_cost() -> None:
    small = ModelConfig(
        form="encoder", vocab_size=20, d_model=8, n_layers=1, n_heads=2, d_ff=8, max_tokens=16
    )
    slots = dict(own_cost(replace(small, n_projected=4), 10).parts)
    assert slots["encoder matrices"] == 2 * 10 * (6 * 8 * 8 + 2 * 4 * 8)  # the block, then keys and values
    assert slots["attention"] == 4 * 10 * 4 * 8
    pair = dict(own_cost(replace(small, n_labels=3, pooling="mean", reads_pair=True), 10).parts)
    assert pair["encoder matrices"] == 2 * 2 * 10 * 6 * 8 * 8
    assert pair["attention"] == 2 * 4 * 10 * 10 * 8
    # Each text looks at the other, each word is composed of four rows, and two summaries are joined.
    assert pair["matching"] == 2 * 4 * 10 * 10 * 8 + 2 * (2 * 10 * 32 * 8) + 2 * 16 * 8
