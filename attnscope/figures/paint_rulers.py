"""Rulers along the two axes of a long map: positions always, pieces when tokens are far enough apart.

Queries run down the left, keys along the top, like everywhere.
"""

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.figures.tile_layout import PIECE_STEP_PX, TICK_PX, TileLayout
from attnscope.figures.token_axis import AxisLabels, Span, column_turn, paint_columns, paint_rows
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.axis_ruler import Mark, ruler_marks, widest_text
from attnscope.viewmodels.maps.map_window import MapWindow

Lit = tuple[int | None, int | None]


def paint_rulers(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    queries: tuple[Token, ...],
    keys: tuple[Token, ...],
    *,
    palette: Palette,
    lit: Lit = (None, None),
) -> None:
    """Draw both rulers; `lit` is the query and the key whose pieces are marked."""
    painter.save()
    painter.setFont(font(SMALL_PX))
    _paint_query_ruler(painter, layout, window, queries, palette, lit[0])
    _paint_key_ruler(painter, layout, window, keys, palette, lit[1])
    painter.restore()


def _paint_query_ruler(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    tokens: tuple[Token, ...],
    palette: Palette,
    lit: int | None,
) -> None:
    cells, step, start = layout.cells, window.step[1], window.offset_px[1]
    length = min(cells.height() - start, (window.n_queries - window.y) * step)
    has_pieces = step >= type_px(PIECE_STEP_PX)
    right = cells.left() - 2 - (layout.piece_room if has_pieces else 0.0)
    painter.setPen(QPen(QColor(palette.muted), 1.0))
    low = layout.corner.bottom() + 4
    for mark in ruler_marks(
        first=window.y, step_px=step, length_px=length, n=window.n_queries, room_px=type_px(40)
    ):
        y = cells.top() + start + mark.place_px
        painter.setPen(QPen(QColor(palette.muted if mark.is_major else palette.line), 1.0))
        painter.drawLine(QPointF(right - _tick_px(mark), y), QPointF(right, y))
        if mark.is_major and y > low - type_px(4):
            width = text_width(mark.text)
            painter.setPen(QColor(palette.muted))
            painter.drawText(QPointF(right - TICK_PX - 3 - width, y + type_px(4)), mark.text)
    if has_pieces:
        span = _span(cells.top() + start, window.y, step, cells.top(), cells.bottom(), len(tokens))
        labels = AxisLabels(tokens=tokens, span=span, width=layout.piece_room - 12, highlight=lit)
        paint_rows(painter, labels, cells.left() - 5, palette)


def _paint_key_ruler(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    tokens: tuple[Token, ...],
    palette: Palette,
    lit: int | None,
) -> None:
    cells, step, start = layout.cells, window.step[0], window.offset_px[0]
    length = min(cells.width() - start, (window.n_keys - window.x) * step)
    has_pieces = step >= type_px(PIECE_STEP_PX)
    bottom = cells.top() - 2 - (layout.column_room if has_pieces else 0.0)
    room = text_width(widest_text(window.n_keys)) + 16
    for mark in ruler_marks(first=window.x, step_px=step, length_px=length, n=window.n_keys, room_px=room):
        x = cells.left() + start + mark.place_px
        painter.setPen(QPen(QColor(palette.muted if mark.is_major else palette.line), 1.0))
        painter.drawLine(QPointF(x, bottom - _tick_px(mark)), QPointF(x, bottom))
        if mark.is_major:
            width = text_width(mark.text)
            painter.setPen(QColor(palette.muted))
            left = max(cells.left() - 8, min(x - width / 2, cells.right() - width))
            painter.drawText(QPointF(left, bottom - TICK_PX - 3), mark.text)
    if has_pieces:
        span = _span(cells.left() + start, window.x, step, cells.left(), cells.right(), len(tokens))
        shown = tuple(tokens[i] for i in span.visible())
        turn = column_turn(shown, step)
        painter.save()
        painter.setClipRect(
            QRectF(cells.left(), bottom, cells.width() + layout.column_room, cells.top() - bottom)
        )
        width = layout.column_room - 8 if turn == 90 else layout.column_room * 1.2
        labels = AxisLabels(tokens=tokens, span=span, width=width, highlight=lit)
        paint_columns(painter, labels, cells.top() - 5, turn, palette)
        painter.restore()


def paint_ruler_names(
    painter: QPainter, layout: TileLayout, window: MapWindow, names: tuple[str, str], palette: Palette
) -> None:
    """Say which axis is which, where each begins."""
    key_name, query_name = names
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    has_pieces = window.step[0] >= type_px(PIECE_STEP_PX)
    bottom = layout.cells.top() - 2 - (layout.column_room if has_pieces else 0.0)
    right = layout.cells.left() - 12
    painter.drawText(QPointF(right - text_width(key_name), bottom - TICK_PX - 3), key_name)
    left = right - text_width(query_name) if has_pieces else layout.corner.left()
    painter.drawText(QPointF(left, layout.cells.top() - 6), query_name)


def _tick_px(mark: Mark) -> float:
    return TICK_PX if mark.is_major else TICK_PX / 2


def _span(begin: float, first: float, step: float, low: float, high: float, n: int) -> Span:
    return Span(origin=begin - first * step, step=step, low=low, high=high, n=n)
