"""Several charts in one picture: training curves as small multiples on a shared measure of steps."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_chart import ChartLayout, paint_chart
from attnscope.figures.spec import Chart

_GAP_PX = 24.0
_MARGIN_PX = 12.0
_MIN_WIDE_PX = 380.0


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


def _places(rect: QRectF, n: int) -> list[QRectF]:
    if n == 1:
        return [rect]
    n_columns = 1 if rect.width() < _MIN_WIDE_PX else min(3 if rect.width() > 640 else 2, n - 1)
    n_rows = -(-(n - 1) // n_columns)
    share = 0.56 if n_rows == 1 else 0.42
    first = (rect.height() - _GAP_PX * n_rows) * share
    places = [QRectF(rect.left(), rect.top(), rect.width(), first)]
    height = (rect.height() - first - _GAP_PX * n_rows) / n_rows
    for i in range(n - 1):
        row, column = divmod(i, n_columns)
        n_here = min(n_columns, n - 1 - row * n_columns)
        width = (rect.width() - _GAP_PX * (n_here - 1)) / n_here
        top = rect.top() + first + _GAP_PX + row * (height + _GAP_PX)
        places.append(QRectF(rect.left() + column * (width + _GAP_PX), top, width, height))
    return places
