"""One head of one long trace: its tiles, whatever is ready first, and its pyramid as it grows. No Qt."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from attnscope.records.sites import HeadRef
from attnscope.records.tiles import CellReading, MapTile, Part
from attnscope.trace.pooling import OneHead, as_slice, pool_strip, strips
from attnscope.trace.pyramid import Level, build_pyramid, bytes_of, sample_blocks
from attnscope.trace.thumbnails import largest_weight

QUICK_CELLS = 4_000_000
"""So many cells take about 10 ms: no rough picture is needed before."""
DIRECT_CELLS = 80_000_000
"""More cells are not pooled for one tile: the pyramid will have them all."""
SAMPLED_PX = 1024
"""A rough picture has at most about so many samples a side."""


class HeadTiles:
    """Serves tiles of one head; `grow` makes its pyramid a little higher each time."""

    def __init__(self, head: HeadRef, trace: int, one: OneHead) -> None:
        self.head, self.trace, self.one = head, trace, one
        self.fraction = 0.0
        self._levels: dict[int, Level] = {}
        self._growing: Iterator[float | Level] | None = build_pyramid(one)
        self._peak_seen = 0.0

    @property
    def is_grown(self) -> bool:
        """Whether the pyramid is complete."""
        return self._growing is None

    @property
    def finest(self) -> Level | None:
        """The finest level of the pyramid, when it is there."""
        return next(iter(self._levels.values()), None)

    @property
    def n_bytes(self) -> int:
        """Memory that the pyramid keeps."""
        return sum(level.levels.numel() for level in self._levels.values())

    def grow(self) -> None:
        """Do at most about 50 ms of work on the pyramid."""
        if self._growing is None:
            return
        step = next(self._growing, None)
        if step is None:
            self._growing, self.fraction = None, 1.0
        elif isinstance(step, Level):
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
        """The largest weight of a small rectangle, exactly, and where it stands."""
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

    def _from_level(self, level: Level, rows: Part, cols: Part) -> MapTile:
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
