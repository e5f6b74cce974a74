"""DistilBERT (Sanh et al. 2019)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnscope.models.families.bert import encoder_keys
from attnscope.models.families.family import (
    AdoptableFamily,
    Block,
    ForeignSite,
    FreeHeads,
    LibraryConfig,
    Taking,
    Tensors,
    separate_site,
)
from attnscope.nn import ModelConfig

_BLOCK: Block = {
    "attention.qkv": tuple(f"attention.{part}_lin" for part in "qkv"),
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.up": "ffn.lin1",
    "feed_forward.down": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}


class DistilBERT(FreeHeads, AdoptableFamily):
    name, title, order = "distilbert", "DistilBERT", 3
    last_norm = ""
    head_counts: ClassVar[Mapping[str, str]] = {"encoder": "n_heads"}
    prefix = "distilbert."
    defaults: ClassVar[Mapping[str, Any]] = {
        "dim": 768,
        "n_layers": 6,
        "n_heads": 12,
        "hidden_dim": 3072,
        "max_position_embeddings": 512,
        "activation": "gelu",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "tie_word_embeddings": True,
    }

    def sites(self, model: Any) -> list[ForeignSite]:
        names = ("q_lin", "k_lin", "v_lin", "out_lin")
        return [
            separate_site(("encoder", i), layer.attention, names, layer.attention.attention_head_size)
            for i, layer in enumerate(model.base_model.transformer.layer)
        ]

    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        choices.require(tie_word_embeddings=True)
        return {
            **encoder_keys("vocab_transform.weight" in source),
            "d_model": choices.count("dim"),
            "n_layers": choices.count("n_layers"),
            "n_heads": choices.count("n_heads"),
            "d_ff": choices.count("hidden_dim"),
            "max_tokens": choices.count("max_position_embeddings"),
            "norm_epsilon": 1e-12,
            "activation": choices.activation("activation"),
            "dropout": choices.real("dropout"),
            "attention_dropout": choices.real("attention_dropout"),
        }

    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        taking = Taking(source)
        taking.take("tokens", "embeddings.word_embeddings")
        taking.take("encoder_embedding.positions", "embeddings.position_embeddings")
        taking.take("encoder_embedding.norm", "embeddings.LayerNorm")
        for i in range(config.n_layers):
            taking.take_block(f"encoder.{i}", f"transformer.layer.{i}", _BLOCK)
        if config.transform_head:
            taking.take_head("vocab_transform", "vocab_layer_norm", "vocab_projector.bias")
        return taking.state
