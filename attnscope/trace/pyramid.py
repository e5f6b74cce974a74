"""One head of a long text, block by block: the logarithms of its weights, and their maxima or means.

| symbol      | meaning                                              | shape                   |
|-------------|------------------------------------------------------|-------------------------|
| exponent    | score − lse, the weight's logarithm; −inf: forbidden | [n_rows, n_cols]        |
| b           | side of a block of cells that become one             | number                  |
| pooled      | one number for each block                            | [⌈rows/b⌉, ⌈cols/b⌉]    |
| first, last | the first and the last key a query sees              | [n_queries]             |

exp is monotone, so the largest weight of a block is exp of its largest exponent: one exp for b² cells. With
−lse as one more column of the queries, and ones as one more of the keys, one product gives exponents.
Blocks that the mask forbids wholly are never computed. The strongest weights, [n] with their heads, queries
and keys, are found the same way, strip by strip.

The pyramid of one head of a long text: its whole map at ever fewer cells, as bytes.

| symbol | meaning                                                       | shape            |
|--------|---------------------------------------------------------------|------------------|
| b      | side of the block of cells that one byte stands for           | number           |
| levels | 0 not allowed (or no data), 1 + 254 · weight / peak otherwise | [⌈Q/b⌉, ⌈T/b⌉]   |

The finest level is made strip by strip from queries and keys , each coarser one from the finer.
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

from attnscope.nn.masks import CentredBias, CentredWindow, Dense, Intervals, MaskRule
from attnscope.nn.scores import DenseBias, OffsetBias, RelativeBias, ScoreRule, SlopeBias, scores_of
from attnscope.nn.spans import GateBias, SpanBias
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Site, SiteKey
from attnscope.records.tiles import is_long
from attnscope.trace.check import merge_proofs
from attnscope.trace.record import SiteRecord, levels_of_logs, poolable, pooled_levels

FAINTEST = 0.01
"""Weights under this are too faint to be drawn as lines."""


STRIP_ROWS = 256
CHUNK_COLUMNS = 4096
"""Rows and columns of one product: its result (4 MB) is reduced before the next one is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The first and last key of each query by causality, window and intervals; and other rules.

    `n_valid` counts the valid keys before each place, [n_keys + 1]; `removed` are (query, key) pairs [n, 2].
    """

    first: Tensor
    last: Tensor
    n_keys: int
    n_valid: Tensor | None
    removed: Tensor | None
    is_dense: bool

    @staticmethod
    def of(rule: MaskRule, n_queries: int, n_keys: int) -> "Reach":
        """The reach of a rule of one head; for a batch, of its last text."""
        place = torch.arange(n_queries) + (n_keys - n_queries)
        back, ahead = rule.window or (None, None)
        ahead = 0 if rule.is_causal else ahead
        first = torch.zeros_like(place) if back is None else (place - back).clamp(min=0)
        last = torch.full_like(place, n_keys - 1) if ahead is None else (place + ahead).clamp(max=n_keys - 1)
        if isinstance(rule.pattern, Intervals):
            first = torch.maximum(first, rule.pattern.first[-1].cpu())
            last = torch.minimum(last, rule.pattern.last[-1].cpu())
        valid = rule.key_valid
        return Reach(
            first=first,
            last=last,
            n_keys=n_keys,
            n_valid=None if valid is None else _counted(valid[-1]),
            removed=None if rule.removed is None else rule.removed.cells[:, 1:].cpu(),
            is_dense=rule.pattern is not None and not isinstance(rule.pattern, Intervals),
        )

    def keys_of(self, rows: range) -> range:
        """A range of keys outside which none of the rows may look."""
        if not rows:
            return range(0)
        first, last = (
            int(self.first[slice(rows.start, rows.stop)].min()),
            int(self.last[slice(rows.start, rows.stop)].max()),
        )
        return range(max(0, first), max(0, first, min(last + 1, self.n_keys)))

    def is_open(self, rows: range, cols: range) -> bool:
        """Whether the mask certainly allows every cell of a rectangle."""
        if self.is_dense:
            return False
        part = slice(rows.start, rows.stop)
        if int(self.first[part].max()) > cols.start or int(self.last[part].min()) < cols.stop - 1:
            return False
        if self.n_valid is not None:
            n_valid = int(self.n_valid[cols.stop] - self.n_valid[cols.start])
            if n_valid != len(cols):
                return False
        if self.removed is None:
            return True
        query, key = self.removed.unbind(dim=1)
        inside = (query >= rows.start) & (query < rows.stop) & (key >= cols.start) & (key < cols.stop)
        return not bool(inside.any())


def _counted(valid: Tensor) -> Tensor:
    """Number of valid keys before each position: [n_keys + 1]."""
    counts = valid.cpu().to(torch.int64).cumsum(dim=0)
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts])


class OneHead:
    """The parts of a record needed for one head, in float32; reads any rectangle of its map."""

    def __init__(self, record: SiteRecord, head: int) -> None:
        n_groups = record.q.shape[0] // record.k.shape[0]
        self.n_queries, self.n_keys = record.n_queries, record.n_keys
        self.rule = _rule_of(record.rule, head)
        self.score = _score_of(record.score, head)
        q, k = record.q[head].float(), record.k[head // n_groups].float()
        lse = record.lse[head].float()
        lse = torch.where(lse.isneginf(), 0.0, lse)[:, None]  # rows without keys are forbidden anyway
        self._is_plain = self.score.is_plain  # without the sinks, which the lse has in it
        self._lse = lse
        self._q = torch.cat([q * self.score.scale, -lse], dim=1) if self._is_plain else q  # [Q, D + 1]
        self._k = torch.cat([k, torch.ones_like(k[:, :1])], dim=1) if self._is_plain else k  # [T, D + 1]
        self._reach = Reach.of(self.rule, self.n_queries, self.n_keys)

    def exponents(self, rows: slice, cols: slice) -> Tensor:
        """The exponents of a rectangle, whose slices may have steps: float32 [n_rows, n_cols]."""
        if self._is_plain:
            found = self._q[rows] @ self._k[cols].T
            return self._forbid(found, rows, cols)
        s = scores_of(self._q[None, None], self._k[None, None], rule=self.rule, score=self.score,
                   rows=rows, cols=cols)  # fmt: skip
        return s[0, 0].float() - self._lse[rows]

    def reach(self, rows: range) -> range:
        """A range of keys outside which none of the rows may look."""
        return self._reach.keys_of(rows)

    def is_open(self, rows: range, cols: range) -> bool:
        """Whether the mask certainly allows every cell of a rectangle."""
        return self._reach.is_open(rows, cols)

    @property
    def device(self) -> torch.device:
        """Device of the head's queries and keys."""
        return self._q.device

    def column_blocks(self, rows: range, cols: range, b: int) -> Tensor:
        """Exponents of whole blocks of columns, the columns of a block first: [b, n_rows, n_blocks]."""
        n_blocks = len(cols) // b
        row_slice, col_slice = as_slice(rows), as_slice(cols)
        if not self._is_plain:
            found = self.exponents(row_slice, col_slice)
            return found.view(len(rows), n_blocks, b).permute(2, 0, 1)
        keys = self._k[col_slice].view(n_blocks, b, -1).permute(1, 2, 0)  # [b, D + 1, n_blocks]
        found = torch.bmm(self._q[row_slice].expand(b, -1, -1), keys)  # [b, rows, n_blocks]
        if self._reach.is_open(rows, cols):
            return found
        allowed = self._allowed(row_slice, col_slice).view(len(rows), n_blocks, b).permute(2, 0, 1)
        return found.masked_fill_(~allowed, -math.inf)

    def without_removed_cells(self) -> "OneHead":
        """The same head for reading with steps, ignoring single removed cells."""
        if self.rule.removed is None:
            return self
        other = OneHead.__new__(OneHead)
        other.__dict__.update(self.__dict__)
        other.rule = replace(self.rule, removed=None)
        return other

    def _forbid(self, exponents: Tensor, rows: slice, cols: slice) -> Tensor:
        row_range, col_range = range(self.n_queries)[rows], range(self.n_keys)[cols]
        if not row_range or not col_range:
            return exponents
        around = range(row_range[0], row_range[-1] + 1), range(col_range[0], col_range[-1] + 1)
        if self._reach.is_open(*around):
            return exponents
        return exponents.masked_fill_(~self._allowed(rows, cols), -math.inf)

    def _allowed(self, rows: slice, cols: slice) -> Tensor:
        allowed = self.rule.allowed(self.n_queries, self.n_keys, rows, cols, device=self._q.device)
        return allowed[0, 0].to(self._q.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Some rows of a map, pooled: the largest exponents (−inf: all forbidden), and those of each row."""

    values: Tensor
    row_peaks: Tensor

    def weights(self) -> Tensor:
        """The pooled weights, NaN where all cells are forbidden."""
        return torch.where(self.values.isneginf(), math.nan, self.values.exp())


def strips(rows: range, b: int) -> Iterator[range]:
    """The rows cut into strips of whole blocks (the last may be shorter)."""
    n_rows = max(1, STRIP_ROWS // b) * b
    for start in range(rows.start, rows.stop, n_rows):
        yield range(start, min(start + n_rows, rows.stop))


def pool_strip(head: OneHead, rows: range, cols: range, b: int) -> Pooled:
    """One strip pooled to blocks of b × b cells, counted from the rectangle's corner."""
    n_blocks = -(-len(cols) // b)
    values = torch.full((-(-len(rows) // b), n_blocks), -math.inf, device=head.device)
    row_peaks = torch.full((len(rows),), -math.inf, device=head.device)
    for part, place in column_parts(head.reach(rows), cols, b):
        if len(part) % b:
            found = head.exponents(as_slice(rows), as_slice(part)).T[:, :, None]  # [columns, rows, 1]
        else:
            found = head.column_blocks(rows, part, b)  # [b, rows, blocks]
        largest = found.amax(dim=0)  # [rows, blocks]
        torch.maximum(row_peaks, largest.amax(dim=1), out=row_peaks)
        values[:, place] = _pool_rows(largest, b)
    return Pooled(values=values, row_peaks=row_peaks)


def column_parts(reach: range, cols: range, b: int) -> Iterator[tuple[range, slice]]:
    """The columns within reach, in parts of whole blocks and finally one incomplete; and their positions."""
    first = max(0, (max(reach.start, cols.start) - cols.start) // b)
    stop = min(reach.stop, cols.stop)
    n_whole = len(cols) // b
    n_at_once = max(1, CHUNK_COLUMNS // b)
    last = min(n_whole, -(-(stop - cols.start) // b))
    for start in range(first, last, n_at_once):
        end = min(start + n_at_once, last)
        yield range(cols.start + start * b, cols.start + end * b), slice(start, end)
    if stop > cols.start + n_whole * b:
        yield range(cols.start + n_whole * b, cols.stop), slice(n_whole, n_whole + 1)


def _pool_rows(values: Tensor, b: int) -> Tensor:
    """[rows, blocks] to [⌈rows/b⌉, blocks]."""
    n_whole = len(values) // b
    whole = values[: n_whole * b].view(n_whole, b, values.shape[1])
    found = whole.amax(dim=1)
    if n_whole * b == len(values):
        return found
    return torch.cat([found, values[n_whole * b :].amax(dim=0, keepdim=True)])


def as_slice(part: range) -> slice:
    """The same rows or columns as a slice."""
    return slice(part.start, part.stop)


def _rule_of(rule: MaskRule, head: int) -> MaskRule:
    pattern, removed = rule.pattern, rule.removed
    if isinstance(pattern, Dense) and pattern.cells.shape[1] > 1:
        pattern = Dense(cells=pattern.cells[:, head : head + 1])
    elif isinstance(pattern, CentredWindow):
        pattern = replace(pattern, centres=pattern.centres[:, head : head + 1])
    if removed is not None:
        cells = removed.cells[removed.cells[:, 0] == head].clone()
        cells[:, 0] = 0
        removed = replace(removed, cells=cells, n_heads=1) if len(cells) else None
    return replace(rule, pattern=pattern, removed=removed)


def _score_of(score: ScoreRule, head: int) -> ScoreRule:
    bias = score.bias
    one = slice(head, head + 1)
    match bias:
        case RelativeBias() if bias.values.shape[0] > 1:
            bias = RelativeBias(values=bias.values[one])
        case SlopeBias():
            bias = SlopeBias(slopes=bias.slopes[one])
        case SpanBias():
            bias = SpanBias(values=bias.values[one])
        case GateBias():
            bias = GateBias(values=bias.values[one])
        case CentredBias():
            bias = CentredBias(values=bias.values[:, one])
        case OffsetBias():
            bias = OffsetBias(values=bias.values[:, one])
        case DenseBias() if bias.cells.shape[1] > 1:
            bias = DenseBias(cells=bias.cells[:, one])
        case _:
            pass
    vector = None if score.vector is None else score.vector[one]
    return replace(score, bias=bias, sinks=None, vector=vector)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundEdges:
    """See the module's legend; `n_all` counts allowed cells, `n_rows` rows that see a key, over all heads."""

    weights: Tensor
    heads: Tensor
    queries: Tensor
    keys: Tensor
    n_all: int
    n_rows: int

    @property
    def hidden(self) -> float:
        """The share of the total weight not among these; every row's weights sum to 1."""
        return max(0.0, 1.0 - float(self.weights.sum()) / self.n_rows) if self.n_rows else 0.0


class _Best:
    """The `n` largest exponents seen so far, with their places."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.floor = math.log(FAINTEST)
        self.values = torch.zeros(0)
        self.places = torch.zeros(0, 3, dtype=torch.int64)

    def take(self, found: Tensor, head: int, row: int, col: int) -> None:
        """Process one block with its corner at (row, col)."""
        i, j = (found >= self.floor).nonzero(as_tuple=True)
        if not len(i):
            return
        values = found[i, j].cpu()
        places = torch.stack([torch.full_like(i, head), i + row, j + col], dim=1).cpu()
        self.values, self.places = torch.cat([self.values, values]), torch.cat([self.places, places])
        if len(self.values) > 2 * self.n:
            self.prune()

    def prune(self) -> None:
        """Keep the best `n` and ignore anything weaker from now on."""
        n_kept = min(self.n, len(self.values))
        self.values, kept = self.values.topk(n_kept)
        self.places = self.places[kept]
        if n_kept == self.n:
            self.floor = max(self.floor, float(self.values[-1]))


def strongest_edges(heads: Sequence[OneHead], n_edges: int) -> Iterator[float | FoundEdges]:
    """Yield progress, and finally the `n_edges` strongest weights of heads with the same tokens."""
    best = _Best(n_edges)
    n_all = n_rows = done = 0
    n_cells = max(1, sum(head.n_queries * head.n_keys for head in heads))
    for index, head in enumerate(heads):
        for rows in strips(range(head.n_queries), 1):
            seen = torch.zeros(len(rows), dtype=torch.bool)
            for part, _ in column_parts(head.reach(rows), range(head.n_keys), 1):
                found = head.exponents(as_slice(rows), as_slice(part))
                if head.is_open(rows, part):
                    n_all += found.numel()
                    seen[:] = True
                else:
                    allowed = found > -math.inf
                    n_all += int(allowed.sum())
                    seen |= allowed.any(dim=1).cpu()
                best.take(found, index, rows.start, part.start)
            n_rows += int(seen.sum())
            done += len(rows) * head.n_keys
            yield min(done / n_cells, 1.0)
    best.prune()
    order = best.values.argsort()
    places = best.places[order]
    yield FoundEdges(
        weights=best.values[order].exp(),
        heads=places[:, 0],
        queries=places[:, 1],
        keys=places[:, 2],
        n_all=n_all,
        n_rows=n_rows,
    )


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
    """The block of the finest level: 8, doubled until the level is small enough to store."""
    b = FINEST_BLOCK
    while max(n_queries, n_keys) > b * MAX_SIDE:
        b *= 2
    return b


def build_pyramid(head: OneHead) -> Iterator[float | PyramidLevel]:
    """Yield progress (0…1), and finally every level of one head, the finest first.

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
    """The largest of each 2 × 2 bytes; the last row and column may cover fewer."""
    if not levels.numel():
        return levels
    height, width = levels.shape
    even = F.pad(levels, (0, width % 2, 0, height % 2))
    rows = torch.maximum(even[0::2], even[1::2])
    return torch.maximum(rows[:, 0::2], rows[:, 1::2])


def _largest(strip: Pooled) -> float:
    """The largest pooled weight of a strip, ignoring NaN; 0 if empty."""
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
    """A rough picture of a rectangle: for each b × b block the largest of n × n of its weights.

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
    """The exact thumbnails of sites whose logarithms are laid out, the heads of one after another.

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
    """Rough thumbnails of a site, from a few of its weights; exact if it has no more than these."""
    if max(record.n_queries, record.n_keys) <= max_px:
        return site_grid(site, record, max_px)
    thumbnails = [sample_thumbnail(OneHead(record, head), max_px).cpu() for head in range(site.n_heads)]
    return replace(_grid_of(site, record, thumbnails), is_sampled=True)


def _grid_of(site: Site, record: SiteRecord, thumbnails: list[Tensor]) -> SiteGrid:
    peaks = [largest_weight(thumbnail) for thumbnail in thumbnails]
    levels = [bytes_of(thumbnail, peak) for thumbnail, peak in zip(thumbnails, peaks, strict=True)]
    return _finished(site, record, torch.stack(levels), torch.tensor(peaks))


def _finished(site: Site, record: SiteRecord, levels: Tensor, peaks: Tensor) -> SiteGrid:
    check = merge_proofs((record.proof,))
    return SiteGrid(
        site=site,
        n_queries=record.n_queries,
        n_keys=record.n_keys,
        levels=frozen_numbers(levels),
        peaks=frozen_numbers(peaks),
        check=None if check.is_good else check,
    )


def frozen_numbers(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor on the CPU, read-only."""
    array = tensor.contiguous().cpu().numpy()
    array.flags.writeable = False
    return array


def largest_weight(weights: Tensor) -> float:
    """The largest of some weights, ignoring NaN; 0 if empty."""
    return float(weights.nan_to_num(0.0, 0.0, 0.0).max()) if weights.numel() else 0.0


def sample_thumbnail(head: OneHead, max_px: int, n_per_px: int = 3) -> Tensor:
    """A rough thumbnail of at most `max_px` a side: float32 weights, NaN where all are forbidden.

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
    """Yield None at most every 50 ms of work, and finally the exact thumbnail of a long map.

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
