"""The colours of two maps and their difference as codes.

| symbol | meaning                                                                 | shape            |
|--------|-------------------------------------------------------------------------|------------------|
| codes  | 0 mask, 1 one side only, 2…257 colours, 258 neither side has the tokens | [n_rows, n_cols] |
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.raster import (
    FIRST_COLOUR,
    NO_DATA,
    NOT_ALLOWED,
    Codes,
    codes_from_weights,
    scale_peaks,
)
from attnscope.figures.style import MapStyle
from attnscope.records.compare import NOWHERE, ONLY_A, ONLY_B
from attnscope.viewmodels.compare.difference import ComparedMaps

GAP = FIRST_COLOUR + 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceCodes:
    """The codes of the three maps, and the weight at the end of the weights' colours."""

    first: Codes
    second: Codes
    delta: Codes
    top: float


def difference_codes(shown: ComparedMaps, style: MapStyle) -> DifferenceCodes:
    """The codes of the three maps; A and B by one scale, Δ from −end to end."""
    finite = [np.where(np.isfinite(weights), weights, 0.0) for weights in (shown.first, shown.second)]
    peaks = scale_peaks(np.maximum(*finite), style.scale)
    first, second = (
        codes_from_weights(np.asarray(weights / peaks, dtype=np.float32), "fixed")
        for weights in (shown.first, shown.second)
    )
    delta = delta_codes(shown.delta, shown.end)
    delta[(shown.kinds == ONLY_A) | (shown.kinds == ONLY_B)] = NO_DATA
    delta[shown.kinds == NOWHERE] = GAP
    top = float(peaks.max()) if style.scale == "head" and peaks.size else 1.0
    return DifferenceCodes(first=first, second=second, delta=delta, top=top)


def delta_codes(delta: NDArray[np.float32], end: float) -> Codes:
    """Δ from −end to end as codes around the middle of the colours; NaN counts as not allowed."""
    shares = np.clip(np.nan_to_num(delta / np.float32(end), nan=0.0), -1.0, 1.0)
    codes: Codes = (np.rint((shares + 1) * 127.5) + FIRST_COLOUR).astype(np.uint16)
    codes[~np.isfinite(delta)] = NOT_ALLOWED
    return codes
