"""The size of a recurrent model on paper: its numbers, and the operations they cost.

    symbol   meaning                                                  value
    gates    matrices of a cell: one a gate, and the new state's      RNN 1, GRU 3, LSTM 4
    cell     gates · (d · n_in + d · d), and two biases a gate        numbers

Must not import torch, and of `config` only what the type checker needs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.norms import NORMS
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig

N_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def recurrent_parts(config: "ModelConfig") -> Iterator[tuple[str, int]]:
    """Every part with its number of learned numbers; a part may have none."""
    d, bias = config.d_model, config.bias
    yield "token embedding", config.vocab_size * d
    yield "encoder", sum(matrices + biases for matrices, biases in _encoder_cells(config))
    yield "decoder", sum(matrices + biases for matrices, biases in _decoder_cells(config))
    n_first = _n_states(config) * config.decoder_layers * d
    yield "first states", d * n_first + (n_first if bias else 0)
    if config.has_attention:
        yield "attention", _attention(config) + (_attention_biases(config) if bias else 0)
        yield "predicted position", _centre(config)
    elif config.feeds_context:
        yield "source vector", d * d + (d if bias else 0)
    yield "readout", _readout(config)
    transform = d * d + (d if bias else 0) if config.transform_head else 0
    norm = NORMS[config.norm].n_learned(d, has_bias=bias)
    weight = 0 if config.tie_embeddings else config.vocab_size * d
    head = transform + (norm if config.transform_head else 0) + weight
    yield "head", head + (config.vocab_size if config.output_bias else 0)


def recurrent_matrices(config: "ModelConfig") -> tuple[int, int]:
    """Numbers of the matrices through which each source token goes, and each target token."""
    d, layout = config.d_model, config.layout("cross", 0)
    if not config.has_attention:
        cells = sum(matrices for matrices, _ in _encoder_cells(config))
        return cells, sum(matrices for matrices, _ in _decoder_cells(config)) + _readout(config)
    n, k = layout.n_heads * config.head_width, layout.n_kv_heads * config.head_width
    score = layout.n_heads * SCORES[config.score].n_products(config.head_width)
    source = sum(matrices for matrices, _ in _encoder_cells(config)) + 2 * k * d
    target = sum(matrices for matrices, _ in _decoder_cells(config)) + _readout(config)
    return source, target + 2 * n * d + score + _centre(config)


def _encoder_cells(config: "ModelConfig") -> Iterator[tuple[int, int]]:
    """Numbers of the matrices and biases of each layer, both directions together."""
    for _ in range(config.encoder_layers):
        matrices, biases = _cell(config, config.d_model, config.d_model // 2)
        yield 2 * matrices, 2 * biases


def _decoder_cells(config: "ModelConfig") -> Iterator[tuple[int, int]]:
    for layer in range(config.decoder_layers):
        yield _cell(config, config.d_model * (2 if config.feeds_context and not layer else 1), config.d_model)


def _cell(config: "ModelConfig", n_in: int, width: int) -> tuple[int, int]:
    n_rows = N_GATES[config.body] * width
    return n_rows * (n_in + width), 2 * n_rows if config.bias else 0


def _attention(config: "ModelConfig") -> int:
    layout, d_head = config.layout("cross", 0), config.head_width
    matrices = (2 * layout.n_heads + 2 * layout.n_kv_heads) * d_head * config.d_model
    return matrices + layout.n_heads * SCORES[config.score].n_learned(d_head)


def _attention_biases(config: "ModelConfig") -> int:
    layout = config.layout("cross", 0)
    return (layout.n_heads + 2 * layout.n_kv_heads) * config.head_width + config.d_model


def _centre(config: "ModelConfig") -> int:
    """What predicts the place of each head."""
    if not config.local_reach:
        return 0
    return config.layout("cross", 0).n_heads * (config.head_width * config.d_model + config.head_width)


def _readout(config: "ModelConfig") -> int:
    return config.d_model**2 * (2 if config.feeds_context else 1)


def _n_states(config: "ModelConfig") -> int:
    return 2 if config.body == "lstm" else 1
