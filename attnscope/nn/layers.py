"""The parts a Transformer is made of, built from plain numbers.

    symbol   meaning                        shape
    x        the residual stream            [batch, n_tokens, d_model]
    memory   the encoder's last stream      [batch, n_source, d_model]

Letters: B batch, T tokens, S source tokens, H heads, K key-value heads, D d_head.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.nn.attention import Probe, attend
from attnscope.nn.masks import MaskRule
from attnscope.nn.positions import apply_rotary
from attnscope.records.sites import SiteKey, Stack

Activation = Literal["relu", "gelu", "gelu-tanh", "swiglu"]
NormKind = Literal["layer", "rms"]
NormPlace = Literal["pre", "post"]
Rotary = tuple[Tensor, Tensor]


def make_norm(kind: NormKind, d_model: int, *, epsilon: float, bias: bool) -> nn.Module:
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019), which never has a bias."""
    if kind == "layer":
        return nn.LayerNorm(d_model, eps=epsilon, bias=bias)
    return nn.RMSNorm(d_model, eps=epsilon)


def activate(x: Tensor, activation: Activation) -> Tensor:
    """The activation; for `swiglu` the first half of the columns gates the second (Shazeer 2020)."""
    if activation == "relu":
        return F.relu(x)
    if activation == "swiglu":
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value
    return F.gelu(x, approximate="tanh" if activation == "gelu-tanh" else "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """The sizes and choices that every block of a stack shares."""

    d_model: int
    n_heads: int
    n_kv_heads: int
    d_ff: int
    bias: bool
    dropout: float
    activation: Activation
    norm: NormKind
    norm_place: NormPlace
    norm_epsilon: float

    def make_norm(self) -> nn.Module:
        """A norm of this shape."""
        return make_norm(self.norm, self.d_model, epsilon=self.norm_epsilon, bias=self.bias)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself, with one product for queries, keys and values.

    The rows of `qkv` are all query heads, then all key heads, then all value heads.
    """

    def __init__(self, shape: BlockShape, site: SiteKey) -> None:
        super().__init__()
        self.site = site
        self.n_heads, self.n_kv_heads = shape.n_heads, shape.n_kv_heads
        self.d_head = shape.d_model // shape.n_heads
        self.dropout = shape.dropout
        n_rows = (shape.n_heads + 2 * shape.n_kv_heads) * self.d_head
        self.qkv = nn.Linear(shape.d_model, n_rows, bias=shape.bias)
        self.output = nn.Linear(shape.d_model, shape.d_model, bias=shape.bias)

    def forward(
        self, x: Tensor, *, rule: MaskRule, rotary: Rotary | None = None, probe: Probe | None = None
    ) -> Tensor:
        """Attend and project: [B, T, d_model]."""
        heads = self.qkv(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # [B, H + 2K, T, D]
        n_turned = self.n_heads + self.n_kv_heads
        if rotary is None:
            q, k, v = heads.split((self.n_heads, self.n_kv_heads, self.n_kv_heads), dim=1)
        else:
            turned = apply_rotary(heads[:, :n_turned], *rotary)
            q, k, v = turned[:, : self.n_heads], turned[:, self.n_heads :], heads[:, n_turned:]
        out = attend(
            q,
            k,
            v,
            rule=rule,
            scale=1.0 / math.sqrt(self.d_head),
            dropout=self.dropout,
            site=self.site,
            probe=probe,
            is_training=self.training,
        )
        projected: Tensor = self.output(out.transpose(1, 2).flatten(2))  # [B, T, d_model]
        return projected


class CrossAttention(nn.Module):
    """Attention of the decoder to the encoder's output; rows of `kv` are all keys, then all values."""

    def __init__(self, shape: BlockShape, site: SiteKey) -> None:
        super().__init__()
        self.site = site
        self.n_heads, self.n_kv_heads = shape.n_heads, shape.n_kv_heads
        self.d_head = shape.d_model // shape.n_heads
        self.dropout = shape.dropout
        self.query = nn.Linear(shape.d_model, shape.d_model, bias=shape.bias)
        self.kv = nn.Linear(shape.d_model, 2 * shape.n_kv_heads * self.d_head, bias=shape.bias)
        self.output = nn.Linear(shape.d_model, shape.d_model, bias=shape.bias)

    def forward(self, x: Tensor, memory: Tensor, *, rule: MaskRule, probe: Probe | None = None) -> Tensor:
        """Attend from `x` to `memory` and project: [B, T, d_model]."""
        q = self.query(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # [B, H, T, D]
        kv = self.kv(memory).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # [B, 2K, S, D]
        out = attend(
            q,
            kv[:, : self.n_kv_heads],
            kv[:, self.n_kv_heads :],
            rule=rule,
            scale=1.0 / math.sqrt(self.d_head),
            dropout=self.dropout,
            site=self.site,
            probe=probe,
            is_training=self.training,
        )
        projected: Tensor = self.output(out.transpose(1, 2).flatten(2))  # [B, T, d_model]
        return projected


class FeedForward(nn.Module):
    """Two linear layers; for `swiglu` the rows of `up` are all gates, then all values."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.activation: Activation = shape.activation
        n_rows = shape.d_ff * (2 if shape.activation == "swiglu" else 1)
        self.up = nn.Linear(shape.d_model, n_rows, bias=shape.bias)
        self.down = nn.Linear(shape.d_ff, shape.d_model, bias=shape.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, activate, narrow: [B, T, d_model]."""
        projected: Tensor = self.down(activate(self.up(x), self.activation))
        return projected


class Block(nn.Module):
    """One layer of a stack: self-attention, cross-attention where there is a memory, feed-forward.

    Pre-norm adds f(norm(x)) to x, post-norm takes norm(x + f(x)) (Xiong et al. 2020, figure 1).
    """

    def __init__(self, shape: BlockShape, *, stack: Stack, layer: int, has_cross: bool) -> None:
        super().__init__()
        self.is_pre = shape.norm_place == "pre"
        self.dropout = shape.dropout
        self.attention_norm = shape.make_norm()
        self.attention = SelfAttention(shape, (stack, layer))
        self.cross_norm = shape.make_norm() if has_cross else None
        self.cross = CrossAttention(shape, ("cross", layer)) if has_cross else None
        self.feed_forward_norm = shape.make_norm()
        self.feed_forward = FeedForward(shape)

    def forward(
        self,
        x: Tensor,
        *,
        rule: MaskRule,
        rotary: Rotary | None = None,
        memory: Tensor | None = None,
        memory_rule: MaskRule | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The residual stream after this layer: [B, T, d_model]."""
        read = self.attention_norm(x) if self.is_pre else x
        x = self._add(x, self.attention(read, rule=rule, rotary=rotary, probe=probe), self.attention_norm)
        if self.cross is not None and self.cross_norm is not None:
            if memory is None or memory_rule is None:
                raise ValueError("a decoder block with cross-attention needs a memory")
            read = self.cross_norm(x) if self.is_pre else x
            x = self._add(x, self.cross(read, memory, rule=memory_rule, probe=probe), self.cross_norm)
        read = self.feed_forward_norm(x) if self.is_pre else x
        return self._add(x, self.feed_forward(read), self.feed_forward_norm)

    def _add(self, x: Tensor, change: Tensor, norm: nn.Module) -> Tensor:
        if self.dropout and self.training:
            change = F.dropout(change, self.dropout)
        total: Tensor = x + change
        if self.is_pre:
            return total
        normed: Tensor = norm(total)
        return normed
