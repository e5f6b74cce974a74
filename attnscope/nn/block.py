"""One layer of a stack: attention, cross-attention if there is a memory, feed-forward.

    symbol   meaning                        shape
    x        the residual stream            [batch, n_tokens, d_model]
    memory   the encoder's last stream      [batch, n_source, d_model]

Norms, residuals and feed-forward may each be switched off, as the theorems on rank collapse ask.

Reversible layers (`schemes/residuals/reversible.py`): a backward pass for which nothing between is kept.

    symbol   meaning                                                     shape
    a, b     the stream that is written next, and the one that is read   [batch, n_tokens, d_model]
    f        what a branch adds: its norms, itself, its dropout          the same
    p, q     the streams after it, p = b and q = a + f(b)                the same

Gomez et al. 2017, algorithm 1; Kitaev et al. 2020, section 3, where the two branches of a layer are
y₁ = x₁ + F(x₂), y₂ = x₂ + G(y₁). From the last layer to the first, b = p and a = q − f(p); f(p) is computed
again for it, and gives the gradients as well: ∂L/∂a = ∂L/∂q, ∂L/∂b = ∂L/∂p + f'(p)ᵀ ∂L/∂q. A branch drops the
same places both times, since its dice are thrown from the same number.

A mixture of experts: several feed-forward parts, of which each token is sent to a few.

    symbol    meaning                                              shape
    x         what the layer's feed-forward part reads             [B, T, d_model]
    p         softmax over the experts of W_r x                    [B, T, E]
    w         weight of each chosen expert, 0 of the others        [B, T, E]
    f, P      share of the choices an expert got; its mean p       [E]
    output    Σ w_e FF_e(x)                                        [B, T, d_model]

One expert a token counts as much as its p (Switch: Fedus et al. 2022, equation 2); of several the p are
divided by their sum (Mixtral: Jiang et al. 2024, section 2.1). With a capacity an expert takes at most
ceil(k T / E · factor) tokens of a text of T, those that stand first: what finds no room passes by its side
alone, x + 0 (Fedus et al. 2022, equation 3). The balance loss is E Σ f P, 1 where all take as many (equation
4); f counts first choices, before the capacity.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Required, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnscope.nn.attention import Probe
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.config import ModelConfig
from attnscope.nn.dropping import add_dropping, drop, new_seed, own_dice
from attnscope.nn.kept_heads import HeadLayout
from attnscope.nn.layers import (
    CrossAttention,
    FeedForward,
    InducedAttention,
    SelfAttention,
    make_attention,
    make_norm,
)
from attnscope.nn.masks import MaskRule
from attnscope.nn.mixing import make_mixer
from attnscope.nn.scores import Bias, RelativeBias, Rotary
from attnscope.records.sites import Stack
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS

_found: ContextVar[list[Tensor] | None] = ContextVar("balances of experts", default=None)


@contextmanager
def balances() -> Iterator[list[Tensor]]:
    """Collect the balance losses, with gradients, of the layers that this thread runs in the block."""
    found: list[Tensor] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


class Router(nn.Module):
    """Chooses the experts that read a token, and their weights."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scores = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.k, self.factor = config.experts_per_token, config.capacity_factor

    def forward(self, x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Whether a token is sent to an expert (bool), the weights, and the logits, all [B, T, E].

        What is not `valid`, [B, T], is sent nowhere and takes no room.
        """
        logits: Tensor = self.scores(x)
        p = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(dim=-1)
        best, chosen = p.topk(self.k, dim=-1)
        is_sent = torch.zeros_like(p, dtype=torch.bool).scatter(-1, chosen, True)
        if valid is not None:
            is_sent = is_sent & valid[..., None]
        if self.training:
            _note_balance(p, chosen[..., 0], valid)
        weights = p if self.k == 1 else p / best.sum(dim=-1, keepdim=True)
        if self.factor:
            n_tokens = torch.full(p.shape[:1], p.shape[1]) if valid is None else valid.sum(dim=1)
            room = torch.tensor([self.room(n) for n in n_tokens.tolist()], device=x.device)
            is_sent = is_sent & (is_sent.cumsum(dim=1) <= room[:, None, None])
        return is_sent, (weights * is_sent).to(x.dtype), logits

    def room(self, n_tokens: int) -> int:
        """Capacity of an expert, in tokens of a text."""
        return math.ceil(round(self.k * n_tokens / self.scores.out_features * self.factor, 9))


def _note_balance(p: Tensor, first: Tensor, valid: Tensor | None) -> None:
    n_experts = p.shape[-1]
    if valid is not None:
        p, first = p[valid], first[valid]
    f = torch.bincount(first.flatten(), minlength=n_experts).to(p.dtype) / max(1, first.numel())
    balance = n_experts * (f * p.reshape(-1, n_experts).mean(dim=0)).sum()
    found = _found.get()
    if found is not None:
        found.append(balance)


class Experts(nn.Module):
    """The feed-forward part of a layer that has experts."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.router = Router(config)
        self.experts = nn.ModuleList(FeedForward(config) for _ in range(config.n_experts))

    @property
    def parts(self) -> list[FeedForward]:
        return [one for one in self.experts if isinstance(one, FeedForward)]

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Sum of the chosen experts' outputs: [B, T, d_model]."""
        is_sent, weights, _ = self.router(x, valid)
        flat, by_token = x.flatten(0, 1), weights.flatten(0, 1)
        total = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows = is_sent[..., e].flatten().nonzero()[:, 0]
            told = expert(flat.index_select(0, rows)) * by_token[rows, e, None]
            total = total.index_add(0, rows, told.to(total.dtype))
        return total.view_as(x)


Branch = Literal["attention", "cross", "feed_forward"]


class BlockArguments(TypedDict, total=False):
    """A pass's arguments for every block of a stack; `found` is that of `CrossAttention`."""

    rule: Required[MaskRule]
    rotary: Rotary | None
    bias: Bias | None
    memory: Tensor | None
    memory_rule: MaskRule | None
    probe: Probe | None
    cache: KeyValueCache | None
    found: list[Tensor] | None


def _tokens_meet(config: ModelConfig, stack: Stack, layer: int, layout: HeadLayout | None) -> nn.Module:
    """The module through which the tokens of a layer interact."""
    if not MIXERS[config.mixer].is_attention:
        return make_mixer(config, layer)
    if config.has_inducing and stack == "encoder":
        return InducedAttention(config, layer)
    own: Stack = "latents" if _is_of_latents(config, stack) else stack
    return make_attention(SelfAttention, config, (own, layer), layout)


def _is_of_latents(config: ModelConfig, stack: Stack) -> bool:
    return config.has_latents and stack == "encoder"


class Block(nn.Module):
    """One layer; each of its branches reads the stream and is added to it.

    Pre-norm adds f(norm(x)) to x, post-norm takes norm(x + f(x)) (Xiong et al. 2020, figure 1), a sandwich
    adds norm(f(norm(x))) (Ding et al. 2021, section 2.4). Without residuals x itself is left out (Dong et
    al. 2021). A branch that is switched off, and its norms, are None.
    """

    def __init__(
        self,
        config: ModelConfig,
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
        self.is_pre = config.norm_place != "post" or NORMS[config.norm].is_nothing
        self.is_sandwich = config.norm_place == "sandwich" and not NORMS[config.norm].is_nothing
        self.has_residual, self.dropout = config.has_residual, config.dropout
        self.is_reversible = config.is_reversible
        reads_first = _is_of_latents(config, stack)  # latents look at the tokens before one another
        across: Stack = "read-in" if reads_first else "cross"
        self.attention_norm = make_norm(config)
        self.attention = _tokens_meet(config, stack, layer, layout)
        self.cross_norm = make_norm(config) if has_cross else None
        self.cross = (
            make_attention(CrossAttention, config, (across, layer), cross_layout) if has_cross else None
        )
        self.feed_forward_norm = make_norm(config) if config.has_feed_forward else None
        self.feed_forward = _make_feed_forward(config)
        order: tuple[Branch, ...] = ("cross", "attention") if reads_first else ("attention", "cross")
        self.branches: tuple[Branch, ...] = tuple(
            branch for branch in (*order, "feed_forward") if getattr(self, branch) is not None
        )
        self.attention_end = make_norm(config) if self.is_sandwich else None
        self.cross_end = make_norm(config) if self.is_sandwich and has_cross else None
        self.feed_forward_end = make_norm(config) if self.is_sandwich and config.has_feed_forward else None

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
        """Output that a branch adds to a stream when it reads x; sampled anew under dropout."""
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
        norm = getattr(self, f"{branch}_norm")
        read: Tensor = norm(x) if self.is_pre and norm is not None else x
        return read

    def join(self, x: Tensor, change: Tensor, branch: Branch, *, has_skip: bool = True) -> Tensor:
        """The stream after a branch with output `change`; only that if there is no skip."""
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
    """Combine a block's streams into the one that is finally read: two are summed."""
    if not (isinstance(block, Block) and block.is_reversible):
        return x
    a, b = x.chunk(2, dim=-1)
    return a + b


def _make_feed_forward(config: ModelConfig) -> FeedForward | Experts | None:
    if not config.has_feed_forward:
        return None
    return Experts(config) if config.n_experts else FeedForward(config)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AddedBranch:
    """One branch: `said` gives f of a stream, `reads` are the other tensors it depends on."""

    said: Callable[[Tensor], Tensor]
    reads: tuple[Tensor, ...]
    name: str

    def ahead(self, a: Tensor, b: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        with _dice(seed, b.device):
            return b, a + self.said(b)

    def back(self, p: Tensor, q: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """Recompute a and b, up to rounding."""
        with _dice(seed, p.device):
            return q - self.said(p), p


def through_reversible(blocks: Iterable[Block], x: Tensor, choices: BlockArguments) -> Tensor:
    """The sum of both streams after all blocks; for the backward pass only the last two are kept."""
    choices, given, leaves = _let_go(choices)
    additions = additions_of(blocks, choices, leaves)
    learned = {id(one): one for addition in additions for one in addition.reads}
    originals = dict(zip(map(id, leaves), given, strict=True))
    read = [originals.get(key, one) for key, one in learned.items()]
    half = x / 2
    a, b = _Reversible.apply(half, half, additions, tuple(learned), *read)  # type: ignore[no-untyped-call]
    return a + b  # type: ignore[no-any-return]


def additions_of(
    blocks: Iterable[Block], choices: BlockArguments, leaves: Sequence[Tensor] = ()
) -> tuple[AddedBranch, ...]:
    """Every branch in the order of a pass; each may read any of `leaves`."""
    return tuple(
        AddedBranch(
            said=partial(_said, block, branch, choices),
            reads=(*_learned(block, branch), *leaves),
            name=f"L{block.layer} {branch.replace('_', '-')}",
        )
        for block in blocks
        for branch in block.branches
    )


def _said(block: Block, branch: Branch, choices: BlockArguments, x: Tensor) -> Tensor:
    return block.addition(branch, x, choices)


def _learned(block: Block, branch: Branch) -> Iterator[Tensor]:
    for name in (branch, f"{branch}_norm", f"{branch}_end"):
        module = getattr(block, name)
        if module is not None:
            yield from (p for p in module.parameters() if p.requires_grad)


def _let_go(choices: BlockArguments) -> tuple[BlockArguments, list[Tensor], list[Tensor]]:
    """Replace tensors with a history by leaves, so that it is not traversed twice; both."""
    given: list[Tensor] = []
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        given.append(tensor)
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1]

    memory, bias, loose = choices.get("memory"), choices.get("bias"), choices.copy()
    if memory is not None:
        loose["memory"] = leaf(memory)
    if isinstance(bias, RelativeBias) and bias.laid_out is not None:  # then its values are not looked at
        loose["bias"] = replace(bias, values=bias.values.detach(), laid_out=leaf(bias.laid_out))
    elif isinstance(bias, RelativeBias):
        loose["bias"] = replace(bias, values=leaf(bias.values))
    return loose, given, leaves


@contextmanager
def _dice(seed: int, device: torch.device) -> Iterator[None]:
    """Make dropout follow from a number."""
    with ExitStack() as stack:
        stack.enter_context(own_dice(seed))
        if device.type != "cpu":
            stack.enter_context(torch.random.fork_rng([device], device_type=device.type))
            torch.get_device_module(device).manual_seed(seed % 2**63)
        yield


class _Reversible(torch.autograd.Function):
    """All branches of a stack, by the indices of the tensors that they read."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        additions: tuple[AddedBranch, ...],
        keys: tuple[int, ...],
        *read: Tensor,
    ) -> tuple[Tensor, Tensor]:
        kind = a.device.type
        ctx.precision = (torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        ctx.additions, ctx.keys, ctx.seeds = additions, keys, [new_seed() for _ in additions]
        with _autocast(kind, *ctx.precision):
            for addition, seed in zip(additions, ctx.seeds, strict=True):
                a, b = addition.ahead(a, b, seed)
        ctx.save_for_backward(a, b)
        return a, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_p: Tensor, of_q: Tensor) -> tuple[Any, ...]:
        p, q = ctx.saved_tensors
        found: dict[int, Tensor] = {}
        for addition, seed in zip(reversed(ctx.additions), reversed(ctx.seeds), strict=True):
            b = p.detach().requires_grad_()
            with torch.enable_grad(), _autocast(b.device.type, *ctx.precision), _dice(seed, b.device):
                said = addition.said(b)
            asked = (b, *addition.reads)
            gradients = torch.autograd.grad(said, asked, of_q.to(said.dtype), allow_unused=True)
            for one, gradient in zip(addition.reads, gradients[1:], strict=True):
                if gradient is not None:
                    found[id(one)] = found[id(one)] + gradient if id(one) in found else gradient
            p, q = q - said.detach(), p
            of_p, of_q = of_q, of_p if gradients[0] is None else of_p + gradients[0]
        return of_p, of_q, None, None, *(found.get(key) for key in ctx.keys)


def _autocast(kind: str, dtype: torch.dtype, is_on: bool) -> torch.autocast:
    """The precision of the forward pass, without copies of weights that a backward pass could not follow."""
    return torch.autocast(kind, dtype=dtype, enabled=is_on, cache_enabled=False)
