"""Gold word links over a map of cross-attention: squares for sure links, rings for possible ones.

Each mark is a bright line on a dark one, so that it can be seen on every colour of every colour map.
"""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from attnscope.figures.paint_map import MapLayout
from attnscope.figures.paint_tiles import TileLayout, part_rect
from attnscope.records.findings import GoldCell
from attnscope.viewmodels.maps.map_tiles import MapWindow

_DARK, _BRIGHT = QColor("#10131a"), QColor("#ffffff")
_DARK_PX, _BRIGHT_PX = 3.6, 1.6
_INSET_PX = 2.5
_LEAST_PX = 5.0
"""Smaller cells get a mark of this size around their middle."""
_POINT_PX = 3.0
"""Cells that are smaller still get a point, sure or possible: marks would cover each other."""


def paint_gold(painter: QPainter, layout: MapLayout, cells: Sequence[GoldCell]) -> None:
    """Mark the links on the part of the map that is seen."""

    def place(cell: GoldCell) -> QRectF:
        first = layout.cell_rect(cell.rows[0], cell.cols[0])
        return first.united(layout.cell_rect(cell.rows[1] - 1, cell.cols[1] - 1))

    _paint_marks(painter, layout.cells, cells, place)


def paint_gold_on_tiles(
    painter: QPainter, layout: TileLayout, window: MapWindow, cells: Sequence[GoldCell]
) -> None:
    """Mark the links on the part of a long map that is seen."""

    def place(cell: GoldCell) -> QRectF:
        return part_rect(layout, window, cell.rows, cell.cols)

    _paint_marks(painter, layout.cells, cells, place)


def _paint_marks(
    painter: QPainter, seen: QRectF, cells: Sequence[GoldCell], place: Callable[[GoldCell], QRectF]
) -> None:
    painter.save()
    painter.setClipRect(seen.adjusted(-2, -2, 2, 2))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    points = QPolygonF()
    for cell in cells:
        whole = place(cell)
        mark = mark_in(whole)
        if not mark.intersects(seen):
            continue
        if max(whole.width(), whole.height()) < _POINT_PX:
            points.append(whole.center())
        else:
            paint_gold_mark(painter, mark, is_sure=cell.is_sure)
    for colour, width in ((_DARK, _DARK_PX), (_BRIGHT, _BRIGHT_PX)):
        painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawPoints(points)
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


def mark_in(whole: QRectF) -> QRectF:
    """Where the mark of a link lies: just inside its cells."""
    if min(whole.width(), whole.height()) - 2 * _INSET_PX < _LEAST_PX:
        middle, half = whole.center(), _LEAST_PX / 2
        width, height = max(whole.width() / 2, half), max(whole.height() / 2, half)
        return QRectF(middle - QPointF(width, height), middle + QPointF(width, height))
    return whole.adjusted(_INSET_PX, _INSET_PX, -_INSET_PX, -_INSET_PX)
