"""One picture of a whole map of any length: exact blocks of cells, never more of them than asked for."""

import torch

from attnscope.records.sites import HeadRef
from attnscope.records.tiles import MapTile, Part
from attnscope.trace.pooling import OneHead, pool_strip, strips
from attnscope.trace.pyramid import bytes_of
from attnscope.trace.record import SiteRecord
from attnscope.trace.thumbnails import largest_weight


def tile_of(
    record: SiteRecord,
    head: HeadRef,
    *,
    rows: Part | None = None,
    cols: Part | None = None,
    max_px: int = 1024,
) -> MapTile:
    """Some rows and columns (None: all) of one head in blocks of cells, at most `max_px` of them a side."""
    top, bottom = rows or (0, record.n_queries)
    left, right = cols or (0, record.n_keys)
    b = 1
    while max(bottom - top, right - left) > b * max_px:
        b *= 2
    one = OneHead(record, head.head)
    found = [pool_strip(one, strip, range(left, right), b) for strip in strips(range(top, bottom), b)]
    weights = torch.cat([pooled.weights() for pooled in found]).cpu()
    peak = largest_weight(weights)
    row_peaks = torch.cat([pooled.row_peaks for pooled in found]).exp().cpu()
    padded = row_peaks.new_zeros(len(weights) * b)
    padded[: len(row_peaks)] = row_peaks
    return MapTile(
        head=head,
        trace=0,
        rows=(top, bottom),
        cols=(left, right),
        b=b,
        levels=bytes_of(weights, peak).numpy(),
        peak=peak,
        head_peak=peak,
        row_peaks=padded.view(-1, b).amax(dim=1).numpy(),
        weights=weights.numpy() if b == 1 else None,
    )
