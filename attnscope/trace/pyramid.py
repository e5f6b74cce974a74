"""The pyramid of one head of a long text: its whole map at ever fewer cells, as bytes.

| symbol | meaning                                                       | shape            |
|--------|---------------------------------------------------------------|------------------|
| b      | side of the block of cells that one byte stands for           | number           |
| levels | 0 not allowed (or no data), 1 + 254 · weight / peak otherwise | [⌈Q/b⌉, ⌈T/b⌉]   |

The finest level is made strip by strip from queries and keys (`pooling.py`), each coarser one from the finer.
Nothing of the size T × T is ever held.

Thumbnails of long maps: rough ones at once, exact ones when there is time.

| symbol    | meaning                                          | shape                  |
|-----------|--------------------------------------------------|------------------------|
| thumbnail | weights, NaN where nothing is allowed            | [min(Q, px), min(T, px)] |
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Site, SiteKey
from attnscope.records.tiles import is_long
from attnscope.trace.pooling import OneHead, Pooled, pool_strip, strips
from attnscope.trace.record import SiteRecord
from attnscope.trace.weights import levels_of_logs, poolable, pooled_levels

FINEST_BLOCK = 8
MAX_SIDE = 4096
"""The finest level has at most so many cells a side (16 MB); longer texts get larger blocks."""
SMALLEST_SIDE = 64
"""Levels stop when they are no larger than this."""
_TINY = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyramidLevel:
    """One head's whole map in blocks of b × b cells: bytes [⌈Q/b⌉, ⌈T/b⌉] on the CPU.

    `peak` is the weight that 255 stands for, `row_peaks` [n_queries] each query's largest weight.
    """

    b: int
    levels: Tensor
    peak: float
    row_peaks: Tensor


def finest_block(n_queries: int, n_keys: int) -> int:
    """The block of the finest level: 8, doubled until the level is small enough to be kept."""
    b = FINEST_BLOCK
    while max(n_queries, n_keys) > b * MAX_SIDE:
        b *= 2
    return b


def build_pyramid(head: OneHead) -> Iterator[float | PyramidLevel]:
    """Every level of one head, the finest first; before it, how far the work is (0…1).

    Between two yields lie at most about 50 ms of one core's work.
    """
    rows, cols = range(head.n_queries), range(head.n_keys)
    b = finest_block(len(rows), len(cols))
    row_peaks = torch.zeros(len(rows), device=head.device)
    found: list[Pooled] = []
    done, n_cells = 0, max(1, len(rows) * len(cols))
    for strip in strips(rows, b):
        part = range(0, min(len(cols), -(-head.reach(strip).stop // b) * b))  # beyond it all is forbidden
        found.append(pool_strip(head, strip, part, b))
        row_peaks[strip.start : strip.stop] = found[-1].row_peaks.exp()
        done += len(strip) * len(cols)
        yield min(done / n_cells, 1.0)
    shape = -(-len(rows) // b), -(-len(cols) // b)
    yield from _levels(found, shape, row_peaks.cpu(), b)


def _levels(
    found: list[Pooled], shape: tuple[int, int], row_peaks: Tensor, b: int
) -> Iterator[float | PyramidLevel]:
    peak = max((_largest(strip) for strip in found), default=0.0)
    levels = torch.zeros(shape, dtype=torch.uint8)
    first = 0
    for strip in found:
        n_rows, n_cols = strip.values.shape
        levels[first : first + n_rows, :n_cols] = _bytes(strip.values, peak).cpu()
        first += n_rows
        yield 1.0
    found.clear()
    while True:
        yield PyramidLevel(b=b, levels=levels, peak=peak, row_peaks=row_peaks)
        if max(levels.shape, default=0) <= SMALLEST_SIDE:
            return
        b *= 2
        levels = halve(levels)


def halve(levels: Tensor) -> Tensor:
    """The largest of each 2 × 2 bytes; the last row and column may stand for fewer."""
    if not levels.numel():
        return levels
    height, width = levels.shape
    even = F.pad(levels, (0, width % 2, 0, height % 2))
    rows = torch.maximum(even[0::2], even[1::2])
    return torch.maximum(rows[:, 0::2], rows[:, 1::2])


def _largest(strip: Pooled) -> float:
    """The largest pooled weight of a strip; what is not a number does not count, and of nothing it is 0."""
    if not strip.values.numel():
        return 0.0
    largest = float(strip.values.max())
    if not math.isfinite(largest):
        largest = float(strip.values.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf).max())
    return math.exp(largest) if largest > -math.inf else 0.0


def _bytes(exponents: Tensor, peak: float) -> Tensor:
    is_missing = ~(exponents.abs() < math.inf)  # forbidden, or not a number
    levels = exponents.exp().mul_(_levels_per_weight(peak)).clamp_(max=254.0).add_(1.5)
    return levels.masked_fill_(is_missing, 0.0).to(torch.uint8)


def bytes_of(weights: Tensor, peak: float) -> Tensor:
    """Weights as bytes: 0 for NaN and infinities, else 1 + 254 · weight / peak, rounded."""
    levels = (weights * _levels_per_weight(peak)).clamp_(max=254.0).add_(1.5)
    return levels.masked_fill_(~(weights.abs() < math.inf), 0.0).to(torch.uint8)


def _levels_per_weight(peak: float) -> float:
    return 254.0 / peak if peak > _TINY else 0.0


def sample_blocks(head: OneHead, rows: range, cols: range, b: int, n_per_side: int = 1) -> Tensor:
    """A rough picture of a rectangle: of each block of b × b cells the largest of n × n of its weights.

    Float32 [⌈rows/b⌉, ⌈cols/b⌉], NaN where none of those is allowed. Costs n²/b² of the whole.
    """
    head = head.without_removed_cells()
    step = max(1, b // n_per_side)
    n = -(-b // step)
    row_slice, col_slice = (slice(part.start, part.stop, step) for part in (rows, cols))
    if b % step:
        row_slice, col_slice, n = slice(rows.start, rows.stop, b), slice(cols.start, cols.stop, b), 1
    found = head.exponents(row_slice, col_slice)
    if n > 1:
        pad = (0, -found.shape[1] % n, 0, -found.shape[0] % n)
        found = F.pad(found, pad, value=-math.inf)
        found = F.max_pool2d(found[None], n)[0]
    return torch.where(found.isneginf(), math.nan, found.exp())


MAX_EXACT_CELLS = 64_000_000
"""Traces with more cells over all heads get sampled thumbnails first (exact ones take 0.1 s up to here)."""


def site_grid(site: Site, record: SiteRecord, max_px: int) -> SiteGrid:
    """The exact thumbnails of one site; seconds of work for tens of thousands of tokens."""
    if is_long(record.n_queries, record.n_keys) and min(record.n_queries, record.n_keys) > max_px:
        heads = (OneHead(record, head) for head in range(site.n_heads))
        found = [list(build_thumbnail(head, max_px))[-1] for head in heads]
        return _grid_of(site, record, [thumbnail for thumbnail in found if thumbnail is not None])
    return _finished(site, record, *pooled_levels(record, max_px))


def grids_of_logs(
    sites: Sequence[Site], n_queries: int, n_keys: int, logs: Tensor, max_px: int
) -> dict[SiteKey, SiteGrid]:
    """The exact thumbnails of sites whose logarithms are laid out anyway, the heads of one after another.

    See `levels_of_logs`.
    """
    levels, peaks = levels_of_logs(logs, max_px)
    shades, tops = frozen_numbers(levels), frozen_numbers(peaks)
    found: dict[SiteKey, SiteGrid] = {}
    start = 0
    for site in sites:
        part = slice(start, start + site.n_heads)
        found[site.key] = SiteGrid(
            site=site, n_queries=n_queries, n_keys=n_keys, levels=shades[part], peaks=tops[part]
        )
        start = part.stop
    return found


def sampled_grid(site: Site, record: SiteRecord, max_px: int) -> SiteGrid:
    """Rough thumbnails of a site, from a few of its weights; exact ones where it has no more than these."""
    if max(record.n_queries, record.n_keys) <= max_px:
        return site_grid(site, record, max_px)
    thumbnails = [sample_thumbnail(OneHead(record, head), max_px).cpu() for head in range(site.n_heads)]
    return replace(_grid_of(site, record, thumbnails), is_sampled=True)


def _grid_of(site: Site, record: SiteRecord, thumbnails: list[Tensor]) -> SiteGrid:
    peaks = [largest_weight(thumbnail) for thumbnail in thumbnails]
    levels = [bytes_of(thumbnail, peak) for thumbnail, peak in zip(thumbnails, peaks, strict=True)]
    return _finished(site, record, torch.stack(levels), torch.tensor(peaks))


def _finished(site: Site, record: SiteRecord, levels: Tensor, peaks: Tensor) -> SiteGrid:
    return SiteGrid(
        site=site,
        n_queries=record.n_queries,
        n_keys=record.n_keys,
        levels=frozen_numbers(levels),
        peaks=frozen_numbers(peaks),
    )


def frozen_numbers(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor on the CPU, not to be written to."""
    array = tensor.contiguous().cpu().numpy()
    array.flags.writeable = False
    return array


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


def size_of(head: OneHead, max_px: int) -> tuple[int, int]:
    """Rows and columns of a head's thumbnail, rough or exact: all of them, or `max_px`."""
    return min(head.n_queries, max_px), min(head.n_keys, max_px)


def has_enough(shape: tuple[int, ...], size: tuple[int, int]) -> bool:
    """Whether blocks in so many rows and columns are enough for a thumbnail of this size."""
    return all(n >= wanted for n, wanted in zip(shape, size, strict=True))


def build_thumbnail(head: OneHead, max_px: int) -> Iterator[Tensor | None]:
    """The exact thumbnail of a long map, last; before it None, at most every 50 ms of work.

    Each cell is the largest weight of all blocks of b × b cells that it touches: b is 8, or less where a
    side with few queries or keys would have fewer blocks than the thumbnail has pixels.
    """
    rows, cols = range(head.n_queries), range(head.n_keys)
    size = size_of(head, max_px)
    if not rows or not cols:
        yield torch.full(size, math.nan)
        return
    b = FINEST_BLOCK
    while not has_enough((-(-len(rows) // b), -(-len(cols) // b)), size):
        b //= 2
    found: list[Tensor] = []
    for strip in strips(rows, b):
        values = pool_strip(head, strip, cols, b).values
        found.append(_fit_columns(values, max_px))
        yield None
    whole = _fit_columns(torch.cat(found).T.contiguous(), max_px).T.contiguous()
    yield torch.where(whole.isneginf(), math.nan, whole.exp()).cpu()


def thumbnail_of(level: PyramidLevel, max_px: int) -> Tensor:
    """The same thumbnail from a pyramid's finest level that has enough blocks, as float32 weights."""
    found = level.levels.float()
    if found.numel():
        found = _fit(found, max_px)
    return torch.where(found > 0, (found - 1.0) / 254.0 * level.peak, math.nan)


def _every(n: int, n_wanted: int) -> slice:
    return slice(0, n, max(1, -(-n // n_wanted)))


def _fit(values: Tensor, max_px: int) -> Tensor:
    size = tuple(min(n, max_px) for n in values.shape)
    if not values.numel():
        return values.new_zeros(size)
    return values if size == values.shape else F.adaptive_max_pool2d(poolable(values)[None], size)[0]


def _fit_columns(values: Tensor, max_px: int) -> Tensor:
    width = min(values.shape[1], max_px)
    if width == values.shape[1] or not values.numel():
        return values
    return F.adaptive_max_pool1d(poolable(values)[:, None], width)[:, 0]
