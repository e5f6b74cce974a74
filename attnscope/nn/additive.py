"""The additive score v · tanh(q + k), without ever holding a vector for each cell of a map.

    symbol   meaning                                         shape
    q, k     queries and keys, keys of each head             [batch, n_heads, rows or columns, d_head]
    v        what the tanh is multiplied with                [n_heads, d_head]
    s        v · tanh(q_i + k_j)                             [batch, n_heads, rows, columns]

Bahdanau et al. 2014, appendix A.1.2: v · tanh(W [q; k]) with W [q; k] = W_q q + W_k k, which are the
projections of queries and keys that a head has anyway. The backward pass computes the tanh again.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK_BYTES = 16 * 2**20
"""Most memory that the sums of one block of rows may take."""


def additive_scores(q: Tensor, k: Tensor, vector: Tensor) -> Tensor:
    """The score of every query and key, [batch, n_heads, rows, columns], differentiable once."""
    scores: Tensor = _Additive.apply(q, k, vector)  # type: ignore[no-untyped-call]
    return scores


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, vector: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, vector)
        s = q.new_empty(*q.shape[:3], k.shape[2])
        for rows in _row_blocks(q, k):
            torch.sum(_tanh(q, k, rows) * vector[:, None, None], dim=-1, out=s[:, :, rows])
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """∂s/∂v = tanh, ∂s/∂q = ∂s/∂k = v · (1 − tanh²)."""
        q, k, vector = ctx.saved_tensors
        q_gradient, k_gradient = torch.empty_like(q), torch.zeros_like(k)
        vector_gradient = torch.zeros_like(vector)
        for rows in _row_blocks(q, k):
            tanh = _tanh(q, k, rows)  # [B, H, rows, T, D]
            weighted = gradient[:, :, rows, :, None] * tanh
            vector_gradient += weighted.sum(dim=(0, 2, 3))
            inner = (gradient[:, :, rows, :, None] - weighted * tanh) * vector[:, None, None]
            q_gradient[:, :, rows] = inner.sum(dim=3)
            k_gradient += inner.sum(dim=2)
        return q_gradient, k_gradient, vector_gradient


def _tanh(q: Tensor, k: Tensor, rows: slice) -> Tensor:
    return (q[:, :, rows, None] + k[:, :, None]).tanh_()


def _row_blocks(q: Tensor, k: Tensor) -> list[slice]:
    row_bytes = q.element_size() * q.shape[0] * q.shape[1] * k.shape[2] * q.shape[3]
    n_rows = max(1, BLOCK_BYTES // max(1, row_bytes))
    return [slice(start, start + n_rows) for start in range(0, q.shape[2], n_rows)]
