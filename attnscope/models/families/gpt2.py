"""GPT-2 (Radford et al. 2019) and other decoders that came after it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnscope.models.families.family import (
    AdoptableFamily,
    Block,
    Family,
    ForeignSite,
    FreeHeads,
    LibraryConfig,
    Taking,
    Tensors,
    library_activation,
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


class GPTNeoX(Family):
    name, title = "gpt_neox", "GPT-NeoX"
    last_norm = "final_layer_norm"
