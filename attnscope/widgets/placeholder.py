"""The designed states that any view may be in: empty, waiting for newer data, and with the focus."""

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.style import LARGE_PX, NORMAL_PX, font, type_px


def paint_placeholder(painter: QPainter, rect: QRectF, palette: Palette, title: str, text: str) -> None:
    """Say what belongs here and what to do, in the middle of `rect`."""
    middle = rect.center().y()
    painter.setFont(font(LARGE_PX))
    painter.setPen(QColor(palette.muted))
    above = QRectF(rect.left() + 16, middle - type_px(36), rect.width() - 32, type_px(28))
    painter.drawText(above, Qt.AlignmentFlag.AlignCenter, title)
    painter.setFont(font(NORMAL_PX))
    below = QRectF(rect.left() + 24, middle, rect.width() - 48, type_px(60))
    align = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
    painter.drawText(below, align, text)


def paint_veil(painter: QPainter, rect: QRectF, palette: Palette) -> None:
    """Dim what is out of date."""
    veil = QColor(palette.background)
    veil.setAlphaF(0.5)
    painter.fillRect(rect, veil)


def paint_focus(painter: QPainter, rect: QRect, palette: Palette) -> None:
    """Frame the view that hears the keyboard."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.accent), 1.0))
    painter.drawRect(rect.adjusted(0, 0, -1, -1))
