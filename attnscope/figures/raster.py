"""From weights to pixels without smoothing: each cell has one colour; in a file, rectangles."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPaintEngine, QPainter, QPen

from attnscope.figures.colours import Palette, argb, lut_argb
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Scale

NOT_ALLOWED, NO_DATA, FIRST_COLOUR = 0, 1, 2
Codes = NDArray[np.uint16]
Pixel = TypeVar("Pixel", np.uint16, np.uint32)
_MAX_VECTOR_PX = 2400
HATCH_PERIOD_PX = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCodes:
    """The codes of one map, with the data for its colour bar."""

    codes: Codes
    peak: float
    has_not_allowed: bool
    has_no_data: bool


class ImageCache:
    """Caches the last painted image of each slot; an image is rebuilt when its key changes.

    Whoever owns the cache clears it when the data changes: keys name the data by identity.
    """

    def __init__(self) -> None:
        self._images: dict[Hashable, tuple[Hashable, QImage]] = {}
        self._codes: dict[Hashable, MapCodes] = {}

    def image(self, slot: Hashable, key: Hashable) -> QImage | None:
        """The image in `slot` if it was made for `key`."""
        found = self._images.get(slot)
        return found[1] if found is not None and found[0] == key else None

    def keep(self, slot: Hashable, key: Hashable, image: QImage) -> QImage:
        """Store and return `image`."""
        self._images[slot] = (key, image)
        return image

    def codes(self, weights: NDArray[np.float32], scale: Scale, full: float = 1.0) -> MapCodes:
        """The codes of a map, computed once for each scale."""
        key = (id(weights), scale)
        if key not in self._codes:
            self._codes[key] = map_codes(weights, scale, full)
        return self._codes[key]

    def clear(self) -> None:
        """Clear the cache."""
        self._images.clear()
        self._codes.clear()


def map_codes(weights: NDArray[np.float32], scale: Scale, full: float = 1.0) -> MapCodes:
    """The codes of a map, its largest weight, and the kinds of missing numbers in it."""
    codes = codes_from_weights(weights, scale, full)
    finite = weights[np.isfinite(weights)]
    return MapCodes(
        codes=codes,
        peak=float(finite.max()) if finite.size else 0.0,
        has_not_allowed=bool((codes == NOT_ALLOWED).any()),
        has_no_data=bool((codes == NO_DATA).any()),
    )


def scale_peaks(weights: NDArray[np.float32], scale: Scale, full: float = 1.0) -> NDArray[np.float32]:
    """The weight at the end of the colour map, for each row [n_queries, 1].

    `fixed`: `full`, which is 1 for one head. `head`: the largest weight of the map. `row`: the largest
    of each row. Never 0.
    """
    finite = np.where(np.isfinite(weights), weights, 0.0)
    n_queries = len(weights)
    if scale == "fixed" or weights.size == 0:
        peaks = np.full((n_queries, 1), full, dtype=np.float32)
    elif scale == "head":
        peaks = np.full((n_queries, 1), finite.max(), dtype=np.float32)
    else:
        peaks = finite.max(axis=1, keepdims=True).astype(np.float32)
    peaks[peaks <= 0] = 1.0
    return peaks


def codes_from_weights(weights: NDArray[np.float32], scale: Scale, full: float = 1.0) -> Codes:
    """Codes of a weight map. NaN is not allowed; infinities and rows that are all NaN are missing data."""
    shares = np.clip(np.nan_to_num(weights / scale_peaks(weights, scale, full), nan=0.0), 0.0, 1.0)
    codes: Codes = (np.rint(shares * 255) + FIRST_COLOUR).astype(np.uint16)
    is_nan = np.isnan(weights)
    codes[is_nan] = NOT_ALLOWED
    codes[np.isinf(weights)] = NO_DATA
    codes[is_nan.all(axis=1)] = NO_DATA
    return codes


def codes_from_grid(grid: SiteGrid, scale: Scale) -> Codes:
    """Codes of all thumbnails of a site, [n_heads, rows, cols]."""
    codes: Codes
    levels = grid.levels
    peaks = np.where(np.isfinite(grid.peaks), np.clip(grid.peaks, 0.0, None), 0.0)[:, None, None]
    if scale == "row":
        tops = np.maximum(levels.max(axis=2, keepdims=True).astype(np.float32) - 1, 1)
        shares = (levels.astype(np.float32) - 1) / tops
        codes = (np.rint(np.clip(shares, 0, 1) * 255) + FIRST_COLOUR).astype(np.uint16)
    else:
        factor = np.minimum(peaks, 1.0) if scale == "fixed" else np.ones_like(peaks)
        steps = np.arange(256, dtype=np.float32) - 1
        table = (np.rint(np.clip(steps / 254 * factor[:, 0], 0, 1) * 255) + FIRST_COLOUR).astype(np.uint16)
        codes = np.stack([row[thumbnail] for row, thumbnail in zip(table, levels, strict=True)])
    codes[levels == 0] = NOT_ALLOWED
    codes[(levels == 0).all(axis=2)] = NO_DATA
    if grid.left_out is not None:
        codes[grid.left_out] = NO_DATA
    return codes


def code_colours(colour_map: str, palette: Palette) -> NDArray[np.uint32]:
    """The colour of every code, [258]."""
    kinds = np.array([argb(palette.not_allowed), argb(palette.no_data)], dtype=np.uint32)
    return np.concatenate([kinds, lut_argb(colour_map)])


def resample(
    codes: NDArray[Pixel], window: tuple[float, float], n_px: int, axis: int, *, is_sampled: bool = False
) -> NDArray[Pixel]:
    """The cells from `window[0]` to `window[1]` along `axis`, as `n_px` pixels.

    With more cells than pixels each pixel takes the largest code, or with `is_sampled` the middle one.
    """
    start, end = window
    n_cells = codes.shape[axis]
    edges = start + np.arange(n_px) * (end - start) / n_px
    if is_sampled or end - start <= n_px:
        centres = np.floor(edges + (end - start) / n_px / 2).astype(np.intp)
        taken: NDArray[Pixel] = np.take(codes, np.clip(centres, 0, n_cells - 1), axis=axis)
        return taken
    firsts = np.clip(np.floor(edges).astype(np.intp), 0, n_cells - 1)
    last = min(int(np.ceil(end)), n_cells)
    within = np.take(codes, np.arange(firsts[0], last), axis=axis)
    return np.asarray(np.maximum.reduceat(within, firsts - firsts[0], axis=axis))


def image_from_words(words: NDArray[np.uint32]) -> QImage:
    """An opaque image of [height, width] colour words; the pixels are copied."""
    words = np.ascontiguousarray(words, dtype=np.uint32)
    height, width = words.shape
    return QImage(words.data, width, height, width * 4, QImage.Format.Format_RGB32).copy()


def image_from_codes(codes: Codes, words: NDArray[np.uint32], cell_px: int) -> QImage:
    """An image of [n_rows, n_cols] codes in colour `words`, each cell `cell_px` wide and high.

    One byte a pixel with a table of its colours: a file of it is a third as large, and made in a fraction
    of the time; a map that has more than 256 colours takes four bytes.
    """
    used, places = np.unique(codes, return_inverse=True)
    if len(used) > 256:
        return image_from_words(words[codes].repeat(cell_px, axis=0).repeat(cell_px, axis=1))
    pixels = places.reshape(codes.shape).astype(np.uint8).repeat(cell_px, axis=0).repeat(cell_px, axis=1)
    height, width = pixels.shape
    image = QImage(pixels.data, width, height, width, QImage.Format.Format_Indexed8)
    image.setColorTable(words[used].tolist())
    return image.copy()


def cells_image(
    codes: Codes,
    window: QRectF,
    size_px: tuple[int, int],
    words: NDArray[np.uint32],
    *,
    hatch: str = "",
    hatch_scale: float = 1.0,
    is_sampled: bool = False,
) -> QImage:
    """The cells of `window` (x keys, y queries) as an image of exactly `size_px` (width, height).

    `hatch` is the colour of fine diagonals over cells the mask forbids; empty draws none.
    """
    width, height = size_px
    rows, columns = (window.top(), window.bottom()), (window.left(), window.right())
    across = resample(codes, columns, width, axis=1, is_sampled=is_sampled)  # [n_rows, width]
    is_hatched = bool(hatch) and bool((codes == NOT_ALLOWED).any())
    if not is_hatched and window.height() <= height:
        colours = resample(words[across], rows, height, axis=0)  # each row taken whole, often several times
        return image_from_words(colours)
    pixels = resample(across, rows, height, axis=0, is_sampled=is_sampled)  # [height, width]
    colours = words[pixels]
    if is_hatched:
        period = max(3, round(HATCH_PERIOD_PX * hatch_scale))
        is_line = np.arange(width + period) % period < max(1, round(hatch_scale))
        diagonals = np.lib.stride_tricks.sliding_window_view(is_line, width)[np.arange(height) % period]
        colours[diagonals & (pixels == NOT_ALLOWED)] = argb(hatch)
    return image_from_words(colours)


def is_vector(painter: QPainter) -> bool:
    """Whether the painter writes SVG or PDF rather than pixels."""
    engine = painter.paintEngine()
    return engine is not None and engine.type() in (QPaintEngine.Type.SVG, QPaintEngine.Type.Pdf)


def image_size(painter: QPainter, rect: QRectF, window: QRectF) -> tuple[tuple[int, int], float]:
    """The size in pixels for an image of `window` drawn into `rect`, and its scale.

    On pixels: exactly the device's. In SVG and PDF: a whole number of pixels for each cell, twice the
    layout's resolution or more, so that the image is crisp and no viewer has to smooth it.
    """
    scale = painter.deviceTransform().m11() if not is_vector(painter) else 2.0
    width, height = max(1, round(rect.width() * scale)), max(1, round(rect.height() * scale))
    if is_vector(painter):
        n_cols, n_rows = max(1, round(window.width())), max(1, round(window.height()))
        width = n_cols * max(1, min(-(-width // n_cols), _MAX_VECTOR_PX // n_cols))
        height = n_rows * max(1, min(-(-height // n_rows), _MAX_VECTOR_PX // n_rows))
    return (width, height), scale


MAX_CELLS = 4_000
"""A figure of so many cells, or more, has them as an image."""
_LAP_PX = 0.3


def has_vector_cells(painter: QPainter, n_cells: int) -> bool:
    """Whether this many cells are painted as rectangles: in SVG and PDF, if they are few enough."""
    return is_vector(painter) and 0 < n_cells < MAX_CELLS


def paint_vector_cells(
    painter: QPainter, rect: QRectF, codes: Codes, words: NDArray[np.uint32], *, hatch: str
) -> None:
    """Fill `rect` with `codes` [n_rows, n_cols] in the colours `words`, hatched where not allowed."""
    n_rows, n_cols = codes.shape
    width, height = rect.width() / n_cols, rect.height() / n_rows
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    runs = [(i, *run) for i in range(n_rows) for run in _runs(codes[i])]
    for i, first, end, code in runs:
        box = QRectF(rect.left() + first * width, rect.top() + i * height, (end - first) * width, height)
        lapped = box.adjusted(0, 0, _LAP_PX if end < n_cols else 0.0, _LAP_PX if i + 1 < n_rows else 0.0)
        painter.setBrush(QColor.fromRgb(int(words[code])))
        painter.drawRect(lapped)
    painter.setPen(QPen(QColor(hatch), 0.8))
    for i, first, end, code in runs:
        if code == NOT_ALLOWED:
            box = QRectF(rect.left() + first * width, rect.top() + i * height, (end - first) * width, height)
            painter.drawLines(_diagonals(box))
    painter.restore()


def _runs(row: Codes) -> list[tuple[int, int, int]]:
    """First, end and code of each run of equal codes."""
    edges = np.flatnonzero(np.diff(row)) + 1
    firsts, ends = [0, *edges.tolist()], [*edges.tolist(), len(row)]
    return [(first, end, int(row[first])) for first, end in zip(firsts, ends, strict=True)]


def _diagonals(box: QRectF) -> list[QLineF]:
    """The lines x + y = k · period within `box`, continuous across boxes."""
    low, high = box.left() + box.top(), box.right() + box.bottom()
    sums = np.arange(np.ceil(low / HATCH_PERIOD_PX), np.floor(high / HATCH_PERIOD_PX) + 1) * HATCH_PERIOD_PX
    lines = []
    for total in sums.tolist():
        left, right = max(box.left(), total - box.bottom()), min(box.right(), total - box.top())
        if right > left:
            lines.append(QLineF(left, total - left, right, total - right))
    return lines


def delta_codes(delta: NDArray[np.float32], end: float) -> Codes:
    """Δ from −end to end as codes around the middle of the colours; NaN counts as not allowed."""
    shares = np.clip(np.nan_to_num(delta / np.float32(end), nan=0.0), -1.0, 1.0)
    codes: Codes = (np.rint((shares + 1) * 127.5) + FIRST_COLOUR).astype(np.uint16)
    codes[~np.isfinite(delta)] = NOT_ALLOWED
    return codes


COLOUR_SHARE = 0.62
"""How much of a pixel is the colour of its cell; the rest is the picture in grey."""


def blended_pixels(
    pixels: NDArray[np.uint8],
    colours: NDArray[np.uint8],
    shares: NDArray[np.float64],
    size: tuple[int, int],
) -> NDArray[np.uint8]:
    """The picture [height, width, 3] under cells [n_rows, n_columns, 3], as uint8 of `size` (width, height).

    `shares` [n_rows, n_columns] from 0 (the picture's grey alone) to 1 (the cell's colour alone).
    """
    width, height = size
    rows = (np.arange(height) * colours.shape[0] // height)[:, None]
    columns = (np.arange(width) * colours.shape[1] // width)[None, :]
    light = sized_pixels(pixels, size) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    grey = (_DARKEST + light / 255 * (_BRIGHTEST - _DARKEST))[:, :, None]
    share = shares.astype(np.float32)[rows, columns][:, :, None]
    shown: NDArray[np.uint8] = np.rint(share * colours[rows, columns] + (1 - share) * grey).astype(np.uint8)
    return shown


def pixel_words(pixels: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """0xFFRRGGBB of each pixel."""
    weights = np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    words: NDArray[np.uint32] = pixels.astype(np.uint32) @ weights + np.uint32(0xFF000000)
    return words


def sized_pixels(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture at another size, each pixel that of the nearest one."""
    width, height = size
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    found: NDArray[np.uint8] = pixels[rows[:, None], columns[None, :]]
    return found


_DARKEST, _BRIGHTEST = 64.0, 192.0


def over_grey(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colours [n, 3] over the middle grey of a picture, as shown in the colour bar beside it."""
    grey = (_DARKEST + _BRIGHTEST) / 2
    shown: NDArray[np.uint8] = np.rint(COLOUR_SHARE * colours + (1 - COLOUR_SHARE) * grey).astype(np.uint8)
    return shown
