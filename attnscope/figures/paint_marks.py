"""What charts have besides lines: loose points, stems, and upright marks with a word."""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.style import SMALL_PX, font, text_width

_RADIUS_PX = 2.6
Pixels = NDArray[np.float64]


def paint_points(painter: QPainter, px: Pixels, py: Pixels, colour: QColor) -> None:
    """A dot at each point that is a number."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    for x, y in _finite(px, py):
        painter.drawEllipse(QPointF(x, y), _RADIUS_PX, _RADIUS_PX)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def paint_stems(painter: QPainter, px: Pixels, py: Pixels, foot: float, colour: QColor) -> None:
    """An upright line from `foot` to each point that is a number."""
    pen = QPen(colour, 2.0)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    painter.drawLines([QLineF(x, foot, x, y) for x, y in _finite(px, py)])


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


def _finite(px: Pixels, py: Pixels) -> list[tuple[float, float]]:
    is_good = np.isfinite(px) & np.isfinite(py)
    return list(zip(px[is_good].tolist(), py[is_good].tolist(), strict=True))
