"""The pyramid of one head of a long text: its whole map at ever fewer cells, as bytes.

| symbol | meaning                                                       | shape            |
|--------|---------------------------------------------------------------|------------------|
| b      | side of the block of cells that one byte stands for           | number           |
| levels | 0 not allowed (or no data), 1 + 254 · weight / peak otherwise | [⌈Q/b⌉, ⌈T/b⌉]   |

The finest level is made strip by strip from queries and keys (`pooling.py`), each coarser one from the finer.
Nothing of the size T × T is ever held.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.trace.pooling import OneHead, Pooled, pool_strip, strips
from attnscope.trace.weights import Reduction

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
    reduce: Reduction


def finest_block(n_queries: int, n_keys: int) -> int:
    """The block of the finest level: 8, doubled until the level is small enough to be kept."""
    b = FINEST_BLOCK
    while max(n_queries, n_keys) > b * MAX_SIDE:
        b *= 2
    return b


def build_pyramid(head: OneHead, reduce: Reduction = "max") -> Iterator[float | PyramidLevel]:
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
        found.append(pool_strip(head, strip, part, b, is_mean=reduce == "mean"))
        row_peaks[strip.start : strip.stop] = found[-1].row_peaks.exp()
        done += len(strip) * len(cols)
        yield min(done / n_cells, 1.0)
    shape = -(-len(rows) // b), -(-len(cols) // b)
    yield from _levels(found, shape, row_peaks.cpu(), b, reduce)


def _levels(
    found: list[Pooled], shape: tuple[int, int], row_peaks: Tensor, b: int, reduce: Reduction
) -> Iterator[float | PyramidLevel]:
    peak = max((_largest(strip) for strip in found), default=0.0)
    levels = torch.zeros(shape, dtype=torch.uint8)
    first = 0
    for strip in found:
        n_rows, n_cols = strip.values.shape
        levels[first : first + n_rows, :n_cols] = _bytes(strip.values, strip.counts, peak).cpu()
        first += n_rows
        yield 1.0
    sums, counts = _whole(found, shape) if reduce == "mean" else (None, None)
    found.clear()
    while True:
        yield PyramidLevel(b=b, levels=levels, peak=peak, row_peaks=row_peaks, reduce=reduce)
        if max(levels.shape, default=0) <= SMALLEST_SIDE:
            return
        b *= 2
        if sums is None or counts is None:
            levels = halve(levels)
        else:
            sums, counts = _halve_sums(sums), _halve_sums(counts)
            levels = _bytes(sums, counts, peak).cpu()


def _whole(found: list[Pooled], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The sums and counts of all strips, with zeros where a strip did not reach."""

    def put(parts: list[Tensor]) -> Tensor:
        return torch.cat([F.pad(part, (0, shape[1] - part.shape[1])) for part in parts])

    counts = [strip.counts for strip in found if strip.counts is not None]
    return put([strip.values for strip in found]), put(counts)


def halve(levels: Tensor) -> Tensor:
    """The largest of each 2 × 2 bytes; the last row and column may stand for fewer."""
    if not levels.numel():
        return levels
    height, width = levels.shape
    even = F.pad(levels, (0, width % 2, 0, height % 2))
    rows = torch.maximum(even[0::2], even[1::2])
    return torch.maximum(rows[:, 0::2], rows[:, 1::2])


def _halve_sums(sums: Tensor) -> Tensor:
    height, width = sums.shape
    even = F.pad(sums, (0, width % 2, 0, height % 2))
    rows = even[0::2] + even[1::2]
    return rows[:, 0::2] + rows[:, 1::2]


def _largest(strip: Pooled) -> float:
    """The largest pooled weight of a strip; what is not a number does not count, and of nothing it is 0."""
    if not strip.values.numel():
        return 0.0
    if strip.counts is not None:
        return float((strip.values / strip.counts).nan_to_num(0.0, 0.0, 0.0).max())
    largest = float(strip.values.max())
    if not math.isfinite(largest):
        largest = float(strip.values.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf).max())
    return math.exp(largest) if largest > -math.inf else 0.0


def _bytes(sums: Tensor, counts: Tensor | None, peak: float) -> Tensor:
    if counts is not None:
        return bytes_of(torch.where(counts > 0, sums / counts, math.nan), peak)
    is_missing = ~(sums.abs() < math.inf)  # forbidden, or not a number
    levels = sums.exp().mul_(_levels_per_weight(peak)).clamp_(max=254.0).add_(1.5)
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
