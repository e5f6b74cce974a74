"""Thumbnails of long maps: rough ones at once, exact ones when there is time.

| symbol    | meaning                                          | shape               |
|-----------|--------------------------------------------------|---------------------|
| thumbnail | weights, NaN where nothing is allowed            | at most [px, px]    |
"""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.records.maps import SiteGrid
from attnscope.trace.pooling import OneHead, pool_strip, strips
from attnscope.trace.pyramid import FINEST_BLOCK, Level, bytes_of
from attnscope.trace.trace import Trace

MAX_FIRST_CELLS = 64_000_000
"""Traces with more cells over all heads get sampled thumbnails first (exact ones take 0.1 s up to here)."""


def first_grids(trace: Trace, max_px: int) -> tuple[SiteGrid, ...]:
    """Thumbnails of every head of every site, at most `max_px` a side: sampled ones of a long text."""
    sizes = ((site.n_heads, trace.records[site.key]) for site in trace.sites)
    n_cells = sum(n_heads * record.n_queries * record.n_keys for n_heads, record in sizes)
    if n_cells <= MAX_FIRST_CELLS:
        return tuple(trace.grid(site, max_px) for site in trace.sites)
    return tuple(_sampled_grid(trace, index, max_px) for index in range(len(trace.sites)))


def exact_grid(trace: Trace, index: int, max_px: int) -> SiteGrid:
    """The exact thumbnails of one site of a long text; seconds of work for tens of thousands of tokens."""
    site = trace.sites[index]
    record = trace.records[site.key]
    found = [list(build_thumbnail(OneHead(record, head), max_px))[-1] for head in range(site.n_heads)]
    return _grid_of(
        trace, index, [thumbnail for thumbnail in found if thumbnail is not None], is_sampled=False
    )


def _sampled_grid(trace: Trace, index: int, max_px: int) -> SiteGrid:
    site = trace.sites[index]
    record = trace.records[site.key]
    if max(record.n_queries, record.n_keys) <= max_px:
        return trace.grid(site, max_px)
    thumbnails = [sample_thumbnail(OneHead(record, head), max_px).cpu() for head in range(site.n_heads)]
    return _grid_of(trace, index, thumbnails, is_sampled=True)


def _grid_of(trace: Trace, index: int, thumbnails: list[Tensor], *, is_sampled: bool) -> SiteGrid:
    site = trace.sites[index]
    record = trace.records[site.key]
    peaks = [largest_weight(thumbnail) for thumbnail in thumbnails]
    levels = [bytes_of(thumbnail, peak) for thumbnail, peak in zip(thumbnails, peaks, strict=True)]
    return SiteGrid(
        site=site,
        n_queries=record.n_queries,
        n_keys=record.n_keys,
        levels=torch.stack(levels).numpy(),
        peaks=torch.tensor(peaks).numpy(),
        is_sampled=is_sampled,
    )


def largest_weight(weights: Tensor) -> float:
    """The largest of some weights; what is not a number does not count, and of nothing it is 0."""
    return float(weights.nan_to_num(0.0, 0.0, 0.0).max()) if weights.numel() else 0.0


def sample_thumbnail(head: OneHead, max_px: int, n_per_px: int = 3) -> Tensor:
    """A rough thumbnail of at most `max_px` a side: float32 weights, NaN where nothing is allowed.

    Each cell is the largest of a few of its weights, spread evenly, the first row and column among them.
    """
    head = head.without_removed_cells()
    found = head.exponents(*(_every(n, max_px * n_per_px) for n in (head.n_queries, head.n_keys)))
    found = _fit(found, max_px)
    return torch.where(found.isneginf(), math.nan, found.exp())


def build_thumbnail(head: OneHead, max_px: int) -> Iterator[Tensor | None]:
    """The exact thumbnail of a long map, last; before it None, at most every 50 ms of work.

    Each cell is the largest weight of all blocks of 8 × 8 cells that it touches.
    """
    rows, cols = range(head.n_queries), range(head.n_keys)
    found: list[Tensor] = []
    for strip in strips(rows, FINEST_BLOCK):
        values = pool_strip(head, strip, cols, FINEST_BLOCK).values
        found.append(_fit_columns(values, max_px))
        yield None
    whole = _fit_columns(torch.cat(found).T.contiguous(), max_px).T.contiguous()
    yield torch.where(whole.isneginf(), math.nan, whole.exp()).cpu()


def thumbnail_of(level: Level, max_px: int) -> Tensor:
    """The same thumbnail from a pyramid's finest level, as float32 weights."""
    found = level.levels.float()
    if found.numel():
        found = _fit(found, max_px)
    return torch.where(found > 0, (found - 1.0) / 254.0 * level.peak, math.nan)


def _every(n: int, n_wanted: int) -> slice:
    return slice(0, n, max(1, -(-n // n_wanted)))


def _fit(values: Tensor, max_px: int) -> Tensor:
    size = tuple(min(n, max_px) for n in values.shape)
    return (
        values if size == values.shape or not values.numel() else F.adaptive_max_pool2d(values[None], size)[0]
    )


def _fit_columns(values: Tensor, max_px: int) -> Tensor:
    width = min(values.shape[1], max_px)
    if width == values.shape[1] or not values.numel():
        return values
    return F.adaptive_max_pool1d(values[:, None], width)[:, 0]
