"""What one head did on one text, in six numbers.

| symbol | meaning                                              | shape                       |
|--------|------------------------------------------------------|-----------------------------|
| a      | weights, rows sum to 1; NaN where the mask forbids   | [n_heads, n_queries, n_keys]|
| n_i    | number of keys that query i may see                  | [n_queries]                 |

Means run over the queries that see a key; special tokens stay in and nothing is renormalised.

- entropy: mean_i −Σ_j a_ij ln a_ij / ln n_i, over queries that see two keys or more (one key: nothing to
  choose). 0 is one key, 1 is all alike. Never divided by ln n on causal rows.
- distance: mean_i Σ_j a_ij · |i − j|, in tokens; self-attention only.
- confidence: mean_i max_j a_ij with the end token's column left out (Voita et al. 2019, section 5.1).
- previous, diagonal: mean weight on token i − 1 (over i ≥ 1) and on token i; self-attention only.
- first: mean weight on the first key.
"""

import math

import torch
from torch import Tensor

from attnscope.records.maps import HeadMeasures
from attnscope.records.sites import Site
from attnscope.records.tokens import Token
from attnscope.trace.trace import Trace

_MAX_CELLS = 4_000_000


def measure(trace: Trace) -> tuple[HeadMeasures, ...]:
    """The measures of every head of a trace, in the order of its sites."""
    found: list[HeadMeasures] = []
    for site in trace.sites:
        _, keys = trace.tokens(site)
        n_cells = len(keys) * trace.records[site.key].n_queries
        if site.n_heads * n_cells <= _MAX_CELLS:
            found += measure_heads(trace.all_weights(site), site, keys=keys)
        else:  # one head at a time, so that a long text needs no more memory than one map
            for head in range(site.n_heads):
                weights = torch.from_numpy(trace.weights(site, head))[None]
                found += measure_heads(weights, site, keys=keys, first_head=head)
    return tuple(found)


def measure_heads(
    weights: Tensor, site: Site, *, keys: tuple[Token, ...] = (), first_head: int = 0
) -> list[HeadMeasures]:
    """The measures of heads whose weights are given, [n_heads, n_queries, n_keys].

    `keys` names the end token for the confidence; without them every column counts.
    """
    allowed = ~weights.isnan()[:1]
    a = weights.nan_to_num(nan=0.0)
    n_seen = allowed.sum(dim=-1)[0]  # [n_queries]
    seeing = n_seen > 0
    is_self = site.stack in ("encoder", "decoder") and a.shape[1] == a.shape[2]
    columns = {
        "entropy": _entropy(a, n_seen),
        "confidence": _mean(_without_end(a, keys).amax(dim=-1) if a.shape[2] else a.sum(-1), seeing),
        "distance": _mean(row_distance(a), seeing) if is_self else None,
        "previous": _diagonal_mean(a, -1, seeing) if is_self else None,
        "diagonal": _diagonal_mean(a, 0, seeing) if is_self else None,
        "first": _mean(a[:, :, 0], seeing) if a.shape[2] else None,
    }
    n_heads = a.shape[0]
    lists = {name: [math.nan] * n_heads if v is None else v.tolist() for name, v in columns.items()}
    return [
        HeadMeasures(
            head=site.heads[first_head + head], **{name: values[head] for name, values in lists.items()}
        )
        for head in range(n_heads)
    ]


def row_entropy(a: Tensor) -> Tensor:
    """−Σ_j a_ij ln a_ij of each row in nats; 0 · ln 0 is 0."""
    logs: Tensor = torch.special.xlogy(a, a)
    return -logs.sum(dim=-1)


def row_distance(a: Tensor) -> Tensor:
    """Σ_j a_ij · |i − j| of each row, in tokens."""
    i = torch.arange(a.shape[-2], device=a.device, dtype=a.dtype)
    j = torch.arange(a.shape[-1], device=a.device, dtype=a.dtype)
    return (a * (i[:, None] - j[None, :]).abs()).sum(dim=-1)


def _entropy(a: Tensor, n_seen: Tensor) -> Tensor:
    has_choice = n_seen > 1
    most = n_seen.clamp(min=2).to(a.dtype).log()
    return _mean(row_entropy(a) / most, has_choice)


def _without_end(a: Tensor, keys: tuple[Token, ...]) -> Tensor:
    """The weights with the column of a last special token at 0, unless it is the only column."""
    if len(keys) < 2 or not keys[-1].is_special or len(keys) != a.shape[2]:
        return a
    return a[:, :, :-1]


def _diagonal_mean(a: Tensor, offset: int, seeing: Tensor) -> Tensor:
    return _mean(a.diagonal(offset, dim1=1, dim2=2), seeing[-offset:])


def _mean(rows: Tensor, chosen: Tensor) -> Tensor:
    """Mean over the chosen queries of [n_heads, n_queries]; NaN when there is none."""
    n = chosen.sum()
    return torch.where(n > 0, (rows * chosen).sum(dim=-1) / n, math.nan)
