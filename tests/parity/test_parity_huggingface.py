"""Our Transformer against BERT, GPT-2 and Llama of the transformers library, with copied weights.

The references run their plain ("eager") attention. Tolerance: float32 on both sides; logits near 5 after
a few layers differ by up to 1e-5 (either side is as far from float64), and 3e-5 leaves room for other
matrix libraries. A wrong form (norm place, GELU variant, rotation order) is off by 1e-2 or more.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from torch import Tensor, nn

from attnscope.nn import ModelConfig, Transformer, count_parameters

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")

ATOL = 3e-5
SIZES = [(1, 1, 8, 2, 1), (3, 7, 16, 4, 2), (2, 120, 96, 6, 3)]  # batch, tokens, d_model, heads, layers
PADDINGS = ["none", "right", "left"]
N_PIECES = 37


def batch_of(size: tuple, kind: str) -> tuple[Tensor, Tensor]:
    """Ids, and where they count; padding makes each sequence one token shorter than the one before."""
    batch, n_tokens = size[:2]
    ids = (torch.arange(batch * n_tokens).reshape(batch, n_tokens) * 5 + 2) % N_PIECES
    place = torch.arange(n_tokens)[None].expand(batch, n_tokens)
    n_padding = torch.arange(batch).clamp(max=n_tokens - 1)[:, None]
    match kind:
        case "right":
            return ids, place < n_tokens - n_padding
        case "left":
            return ids, place >= n_padding
        case _:
            return ids, torch.ones_like(ids, dtype=torch.bool)


def load(model: Transformer, state: dict[str, Tensor]) -> None:
    """Load strictly: every weight of ours comes from the reference."""
    model.load_state_dict(state, strict=True)
    model.eval()


def pair(state: dict, ours: str, theirs: str, source: dict) -> None:
    for kind in ("weight", "bias"):
        if f"{theirs}.{kind}" in source:
            state[f"{ours}.{kind}"] = source[f"{theirs}.{kind}"]


def stacked(source: dict, names: list[str], kind: str) -> Tensor:
    return torch.cat([source[f"{name}.{kind}"] for name in names])


def bert_state(source: dict, n_layers: int) -> dict[str, Tensor]:
    state = {
        "tokens.weight": source["bert.embeddings.word_embeddings.weight"],
        "encoder_embedding.positions.weight": source["bert.embeddings.position_embeddings.weight"],
        "encoder_embedding.segments.weight": source["bert.embeddings.token_type_embeddings.weight"],
    }
    pair(state, "encoder_embedding.norm", "bert.embeddings.LayerNorm", source)
    for i in range(n_layers):
        ours, theirs = f"encoder.{i}", f"bert.encoder.layer.{i}"
        names = [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")]
        for kind in ("weight", "bias"):
            state[f"{ours}.attention.qkv.{kind}"] = stacked(source, names, kind)
        pair(state, f"{ours}.attention.output", f"{theirs}.attention.output.dense", source)
        pair(state, f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", source)
        pair(state, f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense", source)
        pair(state, f"{ours}.feed_forward.down", f"{theirs}.output.dense", source)
        pair(state, f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm", source)
    pair(state, "pooler", "bert.pooler.dense", source)
    pair(state, "head.transform", "cls.predictions.transform.dense", source)
    pair(state, "head.norm", "cls.predictions.transform.LayerNorm", source)
    if "cls.predictions.bias" in source:
        state["head.bias"] = source["cls.predictions.bias"]
    return state


def bert_configs(size: tuple, activation: str):
    _, n_tokens, d_model, n_heads, n_layers = size
    theirs = transformers.BertConfig(
        vocab_size=N_PIECES,
        hidden_size=d_model,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        intermediate_size=3 * d_model,
        max_position_embeddings=n_tokens + 3,
        type_vocab_size=3,
        hidden_act={"gelu": "gelu", "relu": "relu", "gelu-tanh": "gelu_pytorch_tanh"}[activation],
        attn_implementation="eager",
    )
    ours = {
        "form": "encoder",
        "vocab_size": N_PIECES,
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_ff": 3 * d_model,
        "max_tokens": n_tokens + 3,
        "norm_place": "post",
        "norm_epsilon": 1e-12,
        "activation": activation,
        "embedding_norm": True,
        "n_segments": 3,
    }
    return theirs, ours


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu-tanh"])
@pytest.mark.parametrize("has_segments", [True, False])
def test_that_the_masked_form_equals_bert_for_masked_lm(
    size, padding, activation, has_segments, fill_with_ramp, assert_close
):
    theirs, ours = bert_configs(size, activation)
    reference = transformers.BertForMaskedLM(theirs).eval()
    fill_with_ramp(reference)
    config = ModelConfig(**ours, transform_head=True, output_bias=True)
    model = Transformer(config)
    load(model, bert_state(reference.state_dict(), config.n_layers))
    assert count_parameters(config).total == sum(p.numel() for p in reference.parameters())
    ids, valid = batch_of(size, padding)
    segments = ids % 3 if has_segments else None
    with torch.no_grad():
        expected = reference(ids, attention_mask=valid.long(), token_type_ids=segments).logits
        found = model(ids, valid=valid, segments=segments)
    assert_close(found[valid], expected[valid], atol=ATOL)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("padding", PADDINGS)
def test_that_hidden_stream_and_pooler_equal_bert_model(size, padding, fill_with_ramp, assert_close):
    theirs, ours = bert_configs(size, "gelu")
    bert = transformers.BertModel(theirs).eval()
    fill_with_ramp(bert)
    config = ModelConfig(**ours, has_pooler=True)
    model = Transformer(config)
    source = {f"bert.{name}": value for name, value in bert.state_dict().items()}
    load(model, bert_state(source, config.n_layers))
    assert count_parameters(config).total == sum(p.numel() for p in bert.parameters())
    ids, valid = batch_of(size, padding)
    with torch.no_grad():
        expected = bert(ids, attention_mask=valid.long())
        hidden = model.encode(ids, valid=valid)
    assert_close(hidden[valid], expected.last_hidden_state[valid], atol=ATOL)
    first_counts = valid[:, 0]
    found = model.pool(hidden)[first_counts]
    assert_close(found, expected.pooler_output[first_counts], atol=ATOL)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("activation", ["gelu-tanh", "relu", "gelu"])
def test_that_the_causal_form_equals_gpt2(size, padding, activation, fill_with_ramp, assert_close):
    _, n_tokens, d_model, n_heads, n_layers = size
    reference = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=N_PIECES,
            n_positions=n_tokens + 3,
            n_embd=d_model,
            n_layer=n_layers,
            n_head=n_heads,
            n_inner=3 * d_model,
            activation_function={"gelu-tanh": "gelu_new"}.get(activation, activation),
            bos_token_id=0,
            eos_token_id=0,
            attn_implementation="eager",
        )
    ).eval()
    fill_with_ramp(reference)
    config = ModelConfig(
        form="decoder",
        vocab_size=N_PIECES,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=3 * d_model,
        max_tokens=n_tokens + 3,
        activation=activation,
    )
    model = Transformer(config)
    load(model, gpt2_state(reference, n_layers))
    assert count_parameters(config).total == sum(p.numel() for p in reference.parameters())
    ids, valid = batch_of(size, padding)
    place = torch.arange(n_tokens)[None].expand_as(ids)
    with torch.no_grad():
        expected = reference(ids, attention_mask=valid.long(), position_ids=place).logits
        found = model(ids, valid=valid)
    assert_close(found[valid], expected[valid], atol=ATOL)


def gpt2_state(reference: nn.Module, n_layers: int) -> dict[str, Tensor]:
    """GPT-2 keeps the matrices of its blocks as [in, out]."""
    source = {
        name: value.T if ".c_" in name and value.ndim == 2 else value
        for name, value in reference.state_dict().items()
    }
    state = {
        "tokens.weight": source["transformer.wte.weight"],
        "decoder_embedding.positions.weight": source["transformer.wpe.weight"],
    }
    pair(state, "decoder_norm", "transformer.ln_f", source)
    parts = {
        "attention_norm": "ln_1",
        "attention.qkv": "attn.c_attn",
        "attention.output": "attn.c_proj",
        "feed_forward_norm": "ln_2",
        "feed_forward.up": "mlp.c_fc",
        "feed_forward.down": "mlp.c_proj",
    }
    for i in range(n_layers):
        for ours, theirs in parts.items():
            pair(state, f"decoder.{i}.{ours}", f"transformer.h.{i}.{theirs}", source)
    return state


@pytest.mark.parametrize("size", [(1, 1, 8, 2, 1), (3, 7, 16, 4, 2), (2, 120, 96, 6, 3)], ids=str)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("n_groups", [1, 2])
@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("rope_base", [10000.0, 500000.0])
def test_that_the_modern_form_equals_llama(
    size, padding, n_groups, is_tied, rope_base, fill_with_ramp, assert_close
):
    _, n_tokens, d_model, n_heads, n_layers = size
    reference = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=N_PIECES,
            hidden_size=d_model,
            num_hidden_layers=n_layers,
            num_attention_heads=n_heads,
            num_key_value_heads=n_heads // n_groups,
            intermediate_size=3 * d_model,
            max_position_embeddings=n_tokens + 3,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": rope_base},
            tie_word_embeddings=is_tied,
            attn_implementation="eager",
        )
    ).eval()
    fill_with_ramp(reference)
    config = ModelConfig(
        form="decoder",
        vocab_size=N_PIECES,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_heads // n_groups,
        d_ff=3 * d_model,
        max_tokens=n_tokens + 3,
        position="rotary",
        rope_base=rope_base,
        norm="rms",
        norm_epsilon=1e-6,
        activation="swiglu",
        bias=False,
        tie_embeddings=is_tied,
    )
    model = Transformer(config)
    load(model, llama_state(reference.state_dict(), config))
    assert count_parameters(config).total == sum(p.numel() for p in reference.parameters())
    ids, valid = batch_of(size, padding)
    place = torch.arange(n_tokens)[None].expand_as(ids)
    with torch.no_grad():
        expected = reference(ids, attention_mask=valid.long(), position_ids=place).logits
        found = model(ids, valid=valid)
    assert_close(found[valid], expected[valid], atol=ATOL)


def llama_state(source: dict, config: ModelConfig) -> dict[str, Tensor]:
    state = {"tokens.weight": source["model.embed_tokens.weight"]}
    pair(state, "decoder_norm", "model.norm", source)
    if not config.tie_embeddings:
        state["head.weight"] = source["lm_head.weight"]
    for i in range(config.n_layers):
        ours, theirs = f"decoder.{i}", f"model.layers.{i}"
        names = [f"{theirs}.self_attn.{part}_proj" for part in "qkv"]
        state[f"{ours}.attention.qkv.weight"] = stacked(source, names, "weight")
        names = [f"{theirs}.mlp.{part}_proj" for part in ("gate", "up")]
        state[f"{ours}.feed_forward.up.weight"] = stacked(source, names, "weight")
        pair(state, f"{ours}.attention.output", f"{theirs}.self_attn.o_proj", source)
        pair(state, f"{ours}.feed_forward.down", f"{theirs}.mlp.down_proj", source)
        pair(state, f"{ours}.attention_norm", f"{theirs}.input_layernorm", source)
        pair(state, f"{ours}.feed_forward_norm", f"{theirs}.post_attention_layernorm", source)
    return state
