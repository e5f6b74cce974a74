"""Adaptive spans against equation 4 of Sukhbaatar et al. 2019 in loops, and all that shows them."""

import math

import numpy as np
import pytest
import torch
from kept_for_backward import kept_bytes
from refused_choices import assert_refused
from slow_site import filled
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.models import BatchShape, Model, activation_bytes, prune_module
from attnscope.nn import (
    KeyValueCache,
    ModelConfig,
    SpanBias,
    build_own,
    build_transformer,
    count_parameters,
    sites_with_spans,
)
from attnscope.schemes.masks import MASKS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES
from attnscope.trace import load_trace
from attnscope.training import Batch, loss_sum

SIZES = {
    "vocab_size": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 24, "position": "none", "span_limit": 10, "span_ramp": 3,
}  # fmt: skip
IDS = torch.arange(2 * 11).reshape(2, 11) * 5 % 13
FITTING = [name for name, one in POSITIONS.items() if not one.is_of_text or one.is_turn]


def config_of(form: str = "decoder", **choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, "form": form, **choices})


def with_spans(model, *spans: float):
    """The model, each site's heads with these spans in shares of the limit."""
    for site in sites_with_spans(model).values():
        site.span.data.copy_(torch.tensor(spans))
    return model


@pytest.mark.parametrize("form", ["decoder", "encoder"])
@pytest.mark.parametrize("ramp", [1, 3, 32])
@torch.no_grad()
def test_that_weights_are_masked_exponentials_over_their_sum(form: str, ramp: int) -> None:
    """Spans of zero, inside the text, and longer than it."""
    model = with_spans(
        filled(config_of(form, span_ramp=ramp, span_limit=40)).double(), 0.0, 0.0625, 0.1328125, 1.0
    )
    site = model.decoder[0].attention if form == "decoder" else model.encoder[0].attention
    x = torch.randn(1, 11, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = site(x, rule=model.self_mask.rule(11, 11, is_causal=form == "decoder"))
    rows = site.qkv(x[0]).unflatten(-1, (-1, 4))
    outs = []
    for head, z in enumerate((0.0, 2.5, 5.3125, 40.0)):
        q, k, v = (rows[:, n] for n in (head, 4 + head // 2, 6 + head // 2))
        lines = []
        for i in range(11):
            keys = range(i + 1) if form == "decoder" else range(11)
            m = [min(max((ramp + z - abs(i - j)) / ramp, 0.0), 1.0) for j in keys]
            e = [one * math.exp(float(q[i] @ k[j]) / 2.0) for one, j in zip(m, keys, strict=True)]
            lines.append(sum(one / sum(e) * v[j] for one, j in zip(e, keys, strict=True)))
        outs.append(torch.stack(lines))
    expected = site.output(torch.cat(outs, dim=1))
    torch.testing.assert_close(found[0], expected, atol=1e-10, rtol=0)


def test_that_a_span_past_the_text_changes_nothing_and_a_span_of_zero_leaves_the_ramp() -> None:
    model = with_spans(filled(config_of(span_limit=100, span_ramp=1)), 1.0, 1.0, 1.0, 1.0)
    plain = filled(config_of(span_limit=0))
    plain.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(model.decode(IDS), plain.decode(IDS), atol=2e-5, rtol=0)
    bias = SpanBias(values=torch.tensor([[0.0, 1.0], [0.0, 4.0], [2.0, 2.0]]))
    cells = bias.part(1, 6, slice(None), slice(None)).exp()[0, :, 0]
    assert cells[0].tolist() == [0, 0, 0, 0, 0, 1]
    torch.testing.assert_close(cells[1], torch.tensor([0, 0, 0.25, 0.5, 0.75, 1]))
    torch.testing.assert_close(cells[2], torch.tensor([0, 0, 0.5, 1, 1, 1]))


def test_that_gradients_are_right_and_finite_at_both_ends() -> None:
    distance = SpanBias(values=torch.tensor([[2.3, 3.0], [0.4, 3.0]], dtype=torch.float64))
    scores = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def weights(values: torch.Tensor) -> torch.Tensor:
        bias = SpanBias(values=values).part(6, 6, slice(None), slice(None))
        return (scores + bias).softmax(dim=-1)

    assert torch.autograd.gradcheck(weights, distance.values.requires_grad_())
    for share in (0.0, 1.0):
        model = with_spans(filled(config_of()), *[share] * 4).train()
        model(IDS).square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("position", FITTING)
@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_maps_prove_themselves_and_survive_a_file(position: str, form: str, tmp_path) -> None:
    model = tiny_model(form, position=position, span_limit=6, span_ramp=2)
    with_spans(model.own.module, 0.0, 0.2, 0.5, 1.0)
    trace = model.trace(SENTENCE, target_of(form))
    assert trace.check().is_good
    weights = trace.weights(("encoder" if form == "encoder" else "decoder", 0), 0)
    far = np.abs(np.subtract.outer(np.arange(len(weights)), np.arange(len(weights)))) >= 2
    assert not np.nansum(weights[far])
    trace.save(tmp_path / "t.safetensors")
    model.save(tmp_path / "m")
    again = load_trace(tmp_path / "t.safetensors")
    for site in trace.sites:
        for head in range(site.n_heads):
            np.testing.assert_array_equal(again.weights(site, head), trace.weights(site, head))
    opened = at.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(opened.trace(SENTENCE, target_of(form)).logits, trace.logits)


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("mask", [name for name, one in MASKS.items() if not one.has_prefix])
@torch.no_grad()
def test_that_every_score_and_mask_has_spans_read_at_once_and_in_parts(score: str, mask: str) -> None:
    config = config_of(score=score, mask=mask, window=3, segment_tokens=4, segment_memory=4, mask_block=2)
    model, cache = with_spans(filled(config), 0.0, 0.1, 0.5, 1.0), KeyValueCache()
    parts = [model.decode(part, cache=cache) for part in IDS.split([4, 1, 6], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model.decode(IDS), atol=5e-5, rtol=0)


def test_that_a_pruned_head_takes_its_span_along() -> None:
    model = tiny_model("decoder", span_limit=6, span_ramp=2)
    with_spans(model.own.module, 0.1, 0.2, 0.6, 0.9)
    gates = model.gates()
    gates["decoder", 1, 2] = gates["decoder", 0, 0] = 0.0
    own = model.own
    smaller = Model(type(own)(prune_module(own.module, gates.frozen()), own.vocabulary, own.card))
    expected = model.trace(SENTENCE, None, gates).logits
    np.testing.assert_allclose(smaller.trace(SENTENCE).logits, expected, atol=2e-5)
    spans = sites_with_spans(smaller.own.module)["decoder L1"].spans() / 6
    np.testing.assert_allclose(spans.detach(), [0.1, 0.2, 0.9], atol=1e-6)


def test_that_counts_on_paper_are_those_of_the_built_model() -> None:
    for form in ("decoder", "encoder", "encoder-decoder"):
        for choices in ({}, {"shared_layers": True}, {"score": "general"}):
            config = config_of(form, **choices)
            model = build_transformer(config, seed=0)
            assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
    assert not any(site.span.any() for site in sites_with_spans(model).values())
    n, n_texts = 40, 3
    config = config_of(vocab_size=300, d_model=48, n_kv_heads=4, d_ff=96, max_tokens=n)
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % 300
    batch = Batch(
        ids=ids, scored=torch.arange(n_texts * n), labels=torch.zeros(n_texts * n, dtype=torch.int64)
    )
    found = kept_bytes(module, batch)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * 300, rel=0.15)


def test_that_the_penalty_is_in_the_gradient_and_not_in_the_number() -> None:
    n = IDS.numel()
    batch = Batch(ids=IDS, scored=torch.arange(n), labels=torch.zeros(n, dtype=torch.int64))
    grads, losses = [], []
    for penalty in (0.0, 0.25):
        model = with_spans(filled(config_of(span_penalty=penalty)), 0.1, 0.2, 0.3, 0.4).train()
        loss = loss_sum(model, batch)
        loss.backward()
        losses.append(float(loss.detach()))
        grads.append(model.decoder[1].attention.scoring.span.grad)
    assert losses[0] == pytest.approx(losses[1])
    expected = torch.full((4,), 0.25 * n * 10 / 8)  # λ · scored tokens · limit / all heads
    torch.testing.assert_close(grads[1] - grads[0], expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"span_limit": -1}, "span_limit"),
        ({"span_ramp": 0}, "span_ramp"),
        ({"span_penalty": -0.1}, "span_penalty"),
        ({"span_start": 11}, "span_start"),
        ({"span_limit": 0, "span_start": 1}, "span_start"),
        ({"span_kind": "offsets", "span_start": 1}, "span_start"),
        ({"span_limit": 0, "span_penalty": 0.1}, "span_penalty"),
        *[({"position": name}, "position") for name in POSITIONS if name not in FITTING],
        ({"form": "encoder", "n_projected": 3}, "n_projected"),
        ({"mixer": "retention", "n_kv_heads": None}, "span_limit"),
    ],
)
def test_that_what_does_not_go_together_is_refused(choices: dict[str, object], key: str) -> None:
    assert_refused({**SIZES, "form": "decoder"}, choices, key)


@pytest.mark.parametrize("start", [0, 4, 10])
def test_that_spans_begin_where_they_are_told(start: int) -> None:
    model = build_own(config_of(span_start=start), seed=1)
    for site in sites_with_spans(model).values():
        torch.testing.assert_close(site.spans(), torch.full_like(site.spans(), float(start)))
