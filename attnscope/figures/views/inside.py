"""One head on one query as a picture: q over its keys, their products, scores, weights, values, the output.

Strips are colours centred on 0, each of its own scale, which its heading names. What belongs to the step that
is looked at is marked, and its formula stands above with the numbers of one key.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from attnscope.counting import short_words, weight_words
from attnscope.figures.colours import Palette, difference_map, lut
from attnscope.figures.formula_painting import set_formula
from attnscope.figures.raster import cells_image, code_colours, delta_codes, image_size
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import (
    LARGE_PX,
    NORMAL_PX,
    SMALL_PX,
    drawn_piece,
    font,
    isolated,
    plain_piece,
    query_words,
    text_width,
    type_px,
)
from attnscope.figures.token_axis import AxisLabels, Span, paint_rows, stride_for, widest
from attnscope.figures.words_and_numbers import (
    cell_header,
    change_words,
    exact_number_text,
    quoted,
    safe_cell,
)
from attnscope.records.maps import HeadInside
from attnscope.viewmodels.causes.inside import (
    Step,
    check_words,
    column_words,
    rest_words,
    step_words,
    title_words,
)

MAX_PLAIN = 64
"""Dimensions that always have a column of pixels each."""
STRIPS = ("k", "products", "weighted")
LEAST_ROW_PX, MOST_ROW_PX = 16.0, 48.0
_MARGIN_PX, _GAP_PX, _MOST_GAP_PX, _PAD_PX = 12.0, 8.0, 24.0, 4.0
_TITLE_PX, _FORMULA_PX, _NAMES_PX, _BARS_PX, _NOTE_PX = 26.0, 38.0, 18.0, 36.0, 16.0
_NUMBER_PX, _WEIGHT_PX, _MOST_CELL_PX = 40.0, 78.0, 16.0
_PAPER_ROW_PX, _CAPTION_PX = 18.0, 84.0
_LABEL_PX = (36.0, 120.0)
COLUMN_STEPS: dict[str, Step] = {
    "k": "product",
    "products": "product",
    "dot": "product",
    "scaled": "scale",
    "logged": "scale",
    "capped": "scale",
    "bias": "scale",
    "score": "mask",
    "weight": "softmax",
    "weighted": "values",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: a strip of `n_dimensions` in `n_cells` cells, or (both 0) a number for each key."""

    name: str
    heading: str
    left: float
    width: float
    n_dimensions: int = 0
    n_cells: int = 0

    @property
    def right(self) -> float:
        """Right edge, in pixels."""
        return self.left + self.width

    @property
    def n_pooled(self) -> int:
        """Number of dimensions that share a cell."""
        return -(-self.n_dimensions // self.n_cells) if self.n_cells else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InsidePlace:
    """The item under the cursor: the row of a key, a column, and a dimension of a strip."""

    row: int | None = None
    column: str = ""
    dimension: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLayout:
    """The parts from top to bottom; `rows_px` is the height of all rows, visible or not."""

    rect: QRectF
    title: QRectF
    formula: QRectF
    names: QRectF
    query_bars: QRectF
    field: QRectF
    output_bars: QRectF
    note: QRectF
    label_width: float
    columns: tuple[Column, ...]
    rows: Span

    @property
    def rows_px(self) -> float:
        """The height of all rows together."""
        return self.rows.n * self.rows.step

    def column(self, name: str) -> Column | None:
        """A column by its name; None if there is no room for it."""
        return next((column for column in self.columns if column.name == name), None)

    def row_rect(self, row: int) -> QRectF:
        """A row across all columns."""
        top = self.rows.origin + row * self.rows.step
        return QRectF(self.rect.left(), top, self.columns[-1].right - self.rect.left(), self.rows.step)

    def hit(self, position: QPointF) -> InsidePlace:
        """The item at a position; q's and the output's bars belong to the strips below them."""
        x, y = position.x(), position.y()
        column = next((c for c in self.columns if c.left <= x < c.right), None)
        name = column.name if column is not None else ""
        row: int | None = None
        if self.field.top() <= y < self.field.bottom() and self.rect.left() <= x < self.columns[-1].right:
            found = int((y - self.rows.origin) // self.rows.step)
            row = found if 0 <= found < self.rows.n else None
        is_on_bars = (name == "k" and self.query_bars.top() <= y < self.query_bars.bottom()) or (
            name == "weighted" and self.output_bars.top() <= y < self.output_bars.bottom()
        )
        if column is None or not column.n_cells or (row is None and not is_on_bars):
            return InsidePlace(row=row, column=name)
        cell = int((x - column.left) / column.width * column.n_cells)
        return InsidePlace(row=row, column=name, dimension=cell if column.n_pooled == 1 else None)


def inside_layout(
    rect: QRectF,
    inside: HeadInside,
    *,
    step: Step = "product",
    offset_px: float = 0.0,
    is_paper: bool = False,
) -> InsideLayout:
    """Lay the picture out in `rect`. On paper all rows are made to fit; else they scroll by `offset_px`."""
    margin = type_px(_MARGIN_PX)
    inner = rect.adjusted(margin, 8.0, -margin, -8.0)
    low, high = (type_px(length) for length in _LABEL_PX)
    label_width = min(max(widest(inside.key_tokens), low), high, inner.width() * 0.2)
    columns = _columns(inside, step, inner.left() + label_width + _GAP_PX, inner.right())
    names = {column.name for column in columns}
    heights = (_TITLE_PX, _FORMULA_PX, _NAMES_PX, _BARS_PX if "k" in names else 0.0)
    y, bands = inner.top(), []
    for height in heights:
        bands.append(QRectF(inner.left(), y, inner.width(), type_px(height)))
        y += type_px(height)
    output_px = type_px(_BARS_PX) if "weighted" in names else 0.0
    note_px = type_px(_NOTE_PX) if rest_words(inside) else 0.0
    room = inner.bottom() - note_px - output_px - 2 * _PAD_PX - (y + _PAD_PX)
    field, row_px = _field(inner, y + _PAD_PX, room, len(inside.keys), is_paper=is_paper)
    bars = QRectF(inner.left(), field.bottom() + _PAD_PX, inner.width(), output_px)
    top, bottom = field.top(), field.bottom()
    return InsideLayout(
        rect=inner,
        title=bands[0],
        formula=bands[1],
        names=bands[2],
        query_bars=bands[3],
        field=field,
        output_bars=bars,
        note=QRectF(inner.left(), bars.bottom() + _PAD_PX, inner.width(), note_px),
        label_width=label_width,
        columns=columns,
        rows=Span(origin=top - offset_px, step=row_px, low=top, high=bottom, n=len(inside.keys)),
    )


def _field(inner: QRectF, top: float, room: float, n_rows: int, *, is_paper: bool) -> tuple[QRectF, float]:
    """Visible area of the rows, and the height of one."""
    row_px = min(type_px(MOST_ROW_PX), room / max(1, n_rows))
    if not is_paper:
        row_px = math.floor(max(row_px, type_px(LEAST_ROW_PX)))
    height = max(0.0, min(room, row_px * max(1, n_rows)))
    return QRectF(inner.left(), top, inner.width(), height), row_px


def paper_height_mm(inside: HeadInside) -> float:
    """The height of a page, caption included, at which every row is readable."""
    bands = _TITLE_PX + _FORMULA_PX + _NAMES_PX + 2 * _BARS_PX + _NOTE_PX + _CAPTION_PX + 28.0
    return (bands + _PAPER_ROW_PX * max(1, len(inside.keys))) / 96.0 * 25.4


def _columns(inside: HeadInside, step: Step, left: float, right: float) -> tuple[Column, ...]:
    headings = column_words(inside)
    names = list(headings)
    if _least_width(inside, names, headings) > right - left:
        names = _names_of_step(names, step)
        for name in ("k", "logged", "capped"):  # a head with a cap and a bias in a narrow window
            if name in names and _least_width(inside, names, headings) > right - left:
                names.remove(name)
    fixed = sum(_number_width(name, headings[name]) for name in names if name not in STRIPS)
    strips = [name for name in names if name in STRIPS]
    free = right - left - fixed - _GAP_PX * (len(names) - 1)
    each = max(16.0, free / max(1, len(strips)))
    found: list[Column] = []
    for name in names:
        n = _n_dimensions(inside, name)
        width, n_cells = _number_width(name, headings[name]), 0
        if n:
            n_cells = n if n <= each else -(-n // -(-n // max(MAX_PLAIN, int(each))))
            width = max(1.0, min(math.floor(each / n_cells), type_px(_MOST_CELL_PX))) * n_cells
        found.append(
            Column(
                name=name,
                heading=headings[name],
                left=left,
                width=width,
                n_dimensions=n,
                n_cells=n_cells,
            )
        )
    return _spread(found, left, right)


def _spread(columns: list[Column], left: float, right: float) -> tuple[Column, ...]:
    """The columns side by side, each at a whole pixel, with the remaining room between them."""
    spare = right - left - sum(column.width for column in columns)
    gap = min(max(spare / max(1, len(columns) - 1), _GAP_PX), _MOST_GAP_PX)
    found, x = [], left
    for column in columns:
        found.append(replace(column, left=float(round(x))))
        x += column.width + gap
    return tuple(found)


def _least_width(inside: HeadInside, names: list[str], headings: dict[str, str]) -> float:
    sizes = (max(1, min(_n_dimensions(inside, name), MAX_PLAIN)) for name in names if name in STRIPS)
    strips = sum(n * -(-MAX_PLAIN // n) for n in sizes)
    numbers = sum(_number_width(name, headings[name]) for name in names if name not in STRIPS)
    return strips + numbers + _GAP_PX * (len(names) - 1)


def _names_of_step(names: list[str], step: Step) -> list[str]:
    """The columns that matter for a step: q and k until the softmax, values from there on."""
    if step in ("values", "output"):
        return ["weight", "weighted"]
    numbers = [name for name in names if COLUMN_STEPS[name] == step and name not in STRIPS]
    shown = {"k", "products", *numbers, "weight", *(["score"] if step == "softmax" else [])}
    return [name for name in names if name in shown]


def _n_dimensions(inside: HeadInside, name: str) -> int:
    if name not in STRIPS:
        return 0
    return inside.v.shape[1] if name == "weighted" else len(inside.q)


def _number_width(name: str, heading: str) -> float:
    if name == "weight":
        return type_px(_WEIGHT_PX)
    return max(type_px(_NUMBER_PX), text_width(heading, SMALL_PX, is_bold=True))


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
    """Draw the inside of a head; `row` and `dimension` select the numbers written out."""
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
    """Paint every column of the visible rows, the keys' tokens, and the row that is written out."""
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
    """Paint the head, the query, the faults found by the check; below them the formula and its note."""
    baseline = layout.title.top() + type_px(17)
    check = check_words(inside)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.warning))
    right = layout.title.right() - text_width(check)
    painter.drawText(QPointF(right, baseline), check)
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(layout.title.left(), baseline), inside.head.label)
    left = layout.title.left() + text_width(inside.head.label, LARGE_PX, is_bold=True) + 10
    room = right - left - 8
    _write(painter, _query_title(inside, room), left, baseline, room, palette.muted, NORMAL_PX)
    top, width = layout.formula.top(), layout.formula.width()
    _paint_formula(painter, words[0], QPointF(layout.formula.left(), top + type_px(14)), width, palette)
    _write(painter, words[1], layout.formula.left(), top + type_px(30), width, palette.muted, SMALL_PX)


def _query_title(inside: HeadInside, room: float) -> str:
    """The stack and the query; for a row that generates, the generated token if there is no room for both."""
    token, words = inside.query_token, title_words(inside)
    name = isolated(drawn_piece(token.label))
    if not token.read:
        return f"{words} {name}"
    whole = f"{words}, {query_words(token)}"
    return whole if text_width(whole, NORMAL_PX) <= room else f"{words}, writing “{name}”"


def _paint_formula(painter: QPainter, text: str, at: QPointF, room: float, palette: Palette) -> None:
    """Paint the formula with its numbers, typeset; as plain text, cut, if there is no room."""
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
    """Paint the heading of each column; those of the step are marked, strips show their scale."""
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
    """Paint the query as bars over the keys' strip, preceded by its token."""
    column = layout.column("k")
    if column is None:
        return
    place = QRectF(column.left, layout.query_bars.top(), column.width, layout.query_bars.height())
    paint_bars(painter, place, pooled(inside.q[None], column.n_cells)[0], palette)
    baseline = place.center().y() + type_px(4)
    end = layout.rect.left() + layout.label_width
    words = f"q  {isolated(drawn_piece(inside.query_token.label))}"
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
    """Paint the output as bars under the weighted values, with a note on what is omitted."""
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
    """Paint a light band behind the columns of the step."""
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
    found: dict[str, Values] = {"k": inside.k, "products": inside.products, "weighted": inside.weighted}
    return found[name]


def limit_of(values: Values) -> float:
    """Limit of a scale centred on 0; never 0."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def pooled(values: Values, n_cells: int) -> Values:
    """[n, d] values pooled into `n_cells` columns: each shows the value furthest from 0."""
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
    """Paint the keys' rows of one strip, masked ones dimmed."""
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
    """Paint numbers as bars up and down from the middle of `place`."""
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
    """The colour of a number from −1 to 1, strong enough for a visible bar."""
    strong = 0.45 + 0.55 * abs(share)
    index = round((1 + (strong if share >= 0 else -strong)) * 127.5)
    red, green, blue = (int(part) for part in lut(difference_map(palette))[index])
    return QColor(red, green, blue)


def paint_numbers(
    painter: QPainter, layout: InsideLayout, column: Column, inside: HeadInside, palette: Palette
) -> None:
    """Paint one number for each key, and below it, to avoid the digits, a bar from the middle."""
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
    """Paint the weight of each key as a bar from 0 to 1, and in digits."""
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


_OF_QUERY = ("q", "output", "own_output")
_OF_KEY = ("dot", "scaled", "logged", "capped", "bias", "score", "weight", "value_norms")
_OF_DIMENSION = ("k", "products", "v", "weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class InsidePart:
    """The inside of one head: the marked step, and the row of the key whose numbers are written out."""

    inside: HeadInside
    step: Step = "softmax"
    row: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideFigure(FigureSpec):
    """Query, keys, scores, weights and values of one query, from left to right."""

    view = "inside"
    words = "one head step by step"
    order = 5
    follows_width = False

    inside: InsidePart

    @property
    def is_empty(self) -> bool:
        return False

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        shown = self.inside
        layout = inside_layout(rect, shown.inside, step=shown.step, is_paper=True)
        paint_inside(painter, layout, shown.inside, palette=palette, step=shown.step, row=shown.row)

    def shown_words(self) -> list[str]:
        inside = self.inside.inside
        token = inside.query_token
        name = query_words(token, is_isolated=False) if token.read else quoted(token.label)
        query = f"query {inside.query} {name}"
        words = f"head {inside.head.stack} {inside.head.label}, {query}, step {self.inside.step}"
        return [words, *change_words(self.gates, self.interventions)]

    def name_parts(self) -> list[str]:
        inside = self.inside.inside
        return [inside.head.stack, inside.head.label, f"query {inside.query}"]

    def rows(self) -> Iterator[Iterable[str]]:
        inside = self.inside.inside
        asked = inside.query_token
        written = (safe_cell(asked.piece),) if asked.read else ()
        yield (*cell_header(has_written=bool(written)), "quantity", "dimension", "value")
        head = (inside.head.stack, str(inside.head.layer), str(inside.head.head))
        query = (str(inside.query), safe_cell(asked.read or asked.piece), *written)
        for key, token, name, d, value in _inside_rows(inside):
            yield (*head, *query, key, safe_cell(token), name, d, exact_number_text(value))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return _inside_arrays(self.inside.inside)

    def fits_together(self) -> bool:
        inside, row = self.inside.inside, self.inside.row
        return inside.q.size > 0 and (row is None or 0 <= row < len(inside.keys))


def _inside_rows(inside: HeadInside) -> Iterator[tuple[str, str, str, str, float]]:
    """Key, key token, quantity, dimension and value of each number; empty if it does not apply."""
    for name in ("scale", "lse", "gate", "rest_weight"):
        yield ("", "", name, "", float(getattr(inside, name)))
    for name in _OF_QUERY:
        for d, value in enumerate(getattr(inside, name).tolist()):
            yield ("", "", name, str(d), value)
    for row, (key, token) in enumerate(zip(inside.keys, inside.key_tokens, strict=True)):
        names = (str(key), plain_piece(token.piece))
        for name in _OF_KEY:
            if getattr(inside, name) is not None:
                yield (*names, name, "", float(getattr(inside, name)[row]))
        for name in _OF_DIMENSION:
            for d, value in enumerate(getattr(inside, name)[row].tolist()):
                yield (*names, name, str(d), value)


def _inside_arrays(inside: HeadInside) -> dict[str, NDArray[np.generic]]:
    """Every array under its own name, the shown keys' indices and tokens, and the numbers of the score."""
    names = (*_OF_QUERY, *_OF_KEY, *_OF_DIMENSION)
    arrays: dict[str, NDArray[np.generic]] = {
        name: getattr(inside, name) for name in names if getattr(inside, name) is not None
    }
    arrays["keys"] = np.array(inside.keys, dtype=np.int64)
    arrays["key_tokens"] = np.array([token.piece for token in inside.key_tokens], dtype=np.str_)
    arrays["query"] = np.array(inside.query)
    for name in ("scale", "lse", "gate", "rest_weight"):
        arrays[name] = np.array(float(getattr(inside, name)))
    return arrays
