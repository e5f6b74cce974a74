"""How a query scores a key at one site: a score of `schemes/scores`, with what it learns there.

Of a score that is a product fused attention computes everything, and what a probe records is all there is
to know. With Shaw's positions a query also scores distances: q·a_(j − i). Shaw et al. 2018 add vectors
to the values as well; that part is left out (their table 3 finds no gain), since an output would no
longer be a mean of values. Letters: B batch, H heads, K key-value heads, T tokens, D d_head.
"""

import torch
from torch import Generator, Tensor, nn

from attnscope.nn.scores import Bias, OffsetBias, ScoreRule
from attnscope.schemes.scores import Score


class Scoring(nn.Module):
    """One site's score, and what it learns for it.

    `reach` is the distance to which Shaw's positions are told apart, 0 for none.
    """

    def __init__(self, kind: Score, *, scale: float, n_heads: int, d_head: int, reach: int = 0) -> None:
        super().__init__()
        self.kind, self.scale, self.d_head = kind, scale, d_head
        if kind.learned:
            shape = (n_heads, *kind.learned_shape(d_head))
            self.register_parameter(kind.learned, nn.Parameter(torch.empty(shape)))
        self.offsets = nn.Parameter(torch.empty(2 * reach + 1, d_head)) if reach else None

    @property
    def learned(self) -> Tensor | None:
        """What the score learns, [H, …]."""
        return self.get_parameter(self.kind.learned) if self.kind.learned else None

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """First values: those of the score, and random numbers for distances."""
        if self.learned is not None:
            self.kind.fill(self.learned, generator)
        if self.offsets is not None:
            self.offsets.normal_(std=self.d_head**-0.5, generator=generator)

    def turn(self, q: Tensor) -> Tensor:
        """Queries [B, H, T, D] times the site's own matrix, where there is one; before any rotation."""
        learned = self.learned
        return q if learned is None or learned.ndim != 3 else q @ learned

    def queries(self, q: Tensor) -> Tensor:
        """Queries as `attend` reads them."""
        return self.kind.queries(q)

    def keys(self, k: Tensor) -> Tensor:
        """Keys [B, K, T, D] as `attend` reads them."""
        return self.kind.keys(k)

    def rule(self, q: Tensor, bias: Bias | None = None) -> ScoreRule:
        """The rule for queries as `queries` gives them; `bias` is the stack's, which Shaw's replaces."""
        if self.offsets is not None:
            bias = OffsetBias(values=self.scale * (q @ self.offsets.T))  # [B, H, T, 2 · reach + 1]
        comparison = self.kind.comparison
        return ScoreRule(
            scale=self.scale,
            bias=bias,
            vector=self.learned if comparison == "additive" else None,
            is_kernel=comparison == "kernel",
        )
