import itertools
import math

import numpy as np
import pytest
import torch
from tiny_models import FORMS, SENTENCE, target_of, tiny_model

from attnscope.analysis import (
    StreamLevel,
    attention_graph,
    flow_row,
    graph_of,
    mean_weights,
    raw_attention,
    roll_out,
    rollout,
    trace_levels,
    with_stream,
)
from attnscope.errors import UserError
from attnscope.records import Gates, HeadRef, Token
from attnscope.trace import Trace

W1 = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
W2 = torch.tensor([[1, 0, 0], [0.4, 0.6, 0], [0.1, 0.1, 0.8]])
FORBIDDEN = torch.ones(3, 3).triu(1).bool()


def tokens(n: int) -> list[Token]:
    return [Token(id=i, piece=str(i)) for i in range(n)]


def levels(*weights: torch.Tensor) -> tuple[StreamLevel, ...]:
    """Plain self-attention, first layer first."""
    named = tuple(tokens(len(weights[0])))
    found = [StreamLevel(name="encoder input", tokens=named)]
    for layer, mean in enumerate(weights):
        parts = ((layer, with_stream(mean.nan_to_num(nan=0.0))),)
        found.append(StreamLevel(name=f"encoder {layer}", tokens=named, parts=parts))
    return tuple(found)


def trace_of(form: str, gates: Gates | None = None) -> Trace:
    return tiny_model(form).trace(SENTENCE, target_of(form), gates)


@pytest.mark.parametrize("is_masked", [False, True])
def test_that_the_hand_fixture_comes_out_to_four_digits(is_masked: bool) -> None:
    pair = [w.masked_fill(FORBIDDEN, math.nan) if is_masked else w for w in (W1, W2)]
    rolled = roll_out(levels(*pair))[-1].numpy()
    np.testing.assert_allclose(rolled, [[1, 0, 0], [0.4, 0.6, 0], [0.1525, 0.1725, 0.675]], atol=5e-5)
    flows = np.stack([flow_row(levels(*pair), i) for i in range(3)])
    np.testing.assert_allclose(flows, [[1, 0, 0], [0.45, 0.75, 0], [0.2, 0.2, 0.75]], atol=5e-5)


def test_that_upper_layers_multiply_from_the_left() -> None:
    right = roll_out(levels(W1, W2))[-1]
    wrong = roll_out(levels(W2, W1))[-1]
    assert float((right - wrong).abs().max()) > 0.01


def test_that_known_heads_have_known_rollouts() -> None:
    n = 6
    eye, back = torch.eye(n), torch.zeros(n, n)
    assert torch.equal(roll_out(levels(eye, eye, eye))[-1], eye.double())
    back[0, 0] = 1
    back[range(1, n), range(n - 1)] = 1
    rolled = roll_out(levels(back, back, back))[-1]
    # Three steps, each back with chance one half: binomial.
    assert rolled[5].tolist() == [0, 0, 1 / 8, 3 / 8, 3 / 8, 1 / 8]


def test_that_a_token_that_sees_nothing_keeps_its_stream() -> None:
    blind = W1.clone()
    blind[1] = math.nan
    a = with_stream(blind.nan_to_num(nan=0.0))
    assert a[1].tolist() == [0, 1, 0]
    padded = W1.masked_fill(FORBIDDEN, math.nan)
    padded[:, 2] = math.nan  # nobody may see the last token
    rolled = roll_out(levels(padded, padded))[-1]
    assert rolled[:2, 2].tolist() == [0, 0]
    torch.testing.assert_close(rolled.sum(dim=1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("form", FORMS)
def test_that_rollout_equals_a_slow_float64_version(form: str) -> None:
    trace = trace_of(form)

    def mean(stack: str, layer: int) -> np.ndarray:
        maps = [np.nan_to_num(trace.weights((stack, layer), h).astype(np.float64)) for h in range(4)]
        return sum(maps) / 4

    found = rollout(trace)
    n_source = len(trace.source)
    if form == "encoder-decoder":
        n_target = len(trace.target)
        memory = np.eye(n_source)
        for layer in range(2):
            memory = (mean("encoder", layer) + np.eye(n_source)) / 2 @ memory
        own = np.concatenate([np.zeros((n_target, n_source)), np.eye(n_target)], axis=1)
        for layer in range(2):
            own = (mean("decoder", layer) + np.eye(n_target)) / 2 @ own
            read = np.concatenate([memory, np.zeros((n_source, n_target))], axis=1)
            own = (own + mean("cross", layer) @ read) / 2
        assert found.n_source == n_source
        expected = own
    else:
        expected = np.eye(n_source)
        for layer in range(2):
            expected = (mean(form, layer) + np.eye(n_source)) / 2 @ expected
    np.testing.assert_allclose(found.weights, expected, atol=1e-5)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, atol=1e-5)
    assert len(found.keys) == found.weights.shape[1]


def test_that_causal_rollout_never_looks_ahead() -> None:
    found = rollout(trace_of("decoder"))
    assert (np.triu(found.weights, 1) == 0).all()
    built = trace_levels(trace_of("decoder"))
    assert all((flow_row(built, i)[i + 1 :] == 0).all() for i in range(len(built[0].tokens)))


def test_that_flow_is_the_smallest_cut() -> None:
    n = 3
    weights = [torch.rand(n, n, generator=torch.Generator().manual_seed(s)) for s in range(3)]
    built = levels(*[w / w.sum(1, keepdim=True) for w in weights])
    a1, a2, a3 = (level.parts[0][1].numpy() for level in built[1:])
    for top, bottom in itertools.product(range(n), repeat=2):
        cuts = []
        for side in itertools.product((True, False), repeat=2 * n):  # which middle tokens lie with the top
            upper, lower = side[:n], side[n:]
            cut = sum(a3[top, m] for m in range(n) if not upper[m])
            cut += sum(a2[m, k] for m in range(n) for k in range(n) if upper[m] and not lower[k])
            cut += sum(a1[k, bottom] for k in range(n) if lower[k])
            cuts.append(cut)
        assert flow_row(built, top)[bottom] == pytest.approx(min(cuts), abs=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_that_what_flows_is_at_least_what_is_rolled_out(form: str) -> None:
    trace = trace_of(form)  # one input's flow shares no pipe with another's
    assert (flow_row(trace_levels(trace), 2) >= rollout(trace).weights[2] - 1e-6).all()


def test_that_raw_attention_and_single_layers_are_offered() -> None:
    trace = trace_of("decoder")
    first = raw_attention(trace, layer=0)
    np.testing.assert_allclose(first.weights, np.nan_to_num(trace.all_weights(0).mean(0).numpy()), atol=1e-6)
    half = (first.weights + np.eye(len(first.keys))) / 2
    np.testing.assert_allclose(rollout(trace, layer=0).weights, half, atol=1e-6)
    for wrong in ({"layer": 7}, {"stack": "cross"}):
        with pytest.raises(UserError):
            rollout(trace, **wrong)
    with pytest.raises(UserError, match="no layer"):
        raw_attention(trace, layer=7)


def test_that_single_layers_of_an_encoder_are_offered() -> None:
    trace = trace_of("encoder")
    first, second = (with_stream(mean_weights(trace, site)) for site in trace.sites)
    np.testing.assert_allclose(rollout(trace, layer=0).weights, first.numpy(), atol=1e-6)
    np.testing.assert_allclose(rollout(trace, layer=1).weights, (second @ first).numpy(), atol=1e-6)


def test_that_removed_heads_have_no_say() -> None:
    off = Gates.of({HeadRef(stack="decoder", layer=0, head=h): 0.0 for h in (0, 2)})
    trace = trace_of("decoder", off)
    kept = trace.all_weights(0)[[1, 3]].nan_to_num(nan=0.0).mean(0)
    torch.testing.assert_close(mean_weights(trace, trace.sites[0]), kept)
    none = Gates.of(dict.fromkeys(trace.sites[0].heads, 0.0))
    blind = trace_levels(trace_of("decoder", none))[1].parts[0][1]
    assert torch.equal(blind, torch.eye(len(blind), dtype=torch.float64))


@pytest.mark.parametrize("form", FORMS)
def test_that_the_graph_leads_from_one_token_to_the_inputs(form: str) -> None:
    trace = trace_of(form)
    whole = attention_graph(trace, -1, threshold=0.0)
    found = rollout(trace)
    inputs = [i for i, level in enumerate(trace_levels(trace)) if not level.parts]
    for node in whole.nodes:
        if node.level in inputs:
            column = node.position + (found.n_source if node.level == inputs[-1] and len(inputs) > 1 else 0)
            assert node.influence == pytest.approx(float(found.weights[-1, column]), abs=1e-6)
    assert whole.kept_share == pytest.approx(1.0)
    part = attention_graph(trace, -1, threshold=0.1)
    assert part.nodes[0].influence == 1.0
    assert 0 < len(part.edges) < len(whole.edges)
    assert part.kept_share < 1.0
    for edge in part.edges:
        upper, lower = part.nodes[edge.upper], part.nodes[edge.lower]
        assert edge.weight * upper.influence >= 0.1
        assert upper.level > lower.level
        if edge.is_stream:
            assert upper.token == lower.token


def test_that_the_graph_of_two_layers_is_the_one_worked_out_by_hand() -> None:
    found = graph_of(levels(W1, W2), 2, threshold=0.04)
    # A_2 of the last token is 0.05, 0.05, 0.9; A_1 is (1, 0, 0), (0.25, 0.75, 0), (0.1, 0.15, 0.75)
    assert [(n.level, n.position, round(n.influence, 4)) for n in found.nodes] == [
        (2, 2, 1.0),
        (1, 0, 0.05),
        (1, 1, 0.05),
        (1, 2, 0.9),
        (0, 0, 0.14),
        (0, 1, 0.135),
        (0, 2, 0.675),
    ]
    carried = [round(found.carried(edge), 4) for edge in found.edges]
    assert carried == [0.05, 0.05, 0.9, 0.05, 0.09, 0.135, 0.675]  # 0.0125 and 0.0375 are left out
    assert [edge.is_stream for edge in found.edges] == [False, False, True, True, False, False, True]
    assert found.kept_share == pytest.approx(0.95)


def test_that_weights_too_small_for_a_product_lead_nowhere() -> None:
    to_the_next = torch.eye(14, dtype=torch.float64) + 1e-50 * torch.ones(14, 14).double().tril(-1).triu(-1)
    found = graph_of(levels(*[to_the_next] * 12), -1, threshold=0.0)
    assert len({node.position for node in found.nodes}) == 7  # 1e-50 to the seventh power is 0
    assert all(found.carried(edge) > 0 for edge in found.edges)
    assert attention_graph(trace_of("decoder"), threshold=1.0).nodes[0].influence == 1.0


def test_that_more_edges_than_can_be_told_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of("decoder")
    n_edges = len(attention_graph(trace, threshold=0.0).edges)
    monkeypatch.setattr("attnscope.analysis.influence.MAX_EDGES", n_edges)
    assert len(attention_graph(trace, threshold=0.0).edges) == n_edges
    monkeypatch.setattr("attnscope.analysis.influence.MAX_EDGES", n_edges - 1)
    with pytest.raises(UserError, match="larger threshold"):
        attention_graph(trace, threshold=0.0)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan, True])
def test_that_no_other_share_than_one_from_0_to_1_is_a_threshold(wrong: float) -> None:
    with pytest.raises(UserError, match="share of the output from 0 to 1"):
        attention_graph(trace_of("decoder"), threshold=wrong)


def test_that_influence_changes_no_trace() -> None:
    trace = trace_of("encoder-decoder")
    before = {key: (r.q.clone(), r.k.clone(), r.lse.clone()) for key, r in trace.records.items()}
    rollout(trace), raw_attention(trace), attention_graph(trace, 0), flow_row(trace_levels(trace), 1)
    for key, kept in before.items():
        record = trace.records[key]
        assert all(torch.equal(a, b) for a, b in zip(kept, (record.q, record.k, record.lse), strict=True))
