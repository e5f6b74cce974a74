"""Our blocks against PyTorch's own modules, with the same weights, in every public flag.

Tolerance: both sides compute in float32 with another order of summing; after L layers of streams near 1
the difference is a few L · 1e-7. 2e-5 holds for all sizes here; a wrong mask or scale is off by 1e-2.
"""

import pytest
import torch
from torch import Tensor, nn

from attnscope.nn import ModelConfig, Transformer, build_rule

pytestmark = pytest.mark.slow

ATOL = 2e-5
SIZES = [(1, 1, 8, 2, 1), (3, 7, 16, 4, 2), (2, 200, 128, 8, 3)]  # batch, tokens, d_model, heads, layers
TORCH_NAMES = {
    "self_attn.in_proj_": "attention.qkv.",
    "self_attn.out_proj.": "attention.output.",
    "multihead_attn.out_proj.": "cross.output.",
    "linear1.": "feed_forward.up.",
    "linear2.": "feed_forward.down.",
}
ENCODER_NORMS = {"norm1.": "attention_norm.", "norm2.": "feed_forward_norm."}
DECODER_NORMS = {"norm1.": "attention_norm.", "norm2.": "cross_norm.", "norm3.": "feed_forward_norm."}


def config_of(form: str, size: tuple, *, norm_first: bool, activation: str, bias: bool) -> ModelConfig:
    _, n_tokens, d_model, n_heads, n_layers = size
    return ModelConfig(
        form=form,
        vocab_size=11,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=3 * d_model,
        max_tokens=n_tokens,
        position="none",
        norm_place="pre" if norm_first else "post",
        activation=activation,
        bias=bias,
    )


def copy_block(block: nn.Module, layer: nn.Module, norms: dict[str, str]) -> None:
    """Give a torch layer the weights of one of our blocks."""
    ours, theirs = block.state_dict(), {}
    for name, value in layer.state_dict().items():
        if name.startswith("multihead_attn.in_proj_"):
            kind = name.removeprefix("multihead_attn.in_proj_")
            theirs[name] = torch.cat((ours[f"cross.query.{kind}"], ours[f"cross.kv.{kind}"]))
            continue
        renamed = name
        for old, new in {**TORCH_NAMES, **norms}.items():
            renamed = renamed.replace(old, new) if renamed.startswith(old) else renamed
        theirs[name] = ours[renamed].reshape(value.shape)
    layer.load_state_dict(theirs)


def ragged(batch: int, n_tokens: int) -> Tensor:
    """Each sequence one token shorter than the one before, never empty."""
    lengths = (n_tokens - torch.arange(batch)).clamp(min=1)
    return torch.arange(n_tokens)[None] < lengths[:, None]


def options_of(layer_options: dict, config: ModelConfig) -> dict:
    return {
        "d_model": config.d_model,
        "nhead": config.n_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "batch_first": True,
        "layer_norm_eps": config.norm_epsilon,
        **layer_options,
    }


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("is_padded", [False, True])
def test_that_an_encoder_equals_torch_transformer_encoder(
    size, norm_first, activation, bias, is_padded, fill_with_ramp, ramp, assert_close
):
    layer_options = {"norm_first": norm_first, "activation": activation, "bias": bias}
    config = config_of("encoder", size, **layer_options)
    ours = Transformer(config).train()
    fill_with_ramp(ours)
    layer = nn.TransformerEncoderLayer(**options_of(layer_options, config))
    reference = nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=False).train()
    for block, theirs in zip(ours.encoder, reference.layers, strict=True):
        copy_block(block, theirs, ENCODER_NORMS)
    batch, n_tokens = size[:2]
    ids = torch.arange(batch * n_tokens).reshape(batch, n_tokens) % 11
    valid = ragged(batch, n_tokens) if is_padded else None
    found = ours.encode(ids, valid=valid)
    expected = reference(ours.tokens(ids), src_key_padding_mask=None if valid is None else ~valid)
    if ours.encoder_norm is not None:
        expected = ours.encoder_norm(expected)
    kept = torch.ones(batch, n_tokens, dtype=torch.bool) if valid is None else valid
    assert_close(found[kept], expected[kept], atol=ATOL)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("is_padded", [False, True])
def test_that_a_decoder_equals_torch_transformer_decoder(
    size, norm_first, activation, bias, is_padded, fill_with_ramp, ramp, assert_close
):
    layer_options = {"norm_first": norm_first, "activation": activation, "bias": bias}
    config = config_of("encoder-decoder", size, **layer_options)
    ours = Transformer(config).train()
    fill_with_ramp(ours)
    layer = nn.TransformerDecoderLayer(**options_of(layer_options, config))
    reference = nn.TransformerDecoder(layer, config.n_layers).train()
    for block, theirs in zip(ours.decoder, reference.layers, strict=True):
        copy_block(block, theirs, DECODER_NORMS)
    batch, n_tokens = size[:2]
    ids = torch.arange(batch * n_tokens).reshape(batch, n_tokens) % 11
    memory = ramp(batch, n_tokens + 2, config.d_model)
    valid, memory_valid = (
        (ragged(batch, n_tokens), ragged(batch, n_tokens + 2)) if is_padded else (None, None)
    )
    found = ours.decode(ids, memory=memory, memory_valid=memory_valid, valid=valid)
    expected = reference(
        ours.tokens(ids),
        memory,
        tgt_mask=torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1),
        tgt_is_causal=not is_padded,
        tgt_key_padding_mask=None if valid is None else ~valid,
        memory_key_padding_mask=None if memory_valid is None else ~memory_valid,
    )
    if ours.decoder_norm is not None:
        expected = ours.decoder_norm(expected)
    kept = torch.ones(batch, n_tokens, dtype=torch.bool) if valid is None else valid
    assert_close(found[kept], expected[kept], atol=ATOL)


class Looker:
    """Keeps the last record."""

    def gate(self, site):
        return None

    def edits(self, site):
        return None

    def wants(self, site):
        return True

    def record(self, site, call, **facts):
        self.facts = {"q": call.q, "k": call.k, "rule": call.rule, "scale": call.score.scale, **facts}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_that_output_and_weights_equal_torch_multihead_attention(
    size, is_padded, bias, fill_with_ramp, ramp, assert_close
):
    batch, n_tokens, d_model, n_heads, _ = size
    config = config_of("decoder", size, norm_first=False, activation="relu", bias=bias)
    ours = Transformer(config).decoder[0].attention
    fill_with_ramp(ours)
    reference = nn.MultiheadAttention(d_model, n_heads, bias=bias, batch_first=True)
    names = {"in_proj_": "qkv.", "out_proj.": "output."}
    state = ours.state_dict()
    for name, value in reference.named_parameters():
        key = next(name.replace(old, new) for old, new in names.items() if name.startswith(old))
        value.data.copy_(state[key])
    x = ramp(batch, n_tokens, d_model)
    valid = ragged(batch, n_tokens) if is_padded else None
    causal = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    expected, weights = reference(
        x,
        x,
        x,
        attn_mask=causal,
        key_padding_mask=None if valid is None else ~valid,
        average_attn_weights=False,
    )
    looker = Looker()
    with torch.no_grad():
        found = ours(x, rule=build_rule(is_causal=True, key_valid=valid), probe=looker)
    assert_close(found, expected, atol=ATOL)
    facts = looker.facts
    scores = facts["q"] @ facts["k"].transpose(-1, -2) * facts["scale"]
    allowed = facts["rule"].allowed(n_tokens, n_tokens)
    rebuilt = torch.exp(scores - facts["lse"][..., None]).masked_fill(~allowed, 0.0)
    assert_close(rebuilt, weights, atol=2e-6)  # weights are at most 1: float32 is exact to 1e-7 there


def test_that_gradients_equal_those_of_torch(fill_with_ramp, assert_close):
    size = (3, 7, 16, 4, 2)
    layer_options = {"norm_first": True, "activation": "gelu", "bias": True}
    config = config_of("encoder", size, **layer_options)
    ours = Transformer(config)
    fill_with_ramp(ours)
    layer = nn.TransformerEncoderLayer(**options_of(layer_options, config))
    reference = nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=False)
    for block, theirs in zip(ours.encoder, reference.layers, strict=True):
        copy_block(block, theirs, ENCODER_NORMS)
    ours.encoder_norm = None
    ids, valid = torch.arange(21).reshape(3, 7) % 11, ragged(3, 7)
    ours.encode(ids, valid=valid)[valid].sin().sum().backward()
    reference(ours.tokens.weight.detach()[ids], src_key_padding_mask=~valid)[valid].sin().sum().backward()
    for block, theirs in zip(ours.encoder, reference.layers, strict=True):
        for name, norm in ENCODER_NORMS.items():
            expected = theirs.get_parameter(name + "weight").grad
            assert_close(block.get_parameter(norm + "weight").grad, expected, atol=1e-4)
        for name in ("self_attn.in_proj_weight", "linear1.weight", "linear2.bias"):
            renamed = name
            for old, new in TORCH_NAMES.items():
                renamed = renamed.replace(old, new)
            # Sums over 20 tokens of terms up to 10.
            assert_close(block.get_parameter(renamed).grad, theirs.get_parameter(name).grad, atol=1e-4)
