"""Activations on paper against what autograd really keeps, counted tensor by tensor."""

import pytest
import torch

from attnscope.models import BatchShape, activation_bytes
from attnscope.nn import ModelConfig, build_own
from attnscope.training import Batch, loss_sum

B, T, V = 3, 40, 300
CHOICES = {
    "plain": {},
    "dropout": {"dropout": 0.1},
    "dropout, but of no weights": {"dropout": 0.1, "attention_dropout": 0.0},
    "dropout of weights alone": {"attention_dropout": 0.1},
    "rms, rotary, gated": {"norm": "rms", "position": "rotary", "activation": "swiglu"},
    "post, relu": {"norm_place": "post", "activation": "relu"},
    "sandwich, few key-value heads": {"norm_place": "sandwich", "n_kv_heads": 2},
    "t5": {"position": "t5"},
    "no feed-forward": {"has_feed_forward": False},
    "bert": {"form": "encoder", "norm_place": "post", "embedding_norm": True, "transform_head": True},
    "heads of their own width": {"d_head": 20, "position": "rotary", "n_heads": 5},
    "two stacks": {"form": "encoder-decoder", "dropout": 0.1},
}
CELLS = {"form": "encoder-decoder", "n_heads": 1, "n_layers": 1}
ODD = {"additive": {"score": "additive"}, "kernel": {"score": "kernel"}, "shaw": {"position": "shaw"}}


def config_of(choices: dict[str, object]) -> ModelConfig:
    values = {"form": "decoder", "vocab_size": V, "d_model": 48, "n_layers": 2, "n_heads": 4, "d_ff": 96}
    return ModelConfig(**{**values, "max_tokens": T, **choices})


def kept_bytes(config: ModelConfig, *, has_bfloat16: bool) -> int:
    """Bytes of every different storage that autograd saves in a forward pass, weights left out."""
    module = build_own(config, 0).train()
    ids = torch.arange(B * T).reshape(B, T) % V
    batch = Batch(
        ids=ids,
        scored=torch.arange(B * T),
        labels=torch.zeros(B * T, dtype=torch.int64),
        target_ids=ids.clone() if config.form == "encoder-decoder" else None,
    )
    own = {p.untyped_storage().data_ptr() for p in [*module.parameters(), *module.buffers()]}
    found: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            found[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address is used twice
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bfloat16),
    ):
        loss = loss_sum(module, batch)
    assert loss.isfinite()
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values()) - 4 * B * T * V


@pytest.mark.parametrize("name", CHOICES)
def test_that_activations_on_paper_are_those_that_autograd_keeps(name: str) -> None:
    config = config_of(CHOICES[name])
    shape = BatchShape(n_sequences=B, n_tokens=T, n_scored=B * T)
    assert activation_bytes(config, shape) == pytest.approx(kept_bytes(config, has_bfloat16=False), rel=0.03)


@pytest.mark.parametrize("name", ["plain", "dropout", "two stacks"])
def test_that_bfloat16_is_counted_to_a_tenth(name: str) -> None:
    config = config_of(CHOICES[name])
    shape = BatchShape(n_sequences=B, n_tokens=T, n_scored=B * T, has_bfloat16=True)
    assert activation_bytes(config, shape) == pytest.approx(kept_bytes(config, has_bfloat16=True), rel=0.1)


@pytest.mark.parametrize("name", ODD)
def test_that_other_scores_are_counted_to_a_seventh(name: str) -> None:
    config = config_of(ODD[name])
    shape = BatchShape(n_sequences=B, n_tokens=T, n_scored=B * T)
    assert activation_bytes(config, shape) == pytest.approx(kept_bytes(config, has_bfloat16=False), rel=0.14)


@pytest.mark.parametrize("body", ["rnn", "gru", "lstm"])
def test_that_recurrent_bodies_are_counted_to_a_fifth(body: str) -> None:
    config = config_of({**CELLS, "body": body})
    shape = BatchShape(n_sequences=B, n_tokens=T, n_scored=B * T)
    assert activation_bytes(config, shape) == pytest.approx(kept_bytes(config, has_bfloat16=False), rel=0.2)


def test_that_checkpointing_keeps_one_block_and_the_inputs_of_all() -> None:
    deep = config_of({"n_layers": 12})
    shape = {"n_sequences": B, "n_tokens": T, "n_scored": B * T}
    whole = activation_bytes(deep, BatchShape(**shape))
    again = activation_bytes(deep, BatchShape(**shape, is_recomputed=True))
    one = activation_bytes(config_of({"n_layers": 1}), BatchShape(**shape))
    assert again == pytest.approx(one + 12 * B * T * 48 * 4)
    assert again < 0.25 * whole


@pytest.mark.parametrize("form", ["encoder", "decoder"])
def test_that_reversible_layers_keep_two_streams_and_one_branch_at_a_time(form: str) -> None:
    shape = BatchShape(n_sequences=B, n_tokens=T, n_scored=B * T, is_recomputed=True)
    told = [
        activation_bytes(config_of({"form": form, "n_layers": n, "residual": "reversible"}), shape)
        for n in (2, 12)
    ]
    assert told[0] == told[1]
    config = config_of({"form": form, "residual": "reversible"})
    kept = kept_bytes(config, has_bfloat16=False)
    branch = kept_bytes(config_of({"form": form, "n_layers": 1}), has_bfloat16=False)
    assert kept < told[0] < kept + branch
