"""One layer of a stack: attention, cross-attention where there is a memory, feed-forward.

    symbol   meaning                        shape
    x        the residual stream            [batch, n_tokens, d_model]
    memory   the encoder's last stream      [batch, n_source, d_model]

Norms, residuals and feed-forward may each be switched off, as the theorems on rank collapse ask. Reversible
layers have two streams (`schemes/residuals/reversible.py`).
"""

from typing import Literal, Required, TypedDict, Unpack

import torch
from torch import Tensor, nn

from attnscope.nn.attention import Probe
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.dropping import add_dropping, drop
from attnscope.nn.experts import Experts
from attnscope.nn.inducing import InducedAttention
from attnscope.nn.kept_heads import HeadLayout
from attnscope.nn.layers import (
    BlockShape,
    CrossAttention,
    FeedForward,
    Rotary,
    SelfAttention,
    make_attention,
)
from attnscope.nn.masks import MaskRule
from attnscope.nn.mixing import make_mixer
from attnscope.nn.scores import Bias
from attnscope.records.sites import Stack
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS

Branch = Literal["attention", "cross", "feed_forward"]


class BlockArguments(TypedDict, total=False):
    """What a pass tells every block of a stack; `found` is that of `CrossAttention`."""

    rule: Required[MaskRule]
    rotary: Rotary | None
    bias: Bias | None
    memory: Tensor | None
    memory_rule: MaskRule | None
    probe: Probe | None
    cache: KeyValueCache | None
    found: list[Tensor] | None


def _tokens_meet(shape: BlockShape, stack: Stack, layer: int, layout: HeadLayout | None) -> nn.Module:
    """What lets the tokens of a layer read one another."""
    if not MIXERS[shape.mixer].is_attention:
        return make_mixer(shape, layer)
    if shape.has_inducing and stack == "encoder":
        return InducedAttention(shape, layer)
    own: Stack = "latents" if _is_of_latents(shape, stack) else stack
    return make_attention(SelfAttention, shape, (own, layer), layout)


def _is_of_latents(shape: BlockShape, stack: Stack) -> bool:
    return shape.has_latents and stack == "encoder"


class Block(nn.Module):
    """One layer; each of its branches reads the stream and is added to it.

    Pre-norm adds f(norm(x)) to x, post-norm takes norm(x + f(x)) (Xiong et al. 2020, figure 1), a sandwich
    adds norm(f(norm(x))) (Ding et al. 2021, section 2.4). Without residuals x itself is left out (Dong et
    al. 2021). A branch that is switched off, and its norms, are None.
    """

    def __init__(
        self,
        shape: BlockShape,
        *,
        stack: Stack,
        layer: int,
        has_cross: bool,
        layout: HeadLayout | None = None,
        cross_layout: HeadLayout | None = None,
    ) -> None:
        super().__init__()
        self.stack, self.layer = stack, layer
        # Without norms before and after are the same.
        self.is_pre = shape.norm_place != "post" or NORMS[shape.norm].is_nothing
        self.is_sandwich = shape.norm_place == "sandwich" and not NORMS[shape.norm].is_nothing
        self.has_residual, self.dropout = shape.has_residual, shape.dropout
        self.is_reversible = shape.is_reversible
        reads_first = _is_of_latents(shape, stack)  # latents look at the tokens before one another
        across: Stack = "read-in" if reads_first else "cross"
        self.attention_norm = shape.make_norm()
        self.attention = _tokens_meet(shape, stack, layer, layout)
        self.cross_norm = shape.make_norm() if has_cross else None
        self.cross = (
            make_attention(CrossAttention, shape, (across, layer), cross_layout) if has_cross else None
        )
        self.feed_forward_norm = shape.make_norm() if shape.has_feed_forward else None
        self.feed_forward = _make_feed_forward(shape)
        order: tuple[Branch, ...] = ("cross", "attention") if reads_first else ("attention", "cross")
        self.branches: tuple[Branch, ...] = tuple(
            branch for branch in (*order, "feed_forward") if getattr(self, branch) is not None
        )
        self.attention_end = shape.make_norm() if self.is_sandwich else None
        self.cross_end = shape.make_norm() if self.is_sandwich and has_cross else None
        self.feed_forward_end = shape.make_norm() if self.is_sandwich and shape.has_feed_forward else None

    def forward(self, x: Tensor, **choices: Unpack[BlockArguments]) -> Tensor:
        """The residual stream after this layer, [B, T, d_model]; of reversible layers both, side by side."""
        if self.is_reversible:
            a, b = x.chunk(2, dim=-1)
            for branch in self.branches:
                a, b = b, a + self.addition(branch, b, choices)
            return torch.cat((a, b), dim=-1)
        for branch in self.branches:
            x = self.join(x, self._said(branch, self.read(x, branch), choices), branch)
        return x

    def addition(self, branch: Branch, x: Tensor, choices: BlockArguments) -> Tensor:
        """What a branch adds to a stream when it reads x; drawn anew where it drops."""
        change, end = self._said(branch, self.read(x, branch), choices), getattr(self, f"{branch}_end")
        change = change if end is None else end(change)
        return drop(change, self.dropout) if self.training and self.dropout else change

    def _said(self, branch: Branch, read: Tensor, choices: BlockArguments) -> Tensor:
        if branch == "feed_forward":
            if isinstance(self.feed_forward, Experts):
                valid = None if choices.get("cache") is not None else choices["rule"].key_valid
                return self.feed_forward(read, valid)  # type: ignore[no-any-return]
            return self.feed_forward(read)  # type: ignore[no-any-return, misc]
        probe, cache = choices.get("probe"), choices.get("cache")
        if branch == "attention":
            rotary, bias = choices.get("rotary"), choices.get("bias")
            return self.attention(  # type: ignore[no-any-return]
                read, rule=choices["rule"], rotary=rotary, bias=bias, probe=probe, cache=cache
            )
        memory, rule = choices.get("memory"), choices.get("memory_rule")
        if self.cross is None or memory is None or rule is None:
            raise ValueError("a block with cross-attention needs a memory")
        found = choices.get("found")
        return self.cross(read, memory, rule=rule, probe=probe, cache=cache, found=found)  # type: ignore[no-any-return]

    def read(self, x: Tensor, branch: Branch) -> Tensor:
        """What a branch reads of the stream."""
        norm = getattr(self, f"{branch}_norm")
        read: Tensor = norm(x) if self.is_pre and norm is not None else x
        return read

    def join(self, x: Tensor, change: Tensor, branch: Branch, *, has_skip: bool = True) -> Tensor:
        """The stream after a branch said `change`; without the stream before it where there is no skip."""
        norm, end = getattr(self, f"{branch}_norm"), getattr(self, f"{branch}_end")
        if end is not None:
            change = end(change)
        share = self.dropout if self.training else 0.0
        if not (has_skip and self.has_residual):
            total = drop(change, share) if share else change
        else:
            total = add_dropping(x, change, share) if share else x + change
        return total if self.is_pre or norm is None else norm(total)


def one_stream(block: nn.Module, x: Tensor) -> Tensor:
    """What a block reads or gives as the one stream that is read in the end: of two their sum."""
    if not (isinstance(block, Block) and block.is_reversible):
        return x
    a, b = x.chunk(2, dim=-1)
    return a + b


def _make_feed_forward(shape: BlockShape) -> FeedForward | Experts | None:
    if not shape.has_feed_forward:
        return None
    return Experts(shape) if shape.n_experts else FeedForward(shape)
