"""Handles requests about long texts: tiles, cells, edges, exact thumbnails. No Qt.

Every answer is a generator with at most about 50 ms of work between two yields, so that a newer request
never waits for an older one; what nobody waits for is made when there is nothing else to do.
"""

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from attnscope.records.messages import HeadsShown, ShowHeads
from attnscope.records.sites import HeadRef
from attnscope.records.tiles import (
    CellRead,
    CellReading,
    EdgesShown,
    GridRefined,
    MapTile,
    Part,
    ReadCell,
    RefineGrids,
    ShowEdges,
    ShowTile,
    StrongEdges,
    TileReply,
    TileRequest,
    TileShown,
)
from attnscope.trace import (
    FoundEdges,
    OneHead,
    PyramidLevel,
    Trace,
    as_slice,
    build_pyramid,
    build_thumbnail,
    bytes_of,
    has_enough,
    largest_weight,
    pool_strip,
    sample_blocks,
    size_of,
    strips,
    strongest_edges,
    thumbnail_of,
)
from attnscope.workers.views import Views, show_heads

QUICK_CELLS = 4_000_000
"""So many cells take about 10 ms: no rough picture is needed before."""
DIRECT_CELLS = 80_000_000
"""More cells are not pooled for one tile: the pyramid will have them all."""
SAMPLED_PX = 1024
"""A rough picture has at most about so many samples a side."""


class HeadTiles:
    """Serves tiles of one head; `grow` extends its pyramid a little each time."""

    def __init__(self, head: HeadRef, trace: int, one: OneHead) -> None:
        self.head, self.trace, self.one = head, trace, one
        self.fraction = 0.0
        self._levels: dict[int, PyramidLevel] = {}
        self._growing: Iterator[float | PyramidLevel] | None = build_pyramid(one)
        self._peak_seen = 0.0

    @property
    def is_grown(self) -> bool:
        return self._growing is None

    @property
    def finest(self) -> PyramidLevel | None:
        """The finest level of the pyramid, if it is there."""
        return next(iter(self._levels.values()), None)

    @property
    def n_bytes(self) -> int:
        return sum(level.levels.numel() for level in self._levels.values())

    def grow(self) -> None:
        """Do at most about 50 ms of work on the pyramid."""
        if self._growing is None:
            return
        step = next(self._growing, None)
        if step is None:
            self._growing, self.fraction = None, 1.0
        elif isinstance(step, PyramidLevel):
            self._levels[step.b] = step
        else:
            self.fraction = step

    def tile(self, rows: Part, cols: Part, b: int) -> Iterator[MapTile | None]:
        """Tiles of a part, each better than the one before; None between them while there is work to do.

        The last one is the best that can be had now: it is sampled only while the pyramid is not there.
        """
        level = self._levels.get(b)
        if level is not None:
            yield self._from_level(level, rows, cols)
            return
        n_cells = (rows[1] - rows[0]) * (cols[1] - cols[0])
        if n_cells > QUICK_CELLS:
            yield self._sampled(rows, cols, b)
        if n_cells <= DIRECT_CELLS:
            yield from self._direct(range(*rows), range(*cols), b)

    def read(self, rows: Part, cols: Part) -> CellReading:
        """The largest weight of a small rectangle, exact, and its position."""
        exponents = self.one.exponents(slice(*rows), slice(*cols))
        exponents = exponents.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf)
        place = int(exponents.argmax())
        query, key = rows[0] + place // exponents.shape[1], cols[0] + place % exponents.shape[1]
        largest = float(exponents.flatten()[place])
        weight = math.exp(largest) if largest > -math.inf else None
        return CellReading(rows=rows, cols=cols, query=query, key=key, weight=weight)

    def _direct(self, rows: range, cols: range, b: int) -> Iterator[MapTile | None]:
        found: list[Tensor] = []
        for strip in strips(rows, b):
            if b == 1:
                exponents = self.one.exponents(as_slice(strip), as_slice(cols))
                found.append(torch.where(exponents.isneginf(), math.nan, exponents.exp()))
            else:
                found.append(pool_strip(self.one, strip, cols, b).weights())
            if strip.stop < rows.stop and len(strip) * len(cols) > QUICK_CELLS // 4:
                yield None
        weights = torch.cat(found).cpu()
        yield self._tile(weights, rows, cols, b, weights_too=b == 1)

    def _sampled(self, rows: Part, cols: Part, b: int) -> MapTile:
        longest = max(rows[1] - rows[0], cols[1] - cols[0])
        n_per_side = max(1, min(4, b, (SAMPLED_PX * b) // max(1, longest)))
        while b % n_per_side:
            n_per_side -= 1
        weights = sample_blocks(self.one, range(*rows), range(*cols), b, n_per_side).cpu()
        return self._tile(weights, range(*rows), range(*cols), b, is_sampled=True)

    def _tile(
        self,
        weights: Tensor,
        rows: range,
        cols: range,
        b: int,
        *,
        is_sampled: bool = False,
        weights_too: bool = False,
    ) -> MapTile:
        peak = largest_weight(weights)
        self._peak_seen = max(self._peak_seen, peak)
        return MapTile(
            head=self.head,
            trace=self.trace,
            rows=(rows.start, rows.stop),
            cols=(cols.start, cols.stop),
            b=b,
            levels=_frozen(bytes_of(weights, peak).numpy()),
            peak=peak,
            head_peak=self._head_peak(),
            is_sampled=is_sampled,
            row_peaks=self._row_peaks(rows, b),
            weights=_frozen(weights.numpy()) if weights_too else None,
        )

    def _from_level(self, level: PyramidLevel, rows: Part, cols: Part) -> MapTile:
        b = level.b
        part = level.levels[rows[0] // b : -(-rows[1] // b), cols[0] // b : -(-cols[1] // b)]
        return MapTile(
            head=self.head,
            trace=self.trace,
            rows=rows,
            cols=cols,
            b=b,
            levels=_frozen(part.contiguous().numpy().copy()),
            peak=level.peak,
            head_peak=level.peak,
            row_peaks=self._row_peaks(range(*rows), b),
        )

    def _head_peak(self) -> float:
        finest = self.finest
        return finest.peak if finest is not None else self._peak_seen

    def _row_peaks(self, rows: range, b: int) -> np.ndarray | None:
        finest = self.finest
        if finest is None:
            return None
        peaks = finest.row_peaks[rows.start : rows.stop]
        if b > 1:
            n_blocks = -(-len(peaks) // b)
            padded = peaks.new_zeros(n_blocks * b)
            padded[: len(peaks)] = peaks
            peaks = padded.view(n_blocks, b).amax(dim=1)
        return _frozen(peaks.numpy().copy())


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


MAX_PYRAMID_BYTES = 160_000_000
HeadKey = tuple[str, int, HeadRef]


class TileServer:
    """Serves tiles of the traces in `views`; caches the pyramids of recently viewed heads."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._heads: OrderedDict[HeadKey, HeadTiles] = OrderedDict()
        self._unfinished: dict[str, ShowTile] = {}
        self._growing: HeadKey | None = None

    def start(self, request: TileRequest | ShowHeads) -> Iterator[TileReply | HeadsShown | None]:
        """Begin to answer; no replies if the trace is gone."""
        if isinstance(request, ShowHeads):
            yield from show_heads(request, self._views)
            return
        trace = self._views.find_shown(request.model, request.trace)
        if trace is None or not all(head.site_key in trace.records for head in _heads_of(request)):
            return  # gone, or of a layer that is not known yet: it is asked for again when it is
        match request:
            case ShowTile():
                yield from self._show_tile(request, trace)
            case ReadCell():
                yield self._read_cell(request, trace)
            case ShowEdges():
                yield from _show_edges(request, trace)
            case RefineGrids():
                yield from self._refine(request, trace)
            case _:
                raise TypeError(f"no handler for {type(request).__name__}")

    @property
    def has_idle_work(self) -> bool:
        """Whether `grow` has something to do."""
        return self._growing is not None

    def grow(self) -> Iterator[TileReply]:
        """Work a little on the pyramid of the head viewed last; then on the tiles that waited for it."""
        head = self._heads.get(self._growing) if self._growing else None
        if head is None or self._views.find_shown(*self._growing[:2]) is None:  # type: ignore[index]
            self._growing = None
            return
        head.grow()
        if not head.is_grown:
            return
        self._growing = None
        for slot, request in list(self._unfinished.items()):
            del self._unfinished[slot]
            if (request.trace, request.head) == (head.trace, head.head):
                for tile in head.tile(request.rows, request.cols, request.b):
                    if tile is not None and not tile.is_sampled:
                        yield TileShown(number=request.number, slot=request.slot, tile=tile)

    def _show_tile(self, request: ShowTile, trace: Trace) -> Iterator[TileReply | None]:
        head = self._open(request.model, request.trace, request.head, trace)
        self._unfinished.pop(request.slot, None)
        newest: MapTile | None = None
        for tile in head.tile(request.rows, request.cols, request.b):
            if tile is None:
                yield None
                continue
            newest = tile
            fraction = head.fraction if tile.is_sampled else None
            yield TileShown(number=request.number, slot=request.slot, tile=tile, fraction=fraction)
        if newest is not None and newest.is_sampled:
            self._unfinished[request.slot] = request
        if not head.is_grown:
            self._growing = (request.model, request.trace, request.head)

    def _read_cell(self, request: ReadCell, trace: Trace) -> CellRead:
        head = self._open(request.model, request.trace, request.head, trace)
        reading = head.read(request.rows, request.cols)
        return CellRead(number=request.number, trace=request.trace, head=request.head, reading=reading)

    def _refine(self, request: RefineGrids, trace: Trace) -> Iterator[TileReply | None]:
        for grid in trace.grids(request.thumbnail_px):
            if not grid.is_sampled:
                continue
            for head in grid.site.heads:
                levels, peaks = np.array(grid.levels), np.array(grid.peaks)
                for thumbnail in self._thumbnail(request, trace, head):
                    if thumbnail is None:
                        yield None
                        continue
                    levels[head.head], peaks[head.head] = thumbnail
                is_last = head == grid.site.heads[-1]
                grid = dataclasses.replace(grid, levels=levels, peaks=peaks, is_sampled=not is_last)
                yield GridRefined(number=request.number, model=request.model, trace=request.trace, grid=grid)

    def _thumbnail(
        self, request: RefineGrids, trace: Trace, head: HeadRef
    ) -> Iterator[tuple[np.ndarray, float] | None]:
        known = self._heads.get((request.model, request.trace, head))
        px = request.thumbnail_px
        finest = known.finest if known is not None else None
        one = known.one if known is not None else OneHead(trace.records[head.site_key], head.head)
        if finest is not None and has_enough(finest.levels.shape, size_of(one, px)):
            weights = thumbnail_of(finest, px)
        else:
            for found in build_thumbnail(one, px):
                if found is None:
                    yield None
                else:
                    weights = found
        peak = largest_weight(weights)
        yield bytes_of(weights, peak).numpy(), peak

    def _open(self, model: str, number: int, head: HeadRef, trace: Trace) -> HeadTiles:
        key = (model, number, head)
        if key not in self._heads:
            self._heads[key] = HeadTiles(head, number, OneHead(trace.records[head.site_key], head.head))
        self._heads.move_to_end(key)
        self._forget_old()
        return self._heads[key]

    def _forget_old(self) -> None:
        """Drop heads of traces that are gone, then the least recently viewed."""
        for key in [key for key in self._heads if self._views.find_shown(key[0], key[1]) is None]:
            del self._heads[key]
        while len(self._heads) > 1 and sum(head.n_bytes for head in self._heads.values()) > MAX_PYRAMID_BYTES:
            self._heads.popitem(last=False)


def _heads_of(request: TileRequest) -> tuple[HeadRef, ...]:
    match request:
        case ShowTile() | ReadCell():
            return (request.head,)
        case ShowEdges():
            return request.heads
        case _:
            return ()


def _show_edges(request: ShowEdges, trace: Trace) -> Iterator[TileReply | None]:
    heads = [OneHead(trace.records[head.site_key], head.head) for head in request.heads]
    sizes = {(head.n_queries, head.n_keys) for head in heads}
    if len(sizes) != 1:
        return
    for found in strongest_edges(heads, request.n_edges):
        if not isinstance(found, FoundEdges):
            yield None
            continue
        edges = StrongEdges(
            trace=request.trace,
            heads=request.heads,
            head_indices=found.heads.numpy(),
            queries=found.queries.numpy(),
            keys=found.keys.numpy(),
            weights=found.weights.numpy(),
            n_all=found.n_all,
            hidden=found.hidden,
        )
        yield EdgesShown(number=request.number, edges=edges)
