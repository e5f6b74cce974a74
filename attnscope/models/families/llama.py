"""Llama (Touvron et al. 2023), and similar models."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnscope.models.families.family import (
    AdoptableFamily,
    Block,
    Family,
    ForeignSite,
    GroupedHeads,
    Kept,
    LibraryConfig,
    SiteSlots,
    Taking,
    Tensors,
    rotation_of,
    separate_site,
)
from attnscope.nn import ModelConfig
from attnscope.records.sites import SiteKey

_BLOCK: Block = {
    "attention.qkv": tuple(f"self_attn.{part}_proj" for part in "qkv"),
    "attention.output": "self_attn.o_proj",
    "attention_norm": "input_layernorm",
    "feed_forward.up": ("mlp.gate_proj", "mlp.up_proj"),
    "feed_forward.down": "mlp.down_proj",
    "feed_forward_norm": "post_attention_layernorm",
}


class Llama(GroupedHeads, AdoptableFamily):
    name, title, order = "llama", "Llama", 6
    alike = (
        *("mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"),
        *("phi3", "olmo2", "gpt_oss", "smollm3"),
    )
    last_norm = "norm"
    prefix = "model."
    defaults: ClassVar[Mapping[str, Any]] = {
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
    }

    def sites(self, model: Any) -> list[ForeignSite]:
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
        return [
            separate_site(("decoder", i), layer.self_attn, names, layer.self_attn.head_dim)
            for i, layer in enumerate(model.base_model.layers)
        ]

    def tell_sizes(self, model: Any, kept: Kept, slots: Mapping[SiteKey, SiteSlots]) -> None:
        super().tell_sizes(model, kept, slots)
        model.config.num_key_value_heads = len(next(iter(slots.values())).keys)

    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        choices.require(hidden_act="silu", attention_bias=False, mlp_bias=False)
        n_heads = choices.count("num_attention_heads")
        has_groups = bool(choices.get("num_key_value_heads"))
        return {
            "form": "decoder",
            "d_model": choices.count("hidden_size"),
            "n_layers": choices.count("num_hidden_layers"),
            "n_heads": n_heads,
            "n_kv_heads": choices.count("num_key_value_heads") if has_groups else n_heads,
            "d_head": choices.get("head_dim"),
            "d_ff": choices.count("intermediate_size"),
            "max_tokens": choices.count("max_position_embeddings"),
            "position": "rotary",
            "rope_base": rotation_of(choices).real("rope_theta"),
            "norm": "rms",
            "norm_epsilon": choices.real("rms_norm_eps"),
            "activation": "swiglu",
            "bias": False,
            "tie_embeddings": bool(choices.get("tie_word_embeddings")),
            "attention_dropout": choices.real("attention_dropout"),
        }

    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        taking = Taking(source)
        taking.take("tokens", "embed_tokens")
        taking.take("decoder_norm", "norm")
        if not config.tie_embeddings:
            taking.take("head", "lm_head")
        for i in range(config.n_layers):
            taking.take_block(f"decoder.{i}", f"layers.{i}", _BLOCK)
        return taking.state

    def library_keys(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "hidden_size": config.d_model,
            "num_hidden_layers": config.n_layers,
            "num_attention_heads": config.n_heads,
            "num_key_value_heads": config.kv_heads,
            "head_dim": config.head_width,
            "intermediate_size": config.d_ff,
            "max_position_embeddings": config.max_tokens,
            "rms_norm_eps": config.norm_epsilon,
            "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
            "tie_word_embeddings": config.tie_embeddings,
        }


class Phi(Family):
    name, title = "phi", "Phi"
    last_norm = "final_layernorm"
