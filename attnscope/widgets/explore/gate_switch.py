"""The small switch on a head's thumbnail: one click turns the head off, another turns it on again."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette

_SIDE_PX = 18.0
_MOST_OF_BOX = 0.34
_LEAST_BOX_PX = 40.0
_INSET_PX = 2.0


def switch_rect(box: QRectF) -> QRectF | None:
    """Where the switch lies in a thumbnail's rectangle; None when the thumbnail is too small for one.

    It stays in its corner: a click in the middle of a thumbnail of any size is a click on the head.
    """
    shorter = min(box.width(), box.height())
    if shorter < _LEAST_BOX_PX:
        return None
    side = min(_SIDE_PX, _MOST_OF_BOX * shorter)
    return QRectF(box.right() - side - _INSET_PX, box.top() + _INSET_PX, side, side)


def paint_switch(painter: QPainter, rect: QRectF, *, is_off: bool, is_hot: bool, palette: Palette) -> None:
    """Paint the sign of a power switch; `is_hot` when the pointer is on it."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(palette.accent if is_hot else palette.line), 1.0))
    painter.setBrush(QColor(palette.accent if is_hot else palette.raised))
    painter.drawRoundedRect(rect, 4, 4)
    sign = QColor(palette.accent_text if is_hot else palette.muted if is_off else palette.accent)
    pen = QPen(sign, 1.6)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.translate(rect.center())
    painter.scale(rect.width() / _SIDE_PX, rect.height() / _SIDE_PX)
    painter.drawArc(QRectF(-4.5, -3.5, 9, 9), 125 * 16, 290 * 16)
    painter.drawLine(QPointF(0, -5.5), QPointF(0, -0.5))
    painter.restore()
