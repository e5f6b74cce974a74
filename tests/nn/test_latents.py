"""Perceiver's latents against loops in float64, and what is said of them elsewhere."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from slow_site import filled
from tiny_models import SENTENCE, tiny_model

import attnscope as at
from attnscope.cli.main import main
from attnscope.errors import RecipeError, UserError
from attnscope.models import BatchShape, OwnNetwork, activation_bytes, own_cost, prune_module
from attnscope.nn import ModelConfig, build_own, build_transformer, count_parameters
from attnscope.schemes.norms import NORMS
from attnscope.schemes.scores import SCORES
from attnscope.training import Batch, loss_sum

SIZES = {
    "form": "encoder", "vocab_size": 13, "d_model": 12, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
    "d_ff": 10, "max_tokens": 24, "position": "none", "n_projected": 3, "slot_kind": "latents",
    "n_labels": 3, "pooling": "mean",
}  # fmt: skip
IDS = torch.arange(2 * 9).reshape(2, 9) * 5 % 13
POOLINGS = ("first", "last", "mean", "max", "attention")


def config_of(**choices: object) -> ModelConfig:
    return ModelConfig.from_dict({**SIZES, **choices})


def slowly(q, k, v, n_heads: int, n_kv: int) -> torch.Tensor:
    """Attention of rows q [n, H · D] to k and v [m, K · D], cell by cell."""
    width = q.shape[1] // n_heads
    outs = []
    for head in range(n_heads):
        own = slice(head * width, (head + 1) * width)
        group = head // (n_heads // n_kv)
        of = slice(group * width, (group + 1) * width)
        rows = []
        for i in range(len(q)):
            e = [math.exp(float(q[i, own] @ k[j, of]) / math.sqrt(width)) for j in range(len(k))]
            rows.append(sum(one / sum(e) * v[j, of] for j, one in enumerate(e)))
        outs.append(torch.stack(rows))
    return torch.cat(outs, dim=1)


@pytest.mark.parametrize("n_latents", [1, 3, 20])
@pytest.mark.parametrize("pooling", POOLINGS[:4])
@torch.no_grad()
def test_that_latents_read_tokens_and_then_one_another(n_latents: int, pooling: str) -> None:
    model = filled(config_of(n_projected=n_latents, pooling=pooling)).double()
    valid = torch.arange(9) < torch.tensor([9, 5])[:, None]
    found = model(IDS, valid=valid)
    for text, n in ((0, 9), (1, 5)):
        x = model.latents.norm(model.tokens.weight[IDS[text, :n]])
        z = model.latents.rows.weight
        for block in model.encoder:
            kv = block.cross.kv(x)
            q = block.cross.query(block.cross_norm(z))
            z = z + block.cross.output(slowly(q, kv[:, :6], kv[:, 6:], 4, 2))
            rows = block.attention.qkv(block.attention_norm(z))
            z = z + block.attention.output(slowly(rows[:, :12], rows[:, 12:18], rows[:, 18:], 4, 2))
            part = block.feed_forward
            z = z + part.down(F.gelu(part.up(block.feed_forward_norm(z))))
        z = model.encoder_norm(z)
        row = {"first": z[0], "last": z[-1], "mean": z.mean(dim=0), "max": z.max(dim=0).values}[pooling]
        torch.testing.assert_close(found[text], model.head.labels(row), atol=1e-10, rtol=0)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("norm_place", ["pre", "post", "sandwich"])
def test_that_maps_are_of_latents_and_prove_themselves(pooling: str, norm_place: str, tmp_path) -> None:
    choices = {"n_labels": 3, "pooling": pooling, "norm_place": norm_place, "n_projected": 3}
    own = tiny_model("encoder", slot_kind="latents", **choices).own
    card = replace(own.card, objective="classification", labels=("a", "b", "c"))
    model = at.Model(OwnNetwork(own.module, own.vocabulary, card))
    trace = model.trace(SENTENCE)
    assert trace.check().is_good
    n = len(trace.source)
    shapes = {site.key: trace.weights(site, 0).shape for site in trace.sites}
    expected = {
        (stack, i): (3, n if stack == "read-in" else 3) for i in (0, 1) for stack in ("read-in", "latents")
    }
    assert shapes == expected | ({("pool", 0): (1, 3)} if pooling == "attention" else {})
    model.save(tmp_path / "m")
    opened = at.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(opened.trace(SENTENCE).logits, trace.logits)
    gates = model.gates()
    gates["read-in", 0, 1] = gates["latents", 1, 2] = 0.0
    assert not np.array_equal(model.trace(SENTENCE, None, gates).logits, trace.logits)
    with pytest.raises(UserError, match="cannot be removed"):
        prune_module(model.own.module, gates.frozen())
    with pytest.raises(UserError, match="of latents"):
        at.ask("residual-stream", model, SENTENCE)


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("norm", [name for name, one in NORMS.items() if not one.is_of_batch])
def test_that_every_score_and_norm_has_finite_gradients(score: str, norm: str) -> None:
    model = filled(config_of(score=score, norm=norm)).train()
    model(IDS).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


def test_that_a_set_in_another_order_is_told_the_same() -> None:
    model = filled(config_of()).double()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model(IDS), model(IDS[:, order]), atol=1e-10, rtol=0)


def test_that_counts_on_paper_are_those_of_the_built_model() -> None:
    for choices in ({}, {"pooling": "attention"}, {"shared_layers": True}, {"bias": False, "norm": "rms"}):
        config = config_of(**choices)
        model = build_transformer(config, seed=0)
        assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
    assert float(model.latents.rows.weight.detach().std()) == pytest.approx(0.02, rel=0.4)
    n_cells = [dict(own_cost(config_of(pooling="attention"), n).parts)["attention"] for n in (10, 20)]
    assert n_cells[1] - n_cells[0] == 2 * 4 * 12 * 10 * 3  # layers · (scores and sums) · width · T · M
    n, n_texts = 64, 4
    config = config_of(d_model=48, n_kv_heads=4, d_ff=96, max_tokens=n, n_projected=16, n_layers=3)
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % 13
    batch = Batch(ids=ids, scored=torch.arange(n_texts) * n, labels=torch.zeros(n_texts, dtype=torch.int64))
    own, kept = {p.untyped_storage().data_ptr() for p in module.parameters()}, {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        assert loss_sum(module, batch).isfinite()
    found = sum(t.untyped_storage().nbytes() for address, t in kept.items() if address not in own)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts))
    assert told == pytest.approx(found, rel=0.15)


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        ({"n_labels": 0}, "slot_kind"),
        ({"pooling": "none"}, "slot_kind"),
        ({"pooling": "pointer", "n_labels": 2}, "slot_kind"),
        ({"pooling": "hierarchical"}, "slot_kind"),
        ({"reads_pair": True}, "slot_kind"),
        ({"norm": "batch"}, "norm"),
        ({"n_projected": 0}, "slot_kind"),
        ({"n_projected": 25}, "n_projected"),
        ({"mask": "window"}, "mask"),
        ({"position": "rotary", "d_head": 4}, "position"),
    ],
)
def test_that_what_does_not_go_together_is_refused(choices: dict[str, object], key: str) -> None:
    with pytest.raises(RecipeError, match=rf"model\.{key}"):
        config_of(**choices)


@pytest.mark.parametrize(("kind", "is_told"), [("inducing", True), ("latents", True), ("projected", False)])
def test_that_the_kind_of_slots_is_told_of_a_model_that_has_some(
    kind: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "sentiment-latents"
    if kind != "latents":
        name = str(tmp_path / "m")
        tiny_model("encoder", slot_kind=kind, n_projected=3, n_kv_heads=None).save(name)
    assert main(["info", name]) == 0
    assert ("slot_kind" in capsys.readouterr().out) == is_told


def test_that_latents_are_named_as_such_in_a_kept_run() -> None:
    model = at.load("sentiment-latents")
    trace = model.trace(model.info.samples[0].text)
    pieces = [token.piece for token in trace.tokens(("latents", 0))[1]]
    assert pieces[:2] == ["latent 1", "latent 2"]
