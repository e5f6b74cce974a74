"""Learned hard masks against loops in float64, draws against their distribution, and all that shows them."""

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
    GateBias,
    KeyValueCache,
    ModelConfig,
    build_own,
    build_transformer,
    count_parameters,
    drawn_mask,
    hard_mask,
    open_probability,
    sites_with_spans,
)
from attnscope.schemes.masks import MASKS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES
from attnscope.trace import load_trace
from attnscope.training import Batch

SIZES = {
    "vocab_size": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_ff": 10,
    "max_tokens": 24, "position": "none", "span_limit": 5, "span_kind": "offsets",
}  # fmt: skip
IDS = torch.arange(2 * 11).reshape(2, 11) * 5 % 13
FITTING = [name for name, one in POSITIONS.items() if not one.is_of_text or one.is_turn]
OPEN = ((1, 2, 3, 4, 5), (), (3,), (1, 5))
"""Which offsets the heads of these tests leave open, the token itself apart."""


def config_of(form: str = "decoder", **choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, "form": form, **choices})


def with_masks(model, heads=OPEN):
    for site in sites_with_spans(model).values():
        site.open_at.data.fill_(-3.0)
        for head, places in enumerate(heads):
            site.open_at.data[head, [one - 1 for one in places if one <= site.span_limit]] = 3.0
    return model


@pytest.mark.parametrize("form", ["decoder", "encoder"])
@pytest.mark.parametrize("limit", [1, 5, 30])
@torch.no_grad()
def test_that_a_head_sees_itself_and_its_open_offsets(form: str, limit: int) -> None:
    model = with_masks(filled(config_of(form, span_limit=limit)).double())
    site = model.decoder[0].attention if form == "decoder" else model.encoder[0].attention
    x = torch.randn(1, 11, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = site(x, rule=model.self_mask.rule(11, 11, is_causal=form == "decoder"))
    rows = site.qkv(x[0]).unflatten(-1, (-1, 4))
    outs = []
    for head, places in enumerate(OPEN):
        q, k, v = (rows[:, n] for n in (head, 4 + head // 2, 6 + head // 2))
        lines = []
        for i in range(11):
            keys = list(range(i + 1 if form == "decoder" else 11))
            keys = [j for j in keys if abs(i - j) in (0, *(one for one in places if one <= limit))]
            e = [math.exp(float(q[i] @ k[j]) / 2.0) for j in keys]
            lines.append(sum(one / sum(e) * v[j] for one, j in zip(e, keys, strict=True)))
        outs.append(torch.stack(lines))
    expected = site.output(torch.cat(outs, dim=1))
    torch.testing.assert_close(found[0], expected, atol=1e-10, rtol=0)


def test_that_draws_are_open_as_often_as_the_penalty_counts() -> None:
    log_alpha = torch.tensor([[-3.0, -0.5, 0.0], [0.5, 2.0, 4.0]])
    torch.manual_seed(0)
    draws = torch.stack([drawn_mask(log_alpha) for _ in range(20_000)])
    assert draws.shape[1:] == (2, 4)
    assert draws[..., 0].eq(1.0).all()
    share = (draws[..., 1:] > 0).float().mean(0)
    torch.testing.assert_close(share, open_probability(log_alpha), atol=0.012, rtol=0)  # 3.4 standard errors
    assert hard_mask(log_alpha).tolist() == [[1, 0, 0, 0], [1, 1, 1, 1]]
    site = next(iter(sites_with_spans(filled(config_of())).values()))
    torch.testing.assert_close(site.spans(), open_probability(site.log_alpha()).sum(dim=1))


def test_that_a_mask_is_drawn_only_where_it_learns() -> None:
    model = with_masks(filled(config_of()))
    site = model.decoder[0].attention.scoring
    site.open_at.data.clamp_(-0.05, 0.05)
    assert set(site.mask().unique().tolist()) == {0.0, 1.0}
    site.train()
    draws = {tuple(site.mask().flatten().tolist()) for _ in range(8)}
    assert len(draws) > 1
    with torch.no_grad():
        assert torch.equal(site.mask(), hard_mask(site.log_alpha()))
    torch.manual_seed(5)
    first = model.train()(IDS)
    torch.manual_seed(5)
    assert torch.equal(first, model(IDS))


def test_that_gradients_are_right_and_finite_where_all_is_closed() -> None:
    values = torch.tensor([[1.0, 0.4, 0.0, 0.9], [1.0, 0.2, 0.6, 1.0]], dtype=torch.float64)
    scores = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def weights(some: torch.Tensor) -> torch.Tensor:
        whole = values.clone()
        whole[0, 1], whole[0, 3], whole[1, 1], whole[1, 2] = some
        bias = GateBias(values=whole).part(6, 6, slice(None), slice(None))
        return (scores + bias).softmax(dim=-1)

    inner = values[[0, 0, 1, 1], [1, 3, 1, 2]].clone().requires_grad_()
    assert torch.autograd.gradcheck(weights, inner)
    for stored in (-0.3, 0.0, 0.3):
        model = filled(config_of()).train()
        for site in sites_with_spans(model).values():
            site.open_at.data.fill_(stored)
        model(IDS).square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("position", FITTING)
@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_maps_prove_themselves_and_survive_a_file(position: str, form: str, tmp_path) -> None:
    model = tiny_model(form, position=position, span_limit=5, span_kind="offsets")
    with_masks(model.own.module)
    trace = model.trace(SENTENCE, target_of(form))
    assert trace.check().is_good
    weights = trace.weights(("encoder" if form == "encoder" else "decoder", 0), 2)
    far = np.abs(np.subtract.outer(np.arange(len(weights)), np.arange(len(weights))))
    assert not np.nansum(weights[(far != 0) & (far != 3)])
    trace.save(tmp_path / "t.safetensors")
    model.save(tmp_path / "m")
    again = load_trace(tmp_path / "t.safetensors")
    for site in trace.sites:
        for head in range(site.n_heads):
            np.testing.assert_array_equal(again.weights(site, head), trace.weights(site, head))
    opened = at.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(opened.trace(SENTENCE, target_of(form)).logits, trace.logits)
    if form == "decoder":
        written = model.write(SENTENCE, at.WriteSettings(max_tokens=4))
        assert written.trace.check().is_good


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("mask", [name for name, one in MASKS.items() if not one.has_prefix])
@torch.no_grad()
def test_that_every_score_and_mask_has_gates_read_at_once_and_in_parts(score: str, mask: str) -> None:
    config = config_of(score=score, mask=mask, window=3, segment_tokens=4, segment_memory=4, mask_block=2)
    model, cache = with_masks(filled(config)), KeyValueCache()
    parts = [model.decode(part, cache=cache) for part in IDS.split([4, 1, 6], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model.decode(IDS), atol=5e-5, rtol=0)


def test_that_a_pruned_head_takes_its_mask_along() -> None:
    model = tiny_model("decoder", span_limit=5, span_kind="offsets")
    with_masks(model.own.module)
    gates = model.gates()
    gates["decoder", 1, 2] = gates["decoder", 0, 0] = 0.0
    own = model.own
    smaller = Model(type(own)(prune_module(own.module, gates.frozen()), own.vocabulary, own.card))
    expected = model.trace(SENTENCE, None, gates).logits
    np.testing.assert_allclose(smaller.trace(SENTENCE).logits, expected, atol=2e-5)
    mask = sites_with_spans(smaller.own.module)["decoder L1"].mask()
    assert [np.flatnonzero(row).tolist() for row in mask.detach()] == [[0, 1, 2, 3, 4, 5], [0], [0, 1, 5]]


def test_that_counts_on_paper_are_those_of_the_built_model() -> None:
    for form in ("decoder", "encoder", "encoder-decoder"):
        for choices in ({}, {"shared_layers": True}, {"score": "general"}):
            config = config_of(form, **choices)
            model = build_transformer(config, seed=0)
            assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
    assert all((site.mask() == 1).all() for site in sites_with_spans(model.eval()).values())
    n, n_texts = 40, 3
    config = config_of(vocab_size=300, d_model=48, n_kv_heads=4, d_ff=96, max_tokens=n, span_limit=20)
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % 300
    batch = Batch(
        ids=ids, scored=torch.arange(n_texts * n), labels=torch.zeros(n_texts * n, dtype=torch.int64)
    )
    found = kept_bytes(module, batch)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * 300, rel=0.15)


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"span_limit": 0}, "span_kind"),
        ({"span_kind": "soft"}, "span_kind"),
        ({"span_kind": 1}, "span_kind"),
        *[({"position": name}, "position") for name in POSITIONS if name not in FITTING],
        ({"form": "encoder", "n_projected": 3}, "n_projected"),
    ],
)
def test_that_what_does_not_go_together_is_refused(choices: dict[str, object], key: str) -> None:
    assert_refused({**SIZES, "form": "decoder"}, choices, key)
