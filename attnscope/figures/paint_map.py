"""One head in full: cells, token axes, colour bar, highlight and the value under the cursor."""

import re

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette, ink_on, lut
from attnscope.figures.map_layout import (
    ColourBar,
    MapLayout,
    map_layout,
    paint_colour_bar,
    weight_ticks,
    whole_view,
)
from attnscope.figures.plain import isolated, plain_piece, query_words
from attnscope.figures.raster import (
    FIRST_COLOUR,
    Codes,
    ImageCache,
    MapCodes,
    cells_image,
    code_colours,
    has_vector_cells,
    image_size,
    paint_vector_cells,
)
from attnscope.figures.style import (
    LARGE_PX,
    NORMAL_PX,
    SMALL_PX,
    MapStyle,
    font,
    text_width,
    type_px,
    value_px,
    value_text,
    widest_value,
)
from attnscope.figures.token_axis import (
    LINE_PX,
    PAD_PX,
    AxisLabels,
    axis_names,
    column_stride,
    paint_columns,
    paint_rows,
)
from attnscope.records.maps import HeadMap
from attnscope.records.sites import gate_note

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
    """Draw one map into `rect` and return where everything lies.

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
    """Write a value, and what it is of, in a box beside `position`, staying inside `rect`."""
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
    """A weight with four significant digits, or what stands in its place."""
    if np.isnan(weight):
        return "knocked out" if is_knocked_out else "not allowed by the mask"
    if np.isinf(weight):
        return "left out" if has_left_out else "no data"
    return f"{weight:#.4g}" if weight == 0 or abs(weight) >= 1e-4 else f"{weight:.3e}"


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
    """What the self-check found wrong, at the right of the title; that all is right only where it is asked.

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
    """The cells in view, from codes to the colours `words`; an image of them is kept under `key`."""
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
    """The numbers of the cells in view that have a colour, in ink that is seen on it; none below 0.005."""
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
    """What the columns and the rows are called, in the corner above the rows' labels."""
    bottom, right = layout.cells.top() - PAD_PX, layout.cells.left() - PAD_PX - 2
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    metrics = QFontMetricsF(font(SMALL_PX))
    for words, baseline in zip(names, (bottom - type_px(LINE_PX) - 4, bottom - 3), strict=True):
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
