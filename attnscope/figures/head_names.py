"""The heads' names in their colours, in as many rows as they need: the legend above the lines."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.style import NORMAL_PX, font, type_px

_ROW_PX, _DASH_PX, _GAP_PX = 20.0, 14.0, 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePlace:
    """Where one name stands; `index` is the head's, or -1 for the count of those without room."""

    rect: QRectF
    name: str
    index: int


def name_rows(names: tuple[str, ...], room: QRectF) -> tuple[NamePlace, ...]:
    """The names from left to right in centred rows; those that do not fit become `+n`."""
    metrics = QFontMetricsF(font(NORMAL_PX, is_bold=True))
    row_px, before = type_px(_ROW_PX), type_px(_DASH_PX) + 5
    n_rows = max(1, int(room.height() // row_px))
    rows: list[list[tuple[str, int, float]]] = [[]]
    for index, name in enumerate(names):
        width = before + metrics.horizontalAdvance(name) + _GAP_PX
        used = sum(entry[2] for entry in rows[-1])
        if rows[-1] and used + width > room.width():
            if len(rows) == n_rows:
                rows[-1][-1:] = [(f"+{len(names) - index + 1}", -1, rows[-1][-1][2])]
                break
            rows.append([])
        rows[-1].append((name, index, width))
    places = []
    for k, row in enumerate(rows):
        x = room.center().x() - (sum(entry[2] for entry in row) - _GAP_PX) / 2
        for name, index, width in row:
            rect = QRectF(x, room.top() + k * row_px, width - _GAP_PX, row_px)
            places.append(NamePlace(rect=rect, name=name, index=index))
            x += width
    return tuple(places)


def paint_names(
    painter: QPainter, places: tuple[NamePlace, ...], palette: Palette, *, only: int | None = None
) -> None:
    """Draw the names; with `only`, all but that head's are quiet."""
    painter.setFont(font(NORMAL_PX, is_bold=True))
    for place in places:
        is_loud = place.index >= 0 and only in (None, place.index)
        left, middle = place.rect.left(), place.rect.center().y()
        if place.index >= 0:
            colour = QColor(series_colour(palette, place.index))
            colour.setAlphaF(1.0 if is_loud else 0.35)
            painter.setPen(QPen(colour, 3.0))
            painter.drawLine(QPointF(left, middle), QPointF(left + type_px(_DASH_PX), middle))
        painter.setPen(QColor(palette.text if is_loud else palette.muted))
        words = place.rect.adjusted(type_px(_DASH_PX) + 5 if place.index >= 0 else 0, 0, 8, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, place.name)
