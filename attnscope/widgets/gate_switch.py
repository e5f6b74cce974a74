"""The small switch on a head's thumbnail: one click turns the head off, another turns it on again."""

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette

_SIDE_PX = 18.0
_LEAST_BOX_PX = 30.0
_INSET_PX = 3.0


def switch_rect(box: QRectF) -> QRectF | None:
    """Where the switch lies in a thumbnail's rectangle; None when the thumbnail is too small for one."""
    if min(box.width(), box.height()) < _LEAST_BOX_PX:
        return None
    return QRectF(box.right() - _SIDE_PX - _INSET_PX, box.top() + _INSET_PX, _SIDE_PX, _SIDE_PX)


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
    centre = rect.center()
    ring = QRectF(centre.x() - 4.5, centre.y() - 3.5, 9, 9)
    painter.drawArc(ring, 125 * 16, 290 * 16)
    painter.drawLine(QPointF(centre.x(), centre.y() - 5.5), QPointF(centre.x(), centre.y() - 0.5))
    painter.restore()
