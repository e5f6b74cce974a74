"""A recurrent model is one like any other: opened, gated, changed, written with, pruned; or it says no."""

import numpy as np
import pytest
import torch
from references import ov_matrix
from slow_recurrent import SlowRecurrent
from tiny_models import FRENCH, SENTENCE, tiny_model

import attnscope as at
from attnscope import importance
from attnscope.analysis import (
    Patching,
    attribute_logits,
    head_circuit,
    logit_lens,
    output_grams,
    patch_map,
    position_tables,
    rank_collapse,
    raw_attention,
    relevance,
    rollout,
    site_spectrum,
)
from attnscope.errors import RecipeError, UserError
from attnscope.models import Model, own_cost, prune_module
from attnscope.models.writing import OwnWriter, RecomputingWriter
from attnscope.nn import Dense, ModelConfig
from attnscope.records import CopyPattern, Gates, HeadRef, MakeMean, MakeUniform, RemoveEdge, WriteSettings
from attnscope.trace import load_trace

BAHDANAU = {"body": "gru", "feeds_context": True, "score": "additive", "n_kv_heads": 4}
LUONG = {"body": "lstm", "feeds_context": False, "score": "general", "local_reach": 2}
LOCAL = {"body": "rnn", "feeds_context": True, "score": "dot", "local_reach": 2, "n_decoder_layers": 1}
CASES = (BAHDANAU, LUONG, LOCAL)
SITE = ("cross", 0)
HEADS = tuple(HeadRef(stack="cross", layer=0, head=head) for head in range(4))


def model_of(choices: dict) -> Model:
    return tiny_model("encoder-decoder", **choices)


@pytest.mark.parametrize("choices", CASES, ids=str)
def test_that_its_trace_proves_itself_and_is_the_same_from_a_file(choices, tmp_path):
    model = model_of(choices)
    trace = model.trace(SENTENCE, FRENCH)
    assert [site.key for site in trace.sites] == [SITE]
    assert trace.check().is_good
    weights = trace.weights(SITE, 1)
    np.testing.assert_allclose(np.nansum(weights, axis=1), 1.0, atol=1e-5)
    assert np.isnan(weights).any() == ("local_reach" in choices)
    trace.save(tmp_path / "trace")
    again = load_trace(tmp_path / "trace")
    np.testing.assert_array_equal(again.weights(SITE, 1), weights)
    np.testing.assert_allclose(trace.head_tile(HEADS[1]).weights, weights, atol=1e-6)
    model.save(tmp_path / "model")
    opened = at.load(tmp_path / "model")
    np.testing.assert_array_equal(opened.trace(SENTENCE, FRENCH).logits, trace.logits)


@pytest.mark.parametrize("choices", CASES, ids=str)
@pytest.mark.parametrize("closed", [(2,), (0, 1, 3), (0, 1, 2, 3)])
def test_that_removed_heads_leave_what_closed_gates_leave(choices, closed):
    model = model_of(choices)
    gates = Gates(values=tuple((HEADS[h], 0.0 if h in closed else 0.5) for h in (*closed, 3)))
    gated = model.trace(SENTENCE, FRENCH, gates).logits
    network = model.own
    smaller = Model(type(network)(prune_module(network.module, gates), network.vocabulary, network.card))
    found = smaller.trace(SENTENCE, FRENCH)
    np.testing.assert_allclose(found.logits, gated, atol=2e-5)
    assert found.check().is_good


@pytest.mark.slow
@pytest.mark.parametrize("choices", CASES, ids=str)
def test_that_each_change_of_a_head_is_proved_and_shows(choices):
    model = model_of(choices)
    changes = (
        RemoveEdge(head=HEADS[0], query=2, key=1),
        MakeUniform(head=HEADS[1]),
        CopyPattern(head=HEADS[2], from_head=HEADS[0], text=SENTENCE, target=FRENCH),
        MakeMean(head=HEADS[3]),
    )
    plain, trace = (model.trace(SENTENCE, FRENCH, interventions=some) for some in ((), changes))
    assert trace.check().is_good
    before, after = ([t.weights(SITE, head) for head in range(4)] for t in (plain, trace))
    assert np.isnan(after[0][2, 1])
    seen = (~np.isnan(after[1])).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.nan_to_num(after[1]), ~np.isnan(after[1]) / seen, atol=1e-6)
    np.testing.assert_allclose(after[2], before[0], atol=1e-6)
    for change in changes[1:]:
        assert max(model.compare(SENTENCE, FRENCH, interventions=(change,)).kl_nats) > 0
    with pytest.raises(UserError, match="no edge from query 40"):
        model.compare(SENTENCE, FRENCH, interventions=(RemoveEdge(head=HEADS[0], query=40, key=1),))


def test_that_a_mean_output_is_that_of_the_run_before_it():
    model = model_of(BAHDANAU)
    trace = model.trace(SENTENCE, FRENCH, interventions=(MakeMean(head=HEADS[3]),))
    slow = SlowRecurrent(model.own.module)
    ids = list(trace.source.ids), list(trace.target.ids)
    slow.run(*ids)
    fixed = {3: np.mean([row[3] for row in slow.outs], axis=0)}
    logits, weights = slow.run(*ids, fixed=fixed)
    np.testing.assert_allclose(trace.logits, logits, atol=1e-5)
    np.testing.assert_allclose(trace.weights(SITE, 3), weights[3], atol=1e-5)


@pytest.mark.parametrize("choices", CASES, ids=str)
def test_that_it_writes_from_its_state_what_it_writes_anew(choices):
    network = model_of(choices).network
    source = network.encode(SENTENCE).source.ids
    writers = network.writer(), RecomputingWriter(network)
    assert isinstance(writers[0], OwnWriter)
    found = [writer.begin(source, [network.vocabulary.begin_id]) for writer in writers]
    for ids, parents in (([5, 6, 7], [0, 0, 0]), ([8, 9, 4], [2, 0, 0]), ([3], [1])):
        torch.testing.assert_close(found[0], found[1], atol=2e-5, rtol=0.0)
        found = [writer.step(ids, parents) for writer in writers]
    torch.testing.assert_close(found[0], found[1], atol=2e-5, rtol=0.0)


@pytest.mark.parametrize("choices", CASES, ids=str)
def test_that_what_beams_wrote_is_traced_as_one_text(choices):
    model = model_of(choices)
    written = model.write(SENTENCE, WriteSettings(mode="beams", n_beams=3, max_tokens=5))
    assert written.trace.check().is_good
    target = written.trace.target.ids
    again = model.network.run(written.inputs).logits()
    assert again.shape[0] == len(target)


def test_that_only_what_needs_a_stream_refuses_and_says_so():
    model = model_of(LUONG)
    head, texts = HEADS[0], (SENTENCE, FRENCH)
    trace = model.trace(*texts)
    refused = {
        "lens": lambda: logit_lens(model, *texts),
        "attribution": lambda: attribute_logits(model, *texts),
        "relevance": lambda: relevance(model, *texts),
        "patching": lambda: list(patch_map(model, texts, texts, Patching())),
        "rank": lambda: rank_collapse(model, *texts),
        "spectra": lambda: site_spectrum(model, SITE),
        "circuit": lambda: list(head_circuit(model, head, "ov")),
        "product": lambda: ov_matrix(model, head),
        "rollout": lambda: rollout(trace),
        "positions": lambda: position_tables(["model"], 8, 16, model),
        "mask": lambda: model.trace(*texts, pattern=Dense(cells=torch.ones(1, 1, 7, 7, dtype=torch.bool))),
    }
    for name, ask in refused.items():
        with pytest.raises(UserError) as error:
            ask()
        assert "recurrent" in str(error.value) or name == "rollout", name
        assert error.value.expected
    assert raw_attention(trace).weights.shape == (len(trace.target), len(trace.source))
    assert set(output_grams(model)) == {SITE}
    assert all(score.value > 0 for score in importance(model, [texts]).scores)
    assert len(at.measure(trace)) == 4


def test_that_a_body_is_judged_before_it_is_built():
    with pytest.raises(RecipeError, match="body"):
        ModelConfig(form="decoder", vocab_size=9, body="gru").check()
    with pytest.raises(RecipeError, match="d_model"):
        ModelConfig(form="encoder-decoder", vocab_size=9, body="gru", d_model=15, n_heads=3).check()
    unused = {"mask": "prefix", "position": "rotary", "score": "additive", "has_pooler": True}
    ModelConfig(form="encoder-decoder", vocab_size=9, body="gru", **unused).check()


def test_that_the_cost_on_paper_is_that_of_its_products():
    config = ModelConfig(
        form="encoder-decoder", vocab_size=50, body="gru", d_model=8, n_layers=1, n_heads=2, score="dot"
    )
    cost = dict(own_cost(config, 10).parts)
    encoder = 2 * (3 * 4 * (8 + 4)) + 2 * 8 * 8  # two directions, then keys and values
    decoder = 3 * 8 * (16 + 8) + 2 * 8 * 8 + 2 * 8 * 8  # the cell, queries and output, the readout
    assert cost["encoder matrices"] == 2 * 10 * encoder
    assert cost["decoder matrices"] == 2 * (10 * decoder + 8 * 8)
    assert cost["attention"] == 4 * 10 * 10 * 8
    assert cost["logits"] == 2 * 10 * 8 * 50
