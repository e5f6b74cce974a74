"""The picture of a lab: its maps beside each other, then its charts."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.cell_map import CellMap
from attnscope.figures.colours import Palette
from attnscope.figures.paint_cells import paint_cells
from attnscope.figures.paint_chart import paint_chart
from attnscope.figures.spec import Chart

_GAP_PX = 24.0
_MARGIN_PX = 12.0


def paint_lab(
    painter: QPainter,
    rect: QRectF,
    cells: tuple[CellMap, ...],
    charts: tuple[Chart, ...],
    *,
    palette: Palette,
) -> None:
    """Draw maps and charts into `rect`, in rows of at most three, each as large as the others."""
    inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
    n_shown = len(cells) + len(charts)
    for k, place in enumerate(panel_places(inner, n_shown, n_maps=len(cells))):
        if k < len(cells):
            paint_cells(painter, place, cells[k], palette=palette)
        else:
            paint_chart(painter, place, charts[k - len(cells)], palette=palette)


def panel_places(rect: QRectF, n: int, *, n_maps: int = 0, gap_px: float = _GAP_PX) -> list[QRectF]:
    """Rectangles for `n` pictures: two above each other, else rows of two or three of equal size."""
    rows = row_sizes(n, n_maps=n_maps)
    height = (rect.height() - gap_px * (len(rows) - 1)) / max(1, len(rows))
    places = []
    for r, n_here in enumerate(rows):
        width = (rect.width() - gap_px * (n_here - 1)) / n_here
        top = rect.top() + r * (height + gap_px)
        places += [QRectF(rect.left() + c * (width + gap_px), top, width, height) for c in range(n_here)]
    return places


def row_sizes(n: int, *, n_maps: int = 0) -> tuple[int, ...]:
    """How many pictures stand in each row: the first of three charts stands above, two maps side by side."""
    if n == n_maps == 2:
        return (2,)
    if n == 3 and not n_maps:
        return (1, 2)
    if n <= 1:
        return (1,) * n
    return {2: (1, 1), 3: (3,), 4: (2, 2), 5: (2, 3)}.get(n) or (3,) * (n // 3) + (n % 3,) * (n % 3 > 0)
