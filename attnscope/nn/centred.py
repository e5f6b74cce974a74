"""Attention around a predicted place, Luong et al. 2015 (local-p, equations 9 and 10): a mask and a bias.

    symbol   meaning                                              shape
    p        the centre, S · sigmoid(v · tanh(W h)), from 0       [batch, n_heads, n_queries]
    S        tokens of the source                                 [batch]
    D        the reach: keys with |j − p| ≤ D are seen            whole number
    bias     −(j − p)² / 2σ² with σ = D / 2                       [batch, n_heads, rows, columns]

The paper multiplies weights by the Gaussian after the softmax, so that its rows no longer sum to 1. Here its
logarithm is added to the scores before the softmax: the same proportions between the keys of a row, and
the row stays a distribution. Must not import scores, masks or patterns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CentredBias:
    """A Gaussian around a place of each query's own; see the module's legend.

    `values` is [batch, n_heads, n_queries, 2] of p and 1 / σ²; where the second is 0 nothing is added.
    """

    values: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        if self.values.ndim != 4 or self.values.shape[2:] != (n_queries, 2):
            raise ValueError(f"the bias is {list(self.values.shape)}, expected [.., .., {n_queries}, 2]")
        j = torch.arange(n_keys, device=self.values.device)[cols]
        chosen = self.values[:, :, rows]
        centre, strength = chosen[..., :1], chosen[..., 1:]  # [B, H, rows, 1]
        bias: Tensor = -0.5 * strength * (j - centre).square()
        return bias

    def last_text(self) -> "CentredBias":
        return CentredBias(values=self.values[-1:].detach())

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CentredWindow:
    """Each query sees the keys at most `reach` away from a place of its own.

    `centres` is [batch, n_heads, n_queries], `reach` int64 [1].
    """

    centres: Tensor
    reach: Tensor

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        device = self.centres.device
        centres = self.centres[:, :, i.to(device), None]  # [B, H, rows, 1]
        return (j.to(device) - centres).abs() <= self.reach.to(device)

    def check(self, n_queries: int, n_keys: int) -> None:
        """See `Pattern`; places past the last key are a text's end and no mistake."""
        if self.centres.ndim != 3 or self.centres.shape[2] != n_queries or self.reach.shape != (1,):
            raise ValueError(f"the centres are {list(self.centres.shape)}, expected [.., .., {n_queries}]")

    def last_text(self) -> "CentredWindow":
        return CentredWindow(centres=self.centres[-1:].detach(), reach=self.reach)

    def tensors(self) -> dict[str, Tensor]:
        return {"centres": self.centres, "reach": self.reach}

    def with_head(self, head: int, other: "CentredWindow", other_head: int) -> "CentredWindow":
        """The same window, but for one head of the last text, which gets another's centres."""
        centres = self.centres.clone()
        centres[-1, head] = other.centres[-1, other_head].to(centres)
        return CentredWindow(centres=centres, reach=self.reach)


class Centre(nn.Module):
    """Where each head looks: p = S · sigmoid(v · tanh(W h)), with a `matrix` W and a `vector` v a head."""

    def __init__(self, *, n_heads: int, d_head: int, d_model: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.matrix = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        self.vector = nn.Parameter(torch.empty(n_heads, d_head))

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """First values: every head looks near the middle, a little differently from text to text."""
        self.matrix.normal_(std=self.matrix.shape[2] ** -0.5, generator=generator)
        self.vector.normal_(std=self.vector.shape[1] ** -0.5, generator=generator)

    def forward(self, hidden: Tensor, lengths: Tensor) -> tuple[CentredWindow, CentredBias]:
        """Window and Gaussian for decoder states [B, Q, d_model] and source lengths [B] (or [1])."""
        inner = torch.einsum("bqm,hdm->bhqd", hidden, self.matrix).tanh()
        place = (inner * self.vector[:, None]).sum(dim=-1).sigmoid()  # [B, H, Q]
        place = place.to(torch.promote_types(place.dtype, torch.float32))
        centres = lengths.to(place)[:, None, None] * place
        strength = torch.full_like(centres, 4.0 / self.reach**2)
        window = CentredWindow(
            centres=centres.detach(),
            reach=torch.full((1,), self.reach, device=centres.device),  # filled there: nothing is waited for
        )
        return window, CentredBias(values=torch.stack((centres, strength), dim=-1))


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """What calls of one query each hold, [B, H, 1, ...], as of one call with all of them, [B, H, Q, ...]."""
    return torch.cat(list(parts), dim=2)
