"""Several charts in one picture: training curves as small multiples with a shared step axis."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.chart_painting import paint_charts
from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.figures.words_and_numbers import exact_number_text, safe_cell
from attnscope.records.charts import Chart

CHART_HEADER = ("chart", "series", "x", "y", "x is", "y is")
_GAP_PX = 24.0
_MARGIN_PX = 12.0
_MIN_WIDE_PX, _MIN_WIDEST_PX = 400.0, 640.0
_SMALL_PX, _LEAST_ALONE_PX = 158.0, 170.0
_FIRST_SHARE = 1.27
"""How high the first chart is, when each row beneath it has a height of 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvesFigure(FigureSpec):
    """Charts on one page: the first large, the others beneath it, two or three to a row if they fit."""

    view = "curves"
    words = "curves"
    order = 10
    options = frozenset({"charts", "over_seeds"})
    least_px = 210.0

    charts: tuple[Chart, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.charts

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
        paint_charts(painter, _places(inner, len(self.charts)), self.charts, palette=palette)

    def natural_height(self, width: float) -> float:
        """Height at which ticks stand apart and none leaves the page."""
        n_charts, inner = len(self.charts), width - 2 * _MARGIN_PX
        if n_charts <= 1:
            return 2 * _MARGIN_PX + max(_LEAST_ALONE_PX, 0.62 * inner)
        n_rows = -(-(n_charts - 1) // _columns(inner, n_charts))
        return 2 * _MARGIN_PX + _GAP_PX * n_rows + _SMALL_PX * (_FIRST_SHARE + n_rows)

    def rows(self) -> Iterator[Iterable[str]]:
        yield CHART_HEADER
        yield from chart_rows(self.charts)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return chart_arrays(self.charts)

    def fits_together(self) -> bool:
        return all(map(is_whole_chart, self.charts))


def chart_rows(charts: Iterable[Chart]) -> Iterator[Iterable[str]]:
    """One row for each point of each curve, then one for each bin behind them."""
    for chart in charts:
        for series in chart.series:
            names = series.labels or itertools.repeat(series.name, len(series.xs))
            for name, x, y in zip(names, series.xs, series.ys, strict=True):
                yield (
                    safe_cell(chart.title),
                    safe_cell(name),
                    exact_number_text(x),
                    exact_number_text(y),
                    *_axes(chart),
                )
        yield from _field_rows(chart)


def _axes(chart: Chart) -> tuple[str, str]:
    return safe_cell(chart.x_label), safe_cell(chart.y_label)


def _field_rows(chart: Chart) -> Iterator[Iterable[str]]:
    """One row for each bin that holds anything, named by its ends, at each place."""
    field = chart.field
    if field is None:
        return
    for i, j in np.argwhere(field.values).tolist():
        name = f"{field.unit}, {field.edges[i]:.3g} to {field.edges[i + 1]:.3g}"
        numbers = (exact_number_text(field.xs[j]), exact_number_text(field.values[i, j]))
        yield (safe_cell(chart.title), name, *numbers, *_axes(chart))


def chart_arrays(charts: Iterable[Chart]) -> dict[str, NDArray[np.generic]]:
    """Both axes of each curve with its name, and the bins behind them."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for i, chart in enumerate(charts):
        for j, series in enumerate(chart.series):
            arrays[f"{i}_{j}_x"], arrays[f"{i}_{j}_y"] = series.xs, series.ys
            arrays[f"{i}_{j}_name"] = np.array(f"{chart.title}: {series.name}")
        if chart.field is not None:
            for name in ("xs", "edges", "values"):
                arrays[f"{i}_field_{name}"] = getattr(chart.field, name)
    return arrays


def is_whole_chart(chart: Chart) -> bool:
    """Whether the chart in a file is consistent."""
    low, high = chart.y_range or (0.0, 1.0)
    marks = np.array([x for x, _ in chart.marks] + [n for x, y, _ in chart.notes for n in (x, y)])
    field = chart.field
    is_field = field is None or (len(field.xs) > 0 and len(field.edges) > 1)
    return len(chart.series) > 0 and low < high and bool(np.isfinite(marks).all()) and is_field


def _columns(width: float, n: int) -> int:
    """Number of charts beside each other beneath the first."""
    most = 1 if width < _MIN_WIDE_PX else 3 if width > _MIN_WIDEST_PX else 2
    return min(most, n - 1)


def _places(rect: QRectF, n: int) -> list[QRectF]:
    if n == 1:
        return [rect]
    n_columns = _columns(rect.width(), n)
    n_rows = -(-(n - 1) // n_columns)
    height = (rect.height() - _GAP_PX * n_rows) / (_FIRST_SHARE + n_rows)
    first = height * _FIRST_SHARE
    places = [QRectF(rect.left(), rect.top(), rect.width(), first)]
    for i in range(n - 1):
        row, column = divmod(i, n_columns)
        n_here = min(n_columns, n - 1 - row * n_columns)
        width = (rect.width() - _GAP_PX * (n_here - 1)) / n_here
        top = rect.top() + first + _GAP_PX + row * (height + _GAP_PX)
        places.append(QRectF(rect.left() + column * (width + _GAP_PX), top, width, height))
    return places
