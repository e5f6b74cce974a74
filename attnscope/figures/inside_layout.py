"""Where everything lies in the picture of one head's inside: columns for the numbers, rows for the keys.

Strips have one column of pixels or more for each dimension up to MAX_PLAIN; larger ones are pooled. Where
there is no room for all columns only those of the step that is looked at are shown.
"""

import math
from dataclasses import dataclass, replace

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures.style import SMALL_PX, text_width, type_px
from attnscope.figures.token_axis import Span, widest
from attnscope.records.inside import HeadInside
from attnscope.viewmodels.causes.inside_words import Step, column_words, rest_words

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
        """Where it ends."""
        return self.left + self.width

    @property
    def n_pooled(self) -> int:
        """How many dimensions share a cell."""
        return -(-self.n_dimensions // self.n_cells) if self.n_cells else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InsidePlace:
    """What lies under a position: the row of a key, a column, and a dimension of a strip."""

    row: int | None = None
    column: str = ""
    dimension: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLayout:
    """The parts from top to bottom; `rows_px` is the height of all rows, in sight or not."""

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
        """A column by its name; None where there is no room for it."""
        return next((column for column in self.columns if column.name == name), None)

    def row_rect(self, row: int) -> QRectF:
        """A row across all columns."""
        top = self.rows.origin + row * self.rows.step
        return QRectF(self.rect.left(), top, self.columns[-1].right - self.rect.left(), self.rows.step)

    def hit(self, position: QPointF) -> InsidePlace:
        """What lies under a position; q's and the output's bars belong to the strips they stand over."""
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
    """Where the rows can be seen, and the height of one."""
    row_px = min(type_px(MOST_ROW_PX), room / max(1, n_rows))
    if not is_paper:
        row_px = math.floor(max(row_px, type_px(LEAST_ROW_PX)))
    height = max(0.0, min(room, row_px * max(1, n_rows)))
    return QRectF(inner.left(), top, inner.width(), height), row_px


def paper_height_mm(inside: HeadInside) -> float:
    """The height of a page, caption included, on which every row can be read."""
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
    """The columns side by side, each at a whole pixel, with what room is left between them."""
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
