"""Linformer: keys and values projected along the tokens to k ≪ T slots (Wang et al. 2020, equation 7).

    symbol   meaning                                            shape
    E, F     projections of keys and of values, of one layer    [n_projected, max_tokens]
    K, V     keys and values                                    [batch, n_kv_heads, n_tokens, d_head]

K' = E K and V' = F V, so that a head's map has n_projected columns, which are no tokens, and its cost grows
with the text and not with its square. All heads of a layer share E and F ("headwise sharing", section 4).
A text shorter than max_tokens uses the first columns of E and F; padding is made 0 before and adds nothing.
"""

import torch
from torch import Tensor, nn


class Projection(nn.Module):
    """The two projections of one layer."""

    def __init__(self, n_projected: int, max_tokens: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.zeros(n_projected, max_tokens))
        self.values = nn.Parameter(torch.zeros(n_projected, max_tokens))

    def forward(self, k: Tensor, v: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys and values of the slots, [B, K, n_projected, d_head]; `valid` is bool [B, n_tokens]."""
        n_tokens, n_most = k.shape[2], self.keys.shape[1]
        if n_tokens > n_most:
            raise ValueError(f"the projection has {n_most} columns, the text {n_tokens} tokens")
        if valid is not None:
            k, v = (x.masked_fill(~valid[:, None, :, None], 0.0) for x in (k, v))
        return self.keys[:, :n_tokens].to(k) @ k, self.values[:, :n_tokens].to(v) @ v

    def fill(self, generator: torch.Generator) -> None:
        """First values: normal, so that a slot of the longest text has the variance of one of its keys."""
        for weight in (self.keys, self.values):
            weight.normal_(std=weight.shape[1] ** -0.5, generator=generator)
