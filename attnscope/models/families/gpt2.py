"""GPT-2 (Radford et al. 2019) and later decoders."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnscope.models.families.family import (
    AdoptableFamily,
    Block,
    ForeignSite,
    FreeHeads,
    LibraryConfig,
    Taking,
    Tensors,
    library_activation,
    rotation_of,
)
from attnscope.nn import ModelConfig

_BLOCK: Block = {
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}


class GPT2(FreeHeads, AdoptableFamily):
    name, title, order = "gpt2", "GPT-2", 5
    alike = ("gptj", "gpt_neo", "bloom", "codegen")
    last_norm = "ln_f"
    head_counts: ClassVar[Mapping[str, str]] = {"decoder": "n_head"}
    prefix = "transformer."
    defaults: ClassVar[Mapping[str, Any]] = {
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
    }

    def sites(self, model: Any) -> list[ForeignSite]:
        found = []
        for i, layer in enumerate(model.base_model.h):
            owner = layer.attn
            n = owner.c_proj.weight.shape[0] // owner.head_dim
            found.append(
                ForeignSite(
                    key=("decoder", i), owner=owner, names=("c_attn",), output_owner=owner,
                    output_name="c_proj", n_heads=n, n_kv_heads=n, d_head=owner.head_dim,
                )
            )  # fmt: skip
        return found

    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
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

    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        taking = Taking(source)
        taking.take("tokens", "wte")
        taking.take("decoder_embedding.positions", "wpe")
        taking.take("decoder_norm", "ln_f")
        for i in range(config.n_layers):
            taking.take_block(f"decoder.{i}", f"h.{i}", _BLOCK)
        in_blocks = {n for n, t in taking.state.items() if n.startswith("decoder.") and t.ndim == 2}
        return {n: t.T if n in in_blocks else t for n, t in taking.state.items()}  # theirs are [in, out]

    def library_keys(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "n_embd": config.d_model,
            "n_layer": config.n_layers,
            "n_head": config.n_heads,
            "n_inner": config.d_ff,
            "n_positions": config.max_tokens,
            "layer_norm_epsilon": config.norm_epsilon,
            "activation_function": library_activation(config.activation),
        }


_NEOX_BLOCK: Block = {
    "attention_norm": "input_layernorm",
    "attention.qkv": "attention.query_key_value",
    "attention.output": "attention.dense",
    "feed_forward_norm": "post_attention_layernorm",
    "feed_forward.up": "mlp.dense_h_to_4h",
    "feed_forward.down": "mlp.dense_4h_to_h",
}


class GPTNeoX(AdoptableFamily):
    """Black et al. 2022. Convertible if its layers run in sequence and rotate whole heads."""

    name, title, order = "gpt_neox", "GPT-NeoX", 9
    last_norm = "final_layer_norm"
    prefix = "gpt_neox."
    defaults: ClassVar[Mapping[str, Any]] = {
        "hidden_size": 6144,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "intermediate_size": 24576,
        "max_position_embeddings": 2048,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "attention_bias": True,
        "use_parallel_residual": True,
        "rotary_emb_base": 10000.0,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
    }

    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        choices.require(use_parallel_residual=False, attention_bias=True)
        rotation = rotation_of(choices, rope_theta="rotary_emb_base", partial_rotary_factor="rotary_pct")
        if rotation.real("partial_rotary_factor") != 1.0:
            share = rotation.real("partial_rotary_factor")
            raise choices.refused(f"its rotation turns {share:g} of each head", "1, the whole head")
        return {
            "form": "decoder",
            "d_model": choices.count("hidden_size"),
            "n_layers": choices.count("num_hidden_layers"),
            "n_heads": choices.count("num_attention_heads"),
            "d_ff": choices.count("intermediate_size"),
            "max_tokens": choices.count("max_position_embeddings"),
            "position": "rotary",
            "rope_base": rotation.real("rope_theta"),
            "norm_epsilon": choices.real("layer_norm_eps"),
            "activation": choices.activation("hidden_act"),
            "tie_embeddings": bool(choices.get("tie_word_embeddings")),
            "dropout": choices.real("hidden_dropout"),
            "attention_dropout": choices.real("attention_dropout"),
        }

    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        taking = Taking(source)
        taking.take("tokens", "embed_in")
        taking.take("decoder_norm", "final_layer_norm")
        if not config.tie_embeddings:
            taking.take("head", "embed_out" if "embed_out.weight" in source else "lm_head")
        for i in range(config.n_layers):
            taking.take_block(f"decoder.{i}", f"layers.{i}", _NEOX_BLOCK)
        by_head = (config.n_heads, 3, config.head_width)  # theirs are q, k and v of one head after another
        return {
            n: t.view(*by_head, *t.shape[1:]).transpose(0, 1).flatten(0, 2) if ".attention.qkv." in n else t
            for n, t in taking.state.items()
        }

    def library_keys(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "hidden_size": config.d_model,
            "num_hidden_layers": config.n_layers,
            "num_attention_heads": config.n_heads,
            "intermediate_size": config.d_ff,
            "max_position_embeddings": config.max_tokens,
            "hidden_act": library_activation(config.activation),
            "layer_norm_eps": config.norm_epsilon,
            "use_parallel_residual": False,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": config.rope_base,
                "partial_rotary_factor": 1.0,
            },
            "tie_word_embeddings": config.tie_embeddings,
        }
