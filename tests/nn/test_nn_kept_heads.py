"""Which heads a site has after some were removed: the configuration, the numbers, the modules."""

import dataclasses

import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.nn import (
    ModelConfig,
    NoHeads,
    Transformer,
    build_layout,
    build_transformer,
    count_parameters,
    for_each_head,
)

BASE = {"vocab_size": 11, "d_model": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_ff": 24}
KEPT = {"encoder.0": [0, 2, 3], "decoder.1": [], "cross.0": [1]}


def config(form="encoder-decoder", kept=None, **choices) -> ModelConfig:
    return ModelConfig.from_dict({"form": form, **BASE, "kept_heads": kept or KEPT, **choices})


def test_that_key_value_heads_stay_while_a_head_reads_them():
    layout = build_layout((0, 2, 3), n_heads=4, n_kv_heads=2)
    assert (layout.kv_heads, layout.groups, layout.is_even) == ((0, 1), (0, 1, 1), False)
    layout = build_layout((2, 3), n_heads=4, n_kv_heads=2)
    assert (layout.kv_heads, layout.groups, layout.is_even) == ((1,), (0, 0), True)
    assert build_layout((), n_heads=4, n_kv_heads=2).is_even
    assert build_layout((1, 2), n_heads=4, n_kv_heads=2).is_even


def test_that_each_head_left_of_uneven_groups_gets_the_keys_of_its_group():
    k, v = torch.randn(2, 3, 2, 5, 4)
    own = for_each_head(k, v, build_layout((0, 2, 3), n_heads=4, n_kv_heads=2))
    assert all(map(torch.equal, own, (k[:, [0, 1, 1]], v[:, [0, 1, 1]])))
    same = for_each_head(k, v, build_layout((1, 2), n_heads=4, n_kv_heads=2))
    assert same[0] is k
    assert same[1] is v


def test_that_kept_heads_survive_json():
    found = ModelConfig.from_dict(config().to_dict())
    assert found == config()
    assert found.to_dict()["kept_heads"] == KEPT
    assert isinstance(hash(found), int)
    assert "kept_heads" not in dataclasses.replace(found, kept_heads=None).to_dict()


@pytest.mark.parametrize(
    "kept",
    [
        ["encoder.0"],
        {"encoder.9": [0]},
        {"pool.0": [0]},
        {"encoder.0": [0, 4]},
        {"encoder.0": [2, 1]},
        {"encoder.0": [1, 1]},
        {"encoder.0": [True]},
        {"encoder.0": ["1"]},
        {"encoder.0": "012"},
        {"encoder.0": [-1]},
        7,
    ],
)
def test_that_impossible_kept_heads_are_refused_by_name(kept):
    with pytest.raises(RecipeError, match=r"model\.kept_heads is"):
        config(kept=kept)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_that_parameters_are_counted_exactly_on_paper(bias, activation):
    small = config(bias=bias, activation=activation, position="none")
    n_parameters = sum(p.numel() for p in Transformer(small).parameters())
    assert count_parameters(small).total == n_parameters
    assert n_parameters < count_parameters(dataclasses.replace(small, kept_heads=None)).total


def test_that_a_site_without_heads_is_left_out_and_layers_keep_their_numbers():
    sites = Transformer(config()).sites()
    keys = [(site.stack, site.layer, site.n_heads, site.n_kv_heads) for site in sites]
    # Three heads on two key-value heads are handed out one to each head.
    assert keys == [
        ("encoder", 0, 3, 3),
        ("encoder", 1, 4, 2),
        ("decoder", 0, 4, 2),
        ("cross", 0, 1, 1),
        ("cross", 1, 4, 2),
    ]


def test_that_an_attention_without_heads_adds_its_bias_alone():
    module = build_transformer(config(), seed=1)
    attention = module.decoder[1].attention
    assert isinstance(attention, NoHeads)
    attention.bias.data.uniform_(-1, 1)
    x = torch.randn(2, 3, 16)
    assert torch.equal(attention(x, rule=None), attention.bias.expand(2, 3, 16))
    without = Transformer(config(bias=False)).decoder[1].attention
    assert not list(without.parameters())
    assert torch.equal(without(x), torch.zeros_like(x))


def test_that_a_model_with_fewer_heads_can_be_trained():
    module = build_transformer(config(), seed=1)
    module(torch.tensor([[1, 2, 3]]), target_ids=torch.tensor([[4, 5]])).sum().backward()
    untrained = [name for name, p in module.named_parameters() if p.grad is None]
    # The norm in front of an attention without heads stays, since saved models name it; nobody reads it.
    assert untrained == ["decoder.1.attention_norm.weight", "decoder.1.attention_norm.bias"]
