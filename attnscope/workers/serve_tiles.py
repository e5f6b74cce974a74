"""Answering what is looked at in long texts: tiles, cells, edges, exact thumbnails. No Qt.

Every answer is a generator with at most about 50 ms of work between two yields, so that a newer request
never waits for an older one; what nobody waits for is made when there is nothing else to do.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from attnscope.records.messages import HeadsShown, ShowHeads
from attnscope.records.sites import HeadRef
from attnscope.records.tiles import (
    CellRead,
    EdgesShown,
    GridRefined,
    MapTile,
    ReadCell,
    RefineGrids,
    ShowEdges,
    ShowTile,
    StrongEdges,
    TileReply,
    TileRequest,
    TileShown,
)
from attnscope.trace.edges import Edges, strongest_edges
from attnscope.trace.pooling import OneHead
from attnscope.trace.pyramid import bytes_of
from attnscope.trace.thumbnails import build_thumbnail, has_enough, largest_weight, size_of, thumbnail_of
from attnscope.trace.trace import Trace
from attnscope.workers.head_tiles import HeadTiles
from attnscope.workers.views import Views, show_heads

MAX_PYRAMID_BYTES = 160_000_000
HeadKey = tuple[str, int, HeadRef]


class TileServer:
    """Serves tiles of the traces in `views`; remembers the pyramids of the heads looked at last."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._heads: OrderedDict[HeadKey, HeadTiles] = OrderedDict()
        self._unfinished: dict[str, ShowTile] = {}
        self._growing: HeadKey | None = None

    def start(self, request: TileRequest | ShowHeads) -> Iterator[TileReply | HeadsShown | None]:
        """Begin to answer; nothing comes when the trace is gone."""
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
        """Whether `grow` would get something done."""
        return self._growing is not None

    def grow(self) -> Iterator[TileReply]:
        """A little work on the pyramid of the head looked at last; then the tiles that waited for it."""
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
        """Drop heads of traces that are gone, then those looked at longest ago."""
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
        if not isinstance(found, Edges):
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
