"""Curves on axes: round ticks, names at the ends of the curves, gaps where data is missing.

Long curves are thinned to the smallest and largest value of each pixel column, so that peaks stay.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPolygonF

from attnscope.counting import power_text
from attnscope.figures.colours import Palette, argb, lut_argb, series_colour
from attnscope.figures.raster import image_from_words
from attnscope.figures.style import NORMAL_PX, SMALL_PX, drawn_piece, font, text_width, type_px
from attnscope.records.charts import Chart, ChartField, Series

MAX_TICKS = 12


def nice_ticks(low: float, high: float, n_wanted: int, *, is_counted: bool = False) -> tuple[float, ...]:
    """Round numbers within low…high, about `n_wanted` of them, at most MAX_TICKS steps, and at least two if
    possible: steps of 1, 2 or 5 times a power of ten. For counts, whole numbers only.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return (low,) if math.isfinite(low) else ()
    ticks: tuple[float, ...] = ()
    least = min(max(1, n_wanted), MAX_TICKS)
    for n in range(least, least + 5):  # rounding up makes steps 2.5 times as long at most
        ticks = _ticks_of_step(low, high, (high - low) / n)
        if len(ticks) >= 2:
            break
    return tuple(t for t in ticks if not is_counted or abs(t - round(t)) < 1e-9) or ticks


def _ticks_of_step(low: float, high: float, rough: float) -> tuple[float, ...]:
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(i * step for i in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten within low…high (both over 0), with 2 and 5 between them if there are few; other round
    numbers if these are fewer than two.
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    stride = max(1, len(exponents) // 8)
    whole = [10.0**e for e in exponents if e % stride == 0 and low * 0.999 <= 10.0**e <= high * 1.001]
    if len(whole) >= 3:
        return tuple(whole)
    parts = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
    found = tuple(p for p in parts if low * 0.999 <= p <= high * 1.001)
    return found if len(found) >= 2 else nice_ticks(low, high, 4)


def tick_text(value: float, step: float = 0.0) -> str:
    """A tick's number, short: `0.25`, `10⁻⁴`, `20k`; with the digits needed at a spacing of `step`."""
    if value == 0:
        return "0"
    size = abs(value)
    last = math.floor(math.log10(step) + 1e-9) if step > 0 else 0  # the place of the last digit
    if size >= 1e6 or (size < 1e-3 and step < 1e-4):
        return power_text(value, max(0, math.floor(math.log10(size) + 1e-9) - last) if step > 0 else 6)
    if size >= 10_000:
        text = f"{value / 1000:.{max(0, 3 - last)}f}" if step > 0 else f"{value / 1000:g}"
        return f"{_shortest(text)}k".replace("-", "−")
    text = f"{value:.{max(0, -last)}f}" if step > 0 else _shortest(f"{value:.6f}")
    return text.replace("-", "−")


def _shortest(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


_TITLE_PX, _AXIS_PX, _LABEL_PX = 26.0, 34.0, 14.0
_MAX_NAME_PX, _NAMES_SHARE = 130.0, 0.27
_RADIUS_PX = 2.6
Pixels = NDArray[np.float64]
COLOUR_MAP = "viridis"
_STRIP_PX, _STRIP_HIGH_PX, _GAP_PX = 64.0, 8.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLayout:
    """The plot's rectangle and the ranges it shows; on a log axis `x` or `y` is log10 of the value."""

    plot: QRectF
    x: tuple[float, float]
    y: tuple[float, float]
    is_log_y: bool
    is_log_x: bool = False

    def place(self, xs: NDArray[np.float64], ys: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Pixels of data points; NaN if there is none."""
        heights = _log(ys) if self.is_log_y else ys
        xs = _log(xs) if self.is_log_x else xs
        px = self.plot.left() + (xs - self.x[0]) / (self.x[1] - self.x[0]) * self.plot.width()
        py = self.plot.bottom() - (heights - self.y[0]) / (self.y[1] - self.y[0]) * self.plot.height()
        return px, py

    def x_at(self, pixel: float) -> float:
        x = self.x[0] + (pixel - self.plot.left()) / self.plot.width() * (self.x[1] - self.x[0])
        return float(10.0**x) if self.is_log_x else x


def paint_charts(
    painter: QPainter, places: Iterable[QRectF], charts: Iterable[Chart], *, palette: Palette
) -> tuple[ChartLayout, ...]:
    """Draw charts, each in its rectangle; stacked plots share their left and right edges."""
    placed = list(zip(places, charts, strict=True))
    lefts: dict[int, float] = {}
    rights: dict[int, float] = {}
    for rect, chart in placed:
        plot, left, right = _placed(rect, chart).plot, round(rect.left()), round(rect.right())
        lefts[left] = max(lefts.get(left, 0.0), plot.left() - rect.left())
        rights[right] = max(rights.get(right, 0.0), rect.right() - plot.right())
    return tuple(
        paint_chart(
            painter,
            rect,
            chart,
            palette=palette,
            beside=(lefts[round(rect.left())], rights[round(rect.right())]),
        )
        for rect, chart in placed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """Positions of a chart's plot and unit, and the space beside the plot."""

    plot: QRectF
    unit_at: QPointF
    y_ticks: list[tuple[float, str]]
    named: list[Series]
    names_px: float


def _placed(rect: QRectF, chart: Chart, beside: tuple[float, float] = (0.0, 0.0)) -> _Placed:
    """The plot in `rect`, with at least `beside` of room at its left and right."""
    x_range, y_range = _x_range(chart), _y_range(chart)
    named = [s for s in chart.series if s.name and s.has_label and np.isfinite(s.ys).any()]
    wanted_px = max((text_width(_name(s)) for s in named), default=-6.0) + 14
    if chart.x_names:  # half of the last one stands right of its point
        wanted_px = max(wanted_px, text_width(chart.x_names[-1]) / 2 + 2)
    names_px = max(beside[1], min(max(_MAX_NAME_PX, rect.width() * _NAMES_SHARE), wanted_px))
    unit_at = _unit_place(rect, chart)
    title_px = _TITLE_PX + unit_at.y() - rect.top()
    named_px = 0.0
    for _ in range(3):  # names make the plot lower, so perhaps the numbers beside it narrower
        high = max(20.0, rect.height() - title_px - type_px(_AXIS_PX) - named_px)
        y_ticks = ticks_apart(_y_ticks(chart, y_range, high), y_range, high)
        ticks_px = max(beside[0], max((text_width(text) for _, text in y_ticks), default=10.0) + 10)
        wide = max(20.0, rect.width() - ticks_px - names_px)
        plot = QRectF(rect.left() + ticks_px, rect.top() + title_px, wide, high)
        n_lines = name_lines(chart.x_names, wide / max(x_range[1] - x_range[0], 1e-9))
        if named_px >= names_high(chart.x_names, n_lines):
            break
        named_px = names_high(chart.x_names, n_lines)
    return _Placed(plot=plot, unit_at=unit_at, y_ticks=y_ticks, named=named, names_px=names_px)


def paint_chart(
    painter: QPainter,
    rect: QRectF,
    chart: Chart,
    *,
    palette: Palette,
    beside: tuple[float, float] = (0.0, 0.0),
) -> ChartLayout:
    """Draw one chart into `rect`, its plot at least `beside` from the sides; return where its data lies."""
    x_range, y_range = _x_range(chart), _y_range(chart)
    placed = _placed(rect, chart, beside)
    plot, unit_at, y_ticks = placed.plot, placed.unit_at, placed.y_ticks
    if chart.is_geometric:
        x_range, y_range = equal_ranges(x_range, y_range, plot.width(), plot.height())
    layout = ChartLayout(plot=plot, x=x_range, y=y_range, is_log_y=chart.is_log_y, is_log_x=chart.is_log_x)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    _paint_axes(painter, rect, layout, chart, y_ticks, palette, unit_at)
    painter.save()
    painter.setClipRect(plot.adjusted(-3, -3, 3, 3))
    if chart.field is not None:
        paint_chart_field(
            painter, plot, chart.field, x_range, y_range, is_log_y=chart.is_log_y, palette=palette
        )
    for series in sorted(chart.series, key=lambda s: not s.is_quiet):
        _paint_series(painter, layout, series, palette, has_halo=chart.field is not None)
    lines = [layout.place(s.xs, s.ys) for s in chart.series if s.is_reference]
    for series in chart.series:
        px, py = layout.place(series.xs, series.ys)
        paint_labels(painter, plot, px, py, series.labels, palette, lines)
    places = layout.place(np.array([x for x, _ in chart.marks], np.float64), np.ones(len(chart.marks)))[0]
    notes = np.array([(x, y) for x, y, _ in chart.notes], np.float64).reshape(-1, 2)
    painter.setPen(QColor(palette.muted))
    painter.setFont(font(SMALL_PX))
    high_px = QFontMetricsF(font(SMALL_PX)).height()
    words = [word for _, _, word in chart.notes]
    middles = zip(*layout.place(notes[:, 0], notes[:, 1]), map(text_width, words), strict=True)
    boxes = [
        off_points(QRectF(x - wide / 2, y - high_px / 2, wide, high_px), zip(*points, strict=True))
        for (x, y, wide), points in zip(
            middles, (layout.place(*points_about(chart, x)) for x in notes[:, 0]), strict=True
        )
    ]
    for box, word in zip(parted(boxes, plot), words, strict=True):
        if box is not None:
            painter.drawText(box.adjusted(-40, -5, 40, 5), Qt.AlignmentFlag.AlignCenter, word)
    paint_marks(painter, plot, tuple(zip(places, (w for _, w in chart.marks), strict=True)), palette)
    painter.restore()
    _paint_names(painter, layout, placed.named, placed.names_px, palette)
    if not any(np.isfinite(s.ys).any() for s in chart.series):
        painter.setPen(QColor(palette.muted))
        painter.drawText(plot, Qt.AlignmentFlag.AlignCenter, "no data yet")
    painter.restore()
    return layout


def ticks_apart(
    ticks: list[tuple[float, str]], ends: tuple[float, float], height: float
) -> list[tuple[float, str]]:
    """The ascending ticks, values and words, whose words do not touch on an axis of this height."""
    kept: list[tuple[float, str]] = []
    for tick in ticks:
        gap_px = (tick[0] - kept[-1][0]) / (ends[1] - ends[0]) * height if kept else math.inf
        if gap_px >= type_px(_LABEL_PX):
            kept.append(tick)
    return kept


def words_apart(ticks: list[tuple[float, str]], px_each: float) -> list[tuple[float, str]]:
    """The ascending ticks whose words do not touch the previous one, at `px_each` pixels for 1."""
    kept: list[tuple[float, str]] = []
    for at, word in ticks:
        half = (text_width(word) + (text_width(kept[-1][1]) if kept else 0.0)) / 2 + type_px(6)
        if not kept or (at - kept[-1][0]) * px_each >= half:
            kept.append((at, word))
    return kept


def equal_ranges(
    x: tuple[float, float], y: tuple[float, float], width: float, height: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ranges that hold both given ones, with units of one length in a plot of this size."""
    unit = max((x[1] - x[0]) / max(width, 1.0), (y[1] - y[0]) / max(height, 1.0))
    ends = []
    for (low, high), pixels in ((x, width), (y, height)):
        room = (unit * max(pixels, 1.0) - (high - low)) / 2
        ends.append((low - room, high + room))
    return ends[0], ends[1]


def thin(xs: NDArray[np.float64], ys: NDArray[np.float64], n_columns: int) -> tuple[NDArray[np.float64], ...]:
    """At most about 2·`n_columns` points that look the same: each column's extremes, in order."""
    if len(xs) <= 2 * n_columns or n_columns < 1:
        return xs, ys
    edges = np.linspace(0, len(xs), n_columns + 1).astype(int)
    kept = []
    for start, end in itertools.pairwise(edges.tolist()):
        part = ys[start:end]
        if np.isfinite(part).any():
            kept += sorted({start + int(np.nanargmin(part)), start + int(np.nanargmax(part))})
        elif len(part):
            kept.append(start)
    return xs[kept], ys[kept]


def _name(series: Series) -> str:
    return drawn_piece(series.name)


def _log(ys: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log10(np.where(ys > 0, ys, np.nan))


def _ends(arrays: list[NDArray[np.float64]]) -> list[float]:
    """The smallest and largest finite value of each array that has one."""
    finite = [values[np.isfinite(values)] for values in arrays]
    return [float(end) for values in finite if len(values) for end in (values.min(), values.max())]


def _x_range(chart: Chart) -> tuple[float, float]:
    places = [s.xs for s in chart.series] + ([chart.field.xs] if chart.field is not None else [])
    ends = _ends([_log(xs) if chart.is_log_x else xs for xs in places])
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _y_range(chart: Chart) -> tuple[float, float]:
    if chart.y_range is not None and not chart.is_log_y:
        return chart.y_range
    heights = [s.ys for s in chart.series] + ([chart.field.shown_edges] if chart.field is not None else [])
    ends = _ends([_log(ys) if chart.is_log_y else ys for ys in heights])
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    if high <= low:
        room = abs(high) * 0.1 or 0.5
        return low - room, high + room
    if not chart.is_log_y and 0 <= low < 0.35 * high:
        low = 0.0
    return (low if low == 0 else low - 0.04 * (high - low)), high + 0.06 * (high - low)


def _y_ticks(chart: Chart, y_range: tuple[float, float], height: float) -> list[tuple[float, str]]:
    if chart.is_geometric:
        return []
    if chart.is_log_y:
        return [(math.log10(t), tick_text(t)) for t in log_ticks(10 ** y_range[0], 10 ** y_range[1])]
    ticks = nice_ticks(*y_range, max(2, round(height / 42)))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    return [(t, tick_text(t, step)) for t in ticks]


def _unit_place(rect: QRectF, chart: Chart) -> QPointF:
    """Left edge of the y axis's unit: beside the title, or below it if there is no room."""
    beside = text_width(chart.title, NORMAL_PX, is_bold=True) + 8
    strip = 0.0 if chart.field is None else strip_width(chart.field) + 8
    if beside + text_width(chart.y_label) + strip <= rect.width():
        return rect.topLeft() + QPointF(beside, 0.0)
    return rect.topLeft() + QPointF(0.0, type_px(_LABEL_PX) + 2)


def _paint_axes(
    painter: QPainter,
    rect: QRectF,
    layout: ChartLayout,
    chart: Chart,
    y_ticks: list[tuple[float, str]],
    palette: Palette,
    unit_at: QPointF,
) -> None:
    plot = layout.plot
    painter.setFont(font(NORMAL_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(rect.left(), rect.top() + 13), chart.title)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    room = rect.right() - unit_at.x()
    if chart.field is not None:
        strip_px = paint_colour_strip(painter, rect.right(), rect.top() + 5, chart.field, palette) + 8
        room -= strip_px if unit_at.y() == rect.top() else 0.0
    unit = QFontMetricsF(font(SMALL_PX)).elidedText(chart.y_label, Qt.TextElideMode.ElideRight, room)
    painter.drawText(unit_at + QPointF(0.0, 13.0), unit)
    for value, text in y_ticks:
        y = plot.bottom() - (value - layout.y[0]) / (layout.y[1] - layout.y[0]) * plot.height()
        painter.setPen(QPen(QColor(palette.grid), 1.0))
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
        painter.setPen(QColor(palette.muted))
        label = QRectF(rect.left() - 4, y - 8, plot.left() - rect.left() - 2, 16)
        painter.drawText(label, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawLine(plot.bottomLeft(), plot.bottomRight())
    _paint_x_ticks(painter, layout, chart, palette, rect.left())


def _paint_x_ticks(
    painter: QPainter, layout: ChartLayout, chart: Chart, palette: Palette, left: float
) -> None:
    """Paint the numbers of the x axis and, right of `left`, its unit."""
    plot = layout.plot
    if chart.x_names:
        places = np.arange(1.0, len(chart.x_names) + 1)
        paint_x_names(painter, plot, layout.place(places, places)[0], chart.x_names, palette)
    ticks = [] if chart.is_geometric or chart.x_names else _x_ticks(layout, chart)
    for value, text in words_apart(ticks, plot.width() / max(layout.x[1] - layout.x[0], 1e-9)):
        x = plot.left() + (value - layout.x[0]) / (layout.x[1] - layout.x[0]) * plot.width()
        painter.setPen(QPen(QColor(palette.line), 1.0))
        painter.drawLine(QPointF(x, plot.bottom()), QPointF(x, plot.bottom() + 4))
        painter.setPen(QColor(palette.muted))
        label = QRectF(x - 40, plot.bottom() + 5, 80, type_px(_LABEL_PX))
        painter.drawText(label, Qt.AlignmentFlag.AlignHCenter, text)
    step = plot.width() / max(layout.x[1] - layout.x[0], 1e-9)
    high = type_px(_LABEL_PX) + names_high(chart.x_names, name_lines(chart.x_names, step))
    spare = max(0.0, text_width(chart.x_label) + 4 - plot.width()) / 2
    below = QRectF(plot.left(), plot.bottom() + 5 + high, plot.width(), type_px(_LABEL_PX) + 3)
    below.adjust(-min(spare, plot.left() - left), 0, 2 * spare - min(spare, plot.left() - left), 0)
    painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, chart.x_label)


def _x_ticks(layout: ChartLayout, chart: Chart) -> list[tuple[float, str]]:
    if layout.is_log_x:
        return [(math.log10(t), tick_text(t)) for t in log_ticks(10 ** layout.x[0], 10 ** layout.x[1])]
    n_wanted = max(2, round(layout.plot.width() / 80))
    ticks = nice_ticks(*layout.x, n_wanted, is_counted=chart.is_counted)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    return [(t, tick_text(t, step)) for t in ticks]


def _paint_series(
    painter: QPainter, layout: ChartLayout, series: Series, palette: Palette, *, has_halo: bool
) -> None:
    xs, ys = thin(series.xs, series.ys, max(1, int(layout.plot.width())))
    px, py = layout.place(xs, ys)
    colour = QColor(series_colour(palette, series.colour))
    if _is_pale(series):
        colour.setAlphaF(0.3)
    if series.style == "points":
        return paint_points(painter, px, py, colour)
    if series.style == "stems":
        return paint_stems(painter, px, py, layout.plot.bottom(), colour)
    if series.style == "whiskers":
        return paint_whiskers(painter, layout.place(series.xs, series.ys), colour)
    painter.setPen(_pen_of(series, colour))
    if series.is_reference:
        painter.setPen(QPen(QColor(palette.muted), 1.5, Qt.PenStyle.DashLine))
    is_good = np.isfinite(px) & np.isfinite(py)
    breaks = np.flatnonzero(np.diff(np.concatenate([[0], is_good.astype(np.int8), [0]])))
    for start, end in zip(breaks[::2].tolist(), breaks[1::2].tolist(), strict=True):
        points = [QPointF(x, y) for x, y in zip(px[start:end].tolist(), py[start:end].tolist(), strict=True)]
        if len(points) > 1:
            if has_halo:
                painter.setPen(QPen(QColor(palette.background), 4.0))
                painter.drawPolyline(QPolygonF(points))
                painter.setPen(QPen(colour, 1.7))
            painter.drawPolyline(QPolygonF(points))
        if len(points) == 1 or (series.has_points and len(points) <= 200):
            painter.setBrush(colour)
            for point in points:
                painter.drawEllipse(point, 2.2, 2.2)
            painter.setBrush(Qt.BrushStyle.NoBrush)


def _is_pale(series: Series) -> bool:
    """Whether it is drawn behind the others; a named one must be identifiable by its colour."""
    return series.is_quiet and not (series.name and series.has_label)


def _pen_of(series: Series, colour: QColor) -> QPen:
    """The pen of a curve; up to three overlapping dashed colours all stay visible."""
    pen = QPen(colour, 1.0 if series.is_quiet else 1.7)
    if series.is_quiet and not _is_pale(series):
        pen.setStyle(Qt.PenStyle.DashLine)
    if series.is_dashed:
        pen.setDashPattern([5.0, 10.0])
        pen.setDashOffset(5.0 * series.colour)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen


def _paint_names(
    painter: QPainter, layout: ChartLayout, named: list[Series], names_px: float, palette: Palette
) -> None:
    """Paint each name at the height of its curve's end, moved apart to avoid overlap."""
    ends = []
    for series in named:
        px, py = layout.place(series.xs, series.ys)
        good = np.flatnonzero(np.isfinite(px) & np.isfinite(py))
        if len(good):
            ends.append((float(py[good[-1]]), series))
    ends.sort(key=lambda end: end[0])
    heights = _apart([y for y, _ in ends], layout.plot.top(), layout.plot.bottom(), 15.0)
    metrics = QFontMetricsF(font(SMALL_PX))
    painter.setFont(font(SMALL_PX))
    left = layout.plot.right() + 6
    for height, (_, series) in zip(heights, ends, strict=True):
        colour = QColor(series_colour(palette, series.colour))
        painter.setPen(QPen(colour, 3.0))
        painter.drawLine(QPointF(left, height), QPointF(left + 5, height))
        painter.setPen(QColor(palette.text))
        text = metrics.elidedText(_name(series), Qt.TextElideMode.ElideMiddle, names_px - 12)
        painter.drawText(QPointF(left + 9, height + 4), text)


def _apart(wanted: list[float], low: float, high: float, gap: float) -> list[float]:
    """Ascending positions near those wanted, at least `gap` apart, inside low…high if they fit."""
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + gap) if placed else max(y, low))
    limit = high
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed


def paint_points(painter: QPainter, px: Pixels, py: Pixels, colour: QColor) -> None:
    """Paint a dot at each point that is a number."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    for x, y in _finite(px, py):
        painter.drawEllipse(QPointF(x, y), _RADIUS_PX, _RADIUS_PX)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def paint_labels(
    painter: QPainter,
    plot: QRectF,
    px: Pixels,
    py: Pixels,
    labels: tuple[str, ...],
    palette: Palette,
    lines: Sequence[tuple[Pixels, ...]] = (),
) -> None:
    """Paint a name beside each point if it touches no point, no other name and none of `lines` (pixels of
    their points); else omit it.
    """
    if not labels:
        return
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.text))
    behind = QColor(palette.background)
    behind.setAlphaF(0.7)
    side, high = 2 * _RADIUS_PX, type_px(13)
    taken = [QRectF(x - _RADIUS_PX, y - _RADIUS_PX, side, side) for x, y in _finite(px, py)]
    taken += [QRectF(x - 1, y - 1, 2, 2) for line in lines for x, y in _finite(*_filled(*line))]
    for x, y, label in zip(px.tolist(), py.tolist(), labels, strict=True):
        text = drawn_piece(label)
        width = text_width(text) + 2
        gap = _RADIUS_PX + 2
        lefts = (x + gap, x - gap - width)
        places = [QRectF(left, y - high / 2, width, high) for left in lefts]
        for left in (x - width / 2, x - width, x):
            places += [QRectF(left, y - gap - high, width, high), QRectF(left, y + gap, width, high)]
        rises = (3 - high, -3, -1.5 * high - 1, high / 2 + 1)
        places += [QRectF(left, y + rise, width, high) for left in lefts for rise in rises]
        free = (p for p in places if plot.contains(p) and not any(p.intersects(other) for other in taken))
        place = next(free, None)
        if place is not None:
            taken.append(place)
            painter.fillRect(place, behind)
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)


def paint_stems(painter: QPainter, px: Pixels, py: Pixels, foot: float, colour: QColor) -> None:
    """Paint an upright line from `foot` to each point that is a number."""
    pen = QPen(colour, 2.0)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    painter.drawLines([QLineF(x, foot, x, y) for x, y in _finite(px, py)])


def paint_whiskers(painter: QPainter, places: tuple[Pixels, ...], colour: QColor) -> None:
    """Paint an upright line between each two points, low and high, with a short one across either end."""
    painter.setPen(QPen(colour, 1.0))
    ends = np.stack(places, axis=1).reshape(-1, 2, 2)
    for (x, low), (_, high) in ends[np.isfinite(ends).all(axis=(1, 2))].tolist():
        across = [QLineF(x - 2.5, y, x + 2.5, y) for y in (low, high)]
        painter.drawLines([QLineF(x, low, x, high), *across])


def name_lines(names: Sequence[str], step_px: float) -> int:
    """Number of lines that names below an axis need to avoid overlap: one, or two alternating.

    0: they touch on both, and are turned upright.
    """
    widths = [text_width(name) for name in names]
    for n in (1, 2):
        if all((one + other) / 2 + 6 <= n * step_px for one, other in zip(widths, widths[n:], strict=False)):
            return n
    return 0


def names_high(names: Sequence[str], n_lines: int) -> float:
    """Extra height that names on so many lines need below an axis, compared with numbers."""
    if n_lines:
        return type_px(_LABEL_PX) * (n_lines - 1)
    return max((text_width(name) - type_px(8) for name in names), default=0.0)


def upright_every(step_px: float) -> int:
    """Spacing of upright names: every how many are shown."""
    return max(1, math.ceil(type_px(SMALL_PX + 1) / max(step_px, 1e-6)))


def paint_x_names(
    painter: QPainter, plot: QRectF, px: Pixels, names: tuple[str, ...], palette: Palette
) -> None:
    """Paint names below the x axis: on up to two alternating lines, or else upright, as many as fit."""
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    step = float(px[1] - px[0]) if len(px) > 1 else plot.width()
    n_lines = name_lines(names, step)
    for k, (x, name) in enumerate(zip(px.tolist(), names, strict=True)):
        if n_lines:
            below = plot.bottom() + 5 + type_px(10) + k % n_lines * type_px(_LABEL_PX)
            painter.drawText(QPointF(x - text_width(name) / 2, below), name)
        elif k % upright_every(step) == 0:
            painter.save()
            painter.translate(x + type_px(4), plot.bottom() + 6 + text_width(name))
            painter.rotate(-90)
            painter.drawText(QPointF(0, 0), name)
            painter.restore()


_POINT_PX = 5.0


def points_about(chart: Chart, x: float) -> tuple[Pixels, Pixels]:
    """The xs and ys of all points, and of the crossings of the lines between them with `x`."""
    drawn = [] if chart.is_geometric else [s for s in chart.series if s.has_points or s.style == "points"]
    lines = [(x, np.interp(x, s.xs, s.ys, np.nan, np.nan)) for s in drawn if s.has_points]
    found = np.array([p for s in drawn for p in zip(s.xs, s.ys, strict=True)] + lines).reshape(-1, 2)
    xs, ys = found[np.isfinite(found).all(axis=1)].T
    return xs, ys


def off_points(place: QRectF, points: Iterable[tuple[float, float]]) -> QRectF:
    """Move a word that covers a point: up or down, to either side of its position, or to the right."""
    for x, y in points:
        if place.adjusted(-_POINT_PX, 0, _POINT_PX, 0).contains(x, y):
            middle = place.center()
            if abs(middle.y() - y) < 1.0:
                return place.translated(x + _POINT_PX + 2.0 - place.left(), 0.0)
            way = 1.0 if middle.y() > y else -1.0
            return place.translated(0.0, y + way * (place.height() / 2 + 2.0) - middle.y())
    return place


def parted(places: Sequence[QRectF], room: QRectF) -> list[QRectF | None]:
    """Words moved up or down a line if they would cover an earlier one; None if neither is free."""
    found: list[QRectF | None] = []
    for place in places:
        taken = [other for other in found if other is not None]
        ways = [place.translated(0.0, lines * place.height()) for lines in (0, 1, -1, 2)]
        free = (
            way
            for k, way in enumerate(ways)
            if not any(way.intersects(other) for other in taken)
            and (k == 0 or room.top() <= way.top() <= way.bottom() <= room.bottom())
        )
        found.append(next(free, None))
    return found


def paint_marks(
    painter: QPainter, plot: QRectF, marks: tuple[tuple[float, str], ...], palette: Palette
) -> None:
    """Paint dashed upright lines at pixels of `plot`, each with its word at the top."""
    painter.setFont(font(SMALL_PX))
    behind = QColor(palette.background)
    behind.setAlphaF(0.8)
    for x, word in marks:
        if not plot.left() - 1 <= x <= plot.right() + 1:
            continue
        painter.setPen(QPen(QColor(palette.muted), 1.0, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()))
        width = text_width(word)
        left = x + 4 if x + 4 + width <= plot.right() else x - 4 - width
        painter.fillRect(QRectF(left - 1, plot.top(), width + 2, type_px(_LABEL_PX) * bool(word)), behind)
        painter.setPen(QColor(palette.muted))
        painter.drawText(QPointF(left, plot.top() + 10), word)


def _filled(px: Pixels, py: Pixels) -> tuple[Pixels, Pixels]:
    """A line with points every three pixels, so that nothing small slips between two of them."""
    if len(px) < 2:
        return px, py
    places = np.arange(px[0], px[-1], 3.0)
    return places, np.interp(places, px, py)


def _finite(px: Pixels, py: Pixels) -> list[tuple[float, float]]:
    is_good = np.isfinite(px) & np.isfinite(py)
    return list(zip(px[is_good].tolist(), py[is_good].tolist(), strict=True))


def field_words(
    field: ChartField, *, columns: NDArray[np.float64], rows: NDArray[np.float64], background: int = 0
) -> NDArray[np.uint32]:
    """The colour of each pixel, 0xAARRGGBB [n_rows, n_columns]; `background` where the count is 0.

    A pixel shows the inspected step nearest to its place in `columns`, and the bin its place in `rows` is in.
    """
    nearest = np.searchsorted((field.xs[1:] + field.xs[:-1]) / 2, columns)
    bins = np.searchsorted(field.edges, rows, side="right") - 1
    is_inside = (bins >= 0) & (bins < len(field.values))
    counts = field.values[np.clip(bins, 0, len(field.values) - 1)][:, nearest]
    counts = np.where(is_inside[:, None], counts, 0.0)
    shares = np.log10(np.maximum(counts, 1.0)) / max(np.log10(most_of(field)), 1e-9)
    words: NDArray[np.uint32] = lut_argb(COLOUR_MAP)[np.rint(np.clip(shares, 0, 1) * 255).astype(int)]
    return np.where(counts > 0, words, np.uint32(background)).astype(np.uint32)


def paint_chart_field(
    painter: QPainter,
    plot: QRectF,
    field: ChartField,
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    is_log_y: bool,
    palette: Palette,
) -> None:
    """Fill the plot; `x` and `y` are its ranges, on a log axis those of log10."""
    wide, high = max(1, round(plot.width())), max(1, round(plot.height()))
    columns = x[0] + (np.arange(wide) + 0.5) / wide * (x[1] - x[0])
    heights = y[1] - (np.arange(high) + 0.5) / high * (y[1] - y[0])
    words = field_words(
        field,
        columns=columns,
        rows=10.0**heights if is_log_y else heights,
        background=int(argb(palette.background)),
    )
    painter.drawImage(plot, image_from_words(words))


def paint_colour_strip(
    painter: QPainter, right: float, top: float, field: ChartField, palette: Palette
) -> float:
    """Draw the colour scale, ending at `right`; returns the width used."""
    painter.save()
    painter.setFont(font(SMALL_PX))
    words = _words(field)
    strip = QRectF(right - text_width(words) - _GAP_PX - _STRIP_PX, top, _STRIP_PX, _STRIP_HIGH_PX)
    painter.drawImage(strip, image_from_words(lut_argb(COLOUR_MAP)[None, :].repeat(2, axis=0)))
    painter.setPen(QColor(palette.muted))
    line = QRectF(0, top - type_px(4), 0, _STRIP_HIGH_PX + 2 * type_px(4))
    flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextDontClip
    line.setLeft(strip.left() - _GAP_PX - text_width("1"))
    painter.drawText(line, flags, "1")
    line.setLeft(strip.right() + _GAP_PX)
    painter.drawText(line, flags, words)
    painter.restore()
    return strip_width(field)


def strip_width(field: ChartField) -> float:
    """Width of the strip, in pixels."""
    return text_width("1") + _STRIP_PX + text_width(_words(field)) + 2 * _GAP_PX


def _words(field: ChartField) -> str:
    return f"{tick_text(_round(most_of(field)))} {field.unit}"


def most_of(field: ChartField) -> float:
    """The count at the end of the colour scale."""
    return float(max(field.values.max(initial=0.0), 2.0))


def _round(value: float) -> float:
    return float(f"{value:.2g}")
