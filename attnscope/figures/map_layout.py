"""Where everything of one large map lies, and the colour bar: what colours and missing numbers mean."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette, lut_argb
from attnscope.figures.raster import image_from_words
from attnscope.figures.style import SMALL_PX, Scale, Turn, font, text_width, type_px
from attnscope.figures.token_axis import (
    LINE_PX,
    PAD_PX,
    Span,
    column_height,
    column_turn,
    widest,
)
from attnscope.records.tokens import Token

BAR_PX = 10.0
BAR_WIDTH_PX = 74.0
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


MARGIN_PX = 12.0
TITLE_PX = 28.0
_CORNER_PX, _COMPACT_CORNER_PX = 54.0, 38.0
_COMPACT_MARGIN_PX = 4.0
_LABEL_SHARE, _COMPACT_LABEL_SHARE = 0.25, 0.38
_MAX_CELL_PX, _COMPACT_MAX_CELL_PX = 240.0, 120.0
"""The largest side of a cell: of one large map in a wide window, and of one of several panels."""
_LEAST_SQUARE, _LEAST_CELL_PX = 2.5, 12.0
"""How many times longer than wide the room of a cell may be before the cell is stretched to fill it, where
a square one would have a side of less than so many px."""
_GAP_PX = 18.0
_SLANT_PX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLayout:
    """The rectangles of one map; `view` is what the cells show."""

    cells: QRectF
    bar: QRectF
    title: QRectF
    view: QRectF
    row_width: float
    column_width: float
    turn: Turn
    n_queries: int
    n_keys: int

    @property
    def rows(self) -> Span:
        """Where the queries lie, from top to bottom."""
        step = self.cells.height() / self.view.height()
        origin = self.cells.top() - self.view.top() * step
        return Span(
            origin=origin, step=step, low=self.cells.top(), high=self.cells.bottom(), n=self.n_queries
        )

    @property
    def columns(self) -> Span:
        """Where the keys lie, from left to right."""
        step = self.cells.width() / self.view.width()
        origin = self.cells.left() - self.view.left() * step
        low, high = self.cells.left(), self.cells.right()
        return Span(origin=origin, step=step, low=low, high=high, n=self.n_keys)

    def cell_rect(self, query: int, key: int) -> QRectF:
        """The rectangle of one cell, which may lie outside the visible part."""
        rows, columns = self.rows, self.columns
        left, top = columns.origin + key * columns.step, rows.origin + query * rows.step
        return QRectF(left, top, columns.step, rows.step)

    def hit(self, position: QPointF) -> tuple[int, int] | None:
        """The (query, key) under a position, or None outside the cells."""
        if not self.cells.contains(position):
            return None
        rows, columns = self.rows, self.columns
        query = int((position.y() - rows.origin) // rows.step)
        key = int((position.x() - columns.origin) // columns.step)
        if 0 <= query < self.n_queries and 0 <= key < self.n_keys:
            return query, key
        return None


def whole_view(n_queries: int, n_keys: int) -> QRectF:
    """The view that shows every cell."""
    return QRectF(0.0, 0.0, max(1, n_keys), max(1, n_queries))


def map_layout(
    rect: QRectF,
    queries: tuple[Token, ...],
    keys: tuple[Token, ...],
    *,
    view: QRectF | None = None,
    has_title: bool = True,
    has_bar: bool = True,
    turn: Turn | None = None,
    is_compact: bool = False,
    has_corner: bool | None = None,
    names: tuple[str, str] = ("", ""),
) -> MapLayout:
    """Lay a map out in `rect`: square cells where the shape allows it, everything on whole pixels.

    Key labels turn as they have room, or by `turn`. `is_compact` is for one of several panels: smaller
    margins, cells at the left, and no corner for the axes' `names` unless `has_corner` asks for it.
    """
    has_corner = not is_compact if has_corner is None else has_corner
    whole = whole_view(len(queries), len(keys))
    shown = whole if view is None else view
    margin = MARGIN_PX if not is_compact else _COMPACT_MARGIN_PX
    inner = rect.adjusted(margin, margin, -margin, -margin)
    top = inner.top() + (type_px(TITLE_PX) if has_title else 0.0)
    bar_px = type_px(BAR_WIDTH_PX) + _GAP_PX if has_bar else 0.0
    share = _COMPACT_LABEL_SHARE if is_compact else _LABEL_SHARE
    row_width = min(widest(queries), inner.width() * share)
    if has_corner:
        corner_px = min(max(map(text_width, names)), inner.width() * share)
        row_width = max(row_width, corner_px, type_px(_COMPACT_CORNER_PX if is_compact else _CORNER_PX))
    column_width = min(widest(keys), inner.height() * (share + 0.05))
    left = inner.left() + row_width + PAD_PX + 4
    room_x = max(24.0, inner.right() - bar_px - left)
    is_free, most = turn is None, _COMPACT_MAX_CELL_PX if is_compact else _MAX_CELL_PX
    if turn is None:
        turn = column_turn(keys, min(room_x / whole.width(), most) * whole.width() / shown.width())
    for _ in range(2):
        corner = 2 * type_px(LINE_PX) + PAD_PX if has_corner else 0.0
        labels = max(column_height(column_width, turn), corner) + 4
        slant = 0.0 if turn != 45 else _SLANT_PX if has_bar else labels
        room = QRectF(left, top + labels, room_x - slant, max(24.0, inner.bottom() - top - labels))
        width, height = _fit(room, whole, most)
        settled = column_turn(keys, width / shown.width())
        if settled == turn or not is_free:
            break
        turn = settled
    free_x = max(0.0, (room.width() - width) / 2) if not is_compact else 0.0
    cells = QRectF(round(left + free_x), round(room.top()), round(width), round(height))
    return MapLayout(
        cells=cells,
        bar=QRectF(cells.right() + _GAP_PX, cells.top(), type_px(BAR_WIDTH_PX), cells.height()),
        title=QRectF(cells.left(), inner.top(), cells.width() + bar_px, type_px(TITLE_PX)),
        view=shown,
        row_width=row_width,
        column_width=column_width,
        turn=turn,
        n_queries=len(queries),
        n_keys=len(keys),
    )


def cells_height(layout: MapLayout) -> float:
    """How high the cells want to be: square ones, or the map as high as wide where those made a thin strip.

    `layout` is in a room that is high enough; where that is narrow, its cells are stretched to fill it.
    """
    cells = layout.cells
    side = min(layout.rows.step, layout.columns.step)
    square = side * layout.n_queries
    is_square = side >= _LEAST_CELL_PX or square * _LEAST_SQUARE >= cells.width()
    return square if is_square else min(cells.height(), cells.width())


def _fit(room: QRectF, whole: QRectF, most: float) -> tuple[float, float]:
    """Width and height of the cells: square cells, unless that would waste more than half the room.

    No cell gets a side of more than `most` px.
    """
    cell_x, cell_y = room.width() / whole.width(), room.height() / whole.height()
    side = min(cell_x, cell_y, most)
    if max(cell_x, cell_y) <= _LEAST_SQUARE * min(cell_x, cell_y) or side >= _LEAST_CELL_PX:
        cell_x = cell_y = side
    return min(cell_x, most) * whole.width(), min(cell_y, most) * whole.height()
