"""Attention written out with every weight in the graph, to stand in for `attend` in tests."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnscope.records import SiteKey

Store = dict[SiteKey, Tensor]
Replace = Callable[[SiteKey, Tensor], Tensor]


def use_eager_attention(patch: pytest.MonkeyPatch, weights: Store, replace: Replace | None = None) -> None:
    """Let every site compute softmax(scores) · v plainly, keep its weights, and change its head outputs."""

    def eager(q: Tensor, k: Tensor, v: Tensor, *, rule, score, site, probe=None, **_: object) -> Tensor:
        n_groups = q.shape[1] // k.shape[1]
        k, v = (t.repeat_interleave(n_groups, dim=1) for t in (k, v))
        s = q @ k.transpose(2, 3) * score
        allowed = rule.allowed(q.shape[2], k.shape[2])
        a = s.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        if a.requires_grad:
            a.retain_grad()
        weights[site] = a
        out = a @ v
        return out if replace is None else replace(site, out)

    patch.setattr("attnscope.nn.layers.attend", eager)


def full_gradients(weights: Store, y: Tensor) -> dict[SiteKey, Tensor]:
    """∂y/∂a of every site."""
    gradients = torch.autograd.grad(y, list(weights.values()), allow_unused=True)
    return {
        site: torch.zeros_like(a) if g is None else g
        for (site, a), g in zip(weights.items(), gradients, strict=True)
    }
