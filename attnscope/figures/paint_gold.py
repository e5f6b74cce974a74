"""Gold word links over a map of cross-attention: squares for sure links, rings for possible ones.

Each mark is a bright line on a dark one, so that it can be seen on every colour of every colour map.
"""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.map_layout import MapLayout
from attnscope.records.alignment import GoldCell

_DARK, _BRIGHT = QColor("#10131a"), QColor("#ffffff")
_DARK_PX, _BRIGHT_PX = 3.6, 1.6
_INSET_PX = 2.5
_LEAST_PX = 5.0
"""Smaller cells get a mark of this size around their middle."""


def paint_gold(painter: QPainter, layout: MapLayout, cells: Sequence[GoldCell]) -> None:
    """Mark the links on the part of the map that is seen."""
    painter.save()
    painter.setClipRect(layout.cells.adjusted(-2, -2, 2, 2))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for cell in cells:
        place = mark_rect(layout, cell)
        if place.intersects(layout.cells):
            paint_gold_mark(painter, place, is_sure=cell.is_sure)
    painter.restore()


def paint_gold_mark(painter: QPainter, place: QRectF, *, is_sure: bool) -> None:
    """One mark: a square of a sure link, a ring of a possible one."""
    for colour, width in ((_DARK, _DARK_PX), (_BRIGHT, _BRIGHT_PX)):
        pen = QPen(colour, width)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        if is_sure:
            painter.drawRect(place)
        else:
            painter.drawEllipse(place)


def mark_rect(layout: MapLayout, cell: GoldCell) -> QRectF:
    """Where the mark of a link lies: just inside its cells."""
    first = layout.cell_rect(cell.rows[0], cell.cols[0])
    last = layout.cell_rect(cell.rows[1] - 1, cell.cols[1] - 1)
    whole = first.united(last)
    if min(whole.width(), whole.height()) - 2 * _INSET_PX < _LEAST_PX:
        middle, half = whole.center(), _LEAST_PX / 2
        width, height = max(whole.width() / 2, half), max(whole.height() / 2, half)
        return QRectF(middle - QPointF(width, height), middle + QPointF(width, height))
    return whole.adjusted(_INSET_PX, _INSET_PX, -_INSET_PX, -_INSET_PX)
