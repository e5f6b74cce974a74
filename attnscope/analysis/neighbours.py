"""Pieces that a model keeps close together: the largest cosines between embeddings.

| symbol | meaning                     | shape               |
|--------|-----------------------------|---------------------|
| W      | embeddings of the pieces    | [n_pieces, d_model] |
"""

import torch
from torch import Tensor


@torch.no_grad()
def nearest_pieces(embeddings: Tensor, id: int, n_nearest: int = 8) -> tuple[tuple[int, float], ...]:
    """The ids with the largest cosine wₐ·w_b / |wₐ||w_b| to the piece `id`, without itself, best first.

    Empty for an id without a row, or with a row of zeros.
    """
    if not 0 <= id < len(embeddings):
        return ()
    rows = embeddings.detach().float()
    own = rows[id]
    if not bool(own.any()):
        return ()
    cosines = (rows @ own) / (rows.norm(dim=1) * own.norm()).clamp(min=1e-12)
    cosines[id] = -torch.inf
    best = cosines.topk(min(n_nearest, len(rows) - 1))
    return tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
