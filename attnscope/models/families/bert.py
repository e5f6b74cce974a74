"""BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019), and similar models."""

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
)
from attnscope.nn import ModelConfig

_BLOCK: Block = {
    "attention.qkv": tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


def encoder_keys(has_head: bool) -> dict[str, Any]:
    """Keys shared by all encoders like BERT."""
    return {
        "form": "encoder",
        "norm_place": "post",
        "embedding_norm": True,
        "transform_head": has_head,
        "output_bias": has_head,
    }


class LikeBERT(AdoptableFamily):
    """Encoders with BERT's names."""

    last_norm = ""
    head: ClassVar[tuple[str, str, str]]
    """Its output layer: product, norm, and the tensor of the bias of each token."""
    defaults: ClassVar[Mapping[str, Any]] = {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
        "pad_token_id": 1,
    }

    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        choices.require(
            position_embedding_type="absolute",
            is_decoder=False,
            add_cross_attention=False,
            tie_word_embeddings=True,
        )
        n_segments = choices.count("type_vocab_size")
        return {
            **encoder_keys(f"{self.head[0]}.weight" in source),
            "d_model": choices.count("hidden_size"),
            "n_layers": choices.count("num_hidden_layers"),
            "n_heads": choices.count("num_attention_heads"),
            "d_ff": choices.count("intermediate_size"),
            "max_tokens": _n_positions(choices, source),
            "norm_epsilon": choices.real("layer_norm_eps"),
            "activation": choices.activation("hidden_act"),
            "dropout": choices.real("hidden_dropout_prob"),
            "attention_dropout": choices.real("attention_probs_dropout_prob"),
            "n_segments": n_segments if n_segments > 1 else 0,
        }

    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        taking = Taking(source)
        taking.take("tokens", "embeddings.word_embeddings")
        positions = source["embeddings.position_embeddings.weight"]
        segments = source["embeddings.token_type_embeddings.weight"]
        if config.n_segments:
            taking.state["encoder_embedding.segments.weight"] = segments
        else:
            positions = positions.float() + segments[0].float()  # the one segment of every token
        taking.state["encoder_embedding.positions.weight"] = positions[len(positions) - config.max_tokens :]
        taking.take("encoder_embedding.norm", "embeddings.LayerNorm")
        for i in range(config.n_layers):
            taking.take_block(f"encoder.{i}", f"encoder.layer.{i}", _BLOCK)
        if config.transform_head:
            taking.take_head(*self.head)
        return taking.state


def _n_positions(choices: LibraryConfig, source: Tensors) -> int:
    """Rows of the position table, according to its configuration."""
    n, table = choices.count("max_position_embeddings"), source.get("embeddings.position_embeddings.weight")
    if table is not None and len(table) != n:
        raise choices.refused(f"max_position_embeddings is {n}", f"{len(table)}, the rows of its table")
    return n


class BERT(LikeBERT, FreeHeads):
    name, title, order = "bert", "BERT", 1
    alike = ("xlm-roberta", "camembert", "albert")
    head_counts: ClassVar[Mapping[str, str]] = dict.fromkeys(("encoder", "decoder"), "num_attention_heads")
    prefix = "bert."
    head = (
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    )

    def sites(self, model: Any) -> list[ForeignSite]:
        stack: Any = "decoder" if model.config.is_decoder else "encoder"
        found = []
        for i, layer in enumerate(model.base_model.encoder.layer):
            owner, d_head = layer.attention.self, layer.attention.self.attention_head_size
            n = owner.query.out_features // d_head
            found.append(
                ForeignSite(
                    key=(stack, i), owner=owner, names=("query", "key", "value"),
                    output_owner=layer.attention.output, output_name="dense",
                    n_heads=n, n_kv_heads=n, d_head=d_head,
                )
            )  # fmt: skip
        return found


class RoBERTa(LikeBERT):
    """Its first positions are reserved for padding."""

    name, title, order = "roberta", "RoBERTa", 2
    prefix = "roberta."
    head = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias")

    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        choices.require(type_vocab_size=1, hidden_act="gelu")  # its output layer is always of GELU
        keys = super().config(choices, source)
        return {**keys, "max_tokens": keys["max_tokens"] - int(choices.real("pad_token_id")) - 1}


class ELECTRA(Family):
    name, title = "electra", "ELECTRA"
    last_norm = ""
    predicts_words = False
