"""The parts of the picture of one head's inside: strips of colours, bars, numbers, weights.

Strips are centred on 0; `limit_of` is where their scale ends.
"""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from attnscope.counting import short_words, weight_words
from attnscope.figures.colours import Palette, difference_map, lut
from attnscope.figures.difference_codes import delta_codes
from attnscope.figures.inside_layout import COLUMN_STEPS, STRIPS, Column, InsideLayout
from attnscope.figures.raster import cells_image, image_size, words_of
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.figures.token_axis import stride_for
from attnscope.records.inside import HeadInside

_VEIL_ALPHA, _BAR_PX = 0.7, 3.0
_LINED_ROW_PX = 8.0
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
Values = NDArray[np.float32]


def short_limit(value: float) -> str:
    """The end of a scale with two digits."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def values_of(inside: HeadInside, name: str) -> Values:
    """The numbers of a strip."""
    found: dict[str, Values] = {"k": inside.k, "products": inside.products, "weighted": inside.weighted}
    return found[name]


def limit_of(values: Values) -> float:
    """Where a scale centred on 0 ends; never 0."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def pooled(values: Values, n_cells: int) -> Values:
    """[n, d] values in `n_cells` columns: of those that share one, the furthest from 0."""
    d = values.shape[1]
    if n_cells >= d:
        return values
    n_each = -(-d // n_cells)
    padded = np.zeros((len(values), n_cells * n_each), dtype=np.float32)
    padded[:, :d] = values
    groups = padded.reshape(len(values), n_cells, n_each)
    places = np.abs(groups).argmax(axis=2)[:, :, None]
    return np.take_along_axis(groups, places, axis=2)[:, :, 0]


def paint_strip(
    painter: QPainter, layout: InsideLayout, column: Column, inside: HeadInside, palette: Palette
) -> None:
    """The keys' rows of one strip, those that the mask hides dimmed."""
    values = values_of(inside, column.name)
    if not values.size:
        return
    place = QRectF(column.left, layout.rows.origin, column.width, layout.rows_px)
    codes = delta_codes(pooled(values, column.n_cells), limit_of(values))
    window = QRectF(0, 0, column.n_cells, len(codes))
    size, _ = image_size(painter, place, window)
    picture = cells_image(codes, window, size, words_of(difference_map(palette), palette))
    painter.drawImage(place, picture)
    hidden = QColor(palette.not_allowed if column.name == "weighted" else palette.background)
    if column.name != "weighted":
        hidden.setAlphaF(_VEIL_ALPHA)
    for row in range(len(values)):
        line = QRectF(column.left, place.top() + row * layout.rows.step, column.width, layout.rows.step)
        if not inside.is_allowed(row):
            painter.fillRect(line, hidden)
        if layout.rows.step >= _LINED_ROW_PX:
            painter.fillRect(
                QRectF(line.left(), line.bottom() - 1, line.width(), 1), QColor(palette.background)
            )


def paint_bars(painter: QPainter, place: QRectF, values: Values, palette: Palette) -> None:
    """Numbers as bars up and down from the middle of `place`."""
    limit, width = limit_of(values), place.width() / max(1, len(values))
    middle = place.center().y()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.fillRect(QRectF(place.left(), middle, place.width(), 1), QColor(palette.line))
    for index, value in enumerate(values):
        height = abs(float(value)) / limit * (place.height() / 2 - 1)
        top = middle - height if value > 0 else middle
        gap = 1.0 if width >= 3 else 0.0
        bar = QRectF(place.left() + index * width, top, width - gap, max(height, 0.5))
        painter.fillRect(bar, _signed_colour(float(value) / limit, palette))
    painter.restore()


def _signed_colour(share: float, palette: Palette) -> QColor:
    """The colour of a number from −1 to 1, strong enough for a bar to be seen."""
    strong = 0.45 + 0.55 * abs(share)
    index = round((1 + (strong if share >= 0 else -strong)) * 127.5)
    red, green, blue = (int(part) for part in lut(difference_map(palette))[index])
    return QColor(red, green, blue)


def paint_numbers(
    painter: QPainter, layout: InsideLayout, column: Column, inside: HeadInside, palette: Palette
) -> None:
    """One number for each key, and below it, so that it strikes nothing through, a bar from the middle."""
    values: Values = getattr(inside, column.name)
    others = [getattr(inside, name) for name in COLUMN_STEPS if name not in (*STRIPS, "dot", "weight")]
    shared = [values] if column.name == "dot" else [other for other in others if other is not None]
    limit = limit_of(np.concatenate(shared))
    painter.setFont(font(SMALL_PX))
    thin, digits = type_px(_BAR_PX), QFontMetricsF(font(SMALL_PX)).capHeight()
    for row in _rows_shown(layout):
        cell = _cell(layout, column, row)
        value = float(values[row])
        lift = max(0.0, digits / 2 + thin + 3 - cell.height() / 2)
        if np.isfinite(value):
            length = min(abs(value) / limit, 1.0) * cell.width() / 2
            start = cell.center().x() - (length if value < 0 else 0.0)
            colour = _signed_colour(1.0 if value >= 0 else -1.0, palette)
            painter.fillRect(QRectF(start, cell.bottom() - thin - 1, length, thin), colour)
        painter.setPen(QColor(palette.text if inside.is_allowed(row) else palette.muted))
        middle = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(cell.translated(0.0, -lift), middle, short_words(value))


def paint_weights(
    painter: QPainter, layout: InsideLayout, column: Column, inside: HeadInside, palette: Palette
) -> None:
    """The weight of each key as a bar from 0 to 1, and in digits."""
    number = text_width("<0.001") + 6
    for row in _rows_shown(layout):
        cell = _cell(layout, column, row)
        if not inside.is_allowed(row):
            painter.fillRect(cell.adjusted(0, 1, 0, -1), QColor(palette.not_allowed))
            _write_right(painter, cell, "not allowed", palette.muted)
            continue
        weight = float(inside.weight[row])
        room = QRectF(cell.left(), cell.top() + 3, cell.width() - number, cell.height() - 6)
        painter.fillRect(room, QColor(palette.grid))
        bar = QRectF(room.left(), room.top(), room.width() * min(weight, 1.0), room.height())
        painter.fillRect(bar, QColor(palette.series[0]))
        _write_right(painter, cell, weight_words(weight), palette.text)


def _write_right(painter: QPainter, cell: QRectF, text: str, colour: str) -> None:
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(colour))
    painter.drawText(cell, _RIGHT, text)


def _rows_shown(layout: InsideLayout) -> list[int]:
    stride = stride_for(layout.rows.step)
    visible = layout.rows.visible()
    first, last = max(0, visible.start - 1), min(layout.rows.n, visible.stop + 1)
    return [row for row in range(first, last) if row % stride == 0]


def _cell(layout: InsideLayout, column: Column, row: int) -> QRectF:
    height = layout.rows.step * stride_for(layout.rows.step)
    return QRectF(column.left, layout.rows.origin + row * layout.rows.step, column.width, height)
