import itertools
import json
import math
from dataclasses import replace

import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig, Transformer, check_fits, count_parameters

PLAIN = {"form": "decoder", "vocab_size": 100}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("d_model", 10**9, "from 1 to 65,536"),
        ("n_layers", 10**6, "from 1 to 1,024"),
        ("vocab_size", 10**9, "from 1 to 4,000,000"),
        pytest.param("vocab_size", 10**5000, "from 1 to", id="5000 digits"),
        ("n_heads", 0, "from 1 to"),
        ("n_layers", 0, "from 1 to"),
        ("n_layers", -2, "from 1 to"),
        ("n_segments", -1, "from 0 to"),
        ("d_model", True, "a whole number without quotes"),
        ("d_model", "128", "a whole number without quotes"),
        ("d_model", 128.0, "a whole number without quotes"),
        ("d_model", None, "a whole number without quotes"),
        ("d_model", [128], "a whole number without quotes"),
        ("n_heads", 3, "a divisor of d_model, which is 128"),
        ("n_heads", 3, "unless d_head is given"),
        ("d_head", 0, "from 1 to 65,536"),
        ("d_head", 32.0, "a whole number without quotes"),
        ("n_kv_heads", 3, "a divisor of n_heads, which is 4"),
        ("n_kv_heads", 0, "from 1 to"),
        ("n_kv_heads", 8, "a divisor of n_heads"),
        ("form", "decoder-only", "one of encoder, decoder, encoder-decoder"),
        ("form", None, "one of encoder"),
        ("position", "alibis", "one of sinusoidal, learned, rotary, binary, t5"),
        ("norm", 1, "one of layer, rms, none"),
        ("dropout", 1.0, "from 0 to below 1"),
        ("dropout", -0.1, "from 0 to below 1"),
        ("dropout", math.nan, "a finite number"),
        ("dropout", True, "a finite number"),
        ("attention_dropout", 1.0, "from 0 to below 1, or nothing: as dropout"),
        ("attention_dropout", -0.1, "from 0 to below 1"),
        ("attention_dropout", math.nan, "a finite number"),
        ("attention_dropout", "none", "a finite number"),
        ("norm_epsilon", 0, "above 0"),
        ("norm_epsilon", math.inf, "a finite number"),
        ("rope_base", 0, "from 1 to"),
        pytest.param("rope_base", 10**400, "a finite number", id="400 digits"),
        ("mask", "sliding", "one of full, window, dilated, global, bigbird, prefix"),
        ("window", -1, "from 0 to"),
        ("dilation", 1, "from 2 to"),
        ("random_blocks", 65, "from 0 to 64"),
        ("mask_seed", 2**31, "from 0 to"),
        ("score", "luong", "one of scaled-dot, dot, general, cosine, gaussian, additive, kernel"),
        ("temperature", 0.0, "from 0.001 to"),
        ("sigma", -1.0, "from 0.001 to"),
        ("sigma", "wide", "a finite number"),
        ("n_buckets", 2, "from 4 to"),
        ("activation", "tanh", "one of relu, gelu, gelu-tanh, swish, glu"),
        ("norm_place", "both", "one of pre, post, sandwich"),
        ("has_residual", 0, "true or false"),
        ("has_feed_forward", None, "true or false"),
        ("bias", 1, "true or false"),
        ("bias", "yes", "true or false"),
        ("has_pooler", True, "only the form encoder has it"),
        ("n_decoder_layers", 2, "only the form encoder-decoder has it"),
        ("n_segments", 2, "only the form encoder has it"),
    ],
)
def test_that_an_impossible_value_is_refused_by_name(key, value, expected):
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**PLAIN, key: value}, where="config.json")
    assert f"config.json.{key} is " in str(caught.value)
    assert expected in caught.value.expected
    assert caught.value.action
    assert len(str(caught.value)) < 400


def test_that_an_odd_head_cannot_be_rotated():
    with pytest.raises(RecipeError, match="even d_model / n_heads, which is 5"):
        ModelConfig.from_dict({**PLAIN, "d_model": 20, "position": "rotary"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mask": "prefix", "form": "encoder"}, "mask is 'prefix'.*form encoder reads no prefix"),
        (
            {"mask": "prefix", "prefix_tokens": 128},
            "prefix_tokens is 128.*less than max_tokens",
        ),
        (
            {"mask": "bigbird", "max_tokens": 10**6, "mask_block": 1, "random_blocks": 8},
            "mask_block is 1.*larger",
        ),
        ({"position": "rotary", "d_head": 7}, "position is 'rotary'.*even d_head, which is 7"),
        ({"body": "gru", "form": "encoder-decoder", "d_head": 32}, "d_head is 32.*recurrent"),
        ({"position": "rotary", "score": "additive"}, "position is 'rotary'.*no product"),
        ({"position": "shaw", "score": "cosine"}, "position is 'shaw'.*not cosine"),
        ({"score": "kernel", "attention_dropout": 0.1}, "attention_dropout is 0.1.*no single weights"),
        ({"position": "t5", "n_buckets": 7}, "n_buckets is 7.*even"),
        ({"position": "t5", "n_buckets": 64, "max_distance": 32}, "max_distance is 32.*half of n_buckets"),
    ],
    ids=str,
)
def test_that_choices_that_do_not_go_together_are_refused(values, words):
    with pytest.raises(RecipeError, match=words) as caught:
        ModelConfig.from_dict({**PLAIN, **values})
    assert "Change " in caught.value.action
    unused = {"prefix_tokens": 128, "n_buckets": 7, "max_distance": 1, "mask_block": 1}
    ModelConfig.from_dict({**PLAIN, **unused})  # what a choice does not use is not looked at


@pytest.mark.parametrize("key", ["d_modle", "n_head", "", "x" * 1000, 7])
def test_that_an_unknown_key_is_refused_with_those_known(key):
    with pytest.raises(RecipeError, match="unknown key") as caught:
        ModelConfig.from_dict({**PLAIN, key: 1})
    assert "Did you mean" in caught.value.happened or "d_model" in caught.value.expected
    assert len(caught.value.happened) < 120


@pytest.mark.parametrize("key", ["form", "vocab_size"])
def test_that_a_missing_key_is_named(key):
    with pytest.raises(RecipeError, match=f"model.{key} is missing"):
        ModelConfig.from_dict({k: v for k, v in PLAIN.items() if k != key})


def test_that_a_direct_construction_is_checked_before_anything_is_allocated():
    with pytest.raises(RecipeError, match="d_model"):
        Transformer(ModelConfig(form="decoder", vocab_size=10, d_model=10**9))


@pytest.mark.parametrize("form", ["encoder", "decoder", "encoder-decoder"])
@pytest.mark.parametrize("extra", [{}, {"n_kv_heads": 2, "dropout": 0, "position": "rotary"}])
def test_that_a_configuration_survives_json(form, extra):
    config = ModelConfig.from_dict({"form": form, "vocab_size": 9, **extra})
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def count_built(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config).parameters())


OPTIONS = {
    "position": ["sinusoidal", "learned", "rotary", "none"],
    "norm": ["layer", "rms"],
    "norm_place": ["pre", "post"],
    "activation": ["gelu", "swiglu"],
    "bias": [True, False],
    "n_kv_heads": [None, 2],
}
VARIANTS = {
    "position": ["t5", "shaw", "alibi"],
    "score": ["dot", "general"],
    "norm": ["layer", "none"],
    "norm_place": ["pre", "post", "sandwich"],
    "has_feed_forward": [True, False],
    "kept_heads": [None, {"encoder.1": [0, 3], "decoder.0": []}],
}
HEADS = {
    "tie_embeddings": [True, False],
    "transform_head": [True, False],
    "output_bias": [True, False],
    "embedding_norm": [True, False],
    "norm": ["layer", "rms"],
    "d_head": [None, 3],
    "bias": [True, False],
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["encoder", "decoder", "encoder-decoder"])
@pytest.mark.parametrize("options", [OPTIONS, HEADS, VARIANTS], ids=["blocks", "ends", "variants"])
def test_that_the_count_on_paper_is_the_count_of_the_built_model(form, options):
    small = {"form": form, "vocab_size": 11, "d_model": 8, "d_ff": 12, "n_layers": 2, "max_tokens": 5}
    if form == "encoder-decoder":
        small |= {"n_decoder_layers": 1, "n_segments": 3}
    if form == "encoder":
        small |= {"n_segments": 2, "has_pooler": True}
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        if chosen.get("kept_heads"):
            kept = {name: heads for name, heads in chosen["kept_heads"].items() if name.split(".")[0] in form}
            chosen["kept_heads"] = kept
        config = ModelConfig.from_dict({**small, **chosen})
        count = count_parameters(config)
        assert count.total == count_built(config), config
        assert count.total == sum(n for _, n in count.parts)


def test_that_parts_are_named():
    count = count_parameters(ModelConfig(form="decoder", vocab_size=10, d_model=8, n_heads=2))
    assert count.part("token embedding") == 80
    assert count.part("pooler") == 0


def test_that_a_model_larger_than_the_memory_is_refused_on_paper():
    config = ModelConfig(form="decoder", vocab_size=50_000, d_model=16_384, n_layers=500, d_ff=65_536)
    with pytest.raises(RecipeError, match="largest part is the decoder") as caught:
        check_fits(config, 16 * 10**9)
    assert "at most the 16 GB of free memory" in caught.value.expected
    small = ModelConfig(form="decoder", vocab_size=100)
    n_bytes = 4 * count_parameters(small).total
    check_fits(small, n_bytes)
    with pytest.raises(RecipeError):
        check_fits(small, n_bytes - 1)
    with pytest.raises(RecipeError, match="to be trained"):
        check_fits(small, n_bytes, is_training=True)


@pytest.mark.parametrize("change", [{"position": "sinusoidal"}, {"position": "rotary"}, {"mask": "bigbird"}])
def test_that_tables_that_would_fill_the_memory_are_refused(change: dict[str, str]) -> None:
    config = ModelConfig(form="encoder", vocab_size=9, d_model=64, n_heads=1, max_tokens=2**14, **change)
    config.check()
    with pytest.raises(RecipeError, match=r"max_tokens|mask_block"):
        replace(config, max_tokens=2**20, mask_block=1).check()
