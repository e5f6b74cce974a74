"""Positional encodings side by side: matrix and similarity map of each, similarity by offset of all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.chart_painting import nice_ticks, paint_chart, tick_text
from attnscope.figures.colours import Palette
from attnscope.figures.map_painting import ColourBar, paint_colour_bar, share_text
from attnscope.figures.raster import (
    FIRST_COLOUR,
    NO_DATA,
    Codes,
    ImageCache,
    cells_image,
    code_colours,
    image_size,
)
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import (
    LINE_PX,
    NORMAL_PX,
    SMALL_PX,
    font,
    plain_piece,
    plain_text,
    shorten,
    wrapped,
)
from attnscope.figures.words_and_numbers import exact_number_text, safe_cell
from attnscope.records.charts import Chart, Series
from attnscope.records.maps import PositionCheck, PositionTable, peak_of

_MARGIN_PX = 12.0
_GAP_PX = 26.0
_HEAD_PX = 38.0
_FOOT_PX = 32.0
_SIDE_PX = 34.0
_BAR_PX = 60.0
_CURVES_PX = 150.0
_LEAST_COLUMN_PX, _LEAST_CURVE_PX = 170.0, 260.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsFigure(FigureSpec):
    """One column of pictures for each encoding."""

    view = "positions"
    words = "positional encodings"
    search = (
        "sinusoidal learned rotary binary encoding embedding similarity of positions dot product of positions"
    )
    order = 9
    least_px = 250.0
    reads_positions = True

    positions: tuple[PositionTable, ...] = ()

    @classmethod
    def of_positions(
        cls,
        tables: tuple[PositionTable, ...],
        only: str = "",
        checks: tuple[PositionCheck, ...] = (),
        **page: Any,
    ) -> "PositionsFigure":
        return cls(positions=tables, **page)

    @property
    def is_empty(self) -> bool:
        return not self.positions

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        paint_positions(painter, rect, self.positions, palette=palette)

    def natural_height(self, width: float) -> float:
        return _natural_height(width, self.positions)

    def rows(self) -> Iterator[Iterable[str]]:
        yield ("encoding", "offset", "mean cosine", "mean dot product")
        for table in self.positions:
            for i, (cosine, dot) in enumerate(zip(table.by_offset, table.dot_by_offset, strict=True)):
                yield (safe_cell(table.name), str(i), exact_number_text(cosine), exact_number_text(dot))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays: dict[str, NDArray[np.generic]] = {}
        for i, table in enumerate(self.positions):
            arrays |= {f"{i}_{name}": values for name, values in table.arrays().items()}
        arrays["names"] = np.array([table.name for table in self.positions], dtype=np.str_)
        return arrays

    def fits_together(self) -> bool:
        return all(map(_is_whole, self.positions))


def _is_whole(table: PositionTable) -> bool:
    n = len(table.matrix)
    fits = table.cosine.shape == (n, n) and table.by_offset.shape == table.dot_by_offset.shape == (n,)
    return table.matrix.size > 0 and fits


def paint_positions(
    painter: QPainter,
    rect: QRectF,
    tables: tuple[PositionTable, ...],
    *,
    palette: Palette,
    cache: ImageCache | None = None,
) -> None:
    """Draw all encodings into `rect`: a column each with matrix and cosine map, then curves, then notes."""
    if not tables:
        return
    notes = _notes(tables, rect.width())
    whole = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
    inner = whole.adjusted(0, 0, 0, -_notes_height(notes))
    cache = cache or ImageCache()
    maps, (cosine, dot), bar = _places(inner, len(tables))
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    for i, (table, (place, other)) in enumerate(zip(tables, maps, strict=True)):
        paint_matrix(painter, place, table, palette=palette, cache=cache, slot=i)
        paint_cosine(painter, other, table, palette=palette, cache=cache, slot=i)
    paint_colour_bar(
        painter,
        bar,
        ColourBar(colour_map="diverging", title="value", ticks=((0.0, "−max"), (0.5, "0"), (1.0, "+max"))),
        palette,
    )
    paint_chart(painter, cosine, offset_chart(tables, is_dot=False), palette=palette)
    paint_chart(painter, dot, offset_chart(tables, is_dot=True), palette=palette)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for k, line in enumerate(notes):
        painter.drawText(QPointF(whole.left(), whole.bottom() - 4 - (len(notes) - 1 - k) * LINE_PX), line)
    painter.restore()


def _natural_height(width: float, tables: tuple[PositionTable, ...]) -> float:
    """Preferred height of encodings at a width: square maps, curves whose ticks stand apart, their notes."""
    n_tables, inner = len(tables), width - 2 * _MARGIN_PX
    is_row, column = _arrangement(inner, n_tables)
    side = max(20.0, column - _GAP_PX - _SIDE_PX)
    axes = [pair for table in tables for pair in (_matrix_axes(table), _cosine_axes(table))]
    foot = max((_foot_px(pair, column - _GAP_PX) for pair in axes), default=_FOOT_PX)
    maps_px = (n_tables if is_row else 2) * (_HEAD_PX + side + foot + 8)
    n_curves = 1 if _has_curves_beside(inner) else 2
    notes_px = _notes_height(_notes(tables, width))
    return 2 * _MARGIN_PX + maps_px + n_curves * (_CURVES_PX + _GAP_PX) + notes_px


def _notes(tables: tuple[PositionTable, ...], width: float) -> list[str]:
    """The formula of each encoding, its source, and its description, if any, in lines that fit."""
    told = ((table, " ".join(filter(None, (_formula(table), table.note)))) for table in tables)
    lines = (f"{plain_piece(table.name)}: {plain_text(words)}" for table, words in told if words)
    return wrapped(lines, width - 2 * _MARGIN_PX)


def _formula(table: PositionTable) -> str:
    source = f" ({table.source})" if table.source else ""
    return f"{table.formula}{source}." if table.formula else ""


def _notes_height(notes: list[str]) -> float:
    return len(notes) * LINE_PX + _MARGIN_PX if notes else 0.0


def _arrangement(width: float, n_tables: int) -> tuple[bool, float]:
    """Whether each encoding is a row of two maps; the maximum width of a map."""
    column = (width - _BAR_PX) / max(2, n_tables)
    is_row = n_tables == 1 or column < _LEAST_COLUMN_PX
    return is_row, min((width - _BAR_PX) / 2 if is_row else column, 420.0)


def _has_curves_beside(width: float) -> bool:
    return width >= 2 * _LEAST_CURVE_PX + _GAP_PX


def _places(
    inner: QRectF, n_tables: int
) -> tuple[list[tuple[QRectF, QRectF]], tuple[QRectF, QRectF], QRectF]:
    """Rectangles of each encoding's two maps, the two curves and the colour bar."""
    is_row, width = _arrangement(inner.width(), n_tables)
    is_beside = _has_curves_beside(inner.width())
    n_curves = 1 if is_beside else 2
    share = inner.height() / n_curves
    curve_px = min(max(_CURVES_PX, 0.3 * share), 230.0, 0.4 * share)
    maps_px = (inner.height() - n_curves * (curve_px + _GAP_PX)) / (n_tables if is_row else 2)
    maps = []
    for i in range(n_tables):
        left, top = (0.0, i * maps_px) if is_row else (i * width, 0.0)
        place = QRectF(inner.left() + left, inner.top() + top, width - _GAP_PX, maps_px - 8)
        other = place.translated(width, 0) if is_row else place.translated(0, maps_px)
        maps.append((place, other.adjusted(0, 20, 0, 0) if is_row else other))
    curve_width = (inner.width() - _GAP_PX) / 2 if is_beside else inner.width()
    dot = QRectF(inner.right() - curve_width, inner.bottom() - curve_px, curve_width, curve_px)
    moved = (inner.left() - dot.left(), 0.0) if is_beside else (0.0, -curve_px - _GAP_PX)
    bar = QRectF(
        inner.left() + (2 if is_row else max(2, n_tables)) * width,
        inner.top() + _HEAD_PX - 22,
        _BAR_PX,
        150.0,
    )
    return maps, (dot.translated(*moved), dot), bar


def offset_chart(tables: tuple[PositionTable, ...], *, is_dot: bool) -> Chart:
    """Mean cosine (or dot product) of all pairs of positions against their offset, one curve each.

    One that lies on an earlier one is dashed, so that both are seen.
    """
    curves = [np.asarray(t.dot_by_offset if is_dot else t.by_offset, np.float64) for t in tables]
    series = tuple(
        Series(
            name=table.name,
            xs=np.arange(len(values), dtype=np.float64),
            ys=values,
            colour=i,
            is_dashed=any(_is_alike(values, other) for other in curves[:i]),
        )
        for i, (table, values) in enumerate(zip(tables, curves, strict=True))
    )
    return Chart(
        title="Dot product" if is_dot else "Cosine similarity",
        x_label="offset (positions)",
        y_label="mean over all pairs at an offset",
        series=series,
    )


def _is_alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two curves are indistinguishable: nowhere further apart than the width of a line."""
    if one.shape != other.shape or not one.size:
        return False
    span = float(np.ptp(np.concatenate([one, other]))) or 1.0
    return float(np.abs(one - other).max()) < 0.02 * span


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """Numbers from −`peak` to `peak` as a map: its title and note, its axes, its place in a cache."""

    values: NDArray[np.float32]
    peak: float
    words: tuple[str, str]
    axes: tuple[str, str]
    slot: tuple[str, int]


def paint_matrix(
    painter: QPainter,
    rect: QRectF,
    table: PositionTable,
    *,
    palette: Palette,
    cache: ImageCache | None = None,
    slot: int = 0,
) -> QRectF:
    """Draw the encoding itself, positions down and dimensions across; returns the cells' rectangle."""
    peak = peak_of(table.matrix)
    note = f"−{share_text(peak)} … {share_text(peak)}".replace("−0 … 0", "all 0")
    words, axes = (shorten(plain_piece(table.name), 24), note), _matrix_axes(table)
    shown = _Map(values=table.matrix, peak=peak, words=words, axes=axes, slot=("matrix", slot))
    return _paint_cells(painter, rect, shown, palette, cache or ImageCache())


def paint_cosine(
    painter: QPainter,
    rect: QRectF,
    table: PositionTable,
    *,
    palette: Palette,
    cache: ImageCache | None = None,
    slot: int = 0,
) -> QRectF:
    """Draw the cosine similarity of every pair of positions; returns the cells' rectangle."""
    words, axes = ("", "cosine similarity"), _cosine_axes(table)
    shown = _Map(values=table.cosine, peak=1.0, words=words, axes=axes, slot=("cosine", slot))
    return _paint_cells(painter, rect, shown, palette, cache or ImageCache())


def _matrix_axes(table: PositionTable) -> tuple[str, str]:
    return f"{table.axes[1]} ↓", f"{table.axes[0]} →"


def _cosine_axes(table: PositionTable) -> tuple[str, str]:
    return f"{table.axes[1]} ↓ →", ""


def _axis_lines(axes: tuple[str, str], width: float) -> list[str]:
    """The words of both axes beside each other, or stacked below a map that is too narrow."""
    beside = "   ".join(filter(None, axes))
    is_narrow = QFontMetricsF(font(SMALL_PX)).horizontalAdvance(beside) > width + _GAP_PX - 10
    return [word for word in axes if word] if is_narrow else [beside]


def _foot_px(axes: tuple[str, str], width: float) -> float:
    """Space for ticks and axes below a map of this width."""
    return _FOOT_PX + (len(_axis_lines(axes, width)) - 1) * LINE_PX


def _codes(values: NDArray[np.float32], peak: float) -> Codes:
    shares = np.clip(np.nan_to_num(values / (peak or 1.0), nan=0.0, posinf=0.0, neginf=0.0), -1, 1)
    codes: Codes = (np.rint((shares + 1) / 2 * 255) + FIRST_COLOUR).astype(np.uint16)
    codes[~np.isfinite(values)] = NO_DATA
    return codes


def _paint_cells(painter: QPainter, rect: QRectF, shown: _Map, palette: Palette, cache: ImageCache) -> QRectF:
    words, axes = shown.words, shown.axes
    head = _HEAD_PX if words[0] else _HEAD_PX - 20
    cells = QRectF(
        rect.left() + _SIDE_PX,
        rect.top() + head,
        rect.width() - _SIDE_PX,
        rect.height() - head - _foot_px(axes, rect.width()),
    )
    n_rows, n_cols = shown.values.shape
    if n_rows == n_cols:
        side = min(cells.width(), cells.height())
        cells.setSize(QRectF(0, 0, side, side).size())
    cells = QRectF(round(cells.left()), round(cells.top()), round(cells.width()), round(cells.height()))
    if shown.values.size:
        _draw_image(painter, cells, shown, palette, cache)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawRect(cells.adjusted(-0.5, -0.5, 0.5, 0.5))
    if words[0]:
        painter.setFont(font(NORMAL_PX, is_bold=True))
        painter.setPen(QColor(palette.text))
        painter.drawText(QPointF(cells.left(), rect.top() + 13), words[0])
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    _paint_note(painter, rect, cells, words[1])
    _paint_ticks(painter, cells, n_rows, n_cols, _axis_lines(axes, rect.width()), palette)
    return cells


def _paint_note(painter: QPainter, rect: QRectF, cells: QRectF, note: str) -> None:
    """Paint the line above a map, from the map's left or, if that is too narrow, from that of its labels."""
    metrics = QFontMetricsF(painter.font())
    end = rect.right() + _GAP_PX - 6
    left = cells.left() if cells.left() + metrics.horizontalAdvance(note) <= end else rect.left() + 4
    text = metrics.elidedText(note, Qt.TextElideMode.ElideRight, end - left)
    painter.drawText(QPointF(left, cells.top() - 7), text)


def _draw_image(painter: QPainter, cells: QRectF, shown: _Map, palette: Palette, cache: ImageCache) -> None:
    n_rows, n_cols = shown.values.shape
    window = QRectF(0, 0, n_cols, n_rows)
    size_px, _ = image_size(painter, cells, window)
    key = (id(shown.values), palette, size_px)
    image = cache.image(shown.slot, key)
    if image is None:
        codes, colours = _codes(shown.values, shown.peak), code_colours("diverging", palette)
        made = cells_image(codes, window, size_px, colours, is_sampled=True)
        image = cache.keep(shown.slot, key, made)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    painter.drawImage(cells, image)


def whole_ticks(n: int, n_wanted: float) -> tuple[float, ...]:
    """Approximately so many of the numbers 0 … n − 1."""
    return tuple(t for t in nice_ticks(0, max(1, n - 1), max(1, round(n_wanted))) if t < n and t == round(t))


def _paint_ticks(
    painter: QPainter, cells: QRectF, n_rows: int, n_cols: int, axes: list[str], palette: Palette
) -> None:
    painter.setPen(QColor(palette.muted))
    for value in whole_ticks(n_cols, cells.width() / 60):
        x = cells.left() + (value + 0.5) / n_cols * cells.width()
        label = QRectF(x - 25, cells.bottom() + 3, 50, 14)
        painter.drawText(label, Qt.AlignmentFlag.AlignHCenter, tick_text(value))
    for value in whole_ticks(n_rows, cells.height() / 40):
        y = cells.top() + (value + 0.5) / n_rows * cells.height()
        label = QRectF(cells.left() - 40, y - 8, 35, 16)
        painter.drawText(label, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, tick_text(value))
    for i, line in enumerate(axes):
        painter.drawText(QPointF(cells.left() - 30, cells.bottom() + 27 + i * LINE_PX), line)
