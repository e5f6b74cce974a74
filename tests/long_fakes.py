"""A long map of made-up tokens, and tiles for it, for the tests of the window's side."""

import numpy as np

from attnscope.records import HeadRef, LongMap, MapTile, ShowTile, TileShown, Token

HEAD = HeadRef(stack="decoder", layer=0, head=1)


def long_map(n: int = 4_096, *, trace: int = 7, head: HeadRef = HEAD) -> LongMap:
    tokens = tuple(Token(id=i % 50, piece=f"w{i % 50}") for i in range(n))
    return LongMap(model="", trace=trace, head=head, queries=tokens, keys=tokens)


def tile_for(request: ShowTile, *, is_sampled: bool = False) -> MapTile:
    shape = tuple(-(-(b - a) // request.b) for a, b in (request.rows, request.cols))
    rows, cols = (np.arange(n) for n in shape)
    levels = 1 + (rows[:, None] * 7 + cols[None, :] * 3) % 254
    peak = 0.5
    weights = ((levels - 1) / 254 * peak).astype(np.float32) if request.b == 1 and not is_sampled else None
    return MapTile(
        head=request.head, trace=request.trace, rows=request.rows, cols=request.cols, b=request.b,
        levels=levels.astype(np.uint8), peak=peak, head_peak=peak, is_sampled=is_sampled, weights=weights,
    )  # fmt: skip


def answer(request: ShowTile, *, is_sampled: bool = False) -> TileShown:
    tile = tile_for(request, is_sampled=is_sampled)
    return TileShown(number=request.number, slot=request.slot, tile=tile)
