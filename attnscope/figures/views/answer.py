"""The picture of an answer: its maps one above the other, its charts in pairs, its tables below."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from attnscope.counting import format_number
from attnscope.figures.cells_painting import paint_cells
from attnscope.figures.chart_painting import paint_charts
from attnscope.figures.colours import Palette
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, plain_piece, type_px
from attnscope.figures.views.lab import LabFigure
from attnscope.figures.words_and_numbers import exact_number_text, safe_cell
from attnscope.records.charts import Cell, CellMap, NumberTable

_MARGIN_PX, _GAP_PX = 12.0, 20.0
_AROUND_CELLS_PX, _ROW_PX, _MOST_CELLS_PX = 84.0, 16.0, 280.0
_CHART_PX, _PAIR_PX = 200.0, 420.0
_LINE_PX, _MOST_ROWS = 17.0, 16
_WORD_PX, _NUMBER_PX = 110.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFigure(LabFigure):
    """Maps, charts and tables; large tables are drawn in part, and complete in the CSV."""

    view = "answer"
    words = "answer"
    order = 12
    follows_width = True
    least_px = 300.0

    tables: tuple[NumberTable, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.charts or self.cells or self.tables)

    def natural_height(self, width: float) -> float:
        """Total height of its parts."""
        return 2 * _MARGIN_PX + _places(width - 2 * _MARGIN_PX, self)[1]

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
        places, height = _places(inner.width(), self)
        stretch = inner.height() / height if height else 1.0
        put = [
            QRectF(inner.left() + p.left(), inner.top() + p.top() * stretch, p.width(), p.height() * stretch)
            for p in places
        ]
        for cells in self.cells:
            paint_cells(painter, put.pop(0), cells, palette=palette)
        n_charts = len(self.charts)
        paint_charts(painter, put[:n_charts], self.charts, palette=palette)
        for table, place in zip(self.tables, put[n_charts:], strict=True):
            _paint_table(painter, place, table, palette)

    def rows(self) -> Iterator[Iterable[str]]:
        yield from LabFigure.rows(self)
        for table in self.tables:
            for row in table.rows:
                for name, cell in zip(table.columns[1:], row[1:], strict=True):
                    names = (table.title, str(row[0]), name)
                    yield (*map(safe_cell, names), _exactly(cell), "", "")

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays = LabFigure.arrays(self)
        for i, table in enumerate(self.tables):
            for j, name in enumerate(table.columns):
                column = [row[j] for row in table.rows]
                arrays[f"table_{i}_{j}"] = np.array(column)
                arrays[f"table_{i}_{j}_name"] = np.array(f"{table.title}: {name}")
        return arrays

    def fits_together(self) -> bool:
        return LabFigure.fits_together(self) and all(table.columns for table in self.tables)


def cell_text(cell: Cell) -> str:
    """Text of a table's cell."""
    return plain_piece(cell) if isinstance(cell, str) else format_number(cell)


def _exactly(cell: Cell) -> str:
    return safe_cell(cell) if isinstance(cell, str) else exact_number_text(cell)


def cells_px(cells: CellMap) -> float:
    """Height of a map, at type of 100 %."""
    n_rows = len(cells.values)
    return _AROUND_CELLS_PX + min(max(_ROW_PX * n_rows, 48.0), _MOST_CELLS_PX)


def _places(width: float, figure: AnswerFigure) -> tuple[list[QRectF], float]:
    """Position of each part relative to (0, 0), and their total height."""
    places, top = list[QRectF](), 0.0
    for cells in figure.cells:
        places.append(QRectF(0.0, top, width, cells_px(cells)))
        top += places[-1].height() + _GAP_PX
    n_across = 2 if width >= _PAIR_PX and len(figure.charts) > 1 else 1
    for first in range(0, len(figure.charts), n_across):
        n_here = min(n_across, len(figure.charts) - first)
        each = (width - _GAP_PX * (n_here - 1)) / n_here
        places += [QRectF(k * (each + _GAP_PX), top, each, _CHART_PX) for k in range(n_here)]
        top += _CHART_PX + _GAP_PX
    for table in figure.tables:
        n_lines = 2 + min(len(table.rows), _MOST_ROWS) + (len(table.rows) > _MOST_ROWS)
        places.append(QRectF(0.0, top, width, type_px(_LINE_PX) * n_lines))
        top += places[-1].height() + _GAP_PX
    return places, max(top - _GAP_PX, 1.0)


def _paint_table(painter: QPainter, rect: QRectF, table: NumberTable, palette: Palette) -> None:
    line = type_px(_LINE_PX)
    first = min(type_px(_WORD_PX), rect.width() / 2)
    n_columns = min(len(table.columns), 1 + max(1, int((rect.width() - first) / type_px(_NUMBER_PX))))
    each = (rect.width() - first) / max(n_columns - 1, 1)

    def write(row: int, cells: Iterable[str], colour: str) -> None:
        painter.setPen(QColor(colour))
        metrics = QFontMetricsF(painter.font())
        for j, text in enumerate(list(cells)[:n_columns]):
            left = rect.left() + (0.0 if j == 0 else first + (j - 1) * each)
            place = QRectF(left, rect.top() + row * line, (first if j == 0 else each) - 6.0, line)
            side = Qt.AlignmentFlag.AlignLeft if j == 0 else Qt.AlignmentFlag.AlignRight
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, place.width())
            painter.drawText(place, side | Qt.AlignmentFlag.AlignVCenter, shown)

    painter.save()
    painter.setFont(font(NORMAL_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(
        QRectF(rect.left(), rect.top(), rect.width(), line), Qt.AlignmentFlag.AlignVCenter, table.title
    )
    painter.setFont(font(SMALL_PX))
    write(1, table.columns, palette.muted)
    for k, row in enumerate(table.rows[:_MOST_ROWS]):
        write(2 + k, map(cell_text, row), palette.text)
    if len(table.rows) > _MOST_ROWS:
        write(2 + _MOST_ROWS, (f"and {len(table.rows) - _MOST_ROWS:,} more rows",), palette.muted)
    painter.restore()
