"""One head on one query as a picture: q over its keys, their products, scores, weights, values, the output.

Strips are colours centred on 0, each of its own scale, which its heading names. What belongs to the step that
is looked at is marked, and its formula stands above with the numbers of one key.
"""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from attnscope.counting import short_words, weight_words
from attnscope.figures.colours import Palette, difference_map, lut
from attnscope.figures.difference_codes import delta_codes
from attnscope.figures.inside_layout import COLUMN_STEPS, STRIPS, Column, InsideLayout
from attnscope.figures.paint_formula import set_formula
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.raster import cells_image, code_colours, image_size
from attnscope.figures.style import LARGE_PX, NORMAL_PX, SMALL_PX, font, text_width, type_px
from attnscope.figures.token_axis import AxisLabels, paint_rows, stride_for
from attnscope.records.inside import HeadInside
from attnscope.viewmodels.causes.inside_words import Step, check_words, rest_words, step_words, title_words

_BAND_ALPHA = 0.08
_VEIL_ALPHA, _BAR_PX = 0.7, 3.0
_LINED_ROW_PX = 8.0
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
Values = NDArray[np.float32]


def paint_inside(
    painter: QPainter,
    layout: InsideLayout,
    inside: HeadInside,
    *,
    palette: Palette,
    step: Step = "product",
    row: int | None = None,
    dimension: int | None = None,
) -> None:
    """Draw the inside of a head; `row` and `dimension` are those whose numbers are written out."""
    row = inside.strongest() if row is None else row
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    _paint_words(painter, layout, inside, palette, step_words(inside, step, row, dimension))
    _paint_names(painter, layout, inside, palette, step)
    _paint_query(painter, layout, inside, palette)
    _paint_rows(painter, layout, inside, palette, step, row)
    _paint_output(painter, layout, inside, palette, step)
    painter.restore()


def _paint_rows(
    painter: QPainter, layout: InsideLayout, inside: HeadInside, palette: Palette, step: Step, row: int | None
) -> None:
    """Every column of the rows in sight, the keys' tokens, and the row that is written out."""
    painter.save()
    painter.setClipRect(layout.field.adjusted(-4, 0, 4, 0), Qt.ClipOperation.IntersectClip)
    _paint_band(painter, layout, palette, step)
    for column in layout.columns:
        if column.n_cells:
            paint_strip(painter, layout, column, inside, palette)
        elif column.name == "weight":
            paint_weights(painter, layout, column, inside, palette)
        else:
            paint_numbers(painter, layout, column, inside, palette)
    labels = AxisLabels(tokens=inside.key_tokens, span=layout.rows, width=layout.label_width, highlight=row)
    paint_rows(painter, labels, layout.rect.left() + labels.width, palette)
    if row is not None:
        _mark_row(painter, layout, row, palette)
    painter.restore()


def _paint_words(
    painter: QPainter, layout: InsideLayout, inside: HeadInside, palette: Palette, words: tuple[str, str]
) -> None:
    """The head, the query, the check; below them the formula and its note."""
    baseline = layout.title.top() + type_px(17)
    check = check_words(inside)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted if inside.is_exact else palette.warning))
    right = layout.title.right() - text_width(check)
    painter.drawText(QPointF(right, baseline), check)
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(layout.title.left(), baseline), inside.head.label)
    left = layout.title.left() + text_width(inside.head.label, LARGE_PX, is_bold=True) + 10
    beside = f"{title_words(inside)} {isolated(plain_piece(inside.query_token.label))}"
    _write(painter, beside, left, baseline, right - left - 8, palette.muted, NORMAL_PX)
    top, width = layout.formula.top(), layout.formula.width()
    _paint_formula(painter, words[0], QPointF(layout.formula.left(), top + type_px(14)), width, palette)
    _write(painter, words[1], layout.formula.left(), top + type_px(30), width, palette.muted, SMALL_PX)


def _paint_formula(painter: QPainter, text: str, at: QPointF, room: float, palette: Palette) -> None:
    """The formula with its numbers, as in a textbook; plain, and cut, where there is no room."""
    shown = set_formula((text,), NORMAL_PX)
    if shown.width <= room and shown.height <= type_px(24):
        shown.paint(painter, at.x(), at.y() - shown.baseline, palette.text)
    else:
        _write(painter, text, at.x(), at.y(), room, palette.text, NORMAL_PX)


def _write(
    painter: QPainter, text: str, left: float, baseline: float, width: float, colour: str, size_px: int
) -> None:
    painter.setFont(font(size_px))
    painter.setPen(QColor(colour))
    shown = QFontMetricsF(font(size_px)).elidedText(text, Qt.TextElideMode.ElideRight, max(width, 0.0))
    painter.drawText(QPointF(left, baseline), shown)


def _paint_names(
    painter: QPainter, layout: InsideLayout, inside: HeadInside, palette: Palette, step: Step
) -> None:
    """The heading of each column; those of the step are marked, strips name their scale."""
    baseline = layout.names.top() + type_px(11)
    for column in layout.columns:
        is_lit = COLUMN_STEPS[column.name] == step
        face = font(SMALL_PX, is_bold=is_lit)
        painter.setFont(face)
        painter.setPen(QColor(palette.accent if is_lit else palette.text))
        width = QFontMetricsF(face).horizontalAdvance(column.heading)
        left = column.left if column.n_cells or column.name == "weight" else column.right - width
        painter.drawText(QPointF(left, baseline), column.heading)
        scale = _scale_words(column, inside) if column.n_cells else ""
        if scale and width + 6 + text_width(scale) <= column.width + 4:
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(palette.muted))
            painter.drawText(QPointF(left + width + 6, baseline), scale)


def _scale_words(column: Column, inside: HeadInside) -> str:
    pooled = f", {column.n_pooled} to 1" if column.n_pooled > 1 else ""
    return f"±{short_limit(limit_of(strip_values(inside, column.name)))}{pooled}"


def _paint_query(painter: QPainter, layout: InsideLayout, inside: HeadInside, palette: Palette) -> None:
    """The query as bars over the keys' strip, its token before it."""
    column = layout.column("k")
    if column is None:
        return
    place = QRectF(column.left, layout.query_bars.top(), column.width, layout.query_bars.height())
    paint_bars(painter, place, pooled(inside.q[None], column.n_cells)[0], palette)
    baseline = place.center().y() + type_px(4)
    end = layout.rect.left() + layout.label_width
    words = f"q  {isolated(plain_piece(inside.query_token.label))}"
    words = words if text_width(words) <= layout.label_width else "q"
    _write(painter, words, end - text_width(words), baseline, layout.label_width, palette.accent, SMALL_PX)
    scale = layout.column("products")
    if scale is not None:
        _write(
            painter,
            f"±{short_limit(limit_of(inside.q))}",
            scale.left,
            baseline,
            scale.width,
            palette.muted,
            SMALL_PX,
        )


def _paint_output(
    painter: QPainter, layout: InsideLayout, inside: HeadInside, palette: Palette, step: Step
) -> None:
    """The output as bars under the weighted values, and in words what is not shown."""
    column = layout.column("weighted")
    rest = rest_words(inside)
    width = layout.note.width()
    if column is not None:
        place = QRectF(column.left, layout.output_bars.top(), column.width, layout.output_bars.height())
        if step == "output":
            painter.fillRect(place.adjusted(-4, 0, 4, 0), _band(palette))
        paint_bars(painter, place, pooled(inside.output[None], column.n_cells)[0], palette)
        words = f"output ±{short_limit(limit_of(inside.output))}"
        face = font(SMALL_PX, is_bold=step == "output")
        painter.setFont(face)
        painter.setPen(QColor(palette.accent if step == "output" else palette.text))
        left = column.left - QFontMetricsF(face).horizontalAdvance(words) - 10
        painter.drawText(QPointF(left, place.center().y() + type_px(4)), words)
    if rest:
        baseline = layout.note.top() + type_px(11)
        _write(painter, rest, layout.note.left(), baseline, width, palette.muted, SMALL_PX)


def _band(palette: Palette) -> QColor:
    colour = QColor(palette.accent)
    colour.setAlphaF(_BAND_ALPHA)
    return colour


def _paint_band(painter: QPainter, layout: InsideLayout, palette: Palette, step: Step) -> None:
    """A light band behind the columns of the step."""
    for column in layout.columns:
        if COLUMN_STEPS[column.name] == step and not column.n_cells:
            left, width = column.left - 4, column.width + 8
            painter.fillRect(QRectF(left, layout.field.top(), width, layout.field.height()), _band(palette))


def _mark_row(painter: QPainter, layout: InsideLayout, row: int, palette: Palette) -> None:
    place = layout.row_rect(row)
    left = layout.rect.left() + layout.label_width + 4
    painter.setPen(QColor(palette.accent))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(QRectF(left, place.top(), place.right() + 3 - left, place.height() - 1))


def short_limit(value: float) -> str:
    """The end of a scale with two digits."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def strip_values(inside: HeadInside, name: str) -> Values:
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
    values = strip_values(inside, column.name)
    if not values.size:
        return
    place = QRectF(column.left, layout.rows.origin, column.width, layout.rows_px)
    codes = delta_codes(pooled(values, column.n_cells), limit_of(values))
    window = QRectF(0, 0, column.n_cells, len(codes))
    size, _ = image_size(painter, place, window)
    picture = cells_image(codes, window, size, code_colours(difference_map(palette), palette))
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
