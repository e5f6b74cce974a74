"""Dropout of attention weights as a field of its own: what it acts on, what it leaves alone."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnscope.nn import (
    CrossAttention,
    ModelConfig,
    SelfAttention,
    Transformer,
    build_transformer,
    ignored_choices,
)

TINY = ModelConfig(
    form="encoder-decoder", vocab_size=13, d_model=16, n_layers=1, n_heads=4, d_ff=24, max_tokens=12
)
IDS = (torch.arange(16).reshape(2, 8) * 7 + 3) % 13
VALID = torch.arange(8)[None] < torch.tensor([[8], [5]])


def _run(model: Transformer, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    with torch.no_grad():
        return model(IDS, target_ids=IDS, valid=VALID, target_valid=VALID)


def _attention_of(model: Transformer) -> list[nn.Module]:
    return [part for part in model.modules() if isinstance(part, SelfAttention | CrossAttention)]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_that_none_means_as_much_as_dropout(dropout: float) -> None:
    model = build_transformer(replace(TINY, dropout=dropout), 0)
    given = build_transformer(replace(TINY, dropout=dropout, attention_dropout=dropout), 0)
    assert torch.equal(_run(model), _run(given))
    other = build_transformer(replace(TINY, dropout=dropout, attention_dropout=0.6), 0)
    assert not torch.equal(_run(model), _run(other))


def test_that_dropout_of_weights_alone_acts_in_training_and_nowhere_else() -> None:
    model = build_transformer(replace(TINY, attention_dropout=0.3), 0)
    plain = build_transformer(TINY, 0)
    assert torch.equal(_run(plain, 1), _run(plain, 2))
    assert not torch.equal(_run(model, 1), _run(model, 2))
    assert torch.equal(_run(model.eval(), 1), _run(plain.eval(), 2))


def test_that_attention_that_drops_no_weight_draws_nothing_and_stays_fused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build_transformer(replace(TINY, dropout=0.4, attention_dropout=0.0), 0).train()
    again: list[bool] = []
    drawn: list[float] = []

    def look(part: nn.Module, given: tuple, named: dict, out: object) -> None:
        if len(again) < 3:
            before = torch.get_rng_state()
            again.append(True)
            second = part.forward(*given, **named)
            again[-1] = torch.equal(_first(out), _first(second)) and torch.equal(
                before, torch.get_rng_state()
            )

    fused = F.scaled_dot_product_attention

    def note(*given: object, dropout_p: float = 0.0, **named: object) -> torch.Tensor:
        drawn.append(dropout_p)
        return fused(*given, dropout_p=dropout_p, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", note)
    for part in _attention_of(model):
        part.register_forward_hook(look, with_kwargs=True)
    first = _run(model, 1)
    assert again == [True, True, True]  # encoder, decoder, cross
    assert not any(drawn)
    assert not torch.equal(first, _run(model, 2))  # what the branches add is dropped all the same


def _first(found: object) -> torch.Tensor:
    return found[0] if isinstance(found, tuple) else found


def test_that_configurations_from_before_the_field_read_as_before() -> None:
    old = {"form": "decoder", "vocab_size": 13, "dropout": 0.1}
    config = ModelConfig.from_dict(old)
    assert config.attention_dropout is None
    assert config.weight_dropout == 0.1
    assert "attention_dropout" not in config.to_dict()
    given = ModelConfig.from_dict({**old, "attention_dropout": 0})
    assert given.weight_dropout == given.to_dict()["attention_dropout"] == 0.0


def test_that_what_drops_no_weights_is_not_given_a_share_in_silence() -> None:
    cells = replace(TINY, body="gru", attention_dropout=0.2)
    assert dict(ignored_choices(cells, TINY)) == {"attention_dropout": 0.2}
