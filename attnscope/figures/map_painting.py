"""One head in full: layout, cells, token axes, colour bar, the value under the cursor."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.counting import number_text, significant
from attnscope.figures.colours import Palette, ink_on, lut, lut_argb
from attnscope.figures.raster import (
    FIRST_COLOUR,
    Codes,
    ImageCache,
    MapCodes,
    cells_image,
    code_colours,
    has_vector_cells,
    image_from_words,
    image_size,
    paint_vector_cells,
)
from attnscope.figures.style import (
    LARGE_PX,
    NORMAL_PX,
    SMALL_PX,
    MapStyle,
    Turn,
    font,
    isolated,
    plain_piece,
    query_words,
    text_width,
    type_px,
    value_px,
    value_text,
    widest_value,
)
from attnscope.figures.token_axis import (
    AXIS_LINE_PX,
    PAD_PX,
    AxisLabels,
    Span,
    axis_names,
    column_height,
    column_stride,
    column_turn,
    paint_columns,
    paint_rows,
    widest,
)
from attnscope.records.maps import HeadMap
from attnscope.records.sites import Scale, gate_note
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
    return number_text(weight, 2 if weight < 1 else 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourBar:
    """A colour bar: its colours, their quantity, and the kinds of missing numbers.

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
    """Paint the ends, and the ticks between them that have room."""
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
        """Spans of the queries, from top to bottom."""
        step = self.cells.height() / self.view.height()
        origin = self.cells.top() - self.view.top() * step
        return Span(
            origin=origin, step=step, low=self.cells.top(), high=self.cells.bottom(), n=self.n_queries
        )

    @property
    def columns(self) -> Span:
        """Spans of the keys, from left to right."""
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
    """Lay a map out in `rect`: square cells if the shape allows it, everything on whole pixels.

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
        corner = 2 * type_px(AXIS_LINE_PX) + PAD_PX if has_corner else 0.0
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
    """Preferred height of the cells: square ones, or the map as high as wide.

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


_PATCH = re.compile(r"\d+,\d+")
Highlight = tuple[int | None, int | None]


def paint_head_map(
    painter: QPainter,
    rect: QRectF,
    head_map: HeadMap,
    *,
    style: MapStyle,
    palette: Palette,
    gate: float = 1.0,
    view: QRectF | None = None,
    highlight: Highlight = (None, None),
    has_title: bool = True,
    is_compact: bool = False,
    named: tuple[bool, bool] | None = None,
    cache: ImageCache | None = None,
    not_allowed_words: str = "not allowed",
) -> MapLayout:
    """Draw one map into `rect` and return its layout.

    `view` is the visible part in cells (x keys, y queries); `highlight` a (query, key) of which either
    may be None. Rows are queries, columns are keys. `is_compact` leaves the axes' names out, unless
    `named` says which of columns and rows is, and keeps room for both.
    `not_allowed_words` say beside the colours why a cell can have no weight.
    """
    layout = map_layout(
        rect,
        head_map.queries,
        head_map.keys,
        view=view,
        has_title=has_title,
        has_bar=style.has_bar,
        turn=style.turn,
        is_compact=is_compact,
        has_corner=None if named is None else True,
        names=axis_names(head_map.queries, style),
    )
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    if has_title:
        _paint_title(painter, layout, head_map, gate, style, palette)
    cache = cache or ImageCache()
    coded = cache.codes(head_map.weights, style.scale, head_map.full)
    words = code_colours(style.colour_map, palette)
    paint_codes(painter, layout, coded.codes, words, palette, cache, ("map", style))
    if style.show_values:
        room_px = min(layout.rows.step, layout.columns.step)
        size_px = value_px(room_px, widest_value(coded.peak))
        paint_values(painter, layout, coded.codes, head_map.weights, style.colour_map, size_px)
    paint_highlight(painter, layout, highlight, palette)
    _paint_axes(painter, layout, head_map, palette, highlight, style)
    named = (not is_compact, not is_compact) if named is None else named
    shown_names = zip(axis_names(head_map.queries, style), named, strict=True)
    key_name, query_name = (name if is_named else "" for name, is_named in shown_names)
    paint_axis_names(painter, layout, (key_name, query_name), palette)
    if style.has_bar:
        _paint_bar(painter, layout, coded, style, palette, head_map, not_allowed_words)
    painter.restore()
    return layout


def paint_readout(
    painter: QPainter,
    rect: QRectF,
    head_map: HeadMap,
    cell: tuple[int, int],
    position: QPointF,
    palette: Palette,
    *,
    is_knocked_out: bool = False,
) -> None:
    """Write the exact weight of `cell` beside `position`, staying inside `rect`."""
    query, key = cell
    weight = float(head_map.weights[query, key])
    value = weight_text(weight, has_left_out=bool(head_map.note), is_knocked_out=is_knocked_out)
    paint_note(painter, rect, value, readout_names(head_map, query, key), position, palette)


def paint_note(
    painter: QPainter, rect: QRectF, value: str, names: str, position: QPointF, palette: Palette
) -> None:
    """Write a value and its meaning in a box beside `position`, staying inside `rect`."""
    value_font, name_font = font(NORMAL_PX, is_bold=True), font(SMALL_PX)
    width = max(
        QFontMetricsF(value_font).horizontalAdvance(value),
        QFontMetricsF(name_font).horizontalAdvance(names),
    )
    box = QRectF(position.x() + 16, position.y() + 16, width + 16, type_px(38))
    if box.right() > rect.right() - 4:
        box.moveRight(position.x() - 12)
    if box.bottom() > rect.bottom() - 4:
        box.moveBottom(position.y() - 12)
    box.moveLeft(max(box.left(), rect.left() + 4))
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.setBrush(QColor(palette.raised))
    painter.drawRoundedRect(box, 4, 4)
    painter.setFont(value_font)
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(box.left() + 8, box.top() + type_px(16)), value)
    painter.setFont(name_font)
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(box.left() + 8, box.top() + type_px(31)), names)


def weight_text(weight: float, *, has_left_out: bool = False, is_knocked_out: bool = False) -> str:
    """A weight with four significant digits, or the reason for its absence."""
    if np.isnan(weight):
        return "knocked out" if is_knocked_out else "not allowed by the mask"
    if np.isinf(weight):
        return "left out" if has_left_out else "no data"
    return significant(float(weight))


def readout_names(head_map: HeadMap, query: int, key: int) -> str:
    """The two tokens of a cell in words: `query 1 “la” → key 0 “the”`."""
    key_name = isolated(plain_piece(head_map.keys[key].label))
    return f"query {query} {query_words(head_map.queries[query])} → key {key} “{key_name}”"


def _paint_title(
    painter: QPainter,
    layout: MapLayout,
    head_map: HeadMap,
    gate: float,
    style: MapStyle,
    palette: Palette,
) -> None:
    label = head_map.name or head_map.head.label
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    left = layout.cells.left() - layout.row_width - PAD_PX - 4
    baseline = layout.title.top() + type_px(17)
    metrics = QFontMetricsF(font(LARGE_PX, is_bold=True))
    label = metrics.elidedText(label, Qt.TextElideMode.ElideRight, max(layout.title.right() - left, 40.0))
    painter.drawText(QPointF(left, baseline), label)
    left += metrics.horizontalAdvance(label) + 10
    face = QFontMetricsF(font(NORMAL_PX))
    words = head_map.head.stack + ("" if head_map.name else gate_note(gate))
    words += f" · {head_map.note}" if head_map.note else ""
    if any(_PATCH.fullmatch(token.piece) for token in head_map.keys[:3]):
        words += " · patches by row,column"
    room = layout.title.right() - left
    room -= _paint_badge(painter, layout, head_map, style, palette)
    painter.setFont(font(NORMAL_PX))
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(left, baseline), face.elidedText(words, Qt.TextElideMode.ElideRight, room))


def _paint_badge(
    painter: QPainter, layout: MapLayout, head_map: HeadMap, style: MapStyle, palette: Palette
) -> float:
    """Faults found by the self-check, at the right of the title; success is shown only on request.

    Gives the width that it takes.
    """
    check = head_map.check
    if check is None or (check.is_good and not style.has_badge):
        return 0.0
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted if check.is_good else palette.warning))
    width = text_width(check.badge)
    painter.drawText(QPointF(layout.title.right() - width, layout.title.top() + type_px(17)), check.badge)
    return width + PAD_PX


def paint_codes(
    painter: QPainter,
    layout: MapLayout,
    codes: Codes,
    words: NDArray[np.uint32],
    palette: Palette,
    cache: ImageCache,
    key: tuple[object, ...],
) -> None:
    """Paint the visible cells from codes in the colours `words`; their image is cached under `key`."""
    if layout.view == whole_view(*codes.shape) and has_vector_cells(painter, codes.size):
        paint_vector_cells(painter, layout.cells, codes, words, hatch=palette.hatch)
    elif codes.size:
        size_px, scale = image_size(painter, layout.cells, layout.view)
        whole_key = (id(codes), key, palette, size_px, layout.view.getRect())
        image = cache.image(key[0], whole_key)
        if image is None:
            made = cells_image(codes, layout.view, size_px, words, hatch=palette.hatch, hatch_scale=scale)
            image = cache.keep(key[0], whole_key, made)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.drawImage(layout.cells, image)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawRect(layout.cells.adjusted(-0.5, -0.5, 0.5, 0.5))


def paint_values(
    painter: QPainter,
    layout: MapLayout,
    codes: Codes,
    values: NDArray[np.float32],
    colour_map: str,
    size_px: int,
) -> None:
    """Write the numbers of the visible coloured cells, in a contrasting colour; none below 0.005."""
    if not size_px:
        return
    painter.setFont(font(size_px))
    is_dark = ink_on(lut(colour_map))
    for query in layout.rows.visible():
        for key in layout.columns.visible():
            code, value = int(codes[query, key]) - FIRST_COLOUR, float(values[query, key])
            if 0 <= code < len(is_dark) and abs(value) >= 0.005:
                painter.setPen(QColor("#000000" if is_dark[code] else "#ffffff"))
                box, centred = layout.cell_rect(query, key), Qt.AlignmentFlag.AlignCenter
                painter.drawText(box, centred, value_text(value))


def paint_highlight(painter: QPainter, layout: MapLayout, highlight: Highlight, palette: Palette) -> None:
    """Frame a row, a column or both."""
    query, key = highlight
    if query is None and key is None:
        return
    painter.save()
    painter.setClipRect(layout.cells.adjusted(-1, -1, 1, 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    bands = []
    if query is not None and query < layout.n_queries:
        row = layout.cell_rect(query, 0)
        bands.append(QRectF(layout.cells.left(), row.top(), layout.cells.width(), row.height()))
    if key is not None and key < layout.n_keys:
        column = layout.cell_rect(0, key)
        bands.append(QRectF(column.left(), layout.cells.top(), column.width(), layout.cells.height()))
    for band in bands:
        painter.setPen(QPen(QColor(palette.background), 3.0))
        painter.drawRect(band)
    for band in bands:
        painter.setPen(QPen(QColor(palette.accent), 1.5))
        painter.drawRect(band)
    painter.restore()


def _paint_axes(
    painter: QPainter,
    layout: MapLayout,
    head_map: HeadMap,
    palette: Palette,
    highlight: Highlight,
    style: MapStyle,
) -> None:
    cells, width, every = layout.cells, layout.column_width, style.label_every
    (query, key), span = highlight, layout.columns
    across = every if style.turn is None else column_stride(span.step, style.turn, width, every)
    columns = AxisLabels(tokens=head_map.keys, span=span, width=width, highlight=key, every=across)
    paint_columns(painter, columns, cells.top() - PAD_PX, layout.turn, palette)
    rows = AxisLabels(
        tokens=head_map.queries, span=layout.rows, width=layout.row_width, highlight=query, every=every
    )
    paint_rows(painter, rows, cells.left() - PAD_PX - 2, palette)


def paint_axis_names(painter: QPainter, layout: MapLayout, names: tuple[str, str], palette: Palette) -> None:
    """Paint the names of columns and rows in the corner above the rows' labels."""
    bottom, right = layout.cells.top() - PAD_PX, layout.cells.left() - PAD_PX - 2
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    metrics = QFontMetricsF(font(SMALL_PX))
    for words, baseline in zip(names, (bottom - type_px(AXIS_LINE_PX) - 4, bottom - 3), strict=True):
        shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, layout.row_width + PAD_PX)
        painter.drawText(QPointF(right - text_width(shown), baseline), shown)


def _paint_bar(
    painter: QPainter,
    layout: MapLayout,
    coded: MapCodes,
    style: MapStyle,
    palette: Palette,
    head_map: HeadMap,
    not_allowed_words: str,
) -> None:
    ticks, note = weight_ticks(style.scale, coded.peak, head_map.full)
    paint_colour_bar(
        painter,
        layout.bar,
        ColourBar(
            colour_map=style.colour_map,
            title="weight",
            ticks=ticks,
            note=note,
            has_not_allowed=coded.has_not_allowed,
            not_allowed_words=not_allowed_words,
            has_no_data=coded.has_no_data,
            no_data_words="left out" if head_map.note else "no data",
        ),
        palette,
    )
