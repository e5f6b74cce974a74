"""Several charts in one picture: training curves as small multiples on a shared measure of steps."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_chart import ChartLayout, paint_chart
from attnscope.figures.spec import Chart

_GAP_PX = 24.0
_MARGIN_PX = 12.0
_MIN_WIDE_PX, _MIN_WIDEST_PX = 400.0, 640.0
_SMALL_PX, _LEAST_ALONE_PX = 158.0, 170.0
_FIRST_SHARE = 1.27
"""How high the first chart is, when each row beneath it has a height of 1."""


def paint_curves(
    painter: QPainter, rect: QRectF, charts: tuple[Chart, ...], *, palette: Palette
) -> tuple[ChartLayout, ...]:
    """Draw the charts into `rect`: the first large, the others beneath it, two to a row where they fit."""
    if not charts:
        return ()
    inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
    return tuple(
        paint_chart(painter, place, chart, palette=palette)
        for place, chart in zip(_places(inner, len(charts)), charts, strict=True)
    )


def natural_curves_height(width: float, n_charts: int) -> float:
    """How high charts want to be at a width, so that their ticks stand apart and none leaves the page."""
    inner = width - 2 * _MARGIN_PX
    if n_charts <= 1:
        return 2 * _MARGIN_PX + max(_LEAST_ALONE_PX, 0.62 * inner)
    n_rows = -(-(n_charts - 1) // _columns(inner, n_charts))
    return 2 * _MARGIN_PX + _GAP_PX * n_rows + _SMALL_PX * (_FIRST_SHARE + n_rows)


def _columns(width: float, n: int) -> int:
    """How many charts stand beside each other beneath the first."""
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
