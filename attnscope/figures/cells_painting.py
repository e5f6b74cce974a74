"""A small map of cells with its title, its names and a legend; the same painter for screen and file."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.counting import fixed, number_text
from attnscope.figures.colours import Palette, argb, difference_map, lut, lut_argb
from attnscope.figures.raster import (
    COLOUR_SHARE,
    FIRST_COLOUR,
    Codes,
    blended_pixels,
    cells_image,
    has_vector_cells,
    image_from_words,
    image_size,
    paint_vector_cells,
    pixel_words,
)
from attnscope.figures.style import NORMAL_PX, SMALL_PX, drawn_piece, font, text_width, type_px
from attnscope.records.charts import CellMap

_MAX_NAME_PX, _LONGEST_NAME_PX = 72.0, 200.0
"""The room for a name beside a row, and where the cells leave more."""
_GAP_PX = 6.0
_NUMBER_PX = 30.0
_WIDE_PX, _ROW_PX = 44.0, 16.0
_STRONGEST = 0.85
"""How much of a pixel is colour where a signed number over a picture is largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLayout:
    """Positions of a map's cells."""

    cells: QRectF
    n_rows: int
    n_columns: int

    def cell(self, i: int, j: int) -> QRectF:
        width, height = self.cells.width() / self.n_columns, self.cells.height() / self.n_rows
        return QRectF(self.cells.left() + j * width, self.cells.top() + i * height, width, height)

    def at(self, place: QPointF) -> tuple[int, int] | None:
        """Row and column at a position, None outside."""
        if not self.cells.contains(place):
            return None
        i = int((place.y() - self.cells.top()) / self.cells.height() * self.n_rows)
        j = int((place.x() - self.cells.left()) / self.cells.width() * self.n_columns)
        return min(i, self.n_rows - 1), min(j, self.n_columns - 1)


def layout_cells(rect: QRectF, shown: CellMap) -> CellLayout:
    """Layout of the largest square cells, centred under the title; long maps are as wide as `rect`.

    Over a picture there are no names: what lies where can be seen.
    """
    n_rows, n_columns = shown.values.shape
    if shown.backdrop is not None:
        top, bottom = type_px(22), type_px(22) if shown.kind == "signed" else 2.0
        side = min((rect.width() - 2) / n_columns, max(20.0, rect.height() - top - bottom) / n_rows)
        cells = QRectF(rect.left() + 1, rect.top() + top, side * n_columns, side * n_rows)
        return CellLayout(cells=cells, n_rows=n_rows, n_columns=n_columns)
    top, bottom = type_px(40) + 16, type_px(22)
    height = max(20.0, rect.height() - top - bottom)
    spare = rect.width() - n_columns * max(height / n_rows, type_px(_WIDE_PX)) - type_px(16) - _GAP_PX - 4
    names = tuple(shown.row_name(i) for i in range(n_rows))
    left = _names_px(names, max(type_px(_MAX_NAME_PX), min(spare, _LONGEST_NAME_PX))) + type_px(16)
    width = max(20.0, rect.width() - left - 4)
    side = min(width / n_columns, height / n_rows)
    tall = min(height / n_rows, side * (1.0 if n_columns < 2 * n_rows else 3.0))
    wide = min(width / n_columns, max(side, type_px(_WIDE_PX))) if shown.is_wide else side
    if shown.is_wide:
        tall = min(height / n_rows, max(tall, type_px(_ROW_PX)))
    cells = QRectF(rect.left() + left, rect.top() + top, wide * n_columns, tall * n_rows)
    return CellLayout(cells=cells, n_rows=n_rows, n_columns=n_columns)


def paint_cells(painter: QPainter, rect: QRectF, shown: CellMap, *, palette: Palette) -> CellLayout:
    """Draw the map into `rect` and return where its cells lie."""
    layout = layout_cells(rect, shown)
    painter.save()
    words, codes = _words_of(shown, palette), codes_of(shown)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    if shown.backdrop is not None:
        size_px, _scale = image_size(painter, layout.cells, QRectF(0, 0, *shown.backdrop.shape[1::-1]))
        over = _over_picture(shown, shown.backdrop, words[codes], size_px)
        painter.drawImage(layout.cells, image_from_words(over))
    elif has_vector_cells(painter, codes.size):
        paint_vector_cells(painter, layout.cells, codes, words, hatch=palette.hatch)
    else:
        window = QRectF(0, 0, layout.n_columns, layout.n_rows)
        size_px, scale = image_size(painter, layout.cells, window)
        image = cells_image(codes, window, size_px, words, hatch=palette.hatch, hatch_scale=scale)
        painter.drawImage(layout.cells, image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawRect(layout.cells.adjusted(-0.5, -0.5, 0.5, 0.5))
    _paint_title(painter, rect, shown, palette)
    if shown.backdrop is None:
        _paint_names(painter, rect, layout, shown, palette)
    if shown.has_numbers:
        _paint_numbers(painter, layout, shown, codes, words)
    _paint_legend(painter, QRectF(rect.left(), layout.cells.bottom() + 6, rect.width(), 16), shown, palette)
    painter.restore()
    return layout


def codes_of(shown: CellMap) -> Codes:
    """The colour of every cell as a code of `_words_of`: 0 is not allowed."""
    values, limit = shown.values, shown.limit or 1.0
    match shown.kind:
        case "kinds":
            codes = np.nan_to_num(values, nan=0.0) - 1 + FIRST_COLOUR
        case "signed":
            codes = np.rint((np.clip(np.nan_to_num(values) / limit, -1, 1) + 1) * 127.5) + FIRST_COLOUR
        case "steps":
            shares = 1 - (np.nan_to_num(values, nan=1.0) - 1) / max(limit, 1)
            codes = np.rint(np.clip(shares, 0, 1) * 225) + 20 + FIRST_COLOUR
        case _:
            codes = np.rint(np.clip(np.nan_to_num(values) / limit, 0, 1) * 255) + FIRST_COLOUR
    result: Codes = codes.astype(np.uint16)
    result[np.isnan(values)] = 0
    return result


def _over_picture(
    shown: CellMap, backdrop: NDArray[np.uint8], words: NDArray[np.uint32], size_px: tuple[int, int]
) -> NDArray[np.uint32]:
    """Colours of the cells over their picture; of signed numbers, the smaller the fainter."""
    colours = np.stack([words >> 16 & 255, words >> 8 & 255, words & 255], axis=-1).astype(np.uint8)
    shares = np.where(np.isnan(shown.values), 0.0, COLOUR_SHARE)
    if shown.kind == "signed":
        sizes = np.clip(np.abs(np.nan_to_num(shown.values)) / (shown.limit or 1.0), 0.0, 1.0)
        shares = _STRONGEST * np.sqrt(sizes)
    return pixel_words(blended_pixels(backdrop, colours, shares, size_px))


def _words_of(shown: CellMap, palette: Palette) -> NDArray[np.uint32]:
    kinds = np.array([argb(palette.not_allowed), argb(palette.no_data)], dtype=np.uint32)
    if shown.kind == "kinds":
        return np.concatenate([kinds, np.array([argb(c) for c in palette.series], dtype=np.uint32)])
    name = difference_map(palette) if shown.kind == "signed" else "viridis"
    return np.concatenate([kinds, lut_argb(name)])


def _names_px(names: tuple[str, ...], most: float) -> float:
    return min(most, max((text_width(drawn_piece(name)) for name in names), default=0.0)) + _GAP_PX


def _paint_title(painter: QPainter, rect: QRectF, shown: CellMap, palette: Palette) -> None:
    painter.setFont(font(NORMAL_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    title = painter.fontMetrics().elidedText(shown.title, Qt.TextElideMode.ElideRight, int(rect.width()))
    painter.drawText(QPointF(rect.left(), rect.top() + type_px(13)), title)
    used = text_width(shown.title, NORMAL_PX, is_bold=True) + 8
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    note = QFontMetricsF(font(SMALL_PX)).elidedText(
        shown.note, Qt.TextElideMode.ElideRight, max(0.0, rect.width() - used)
    )
    painter.drawText(QPointF(rect.left() + used, rect.top() + type_px(13)), note)


def _paint_names(
    painter: QPainter, rect: QRectF, layout: CellLayout, shown: CellMap, palette: Palette
) -> None:
    cells, high = layout.cells, type_px(14)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    metrics = QFontMetricsF(font(SMALL_PX))
    across, down = (name[:1].upper() + name[1:] for name in (shown.column_title, shown.row_title))
    above = QRectF(cells.left(), cells.top() - 2 * high - 6, rect.right() - cells.left(), high)
    across = metrics.elidedText(across, Qt.TextElideMode.ElideRight, above.width())
    painter.drawText(above, Qt.AlignmentFlag.AlignLeft, across)
    room = min(max(text_width(down) + 2, cells.height()), rect.height() - type_px(18))
    painter.save()
    painter.translate(rect.left() + high, min(cells.center().y(), rect.bottom() - room / 2))
    painter.rotate(-90)
    side = QRectF(-room / 2, -high, room, high)
    down = metrics.elidedText(down, Qt.TextElideMode.ElideRight, room)
    painter.drawText(side, Qt.AlignmentFlag.AlignCenter, down)
    painter.restore()
    painter.setPen(QColor(palette.text))
    room = max(cells.left() - rect.left() - _GAP_PX - type_px(16) + 1, 0.0)
    for i in _thinned(layout.n_rows, cells.height(), high):
        box = layout.cell(i, 0)
        name = metrics.elidedText(drawn_piece(shown.row_name(i)), Qt.TextElideMode.ElideMiddle, room)
        place = QRectF(rect.left(), box.center().y() - high / 2, cells.left() - rect.left() - _GAP_PX, high)
        painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
    names = tuple(shown.column_name(j) for j in range(layout.n_columns))
    widest = _names_px(names, type_px(_MAX_NAME_PX))
    for j in _thinned(layout.n_columns, cells.width(), widest - _GAP_PX + 3):
        box = layout.cell(0, j)
        place = QRectF(box.center().x() - widest, cells.top() - high - 4, 2 * widest, high)
        name = metrics.elidedText(drawn_piece(shown.column_name(j)), Qt.TextElideMode.ElideMiddle, widest)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, name)


def _thinned(n: int, length: float, each: float) -> range:
    """Names of all cells if there is room, else of every 2nd, 5th, 10th, …."""
    for step in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50):
        if length / n * step >= each:
            return range(0, n, step)
    return range(0, n, max(1, n - 1))


def _paint_numbers(
    painter: QPainter, layout: CellLayout, shown: CellMap, codes: Codes, words: NDArray[np.uint32]
) -> None:
    if layout.cell(0, 0).width() < type_px(_NUMBER_PX) or layout.cell(0, 0).height() < type_px(14):
        return
    painter.setFont(font(SMALL_PX))
    largest = float(np.nanmax(np.abs(shown.values), initial=0.0))
    n_decimals = 0 if shown.kind == "steps" or largest >= 100 else 1 if largest >= 10 else 2
    for i, j in np.ndindex(shown.values.shape):
        value, word = float(shown.values[i, j]), int(words[codes[i, j]])
        if np.isnan(value):
            continue
        bright = 0.299 * (word >> 16 & 255) + 0.587 * (word >> 8 & 255) + 0.114 * (word & 255)
        painter.setPen(QColor("#101010" if bright > 135 else "#ffffff"))
        painter.drawText(layout.cell(i, j), Qt.AlignmentFlag.AlignCenter, fixed(value, n_decimals))


def _paint_legend(painter: QPainter, rect: QRectF, shown: CellMap, palette: Palette) -> None:
    painter.setFont(font(SMALL_PX))
    has_hatch = bool(np.isnan(shown.values).any())
    entries: list[tuple[str, str]] = []
    if shown.kind == "kinds":
        present = {int(v) for v in np.unique(shown.values[~np.isnan(shown.values)])}
        entries = [(palette.series[k - 1], shown.legend[k - 1]) for k in sorted(present)]
    elif shown.kind == "steps":
        table = lut("viridis")
        for step in dict.fromkeys((1, max(1, round(shown.limit)))):
            red, green, blue = table[20 + round(225 * (1 - (step - 1) / max(shown.limit, 1)))].tolist()
            entries.append((f"#{red:02x}{green:02x}{blue:02x}", f"{step}"))
    elif not np.isnan(shown.values).all():
        limit, is_signed = shown.limit, shown.kind == "signed"
        table = lut(difference_map(palette) if is_signed else "viridis")
        for code, value in ((0, -limit), (128, 0.0), (255, limit)) if is_signed else ((0, 0.0), (255, limit)):
            red, green, blue = table[code].tolist()
            entries.append((f"#{red:02x}{green:02x}{blue:02x}", number_text(value, 3)))
    if has_hatch:
        entries.append((palette.not_allowed, shown.legend[-1] if shown.kind != "weights" else "not allowed"))
    width = sum(type_px(10) + 5 + text_width(word) for _colour, word in entries)
    gap = min(12.0, max((rect.width() - width) / max(len(entries), 1), 3.0))
    first = min(rect.left() + type_px(14), max(rect.right() - width - gap * (len(entries) - 1), rect.left()))
    x, top = first, rect.top() + 2
    for colour, word in entries:
        if x > first and x + type_px(10) + 5 + text_width(word) > rect.right():
            x, top = first, top + type_px(16)
        box = QRectF(x, top, type_px(10), type_px(10))
        painter.setPen(QPen(QColor(palette.line), 1.0))
        painter.setBrush(QColor(colour))
        painter.drawRect(box)
        if colour == palette.not_allowed:
            painter.setPen(QPen(QColor(palette.hatch), 1.0))
            painter.drawLine(box.bottomLeft(), box.topRight())
        painter.setPen(QColor(palette.muted))
        painter.drawText(QPointF(box.right() + 5, box.bottom()), word)
        x = box.right() + 5 + gap + text_width(word)
    painter.setBrush(Qt.BrushStyle.NoBrush)
