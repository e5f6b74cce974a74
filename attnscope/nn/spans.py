"""Adaptive span: each head learns how far back it looks (Sukhbaatar et al. 2019, section 2.2).

    symbol   meaning                                              shape
    z        the span of a head, 0 … the limit, in tokens         [n_heads]
    R        tokens over which the mask falls from 1 to 0         number
    m        m_z(d) = min(max((R + z − d) / R, 0), 1)             [n_heads, rows, columns]

Their weights are m · exp(s) over its sum (equation 4), so ln m is what is added to a score s: maps, masks and
all that reads weights need to know no more. A query sees itself whatever z is, since d is 0 there. All scores
are worked out as before: what a short span would save is not saved here.

The hard concrete distribution, of which gates are drawn that are learned: of heads, of offsets.

| symbol      | meaning                                               | shape               |
|-------------|-------------------------------------------------------|---------------------|
| log_alpha   | what is learned, one number for each gate             | [n_gates]           |
| u           | uniform noise, its own for each draw                  | [n_draws, n_gates]  |
| z           | gates, exactly 0 or 1 with a positive chance          | [n_draws, n_gates]  |

s = sigmoid((ln u − ln(1 − u) + log_alpha) / β), z = min(1, max(0, s · (ζ − γ) + γ)), and
P(z ≠ 0) = sigmoid(log_alpha − β · ln(−γ/ζ)) (Louizos, Welling and Kingma 2018, equations 10 to 12, with
their β = 2/3, γ = −0.1, ζ = 1.1).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TEMPERATURE = 2.0 / 3.0
STRETCH = (-0.1, 1.1)
START_LOG_ALPHA = 2.0
"""The gates begin nearly open: P(z ≠ 0) is 0.97."""


def sample_gates(log_alpha: Tensor, u: Tensor) -> Tensor:
    """Gates from noise `u` in 0…1, of its shape [..., n_gates]; equations 10 and 11."""
    s = ((u.logit() + log_alpha) / TEMPERATURE).sigmoid()
    return _stretched(s)


def settled_gates(log_alpha: Tensor) -> Tensor:
    """The gates without noise (equation 13), [n_gates]."""
    return _stretched(log_alpha.sigmoid())


def open_probability(log_alpha: Tensor) -> Tensor:
    """P(z ≠ 0) of each gate, [n_gates]; equation 12."""
    return (log_alpha - TEMPERATURE * math.log(-STRETCH[0] / STRETCH[1])).sigmoid()


def _stretched(s: Tensor) -> Tensor:
    low, high = STRETCH
    return (s * (high - low) + low).clamp(0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpanBias:
    """ln m for each head; `values` is [n_heads, 2] of z and R."""

    values: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        """See `scores.Bias`: [1, n_heads, rows, columns], −inf where a head does not look."""
        if self.values.ndim != 2 or self.values.shape[1] != 2:
            raise ValueError(f"the spans are {list(self.values.shape)}, expected [n_heads, 2]")
        device = self.values.device
        place = torch.arange(n_queries, device=device)[rows] + (n_keys - n_queries)
        distance = (place[:, None] - torch.arange(n_keys, device=device)[cols][None, :]).abs()
        mask = soft_mask(self.values[:, :1, None], self.values[:, 1:, None], distance)
        is_seen = mask > 0.0  # no gradient through the logarithm of 0
        return torch.where(is_seen, torch.where(is_seen, mask, 1.0).log(), -math.inf)[None]

    def last_text(self) -> "SpanBias":
        """See `scores.Bias`: spans do not depend on the text."""
        return SpanBias(values=self.values.detach().clone()) if self.values.requires_grad else self

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


def soft_mask(z: Tensor, ramp: Tensor, distance: Tensor) -> Tensor:
    """The number m of each head and distance, 0 … 1."""
    return ((ramp + z - distance) / ramp).clamp(0.0, 1.0)


# A hard mask that is learned: each head opens or closes the offsets at which it looks.
#
#     symbol      meaning                                              shape
#     log_alpha   what is learned, for each head and offset 1 … limit  [n_heads, limit]
#     m           the mask at offsets 0 … limit, 0 behind them         [n_heads, limit + 1]
#
# In training m is a draw of the hard concrete distribution of Louizos et al. 2018 (`nn/spans.py`,
# equations 10 and 11), which is 0 or 1 with a positive chance and lets a gradient through between them;
# P(m ≠ 0) (equation 12), summed over the offsets, is what a penalty counts. Otherwise m is that without noise
# (equation 13), rounded to 0 or 1: 1 where log_alpha is above 0. A query always sees itself. As with spans
# ln m is added to the scores, and all scores are worked out.


PACE = 32.0
"""What is stored is log_alpha / PACE, so that it moves as fast beside weights as spans do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GateBias:
    """ln m for each head; `values` is m at the offsets 0 … limit, [n_heads, limit + 1]."""

    values: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        """See `scores.Bias`: [1, n_heads, rows, columns], −inf where a head does not look."""
        if self.values.ndim != 2:
            raise ValueError(f"the gates are {list(self.values.shape)}, expected [n_heads, limit + 1]")
        device, n = self.values.device, self.values.shape[1]
        place = torch.arange(n_queries, device=device)[rows] + (n_keys - n_queries)
        offset = (place[:, None] - torch.arange(n_keys, device=device)[cols][None, :]).abs()
        is_open = self.values > 0.0  # no gradient through the logarithm of 0
        of_offset = torch.where(is_open, torch.where(is_open, self.values, 1.0).log(), -math.inf)
        return of_offset[:, offset.clamp(max=n - 1)].masked_fill(offset >= n, -math.inf)[None]

    def last_text(self) -> "GateBias":
        """See `scores.Bias`: the mask does not depend on the text."""
        return GateBias(values=self.values.detach().clone()) if self.values.requires_grad else self

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


def drawn_mask(log_alpha: Tensor) -> Tensor:
    """M with noise of torch's own generator, as in training: [n_heads, limit + 1]."""
    noise = torch.rand_like(log_alpha).clamp(1e-6, 1.0 - 1e-6)
    return _with_own(sample_gates(log_alpha, noise))


def hard_mask(log_alpha: Tensor) -> Tensor:
    """M outside training, 0 or 1: [n_heads, limit + 1]."""
    return _with_own(settled_gates(log_alpha).round())


def _with_own(m: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(m[:, :1]), m], dim=1)
