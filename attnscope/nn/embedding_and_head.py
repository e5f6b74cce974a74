"""The two ends of a Transformer: the input of a stack, and the output from its stream.

Letters: B batch, T tokens.

Memory tokens: learned vectors in front of a text, read and written like its tokens (Burtsev et al. 2020).

| symbol | meaning                                                        | shape              |
|--------|----------------------------------------------------------------|--------------------|
| m      | what is learned                                                | [n_memory, d_model]|
| ids    | vocab_size … vocab_size + n_memory − 1, then those of the text | [batch, n_tokens]  |

In an encoder they read the text and the text reads them (their section 3.1); in a decoder, where nothing sees
what follows, only the text reads them: the soft prompt of Lester et al. 2021. They have no position of their
own, and the text has those that it would have without them; where positions are told by distance, they stand
in front.

Pictures as the vectors that a model reads: a class token, then the patches line by line.

    pixels   0…255                                        [n, height, width, n_channels], uint8
    p        pixels of a side of a patch
    numbers  2 · pixel − 255 of each patch, 0 of the class token      [n, n_tokens, n_channels · p²], int64

Dosovitskiy et al. 2021, equation 1: z_0 = [x_class; x_1 E; …; x_N E] + E_pos.
A model divides the numbers by 255, which gives −1…1, and projects them with E. No pixel becomes 0 exactly, so
that no patch is like the class token: what is read of that are the projection's bias and the first of the
positions, both learned. Numbers stay whole up to the model, so that batches carry them as they carry ids.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnscope.nn.config import GATED, Activation, ModelConfig
from attnscope.nn.copying import joined_logits
from attnscope.nn.layers import activate, make_norm
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS

SCALE = 255


def patch_numbers(pixels: NDArray[np.uint8], patch_size: int) -> NDArray[np.int64]:
    """The numbers of pictures; raises ValueError if patches do not fill them.

    Within a patch: rows of pixels from top to bottom, each from left to right, the channels of each.
    """
    n, height, width, n_channels = pixels.shape
    p = patch_size
    if p < 1 or height % p or width % p:
        raise ValueError(f"patches of {p} px do not fill pictures of {height} × {width}")
    patches = pixels.reshape(n, height // p, p, width // p, p, n_channels).transpose(0, 1, 3, 2, 4, 5)
    numbers = patches.reshape(n, -1, p * p * n_channels).astype(np.int64)  # [n, n_patches, n_numbers]
    numbers = 2 * numbers - SCALE
    return np.concatenate([np.zeros_like(numbers[:, :1]), numbers], axis=1)


def as_vectors(numbers: Tensor, like: Tensor) -> Tensor:
    """Projected vectors, −1…1, in the shape of `numbers` and the dtype of `like`."""
    return numbers.to(like.dtype) / SCALE


def n_memory_ids(ids: Tensor, vocab_size: int) -> int:
    """Number of memory tokens in front of texts, [batch, n_tokens]; the same for all."""
    return int((ids[0] >= vocab_size).sum())


def memory_ids(vocab_size: int, n_memory: int) -> range:
    """The ids of memory tokens, which belong to no piece."""
    return range(vocab_size, vocab_size + n_memory)


def memory_piece(id: int, vocab_size: int) -> str:
    """Name of the memory token with an id: `<m1>`, `<m2>` …"""
    return f"<m{id - vocab_size + 1}>"


def behind_memory(text: Tokens, vocab_size: int, n_memory: int) -> Tokens:
    known = tuple(
        Token(id=id, piece=memory_piece(id, vocab_size), is_special=True)
        for id in memory_ids(vocab_size, n_memory)
    )
    return replace(text, tokens=(*known, *text.tokens))


def unfilled_embedding(n_rows: int, d_model: int) -> nn.Embedding:
    """An embedding with uninitialised weights.

    torch's own filling of an embedding on the meta device imports its compiler: over a second before a
    model opens (seen with torch 2.13).
    """
    return nn.Embedding(n_rows, d_model, _weight=torch.empty(n_rows, d_model))


class Embedding(nn.Module):
    """A stack's input besides the tokens: learned positions, segments, the norm."""

    def __init__(self, config: ModelConfig, *, n_segments: int) -> None:
        super().__init__()
        is_learned = POSITIONS[config.position].learns_table
        self.positions = unfilled_embedding(config.max_tokens, config.d_model) if is_learned else None
        self.segments = unfilled_embedding(n_segments, config.d_model) if n_segments else None
        self.norm = make_norm(config) if config.embedding_norm and not NORMS[config.norm].is_nothing else None

    def forward(self, x: Tensor, *, table: Tensor | None, segments: Tensor | None, first: int = 0) -> Tensor:
        """Add positions from `first` on, and segments, to token embeddings `x` [B, T, d_model].

        `table` is [n_positions, d_model], or [B, T, d_model] where each text has positions of its own.
        """
        if self.positions is not None:
            x = x + self.positions.weight[first : first + x.shape[1]]
        elif table is not None:
            x = x + (table if table.ndim == 3 else table[first : first + x.shape[1]])
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        elif segments is not None:
            raise ValueError("segments were given to a model without a segment embedding")
        return x if self.norm is None else self.norm(x)


class Head(nn.Module):
    """From the stream to one number per piece; `weight` is absent when it is the token embedding."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, n_pieces = config.d_model, config.vocab_size
        # One value per column: gated ones need two, so such a head uses their smooth relative, GELU.
        self.activation: Activation = "gelu" if config.activation in GATED else config.activation
        self.transform = nn.Linear(d, d, bias=config.bias) if config.transform_head else None
        self.norm = make_norm(config) if config.transform_head else None
        self.weight = None if config.tie_embeddings else nn.Parameter(torch.zeros(n_pieces, d))
        self.bias = nn.Parameter(torch.zeros(n_pieces)) if config.output_bias else None

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Logits, [..., vocab_size]."""
        if self.transform is not None and self.norm is not None:
            hidden = self.norm(activate(self.transform(hidden), self.activation))
        return F.linear(hidden, embedding if self.weight is None else self.weight, self.bias)


class CopyingHead(Head):
    """A head that can copy source words (`nn/copying.py`)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.copy_gate = nn.Linear(config.d_model, 1)

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Logits, the generator's, [..., vocab_size], if the stream holds nothing else.

        Otherwise what is copied stands there, which may be more than the vocabulary has.
        """
        generated = super().forward(hidden[..., : embedding.shape[1]], embedding)
        if hidden.shape[-1] == embedding.shape[1]:
            return generated
        stream = hidden[..., : embedding.shape[1]]
        copied = hidden[..., embedding.shape[1] :]
        return joined_logits(generated, self.copy_gate(stream), copied)


class LabelHead(nn.Module):
    """From a text's row, or from the stream, to one number per label; it has no outputs for pieces."""

    transform = norm = weight = bias = None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.labels = nn.Linear(config.d_model, config.n_labels)

    def forward(self, hidden: Tensor, _embedding: Tensor) -> Tensor:
        """Logits, [..., n_labels]."""
        logits: Tensor = self.labels(hidden)
        return logits


def make_head(config: ModelConfig) -> "Head | LabelHead":
    """Module that turns the stream into logits."""
    if config.n_labels:
        return LabelHead(config)
    return CopyingHead(config) if config.copies_source else Head(config)


# Pointing to tokens: a softmax over the tokens of the text, not over a vocabulary (Vinyals et al. 2015).
#
# One place, or a start and an end (Devlin et al. 2018, section 4.2).
#
# | symbol | meaning                                    | shape              |
# |--------|--------------------------------------------|--------------------|
# | told   | one number for each token and each place   | [n_tokens, 1 or 2] |
# | p      | softmax of a column over the tokens        | [n_tokens]         |


ANSWER = "answer"
"""Name of a token between start and end."""


def pointed(told: Tensor, may_point_to: Sequence[int]) -> Tensor:
    """Log P that a token belongs to the answer, and log P that it does not: [n_tokens, 2], float64.

    With one place P is the softmax over the tokens of `may_point_to`; with two, a start s and an end e, it is
    P(s ≤ token ≤ e) under p(s) p(e) over all pairs with s ≤ e.
    """
    p = torch.zeros_like(told, dtype=torch.float64)
    p[list(may_point_to)] = told[list(may_point_to)].double().softmax(dim=0)
    if p.shape[1] == 1:
        inside = p[:, 0]
    else:
        begun, not_over = p[:, 0].cumsum(0), p[:, 1].flip(0).cumsum(0).flip(0)
        inside = begun * not_over / (p[:, 0] * not_over).sum()
    inside = inside.clamp(0.0, 1.0)
    return torch.stack([inside, 1.0 - inside], dim=1).log()
