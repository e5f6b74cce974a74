"""GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023) as ours."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attnscope.models.adopting.choices import Choices
from attnscope.models.adopting.taking import Block, Family, Taking, Tensors
from attnscope.nn.config import ModelConfig

_GPT2_BLOCK: Block = {
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}


def _gpt2_config(choices: Choices, _source: Tensors) -> dict[str, Any]:
    choices.require(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
    )
    width = choices.count("n_embd")
    return {
        "form": "decoder",
        "d_model": width,
        "n_layers": choices.count("n_layer"),
        "n_heads": choices.count("n_head"),
        "d_ff": 4 * width if choices.get("n_inner") is None else choices.count("n_inner"),
        "max_tokens": choices.count("n_positions"),
        "norm_epsilon": choices.real("layer_norm_epsilon"),
        "activation": choices.activation("activation_function"),
        "dropout": choices.real("resid_pdrop"),
        "attention_dropout": choices.real("attn_pdrop"),
    }


def _gpt2_state(source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
    taking = Taking(source)
    taking.take("tokens", "wte")
    taking.take("decoder_embedding.positions", "wpe")
    taking.take("decoder_norm", "ln_f")
    for i in range(config.n_layers):
        taking.take_block(f"decoder.{i}", f"h.{i}", _GPT2_BLOCK)
    in_blocks = {n for n, t in taking.state.items() if n.startswith("decoder.") and t.ndim == 2}
    return {n: t.T if n in in_blocks else t for n, t in taking.state.items()}  # theirs are [in, out]


_LLAMA_BLOCK: Block = {
    "attention.qkv": tuple(f"self_attn.{part}_proj" for part in "qkv"),
    "attention.output": "self_attn.o_proj",
    "attention_norm": "input_layernorm",
    "feed_forward.up": ("mlp.gate_proj", "mlp.up_proj"),
    "feed_forward.down": "mlp.down_proj",
    "feed_forward_norm": "post_attention_layernorm",
}


def _llama_config(choices: Choices, _source: Tensors) -> dict[str, Any]:
    choices.require(hidden_act="silu", attention_bias=False, mlp_bias=False)
    ropes = choices.get("rope_parameters") or choices.get("rope_scaling") or {}
    if not isinstance(ropes, Mapping):
        raise choices.refused(
            f"its rotation is {str(ropes)[:40]!r}", 'an object such as {"rope_type": "default"}'
        )
    kind = ropes.get("rope_type", ropes.get("type", "default"))
    if kind != "default":
        raise choices.refused(f"its rotation is of the type {kind!r}", "'default'")
    base = Choices(ropes, {"rope_theta": choices.get("rope_theta")}, choices.where).real("rope_theta")
    n_heads = choices.count("num_attention_heads")
    return {
        "form": "decoder",
        "d_model": choices.count("hidden_size"),
        "n_layers": choices.count("num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": choices.count("num_key_value_heads") if choices.get("num_key_value_heads") else n_heads,
        "d_head": choices.get("head_dim"),
        "d_ff": choices.count("intermediate_size"),
        "max_tokens": choices.count("max_position_embeddings"),
        "position": "rotary",
        "rope_base": base,
        "norm": "rms",
        "norm_epsilon": choices.real("rms_norm_eps"),
        "activation": "swiglu",
        "bias": False,
        "tie_embeddings": bool(choices.get("tie_word_embeddings")),
        "attention_dropout": choices.real("attention_dropout"),
    }


def _llama_state(source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
    taking = Taking(source)
    taking.take("tokens", "embed_tokens")
    taking.take("decoder_norm", "norm")
    if not config.tie_embeddings:
        taking.take("head", "lm_head")
    for i in range(config.n_layers):
        taking.take_block(f"decoder.{i}", f"layers.{i}", _LLAMA_BLOCK)
    return taking.state


GPT2 = Family(
    prefix="transformer.",
    defaults={
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.1,
        "attn_pdrop": 0.1,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    config=_gpt2_config,
    state=_gpt2_state,
)
LLAMA = Family(
    prefix="model.",
    defaults={
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
    },
    config=_llama_config,
    state=_llama_state,
)
