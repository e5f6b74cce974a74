"""Attention weights recomputed from what a probe recorded, for any rectangle of any map.

    weight_ij = exp(score_ij − lse_i)

(softmax with its normaliser already known; Vaswani et al. 2017, equation 1; `nn/scores.py`). NaN stands
wherever the mask forbids, so that "not allowed" never looks like "weight 0".

| symbol  | meaning                             | shape                      |
|---------|-------------------------------------|----------------------------|
| weights | after softmax; NaN = not allowed    | [n_heads, n_rows, n_cols]  |
| pooled  | one value for each cell of a tile   | [height, width]            |
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.scores import ALL, for_heads, scores
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.trace.record import SiteRecord

Reduction = Literal["max", "mean"]
BLOCK_CELLS = 2_000_000
"""At most so many weights are held at a time while a tile is pooled (8 MB)."""


def site_weights(record: SiteRecord, heads: slice = ALL, rows: slice = ALL, cols: slice = ALL) -> Tensor:
    """Weights of some heads, rows and columns of a site: float32 [n_heads, n_rows, n_cols].

    Raises Stopped where nobody waits for what they are worked out for.
    """
    stop_if_unwanted()
    if not record.score.is_plain:
        return _ruled_weights(record, heads, rows, cols)
    weights = _plain_weights(record, heads, rows, cols)
    if not record.rule.is_empty:
        allowed = record.rule.allowed(record.n_queries, record.n_keys, rows, cols, device=record.q.device)[0]
        allowed = allowed if allowed.shape[0] == 1 else allowed[heads]
        weights.masked_fill_(~allowed.to(weights.device), math.nan)
    return weights


def _plain_weights(record: SiteRecord, heads: slice, rows: slice, cols: slice) -> Tensor:
    n_groups = record.q.shape[0] // record.k.shape[0]
    q = record.q[heads, rows].float()
    k = record.k[:, cols].float()
    if n_groups > 1:
        k = for_heads(k[None], n_groups, range(record.q.shape[0])[heads])[0]
    else:
        k = k[heads]
    lse = record.lse[heads, rows].float()
    # One fused operation: −lse + scale · q·kᵀ.
    return torch.baddbmm(-lse[:, :, None], q, k.transpose(1, 2), alpha=record.score.scale).exp_()


def _ruled_weights(record: SiteRecord, heads: slice, rows: slice, cols: slice) -> Tensor:
    """Weights under a bias, a soft-cap or a sink: exp(score − lse)."""
    s = scores(
        record.q[None],
        record.k[None],
        rule=record.rule,
        score=record.score,
        heads=heads,
        rows=rows,
        cols=cols,
    )[0]
    forbidden = s.isneginf()
    weights = (s - record.lse[heads, rows].to(s)[..., None]).exp_()
    return weights.masked_fill_(forbidden, math.nan).float()


def pooled_tile(
    record: SiteRecord, head: int, rows: range, cols: range, size: tuple[int, int], reduce: Reduction
) -> Tensor:
    """A rectangle of one map reduced to at most `size` (height, width) cells: float32.

    Each cell stands for the weights of rows floor(r·R/h) … ceil((r+1)·R/h) − 1 and of the columns
    likewise: their maximum, or their mean over the allowed ones; NaN where none is allowed. A
    rectangle that fits within `size` comes back exactly, one cell for one weight.
    """
    height, width = min(size[0], len(rows)), min(size[1], len(cols))
    block = max(1, BLOCK_CELLS // max(1, len(cols)))
    strips = [
        _pool_columns(_tile_block(record, head, rows[start : start + block], cols), width, reduce)
        for start in range(0, len(rows), block)
    ]
    values = torch.cat([value for value, _ in strips]) if strips else torch.zeros(0, width)
    allowed = torch.cat([share for _, share in strips]) if strips else torch.zeros(0, width)
    values, allowed = _pool_rows(values, height, reduce), _pool_rows(allowed, height, reduce)
    return torch.where(allowed > 0, values if reduce == "max" else values / allowed, math.nan)


def _tile_block(record: SiteRecord, head: int, rows: range, cols: range) -> Tensor:
    return site_weights(
        record, slice(head, head + 1), slice(rows.start, rows.stop), slice(cols.start, cols.stop)
    )[0]


def poolable(values: Tensor) -> Tensor:
    """The values where adaptive pooling can be trusted, on the CPU instead of MPS.

    There windows of unequal sizes are silently wrong (pytorch/pytorch issue 190064, torch 2.13; drop when the
    oldest torch that is supported has it mended).
    """
    return values if values.device.type in ("cpu", "cuda") else values.cpu()


def _pool_columns(weights: Tensor, width: int, reduce: Reduction) -> tuple[Tensor, Tensor]:
    """Pooled values, and the share of allowed cells behind each (for `max`: whether there is one)."""
    allowed = (~weights.isnan()).float()
    values = weights.nan_to_num(nan=0.0)
    if weights.shape[1] == width:
        return values, allowed
    values, allowed = poolable(values), poolable(allowed)
    pool = F.adaptive_max_pool1d if reduce == "max" else F.adaptive_avg_pool1d
    return pool(values[:, None], width)[:, 0], pool(allowed[:, None], width)[:, 0]


def _pool_rows(strip: Tensor, height: int, reduce: Reduction) -> Tensor:
    if strip.shape[0] == height:
        return strip
    pool = F.adaptive_max_pool1d if reduce == "max" else F.adaptive_avg_pool1d
    return pool(poolable(strip).T[:, None], height)[:, 0].T.contiguous()


def pooled_levels(record: SiteRecord, max_px: int) -> tuple[Tensor, Tensor]:
    """Thumbnails of every head of a site as bytes, and the largest weight of each head.

    Level 0 is "not allowed or no data", 1 + 254 · weight / peak the maximum over a cell's weights.
    Shapes: uint8 [n_heads, height, width], float32 [n_heads].
    """
    n_heads, n_rows, n_cols = record.q.shape[0], record.n_queries, record.n_keys
    size = (min(n_rows, max_px), min(n_cols, max_px))
    if n_heads * n_rows * n_cols <= BLOCK_CELLS:
        pooled = _pool_heads(site_weights(record), size)
    else:
        tiles = [
            pooled_tile(record, head, range(n_rows), range(n_cols), size, "max") for head in range(n_heads)
        ]
        pooled = torch.stack(tiles).nan_to_num(nan=-1.0, posinf=-1.0)
    if pooled.numel() == 0:
        return torch.zeros(pooled.shape, dtype=torch.uint8), torch.zeros(n_heads)
    peaks = pooled.amax(dim=(1, 2)).clamp_(min=0.0)
    relative = pooled / peaks.clamp(min=torch.finfo(torch.float32).tiny)[:, None, None]
    levels = torch.where(pooled >= 0, relative * 254.0 + 1.5, 0.0).to(torch.uint8)  # .5 rounds
    return levels, peaks


def _pool_heads(weights: Tensor, size: tuple[int, int]) -> Tensor:
    values = weights.nan_to_num_(nan=-1.0, posinf=-1.0)
    if values.numel() == 0:
        return values.new_zeros((len(values), *size))
    if values.shape[1:] == size:
        return values
    return _largest(_largest(values, 1, size[0]), 2, size[1])


def _largest(values: Tensor, dim: int, n_parts: int) -> Tensor:
    """The largest of each part of an axis, the parts those of adaptive pooling, at a third of its price."""
    n = values.shape[dim]
    starts = [part * n // n_parts for part in range(n_parts)]
    stops = [-(-(part + 1) * n // n_parts) for part in range(n_parts)]
    ends = list(zip(starts, stops, strict=True))
    largest: Tensor | None = None
    for step in range(max((stop - start for start, stop in ends), default=0)):
        places = torch.tensor([min(start + step, stop - 1) for start, stop in ends], device=values.device)
        taken = values.index_select(dim, places)
        largest = taken if largest is None else torch.maximum(largest, taken, out=largest)
    return values if largest is None else largest
