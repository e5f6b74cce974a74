"""What charts have besides lines: loose points, stems, and upright marks with a word."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_piece
from attnscope.figures.style import SMALL_PX, font, text_width, type_px

_RADIUS_PX = 2.6
Pixels = NDArray[np.float64]


def paint_points(painter: QPainter, px: Pixels, py: Pixels, colour: QColor) -> None:
    """A dot at each point that is a number."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    for x, y in _finite(px, py):
        painter.drawEllipse(QPointF(x, y), _RADIUS_PX, _RADIUS_PX)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def paint_labels(
    painter: QPainter,
    plot: QRectF,
    px: Pixels,
    py: Pixels,
    labels: tuple[str, ...],
    palette: Palette,
    lines: Sequence[tuple[Pixels, ...]] = (),
) -> None:
    """A name beside each point, where it touches no point, no other name and none of `lines` (pixels of
    their points); else it is left out.
    """
    if not labels:
        return
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.text))
    behind = QColor(palette.background)
    behind.setAlphaF(0.7)
    side, high = 2 * _RADIUS_PX, type_px(13)
    taken = [QRectF(x - _RADIUS_PX, y - _RADIUS_PX, side, side) for x, y in _finite(px, py)]
    taken += [QRectF(x - 1, y - 1, 2, 2) for line in lines for x, y in _finite(*_filled(*line))]
    for x, y, label in zip(px.tolist(), py.tolist(), labels, strict=True):
        text = plain_piece(label)
        width = text_width(text) + 2
        gap = _RADIUS_PX + 2
        lefts = (x + gap, x - gap - width)
        places = [QRectF(left, y - high / 2, width, high) for left in lefts]
        for left in (x - width / 2, x - width, x):
            places += [QRectF(left, y - gap - high, width, high), QRectF(left, y + gap, width, high)]
        rises = (3 - high, -3, -1.5 * high - 1, high / 2 + 1)
        places += [QRectF(left, y + rise, width, high) for left in lefts for rise in rises]
        free = (p for p in places if plot.contains(p) and not any(p.intersects(other) for other in taken))
        place = next(free, None)
        if place is not None:
            taken.append(place)
            painter.fillRect(place, behind)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)


def paint_stems(painter: QPainter, px: Pixels, py: Pixels, foot: float, colour: QColor) -> None:
    """An upright line from `foot` to each point that is a number."""
    pen = QPen(colour, 2.0)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    painter.drawLines([QLineF(x, foot, x, y) for x, y in _finite(px, py)])


def paint_whiskers(painter: QPainter, places: tuple[Pixels, ...], colour: QColor) -> None:
    """An upright line between each two points, low and high, with a short one across either end."""
    painter.setPen(QPen(colour, 1.0))
    ends = np.stack(places, axis=1).reshape(-1, 2, 2)
    for (x, low), (_, high) in ends[np.isfinite(ends).all(axis=(1, 2))].tolist():
        across = [QLineF(x - 2.5, y, x + 2.5, y) for y in (low, high)]
        painter.drawLines([QLineF(x, low, x, high), *across])


def paint_x_names(
    painter: QPainter, plot: QRectF, px: Pixels, names: tuple[str, ...], palette: Palette
) -> None:
    """Names below the x axis, turned upright where they would touch, every few where even these would."""
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    step = float(px[1] - px[0]) if len(px) > 1 else plot.width()
    wide = max(text_width(name) for name in names)
    if wide + 6 <= step:
        for x, name in zip(px.tolist(), names, strict=True):
            painter.drawText(QPointF(x - text_width(name) / 2, plot.bottom() + 5 + type_px(10)), name)
        return
    every = max(1, int(np.ceil(type_px(SMALL_PX + 1) / max(step, 1e-6))))
    for x, name in list(zip(px.tolist(), names, strict=True))[::every]:
        painter.save()
        painter.translate(x + type_px(4), plot.bottom() + 6 + text_width(name))
        painter.rotate(-90)
        painter.drawText(QPointF(0, 0), name)
        painter.restore()


def paint_marks(
    painter: QPainter, plot: QRectF, marks: tuple[tuple[float, str], ...], palette: Palette
) -> None:
    """Dashed upright lines at pixels of `plot`, each with its word at the top."""
    painter.setFont(font(SMALL_PX))
    for x, word in marks:
        if not plot.left() - 1 <= x <= plot.right() + 1:
            continue
        painter.setPen(QPen(QColor(palette.muted), 1.0, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
        painter.setPen(QColor(palette.muted))
        width = text_width(word)
        left = x + 4 if x + 4 + width <= plot.right() else x - 4 - width
        painter.drawText(QPointF(left, plot.top() + 10), word)


def _filled(px: Pixels, py: Pixels) -> tuple[Pixels, Pixels]:
    """A line with points every three pixels, so that nothing small slips between two of them."""
    if len(px) < 2:
        return px, py
    places = np.arange(px[0], px[-1], 3.0)
    return places, np.interp(places, px, py)


def _finite(px: Pixels, py: Pixels) -> list[tuple[float, float]]:
    is_good = np.isfinite(px) & np.isfinite(py)
    return list(zip(px[is_good].tolist(), py[is_good].tolist(), strict=True))
