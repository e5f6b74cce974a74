"""How a query scores a key: the choices, each made of queries and keys that one rule can compare.

    choice       score of q and k                      what `attend` is given
    scaled-dot   q·k / √d_head (Vaswani et al. 2017)   q, k
    dot          q·k (Luong et al. 2015)               q, k
    general      q W k (Luong et al. 2015)             q W, k
    cosine       q·k / (‖q‖ ‖k‖ temperature)           q / ‖q‖, k / ‖k‖
    gaussian     −‖q − k‖² / 2σ² (Nadaraya, Watson)    [q, −‖q‖²/2, 1], [k, 1, −‖k‖²/2]
    additive     v · tanh(q + k) (Bahdanau 2014)       q, k and v; see `additive.py`
    kernel       ln(φ(q)·φ(k)) (Katharopoulos 2020)    φ(q), φ(k); see `kernel_attention.py`

All but the last two are products, so fused attention computes them, and what a probe records is all there
is to know. With Shaw's positions a query also scores distances: q·a_(j − i). Shaw et al. 2018 add vectors
to the values as well; that part is left out (their table 3 finds no gain), since an output would no
longer be a mean of values. Letters: B batch, H heads, K key-value heads, T tokens, D d_head.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn.config import Score
from attnscope.nn.kernel_attention import features
from attnscope.nn.scores import Bias, OffsetBias, ScoreRule


class Scoring(nn.Module):
    """One site's choice, and what it learns for it.

    `reach` is the distance to which Shaw's positions are told apart, 0 for none.
    """

    def __init__(
        self,
        choice: Score,
        *,
        n_heads: int,
        d_head: int,
        temperature: float = 0.1,
        sigma: float | None = None,
        reach: int = 0,
    ) -> None:
        super().__init__()
        self.choice, self.d_head = choice, d_head
        self.bilinear = nn.Parameter(torch.empty(n_heads, d_head, d_head)) if choice == "general" else None
        self.vector = nn.Parameter(torch.empty(n_heads, d_head)) if choice == "additive" else None
        self.offsets = nn.Parameter(torch.empty(2 * reach + 1, d_head)) if reach else None
        width = d_head**0.25 if sigma is None else sigma
        scales = {"scaled-dot": d_head**-0.5, "cosine": 1.0 / temperature, "gaussian": width**-2}
        self.scale: float = scales.get(choice, 1.0)

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """First values: the bilinear score starts as the scaled product, the others as random numbers."""
        if self.bilinear is not None:
            self.bilinear.copy_(torch.eye(self.d_head) / math.sqrt(self.d_head))
        for parameter in (self.vector, self.offsets):
            if parameter is not None:
                parameter.normal_(std=self.d_head**-0.5, generator=generator)

    def turn(self, q: Tensor) -> Tensor:
        """Queries [B, H, T, D] times the site's own matrix, where there is one; before any rotation."""
        return q if self.bilinear is None else q @ self.bilinear

    def queries(self, q: Tensor) -> Tensor:
        """Queries as `attend` reads them."""
        return self._seen(q, is_query=True)

    def keys(self, k: Tensor) -> Tensor:
        """Keys [B, K, T, D] as `attend` reads them."""
        return self._seen(k, is_query=False)

    def rule(self, q: Tensor, bias: Bias | None = None) -> ScoreRule:
        """The rule for queries as `queries` gives them; `bias` is the stack's, which Shaw's replaces."""
        if self.offsets is not None:
            bias = OffsetBias(values=self.scale * (q @ self.offsets.T))  # [B, H, T, 2 · reach + 1]
        return ScoreRule(scale=self.scale, bias=bias, vector=self.vector, is_kernel=self.choice == "kernel")

    def _seen(self, x: Tensor, *, is_query: bool) -> Tensor:
        match self.choice:
            case "cosine":
                return F.normalize(x, dim=-1)
            case "gaussian":
                half, one = x.square().sum(dim=-1, keepdim=True) / -2.0, torch.ones_like(x[..., :1])
                return torch.cat((x, half, one) if is_query else (x, one, half), dim=-1)  # [.., T, D + 2]
            case "kernel":
                return features(x)
            case _:
                return x


def is_needed(choice: Score, reach: int) -> bool:
    """Whether anything but the plain scaled product has to be done."""
    return choice != "scaled-dot" or reach > 0
