"""Linear attention: sums over keys that are made once, so that the cost grows with the text alone.

    symbol   meaning                                                 shape
    q, k     φ of queries and keys, all above 0                      [batch, n_heads, n_tokens, d_head]
    state    Σ_j k_j v_jᵀ over the keys seen so far                  [batch, n_heads, d_head, d_value]
    out      q · state / q · Σ_j k_j                                 [batch, n_heads, n_queries, d_value]
    lse      ln(q · Σ_j k_j)                                         [batch, n_heads, n_queries]

Katharopoulos et al. 2020, equations 5, 8 and 9. Each weight is q_i·k_j / Σ_j q_i·k_j, as if exp(score) were
q·k: so maps are recomputed from q, k and lse like any other. Must not import attention.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 64


def attend_by_sums(
    q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, key_valid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output and lse; where a query sees no key they are 0 and −inf.

    A causal call has as many queries as keys. Keys and values may be fewer heads than queries.
    """
    dtype = v.dtype
    wide = torch.promote_types(q.dtype, torch.float32)
    n_groups = q.shape[1] // k.shape[1]
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    if n_groups > 1:
        k, v = k.repeat_interleave(n_groups, dim=1), v.repeat_interleave(n_groups, dim=1)
    if key_valid is not None:
        k = k * key_valid[:, None, :, None]
    v = torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)  # the last column sums the weights
    with torch.autocast(q.device.type, enabled=False):
        total = _causal_sums(q, k, v) if is_causal else q @ (k.transpose(-1, -2) @ v)  # [B, H, Q, Dv + 1]
    sums = total[..., -1]
    out = total[..., :-1] / sums.clamp(min=torch.finfo(wide).tiny)[..., None]
    lse = torch.where(sums > 0, sums.clamp(min=torch.finfo(wide).tiny).log(), -math.inf)
    return out.to(dtype), lse


def _causal_sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Σ_{j ≤ i} (q_i · k_j) v_j: within chunks cell by cell, before them from their running sum."""
    n_tokens = q.shape[2]
    q, k, v = (_chunked(x) for x in (q, k, v))  # [B, H, N, C, D]
    states = k.transpose(-1, -2) @ v  # [B, H, N, D, Dv]
    before = states.cumsum(dim=2) - states
    inside = (q @ k.transpose(-1, -2)).tril() @ v
    total: Tensor = (inside + q @ before).flatten(2, 3)
    return total[:, :, :n_tokens]


def _chunked(x: Tensor) -> Tensor:
    size = min(_CHUNK, max(1, x.shape[2]))
    padded = F.pad(x, (0, 0, 0, -x.shape[2] % size))
    return padded.view(*x.shape[:2], -1, size, x.shape[3])
