"""Inducing points against loops in float64, and what is said of them elsewhere."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from kept_for_backward import kept_bytes
from refused_choices import assert_refused
from slow_site import filled
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.analysis import own_subject
from attnscope.errors import UserError
from attnscope.models import BatchShape, activation_bytes, own_cost, prune_module
from attnscope.nn import ModelConfig, build_own, build_transformer, count_parameters
from attnscope.records import tokens_of_site
from attnscope.schemes.norms import NORMS
from attnscope.schemes.scores import SCORES
from attnscope.trace import load_trace
from attnscope.training import Batch

SIZES = {
    "form": "encoder", "vocab_size": 13, "d_model": 12, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
    "d_ff": 10, "max_tokens": 24, "position": "none", "n_projected": 3, "slot_kind": "inducing",
}  # fmt: skip
IDS = torch.arange(2 * 9).reshape(2, 9) * 5 % 13
INDUCING = {"n_projected": 3, "slot_kind": "inducing"}


def config_of(**choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, **choices})


def slow_attention(site, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Cell by cell: what `queries` [n, d] find among `keys` [m, d], projected, float64."""
    q = F.linear(queries, site.query.weight, site.query.bias).unflatten(-1, (-1, site.d_head))
    kv = F.linear(keys, site.kv.weight, site.kv.bias).unflatten(-1, (-1, site.d_head))
    found = []
    for head in range(site.n_heads):
        group = head // (site.n_heads // site.n_kv_heads)
        rows = []
        for i in range(len(queries)):
            scores = torch.stack([q[i, head] @ kv[j, group] for j in range(len(keys))]) * site.d_head**-0.5
            rows.append(torch.softmax(scores, dim=0) @ kv[:, site.n_kv_heads + group])
        found.append(torch.stack(rows))
    return F.linear(torch.cat(found, dim=1), site.output.weight, site.output.bias)


@pytest.mark.parametrize("n_points", [1, 3, 9, 20])
@torch.no_grad()
def test_that_a_layer_is_attention_to_points_that_attended_to_the_tokens(n_points: int) -> None:
    model = filled(config_of(n_projected=n_points)).double()
    module = model.encoder[0].attention
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    valid = torch.ones(2, 9, dtype=torch.bool)
    valid[1, 6:] = False
    rule = model.self_mask.rule(9, 9, is_causal=False, key_valid=valid)
    found = module(x, rule=rule)
    for text, n in ((0, 9), (1, 6)):
        h = module.points + slow_attention(module.read_in, module.points, x[text, :n])
        h = F.layer_norm(h, (12,), module.norm.weight, module.norm.bias, 1e-5)
        torch.testing.assert_close(
            found[text], slow_attention(module.read_out, x[text], h), atol=1e-10, rtol=0
        )


def test_that_gradients_are_right() -> None:
    model = filled(config_of(n_layers=1)).double()
    module, rule = model.encoder[0].attention, model.self_mask.rule(5, 5, is_causal=False)
    x = torch.randn(1, 5, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda one: module(one, rule=rule), x.requires_grad_())
    whole = model(IDS)
    whole.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


@torch.no_grad()
def test_that_a_set_in_another_order_gives_the_same_in_that_order() -> None:
    model, order = filled(config_of()).double(), torch.tensor([3, 0, 8, 1, 2, 7, 5, 4, 6])
    torch.testing.assert_close(model(IDS[:, order]), model(IDS)[:, order], atol=1e-10, rtol=0)


@torch.no_grad()
def test_that_padding_changes_nothing() -> None:
    model, valid = filled(config_of()).double(), torch.tensor([[True] * 6 + [False] * 3])
    found = model(IDS[:1], valid=valid)[:, :6]
    torch.testing.assert_close(found, model(IDS[:1, :6]), atol=1e-10, rtol=0)


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("form", ["encoder", "encoder-decoder"])
def test_that_both_maps_are_traced_prove_themselves_and_survive(score: str, form: str, tmp_path) -> None:
    model = tiny_model(form, **INDUCING, position="none", score=score)
    trace = model.trace(SENTENCE, target_of(form))
    assert trace.check().is_good
    n = len(trace.source)
    for layer in range(2):
        into, out = trace.weights(("read-in", layer), 1), trace.weights(("encoder", layer), 1)
        assert (into.shape, out.shape) == ((3, n), (n, 3))
        np.testing.assert_allclose(into.sum(axis=1), 1.0, atol=1e-5)
        np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-5)
    queries, keys = trace.tokens(("read-in", 0))
    assert [token.piece for token in queries] == ["point 1", "point 2", "point 3"]
    assert keys == trace.source.tokens
    model.save(tmp_path / "m")
    again = at.load(tmp_path / "m", device="cpu").trace(SENTENCE, target_of(form))
    np.testing.assert_array_equal(again.logits, trace.logits)


@pytest.mark.parametrize("norm", [name for name, one in NORMS.items() if not one.is_of_batch])
@pytest.mark.parametrize("norm_place", ["pre", "post", "sandwich"])
def test_that_the_count_on_paper_is_that_of_the_built_model(norm: str, norm_place: str) -> None:
    for choices in (
        {},
        {"bias": False},
        {"score": "general"},
        {"form": "encoder-decoder"},
        {"shared_layers": True},
    ):
        config = config_of(norm=norm, norm_place=norm_place, **choices)
        model = build_transformer(config, seed=0)
        assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
        assert model.encoder[0].attention.points.std() > 0.1


def test_that_cost_grows_with_the_text_and_not_with_its_square() -> None:
    def attention(n: int, **choices: object) -> int:
        return dict(own_cost(config_of(n_layers=1, **choices), n).parts)["attention"]

    once = 2 * 3 * 12 * (2 * 12 + 2 * 6)  # the matrices that three points go through
    assert attention(20) == 2 * (4 * 20 * 3 * 12) + once
    assert attention(40) - attention(20) == 2 * (4 * 20 * 3 * 12)
    assert attention(40, n_projected=0, slot_kind="projected") == 4 * 40 * 40 * 12
    linear = [dict(own_cost(config_of(**c), 20).parts)["encoder matrices"] for c in ({}, {"n_projected": 7})]
    assert linear[0] == linear[1]


def test_that_what_training_keeps_is_told_to_a_seventh() -> None:
    n, n_texts = 40, 3
    config = config_of(vocab_size=300, d_model=48, n_kv_heads=4, d_ff=96, max_tokens=n)
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % 300
    batch = Batch(
        ids=ids, scored=torch.arange(n_texts * n), labels=torch.zeros(n_texts * n, dtype=torch.int64)
    )
    found = kept_bytes(module, batch)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * 300, rel=0.15)


def test_that_gates_of_either_map_act_and_their_heads_are_not_removed() -> None:
    model = tiny_model("encoder", **INDUCING)
    plain = model.trace(SENTENCE).logits
    for stack in ("read-in", "encoder"):
        gates = model.gates()
        gates[stack, 0, 1] = 0.0
        assert np.abs(model.trace(SENTENCE, None, gates).logits - plain).max() > 1e-4
        with pytest.raises(UserError, match="cannot be removed for good"):
            prune_module(model.own.module, gates.frozen())
    with pytest.raises(UserError, match="slots"):
        own_subject(model)


def test_that_texts_longer_than_the_trained_ones_are_read() -> None:
    assert tiny_model("encoder", **INDUCING, position="sinusoidal").own.can_read_past
    assert not tiny_model("encoder", n_projected=3, position="sinusoidal").own.can_read_past


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"n_projected": 0}, "slot_kind"),
        ({"form": "decoder"}, "n_projected"),
        ({"mask": "window"}, "mask"),
        ({"position": "alibi"}, "position"),
        ({"norm": "batch"}, "norm"),
        ({"slot_kind": "latent"}, "slot_kind"),
        ({"kept_heads": {"encoder.0": [1]}}, "kept_heads"),
        ({"n_labels": 3, "reads_pair": True}, "slot_kind"),
    ],
)
def test_that_what_does_not_go_together_is_refused(choices: dict[str, object], key: str) -> None:
    assert_refused(SIZES, choices, key)


@pytest.mark.parametrize(("kind", "name"), [("projected", "projection"), ("inducing", "point")])
def test_that_what_is_no_token_is_named_by_what_it_is(kind: str, name: str, tmp_path: Path) -> None:
    model = tiny_model("encoder", n_projected=3, slot_kind=kind, position="none")
    site = next(site for site in model.sites if site.n_slots)
    sides = tokens_of_site(site, model.encode(SENTENCE).source, None)
    named = [token.piece for side in sides for token in side if token.id < 0]
    assert named[:3] == [f"{name} 1", f"{name} 2", f"{name} 3"]
    model.trace(SENTENCE).save(tmp_path / "a.safetensors")
    again = next(one for one in load_trace(tmp_path / "a.safetensors").sites if one.n_slots)
    assert (again.slot, again) == (name, site)
