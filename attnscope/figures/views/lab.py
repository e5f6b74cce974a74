"""The picture of a lab: its maps beside each other, then its charts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.cells_painting import paint_cells
from attnscope.figures.chart_painting import paint_charts
from attnscope.figures.colours import Palette
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.views.curves import CHART_HEADER, chart_arrays, chart_rows, is_whole_chart
from attnscope.figures.words_and_numbers import exact_number_text, safe_cell
from attnscope.labs.lab import AnyLab
from attnscope.records.charts import CellMap, Chart

_GAP_PX = 24.0
_MARGIN_PX = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFigure(FigureSpec):
    """Maps of cells and charts, in rows of at most three."""

    view = "lab"
    words = "lab"
    order = 11
    follows_width = False

    charts: tuple[Chart, ...] = ()
    cells: tuple[CellMap, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.charts or self.cells)

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
        n_maps = len(self.cells)
        places = picture_places(inner, n_maps + len(self.charts), n_maps=n_maps)
        for place, cells in zip(places, self.cells, strict=False):
            paint_cells(painter, place, cells, palette=palette)
        paint_charts(painter, places[n_maps:], self.charts, palette=palette)

    def name_parts(self) -> list[str]:
        return [self.title]

    def rows(self) -> Iterator[Iterable[str]]:
        yield CHART_HEADER
        yield from chart_rows(self.charts)
        for cells in self.cells:
            for i, row in enumerate(cells.values):
                for j, value in enumerate(row):
                    names = (cells.title, cells.row_name(i), cells.column_name(j))
                    yield (*map(safe_cell, names), exact_number_text(value), "", "")

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays = chart_arrays(self.charts)
        for i, cells in enumerate(self.cells):
            arrays[f"map_{i}"] = cells.values
            arrays[f"map_{i}_name"] = np.array(cells.title)
        return arrays

    def fits_together(self) -> bool:
        return all(map(is_whole_chart, self.charts)) and all(map(_is_whole, self.cells))


def _is_whole(cells: CellMap) -> bool:
    seen = cells.values[np.isfinite(cells.values)]
    is_named = cells.kind != "kinds" or not seen.size or 1 <= seen.min() <= seen.max() <= len(cells.legend)
    is_named &= cells.kind != "steps" or seen.size == cells.values.size or bool(cells.legend)
    backdrop = cells.backdrop
    is_seen = backdrop is None or (backdrop.ndim == 3 and backdrop.shape[2] == 3 and backdrop.size > 0)
    return cells.values.size > 0 and 0 < cells.limit < np.inf and is_named and is_seen


def lab_figure(lab: AnyLab, shown: Any, **page: Any) -> LabFigure:
    """A lab as a figure: its picture, and in the caption its formula, numbers and sentence."""
    words = shown.words
    numbers = " · ".join(f"{name} {value}" for name, value in words.numbers)
    kept = {
        "title": lab.name,
        "caption": Caption(note=f"{' · '.join((*words.formula, numbers))}. {words.sentence}"),
        "width_mm": lab.figure_mm[0],
        "height_mm": lab.figure_mm[1],
    }
    return LabFigure(charts=lab.charts(shown), cells=lab.cells(shown), **{**kept, **page})


def picture_places(rect: QRectF, n: int, *, n_maps: int = 0, gap_px: float = _GAP_PX) -> list[QRectF]:
    """Rectangles for `n` pictures: two stacked, more in rows of two or three of equal size."""
    rows = row_sizes(n, n_maps=n_maps)
    height = (rect.height() - gap_px * (len(rows) - 1)) / max(1, len(rows))
    places = []
    for r, n_here in enumerate(rows):
        width = (rect.width() - gap_px * (n_here - 1)) / n_here
        top = rect.top() + r * (height + gap_px)
        places += [QRectF(rect.left() + c * (width + gap_px), top, width, height) for c in range(n_here)]
    return places


def row_sizes(n: int, *, n_maps: int = 0) -> tuple[int, ...]:
    """Number of pictures in each row: the first of three charts stands above, maps side by side.

    One map beside three charts is a wide one, and has a row of its own.
    """
    if n == n_maps == 2:
        return (2,)
    if n == 3 and n_maps in (0, 2):
        return (2, 1) if n_maps else (1, 2)
    if (n, n_maps) == (4, 1):
        return (1, 1, 2)
    if (n, n_maps) == (5, 3):
        return (3, 2)
    if n <= 1:
        return (1,) * n
    return {2: (1, 1), 3: (3,), 4: (2, 2), 5: (2, 3)}.get(n) or (3,) * (n // 3) + (n % 3,) * (n % 3 > 0)
