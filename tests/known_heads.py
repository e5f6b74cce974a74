"""Models whose heads do one known thing exactly, because their weights are set by hand.

The residual stream of the constructed decoder holds blocks side by side: the token (one-hot), the token
before (written by the first layer) and the position (one-hot). Only attention moves anything: the
feed-forward layers write 0. Scores are so sharp that weights are 0 or 1 to six digits.
"""

import math

import torch
from torch import Tensor

from attnscope.models import Model, ModelCard, OwnNetwork
from attnscope.nn import ModelConfig, Transformer, build_transformer
from attnscope.text import train_tokenizer

KNOWN_WORDS = [f"w{index}" for index in range(40)]
N_POSITIONS = 56
_N_HEADS, _WIDTH = 4, 64
_D_HEAD, _D_MODEL = 128, 512
_TOKEN, _BEFORE, _PLACE = 0, _WIDTH, 2 * _WIDTH
_SHARP = 8.0


def known_decoder() -> Model:
    """Layer 0: previous token, identity, uniform, first token. Layer 1: induction, three uniform heads."""
    tokenizer = train_tokenizer("words", [" ".join(KNOWN_WORDS)], vocab_size=_WIDTH)
    config = ModelConfig.from_dict(
        {
            "form": "decoder",
            "vocab_size": tokenizer.vocab_size,
            "d_model": _D_MODEL,
            "n_layers": 2,
            "n_heads": _N_HEADS,
            "d_ff": 4,
            "max_tokens": N_POSITIONS,
            "position": "learned",
            "norm": "rms",
            "norm_place": "pre",
            "bias": False,
        }
    )
    module = build_transformer(config, seed=0).eval()
    with torch.no_grad():
        _set_by_hand(module, tokenizer.vocab_size)
    return Model(OwnNetwork(module, tokenizer, ModelCard(name="known", objective="causal")))


def _set_by_hand(module: Transformer, n_words: int) -> None:
    for name, parameter in module.named_parameters():
        if not name.endswith("norm.weight"):
            parameter.zero_()
    module.tokens.weight[:, _TOKEN : _TOKEN + n_words] = torch.eye(n_words)
    module.decoder_embedding.positions.weight[:, _PLACE : _PLACE + N_POSITIONS] = torch.eye(N_POSITIONS)
    first, second = module.decoder[0].attention, module.decoder[1].attention
    _match(first.qkv.weight, head=0, query=_PLACE, key=_PLACE, n=N_POSITIONS, shift=1)
    _match(first.qkv.weight, head=1, query=_PLACE, key=_PLACE, n=N_POSITIONS, shift=0)
    first.qkv.weight[3 * _D_HEAD, _PLACE : _PLACE + N_POSITIONS] = _SHARP
    first.qkv.weight[(_N_HEADS + 3) * _D_HEAD, _PLACE] = 1.0
    values = 2 * _N_HEADS * _D_HEAD
    first.qkv.weight[values : values + n_words, _TOKEN : _TOKEN + n_words] = torch.eye(n_words)
    unscaled = math.sqrt(2 / _D_MODEL)  # undoes the norm: the stream holds two ones
    first.output.weight[_BEFORE : _BEFORE + n_words, :n_words] = torch.eye(n_words) * unscaled
    _match(second.qkv.weight, head=0, query=_TOKEN, key=_BEFORE, n=n_words, shift=0)


def _match(qkv: Tensor, *, head: int, query: int, key: int, n: int, shift: int) -> None:
    """A key scores high where entry m of its block is set and entry m + shift of the query's block is."""
    for index in range(n):
        qkv[head * _D_HEAD + index, query + index] = _SHARP
    for index in range(shift, n):
        qkv[(_N_HEADS + head) * _D_HEAD + index, key + index - shift] = 1.0
