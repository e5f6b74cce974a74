"""Icons drawn with lines on a grid of 24, in any colour, sharp at any scale."""

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap

from attnscope.figures.style import type_px

_SIDE = 24.0


def icon(name: str, colour: str, *, side_px: int = 24) -> QIcon:
    """The icon called `name` in one colour, `side_px` at the size of type; KeyError for an unknown name."""
    result, side_px = QIcon(), round(type_px(side_px))
    for scale in (1, 2):
        pixmap = QPixmap(QSize(side_px, side_px) * scale)
        pixmap.fill(Qt.GlobalColor.transparent)
        with QPainter(pixmap) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.scale(side_px * scale / _SIDE, side_px * scale / _SIDE)
            pen = QPen(QColor(colour), 1.6)
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            _DRAWINGS[name](painter, QColor(colour))
        pixmap.setDevicePixelRatio(scale)
        result.addPixmap(pixmap)
    return result


def _explore(painter: QPainter, colour: QColor) -> None:
    filled = {(0, 0), (1, 1), (2, 2), (2, 1)}
    for row in range(3):
        for column in range(3):
            cell = QRectF(4 + 5.7 * column, 4 + 5.7 * row, 4.4, 4.4)
            if (row, column) in filled:
                painter.fillRect(cell, colour)
            else:
                painter.drawRect(cell.adjusted(0.4, 0.4, -0.4, -0.4))


def _positions(painter: QPainter, _colour: QColor) -> None:
    path = QPainterPath(QPointF(3, 12))
    path.cubicTo(QPointF(6, 1), QPointF(9, 1), QPointF(12, 12))
    path.cubicTo(QPointF(15, 23), QPointF(18, 23), QPointF(21, 12))
    painter.drawPath(path)


def _compare(painter: QPainter, colour: QColor) -> None:
    painter.drawRect(QRectF(3.5, 5, 7, 14))
    painter.drawRect(QRectF(13.5, 5, 7, 14))
    for left, top in ((5.2, 7), (5.2, 14), (15.2, 7), (15.2, 10.5)):
        painter.fillRect(QRectF(left, top, 3.6, 3), colour)


def _heads(painter: QPainter, colour: QColor) -> None:
    for row, length in enumerate((13.0, 8.0, 11.0, 4.5)):
        y = 5.0 + 4.6 * row
        painter.drawEllipse(QPointF(5, y), 1.2, 1.2)
        painter.fillRect(QRectF(8.5, y - 1.2, length, 2.4), colour)


def _train(painter: QPainter, _colour: QColor) -> None:
    painter.drawPolyline([QPointF(4, 4), QPointF(4, 20), QPointF(20, 20)])
    path = QPainterPath(QPointF(7, 6))
    path.cubicTo(QPointF(9, 15), QPointF(12, 16), QPointF(20, 16.5))
    painter.drawPath(path)


def _labs(painter: QPainter, colour: QColor) -> None:
    left = [(9.5, 4.0), (9.5, 9.5), (4.2, 18.2), (5.4, 20.5)]
    flask = [*left, *((24 - x, y) for x, y in reversed(left))]
    painter.drawPolyline([QPointF(x, y) for x, y in flask])
    painter.drawLine(QPointF(8, 4), QPointF(16, 4))
    filled = QPainterPath(QPointF(7.4, 15))
    for x, y in ((16.6, 15), (18.4, 18), (17.8, 19), (6.2, 19), (5.6, 18)):
        filled.lineTo(x, y)
    painter.fillPath(filled, colour)


def _learn(painter: QPainter, _colour: QColor) -> None:
    path = QPainterPath(QPointF(12, 7))
    path.cubicTo(QPointF(9, 4.5), QPointF(6, 4.5), QPointF(3, 5.5))
    path.lineTo(3, 18)
    path.cubicTo(QPointF(6, 17), QPointF(9, 17), QPointF(12, 19.5))
    path.cubicTo(QPointF(15, 17), QPointF(18, 17), QPointF(21, 18))
    path.lineTo(21, 5.5)
    path.cubicTo(QPointF(18, 4.5), QPointF(15, 4.5), QPointF(12, 7))
    path.lineTo(12, 19.5)
    painter.drawPath(path)


def _undo(painter: QPainter, _colour: QColor) -> None:
    painter.drawPolyline([QPointF(8, 5), QPointF(4, 9), QPointF(8, 13)])
    path = QPainterPath(QPointF(4, 9))
    path.lineTo(14, 9)
    path.cubicTo(QPointF(21, 9), QPointF(21, 19), QPointF(14, 19))
    path.lineTo(10, 19)
    painter.drawPath(path)


def _redo(painter: QPainter, colour: QColor) -> None:
    painter.translate(_SIDE, 0)
    painter.scale(-1, 1)
    _undo(painter, colour)


def _light(painter: QPainter, _colour: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 4, 4)
    for k in range(8):
        painter.save()
        painter.translate(12, 12)
        painter.rotate(45 * k)
        painter.drawLine(QPointF(0, -7), QPointF(0, -9))
        painter.restore()


def _dark(painter: QPainter, _colour: QColor) -> None:
    path = QPainterPath(QPointF(14, 4))
    path.arcTo(QRectF(4, 4, 16, 16), 75, 270)
    path.cubicTo(QPointF(15, 18), QPointF(9, 12), QPointF(14, 4))
    painter.drawPath(path)


def _system(painter: QPainter, colour: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 8, 8)
    path = QPainterPath(QPointF(12, 4))
    path.arcTo(QRectF(4, 4, 16, 16), 90, 180)
    path.closeSubpath()
    painter.fillPath(path, colour)


def _projector(painter: QPainter, _colour: QColor) -> None:
    painter.drawRect(QRectF(3, 5, 18, 11))
    painter.drawLine(QPointF(12, 16), QPointF(12, 20))
    painter.drawLine(QPointF(8, 20), QPointF(16, 20))


def _search(painter: QPainter, _colour: QColor) -> None:
    painter.drawEllipse(QPointF(10.5, 10.5), 6, 6)
    painter.drawLine(QPointF(15, 15), QPointF(20, 20))


def _close(painter: QPainter, _colour: QColor) -> None:
    painter.drawLine(QPointF(6, 6), QPointF(18, 18))
    painter.drawLine(QPointF(18, 6), QPointF(6, 18))


def _note(painter: QPainter, colour: QColor) -> None:
    painter.drawEllipse(QPointF(12, 12), 9, 9)
    painter.drawLine(QPointF(12, 11), QPointF(12, 17))
    painter.setBrush(colour)
    painter.drawEllipse(QPointF(12, 7.5), 0.6, 0.6)


def _error(painter: QPainter, colour: QColor) -> None:
    painter.drawPolygon([QPointF(12, 3), QPointF(22, 20.5), QPointF(2, 20.5)])
    painter.drawLine(QPointF(12, 9.5), QPointF(12, 14.5))
    painter.setBrush(colour)
    painter.drawEllipse(QPointF(12, 17.5), 0.6, 0.6)


def _brand(painter: QPainter, colour: QColor) -> None:
    painter.drawRoundedRect(QRectF(3, 3, 18, 18), 4, 4)
    for k in range(3):
        painter.fillRect(QRectF(6.2 + 4 * k, 6.2 + 4 * k, 3.6, 3.6), colour)


_DRAWINGS: dict[str, Callable[[QPainter, QColor], None]] = {
    "explore": _explore,
    "positions": _positions,
    "compare": _compare,
    "heads": _heads,
    "train": _train,
    "labs": _labs,
    "learn": _learn,
    "undo": _undo,
    "redo": _redo,
    "light": _light,
    "dark": _dark,
    "system": _system,
    "projector": _projector,
    "search": _search,
    "close": _close,
    "note": _note,
    "error": _error,
    "brand": _brand,
}
