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

from attnscope.errors import NotFiniteError
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.nn.scores import ALL, log_weights
from attnscope.trace.record import SiteRecord

Reduction = Literal["max", "mean"]
BLOCK_CELLS = 2_000_000
"""At most so many weights are held at a time while a tile is pooled (8 MB)."""


def site_weights(
    record: SiteRecord,
    heads: slice = ALL,
    rows: slice = ALL,
    cols: slice = ALL,
    *,
    forbidden: float = math.nan,
) -> Tensor:
    """Weights of some heads, rows and columns of a site: float32 [n_heads, n_rows, n_cols].

    `forbidden` is the logarithm that stands where the mask forbids. Raises Stopped where nobody waits for
    what they are worked out for.
    """
    stop_if_unwanted()
    logs = log_weights(
        record.q[None],
        record.k[None],
        record.lse[None, heads, rows],
        rule=record.rule,
        score=record.score,
        heads=heads,
        rows=rows,
        cols=cols,
        forbidden=forbidden,
    )
    return logs[0].exp_().float()


def weights_to_sum(record: SiteRecord, heads: slice = ALL, rows: slice = ALL, cols: slice = ALL) -> Tensor:
    """The same with 0 where the mask forbids, to be summed or multiplied.

    Raises NotFiniteError where the model's own weights are no numbers: summed as 0 they would look right.
    """
    return finite_weights(site_weights(record, heads, rows, cols, forbidden=-math.inf))


def finite_weights(weights: Tensor) -> Tensor:
    """Weights, 0 where the mask forbids; raises NotFiniteError where they are NaN or infinite."""
    if bool(torch.isfinite(weights.sum())):
        return weights
    raise NotFiniteError(
        "The attention weights of the model are not finite on this text: they are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


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
    n_together = BLOCK_CELLS // max(1, n_rows * n_cols)
    if n_together:
        parts = [slice(start, start + n_together) for start in range(0, n_heads, n_together)]
        pooled = torch.cat([_pool_heads(site_weights(record, part), size) for part in parts])
    else:
        tiles = [
            pooled_tile(record, head, range(n_rows), range(n_cols), size, "max") for head in range(n_heads)
        ]
        pooled = torch.stack(tiles).nan_to_num(nan=-1.0, posinf=-1.0)
    return _levels_of(pooled)


def levels_of_logs(logs: Tensor, max_px: int) -> tuple[Tensor, Tensor]:
    """The same from logarithms that are laid out anyway: [n_heads, n_rows, n_cols], −inf = not allowed.

    The largest weight of a cell is that of the largest logarithm.
    """
    size = (min(logs.shape[1], max_px), min(logs.shape[2], max_px))
    if not logs.numel():
        return _levels_of(logs.new_zeros((len(logs), *size)))
    pooled = _largest(_largest(logs, 1, size[0]), 2, size[1])
    if not bool((pooled < math.inf).all()):  # what is no number counts as no data, not its neighbours
        return _levels_of(_pool_heads(logs.masked_fill(logs.isneginf(), math.nan).exp(), size))
    return _levels_of(pooled.clamp(min=-87.0).exp_().masked_fill_(pooled.isneginf(), -1.0))


def _levels_of(pooled: Tensor) -> tuple[Tensor, Tensor]:
    if pooled.numel() == 0:
        return torch.zeros(pooled.shape, dtype=torch.uint8), torch.zeros(len(pooled))
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
    if n == n_parts:
        return values
    starts = [part * n // n_parts for part in range(n_parts)]
    stops = [-(-(part + 1) * n // n_parts) for part in range(n_parts)]
    least = min((stop - start for start, stop in zip(starts, stops, strict=True)), default=0)
    reach = 1  # cell i is the largest of `reach` cells from i on; no part is longer than two of these
    while 2 * reach <= least:
        n_left = values.shape[dim] - reach
        values = torch.maximum(values.narrow(dim, 0, n_left), values.narrow(dim, reach, n_left))
        reach *= 2
    places = torch.tensor([starts, [stop - reach for stop in stops]], device=values.device)
    first, last = (values.index_select(dim, row) for row in places)
    return torch.maximum(first, last, out=first)
