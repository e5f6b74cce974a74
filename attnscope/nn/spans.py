"""Adaptive span: each head learns how far back it looks (Sukhbaatar et al. 2019, section 2.2).

    symbol   meaning                                              shape
    z        the span of a head, 0 … the limit, in tokens         [n_heads]
    R        tokens over which the mask falls from 1 to 0         number
    m        m_z(d) = min(max((R + z − d) / R, 0), 1)             [n_heads, rows, columns]

Their weights are m · exp(s) over its sum (equation 4), so ln m is what is added to a score s: maps, masks and
all that reads weights need to know no more. A query sees itself whatever z is, since d is 0 there. All scores
are worked out as before: what a short span would save is not saved here.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


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
        """See `scores.Bias`: no text has spans of its own."""
        return SpanBias(values=self.values.detach().clone()) if self.values.requires_grad else self

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


def soft_mask(z: Tensor, ramp: Tensor, distance: Tensor) -> Tensor:
    """The number m of each head and distance, 0 … 1."""
    return ((ramp + z - distance) / ramp).clamp(0.0, 1.0)
