"""BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019) as ours."""

from typing import Any

from torch import Tensor

from attnscope.models.adopting.choices import Choices
from attnscope.models.adopting.taking import Block, Family, Taking, Tensors
from attnscope.nn.config import ModelConfig

_BERT_DEFAULTS = {
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
_BERT_BLOCK: Block = {
    "attention.qkv": tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_BERT_HEAD = (
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
)


def _encoder_keys(has_head: bool) -> dict[str, Any]:
    """What all encoders of the kind of BERT have in common."""
    return {
        "form": "encoder",
        "norm_place": "post",
        "embedding_norm": True,
        "transform_head": has_head,
        "output_bias": has_head,
    }


def _bert_keys(choices: Choices, n_positions: int, *, has_head: bool) -> dict[str, Any]:
    choices.require(
        position_embedding_type="absolute",
        is_decoder=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
    )
    return {
        **_encoder_keys(has_head),
        "d_model": choices.count("hidden_size"),
        "n_layers": choices.count("num_hidden_layers"),
        "n_heads": choices.count("num_attention_heads"),
        "d_ff": choices.count("intermediate_size"),
        "max_tokens": n_positions,
        "norm_epsilon": choices.real("layer_norm_eps"),
        "activation": choices.activation("hidden_act"),
        "dropout": choices.real("hidden_dropout_prob"),
        "attention_dropout": choices.real("attention_probs_dropout_prob"),
    }


def _n_rows(choices: Choices, source: Tensors) -> int:
    """How many rows the table of positions has, as its configuration says."""
    n, table = choices.count("max_position_embeddings"), source.get("embeddings.position_embeddings.weight")
    if table is not None and len(table) != n:
        raise choices.refused(f"max_position_embeddings is {n}", f"{len(table)}, the rows of its table")
    return n


def _bert_config(choices: Choices, source: Tensors) -> dict[str, Any]:
    n_segments = choices.count("type_vocab_size")
    has_head = "cls.predictions.transform.dense.weight" in source
    keys = _bert_keys(choices, _n_rows(choices, source), has_head=has_head)
    return {**keys, "n_segments": n_segments if n_segments > 1 else 0}


def _bert_state(
    source: Tensors, config: ModelConfig, head: tuple[str, str, str] = _BERT_HEAD
) -> dict[str, Tensor]:
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
        taking.take_block(f"encoder.{i}", f"encoder.layer.{i}", _BERT_BLOCK)
    if config.transform_head:
        taking.take("head.transform", head[0])
        taking.take("head.norm", head[1])
        taking.state["head.bias"] = source[head[2]]
    return taking.state


def _roberta_config(choices: Choices, source: Tensors) -> dict[str, Any]:
    choices.require(type_vocab_size=1, hidden_act="gelu")  # its output layer is always of GELU
    n_positions = _n_rows(choices, source) - int(choices.real("pad_token_id")) - 1
    return _bert_keys(choices, n_positions, has_head="lm_head.dense.weight" in source)


def _roberta_state(source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
    """Its first positions stand for padding; the names of its output layer are others."""
    return _bert_state(source, config, head=("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"))


_DISTILBERT_BLOCK: Block = {
    "attention.qkv": tuple(f"attention.{part}_lin" for part in "qkv"),
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.up": "ffn.lin1",
    "feed_forward.down": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}


def _distilbert_config(choices: Choices, source: Tensors) -> dict[str, Any]:
    choices.require(tie_word_embeddings=True)
    return {
        **_encoder_keys("vocab_transform.weight" in source),
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


def _distilbert_state(source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
    taking = Taking(source)
    taking.take("tokens", "embeddings.word_embeddings")
    taking.take("encoder_embedding.positions", "embeddings.position_embeddings")
    taking.take("encoder_embedding.norm", "embeddings.LayerNorm")
    for i in range(config.n_layers):
        taking.take_block(f"encoder.{i}", f"transformer.layer.{i}", _DISTILBERT_BLOCK)
    if config.transform_head:
        taking.take("head.transform", "vocab_transform")
        taking.take("head.norm", "vocab_layer_norm")
        taking.state["head.bias"] = source["vocab_projector.bias"]
    return taking.state


BERT = Family(prefix="bert.", defaults=_BERT_DEFAULTS, config=_bert_config, state=_bert_state)
ROBERTA = Family(prefix="roberta.", defaults=_BERT_DEFAULTS, config=_roberta_config, state=_roberta_state)
DISTILBERT = Family(
    prefix="distilbert.",
    defaults={
        "dim": 768,
        "n_layers": 6,
        "n_heads": 12,
        "hidden_dim": 3072,
        "max_position_embeddings": 512,
        "activation": "gelu",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "tie_word_embeddings": True,
    },
    config=_distilbert_config,
    state=_distilbert_state,
)
