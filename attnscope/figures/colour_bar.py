"""The colour bar beside a map: what the colours stand for, and the two kinds of missing numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette, lut_argb
from attnscope.figures.raster import image_from_words
from attnscope.figures.style import SMALL_PX, Scale, font, type_px

BAR_PX = 10.0
WIDTH_PX = 74.0
_SWATCH_PX = 10.0
Ticks = tuple[tuple[float, str], ...]
"""Height (0…1) and label of each."""


def weight_ticks(scale: Scale, peak: float, full: float = 1.0) -> tuple[Ticks, str]:
    """Ticks and note of the bar of weights up to each row's largest, the head's `peak`, or `full`."""
    if scale == "row":
        return ((0.0, "0"), (1.0, "row max")), "per row"
    if scale == "head" and peak > 0:
        return tuple((t, share_text(t * peak)) for t in (0.0, 0.5, 1.0)), "to head max"
    return tuple((t, f"{t * full:.3g}") for t in (0.0, 0.25, 0.5, 0.75, 1.0)), ""


def share_text(weight: float) -> str:
    """A tick's weight, short; a sum of heads, which goes beyond 1, with one digit more."""
    return f"{weight:.2g}" if weight < 1 else f"{weight:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourBar:
    """What a bar of colours says: its colours, what they count, and the kinds of missing numbers.

    `words` [n] are the colours from 0 to 1 where they are not those of `colour_map`.
    """

    colour_map: str
    title: str
    ticks: Ticks
    note: str = ""
    has_not_allowed: bool = False
    has_no_data: bool = False
    not_allowed_words: str = "not allowed"
    no_data_words: str = "no data"
    no_data_colour: str = ""
    words: NDArray[np.uint32] | None = None


def paint_colour_bar(painter: QPainter, rect: QRectF, colours: ColourBar, palette: Palette) -> None:
    """Draw a vertical bar from the top of `rect`."""
    painter.save()
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(rect.left(), rect.top() + type_px(9)), colours.title)
    top = rect.top() + type_px(22)
    swatches = [(palette.not_allowed, colours.not_allowed_words)] * colours.has_not_allowed + [
        (colours.no_data_colour or palette.no_data, colours.no_data_words)
    ] * colours.has_no_data
    below = type_px(8 + (16 if colours.note else 0) + 17 * len(swatches))
    height = max(24.0, min(type_px(180.0), rect.bottom() - top - below))
    bar = QRectF(rect.left(), top, BAR_PX, height)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    shown = lut_argb(colours.colour_map) if colours.words is None else colours.words
    painter.drawImage(bar, image_from_words(shown[::-1, None].repeat(4, axis=1)))
    _paint_ticks(painter, bar, colours.ticks, palette)
    y = bar.bottom() + type_px(8)
    if colours.note:
        painter.setPen(QColor(palette.muted))
        painter.drawText(QPointF(rect.left(), y + type_px(9)), colours.note)
        y += type_px(18)
    for colour, label in swatches:
        _paint_swatch(painter, QPointF(rect.left(), y), colour, label, palette)
        y += type_px(17)
    painter.restore()


def _paint_ticks(
    painter: QPainter, bar: QRectF, ticks: tuple[tuple[float, str], ...], palette: Palette
) -> None:
    """The ends, and of the ticks between them those that have room."""
    drawn: list[float] = []
    for height, label in sorted(ticks, key=lambda tick: min(tick[0], 1 - tick[0])):
        if any(abs(height - other) * bar.height() < type_px(11) for other in drawn):
            continue
        drawn.append(height)
        y = bar.bottom() - height * bar.height()
        painter.setPen(QPen(QColor(palette.muted), 1.0))
        painter.drawLine(QPointF(bar.right(), y), QPointF(bar.right() + 3, y))
        painter.setPen(QColor(palette.text))
        painter.drawText(QPointF(bar.right() + 6, y + type_px(4)), label)


def _paint_swatch(painter: QPainter, corner: QPointF, colour: str, label: str, palette: Palette) -> None:
    side = type_px(_SWATCH_PX)
    box, half = QRectF(corner.x(), corner.y(), side, side), side / 2
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour))
    painter.drawRect(box)
    if colour == palette.not_allowed:
        painter.setPen(QPen(QColor(palette.hatch), 1.0))
        painter.drawLine(QPointF(box.left() + half, box.top()), QPointF(box.left(), box.top() + half))
        painter.drawLine(box.bottomLeft(), box.topRight())
        painter.drawLine(QPointF(box.right(), box.top() + half), QPointF(box.left() + half, box.bottom()))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawRect(box)
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(box.right() + 6, box.bottom() - 0.5), label)
