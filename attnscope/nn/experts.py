"""A mixture of experts: several feed-forward parts, of which each token is sent to a few.

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
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from attnscope.nn.layers import BlockShape, FeedForward

_found: ContextVar[list[Tensor] | None] = ContextVar("balances of experts", default=None)


@contextmanager
def balances() -> Iterator[list[Tensor]]:
    """The balance losses, scalars with gradients, of the layers that this thread passes through meanwhile."""
    found: list[Tensor] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


class Router(nn.Module):
    """Which experts read a token, and how much each counts."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.scores = nn.Linear(shape.d_model, shape.n_experts, bias=False)
        self.k, self.factor = shape.experts_per_token, shape.capacity_factor

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
        """How many tokens of a text an expert takes at most."""
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

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.router = Router(shape)
        self.experts = nn.ModuleList(FeedForward(shape) for _ in range(shape.n_experts))

    @property
    def parts(self) -> list[FeedForward]:
        return [one for one in self.experts if isinstance(one, FeedForward)]

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """What the chosen experts add up to: [B, T, d_model]."""
        is_sent, weights, _ = self.router(x, valid)
        flat, by_token = x.flatten(0, 1), weights.flatten(0, 1)
        total = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows = is_sent[..., e].flatten().nonzero()[:, 0]
            told = expert(flat.index_select(0, rows)) * by_token[rows, e, None]
            total = total.index_add(0, rows, told.to(total.dtype))
        return total.view_as(x)
