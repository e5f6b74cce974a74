"""Counts behind the curves of a chart, coloured by their logarithms, and the strip that says how many."""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from attnscope.figures.colours import Palette, argb, lut_argb
from attnscope.figures.raster import image_from_words
from attnscope.figures.spec import ChartField
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.figures.ticks import tick_text

COLOUR_MAP = "viridis"
_STRIP_PX, _STRIP_HIGH_PX, _GAP_PX = 64.0, 8.0, 5.0


def field_words(
    field: ChartField, *, columns: NDArray[np.float64], rows: NDArray[np.float64], background: int = 0
) -> NDArray[np.uint32]:
    """The colour of each pixel, 0xAARRGGBB [n_rows, n_columns]; `background` where nothing is counted.

    A pixel shows the inspected step nearest to its place in `columns`, and the bin its place in `rows` is in.
    """
    nearest = np.searchsorted((field.xs[1:] + field.xs[:-1]) / 2, columns)
    bins = np.searchsorted(field.edges, rows, side="right") - 1
    is_inside = (bins >= 0) & (bins < len(field.values))
    counts = field.values[np.clip(bins, 0, len(field.values) - 1)][:, nearest]
    counts = np.where(is_inside[:, None], counts, 0.0)
    shares = np.log10(np.maximum(counts, 1.0)) / max(np.log10(most_of(field)), 1e-9)
    words: NDArray[np.uint32] = lut_argb(COLOUR_MAP)[np.rint(np.clip(shares, 0, 1) * 255).astype(int)]
    return np.where(counts > 0, words, np.uint32(background)).astype(np.uint32)


def paint_field(
    painter: QPainter,
    plot: QRectF,
    field: ChartField,
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    is_log_y: bool,
    palette: Palette,
) -> None:
    """Fill the plot; `x` and `y` are its ranges, on a log axis those of log10."""
    wide, high = max(1, round(plot.width())), max(1, round(plot.height()))
    columns = x[0] + (np.arange(wide) + 0.5) / wide * (x[1] - x[0])
    heights = y[1] - (np.arange(high) + 0.5) / high * (y[1] - y[0])
    words = field_words(
        field,
        columns=columns,
        rows=10.0**heights if is_log_y else heights,
        background=int(argb(palette.background)),
    )
    painter.drawImage(plot, image_from_words(words))


def paint_strip(painter: QPainter, right: float, top: float, field: ChartField, palette: Palette) -> float:
    """Draw what the colours count, ending at `right`; returns the width that was used."""
    painter.save()
    painter.setFont(font(SMALL_PX))
    words = _words(field)
    strip = QRectF(right - text_width(words) - _GAP_PX - _STRIP_PX, top, _STRIP_PX, _STRIP_HIGH_PX)
    painter.drawImage(strip, image_from_words(lut_argb(COLOUR_MAP)[None, :].repeat(2, axis=0)))
    painter.setPen(QColor(palette.muted))
    line = QRectF(0, top - type_px(4), 0, _STRIP_HIGH_PX + 2 * type_px(4))
    flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextDontClip
    line.setLeft(strip.left() - _GAP_PX - text_width("1"))
    painter.drawText(line, flags, "1")
    line.setLeft(strip.right() + _GAP_PX)
    painter.drawText(line, flags, words)
    painter.restore()
    return strip_width(field)


def strip_width(field: ChartField) -> float:
    """How much of a line the strip takes, in pixels."""
    return text_width("1") + _STRIP_PX + text_width(_words(field)) + 2 * _GAP_PX


def _words(field: ChartField) -> str:
    return f"{tick_text(_round(most_of(field)))} {field.unit}"


def most_of(field: ChartField) -> float:
    """The count that the end of the colours stands for."""
    return float(max(field.values.max(initial=0.0), 2.0))


def _round(value: float) -> float:
    return float(f"{value:.2g}")
