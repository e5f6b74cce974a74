"""Dilated convolution in the place of attention: weights that depend on the distance and on nothing else.

    symbol   meaning                                                     shape
    v        (x W + b) ⊙ σ(x W' + b'), the values                        [B, H, T, D]
    u        what a head learns of each place, in a softmax              [H, kernel_width]
    o        o_i = Σ_n softmax(u)_n v_(i − n · dilation^layer)           [B, H, T, D]

Wu et al. 2019, section 3; places before the text give nothing, so that the first rows add up to less than 1.
Letters: B batch, H heads, T tokens, D d_head.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn.cache import KeyValueCache
from attnscope.nn.layers import BlockShape
from attnscope.nn.masks import MaskRule


class Convolution(nn.Module):
    """One layer: values through a gated linear unit, the convolution, the output."""

    def __init__(self, shape: BlockShape, layer: int) -> None:
        super().__init__()
        self.n_heads, self.d_head, self.layer = shape.n_heads, shape.d_head, layer
        self.step = shape.dilation**layer
        n = shape.n_heads * shape.d_head
        self.values = nn.Linear(shape.d_model, 2 * n, bias=shape.bias)
        self.kernel = nn.Parameter(torch.zeros(shape.n_heads, shape.kernel_width))
        self.output = nn.Linear(n, shape.d_model, bias=shape.bias)

    def forward(
        self, x: Tensor, *, rule: MaskRule, cache: KeyValueCache | None = None, **_: object
    ) -> Tensor:
        """Mix the tokens and project: [B, T, d_model]. A cache holds the values that later tokens read."""
        v = F.glu(self.values(x), dim=-1)
        if rule.key_valid is not None:
            v = v.masked_fill(~rule.key_valid[..., None], 0.0)
        v = v.view(*v.shape[:2], self.n_heads, self.d_head)
        shares, n_tokens = self.kernel.softmax(dim=-1).to(v.dtype), v.shape[1]
        if cache is not None:
            v = self._with_earlier(v, cache)
        out, n_earlier = torch.zeros_like(v[:, :n_tokens]), v.shape[1] - n_tokens
        for n in range(min(shares.shape[1], -(-v.shape[1] // self.step))):
            back = n * self.step
            moved = F.pad(v, (0, 0, 0, 0, max(0, back - n_earlier), 0))
            first = max(0, n_earlier - back)
            out = out + shares[:, n, None] * moved[:, first : first + n_tokens]
        projected: Tensor = self.output(out.flatten(2))
        return projected

    def _with_earlier(self, v: Tensor, cache: KeyValueCache) -> Tensor:
        """The values with those before them that are still read, [B, up to reach + T, H, D]."""
        v = torch.cat((*cache.carried(self.layer), v), dim=1)
        reach = (self.kernel.shape[1] - 1) * self.step
        cache.carry(self.layer, v[:, max(0, v.shape[1] - reach) :].clone())
        return v

    def unrolled(self, x: Tensor, **_: object) -> tuple[Tensor, None]:
        """The weights of every pair, [B, H, T, T], the same for every text; no products for a softmax."""
        n_tokens = x.shape[1]
        weights = x.new_zeros(self.n_heads, n_tokens, n_tokens)
        for n, share in enumerate(self.kernel.softmax(dim=-1).T):
            back = n * self.step
            if back < n_tokens:
                weights.diagonal(-back, dim1=1, dim2=2).copy_(share.detach()[:, None])
        return weights.expand(len(x), -1, -1, -1), None

    def fill(self, generator: Generator) -> None:
        """First values: nearly even weights, so that no two heads are alike."""
        self.kernel.normal_(std=0.5, generator=generator)
