"""Single dimensions of positional encodings against the position: the waves that make up a matrix."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.errors import UserError
from attnscope.figures.chart_painting import paint_charts
from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.figures.words_and_numbers import exact_number_text, safe_cell
from attnscope.records.charts import Chart, Series
from attnscope.records.maps import PositionCheck, PositionTable

MOST = 8
"""Number of distinguishable curves in one chart."""
_MARGIN_PX, _GAP_PX = 12.0, 18.0
_CHART_PX = 168.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WavesFigure(FigureSpec):
    """A chart for each encoding, with a curve for each of some dimensions."""

    view = "waves"
    words = "single dimensions"
    search = "sine and cosine waves frequencies wavelength sin cos"
    order = 95
    least_px = 210.0
    reads_positions = True
    asks = "dimensions"

    positions: tuple[PositionTable, ...] = ()
    dimensions: tuple[int, ...] = ()

    @classmethod
    def of_positions(
        cls,
        tables: tuple[PositionTable, ...],
        only: str = "",
        checks: tuple[PositionCheck, ...] = (),
        **page: Any,
    ) -> "WavesFigure":
        width = max((table.matrix.shape[1] for table in tables), default=1)
        return cls(
            positions=tables, dimensions=_read(only, width) if only.strip() else _spread(width), **page
        )

    @property
    def is_empty(self) -> bool:
        return not (self.positions and self.dimensions)

    def charts(self) -> tuple[Chart, ...]:
        """A chart for each encoding; dimensions that it lacks are omitted."""
        return tuple(_chart(table, self._held(table)) for table in self.positions)

    def _held(self, table: PositionTable) -> list[int]:
        """The drawn dimensions that an encoding has.

        Where they were not chosen and most stand still, as those of binary numbers, others that move.
        """
        held = [k for k in self.dimensions if k < table.matrix.shape[1]]
        width = max(one.matrix.shape[1] for one in self.positions)
        moving = [int(k) for k in np.flatnonzero(np.ptp(table.matrix, axis=0))] if len(table.matrix) else []
        is_still = 2 * len({*held} & {*moving}) < len(held)
        if self.dimensions != _spread(width) or not is_still or not moving:
            return held
        return [moving[k] for k in _spread(len(moving))]

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
        n = len(self.positions)
        height = (inner.height() - (n - 1) * _GAP_PX) / max(1, n)
        places = [
            QRectF(inner.left(), inner.top() + i * (height + _GAP_PX), inner.width(), height)
            for i in range(n)
        ]
        paint_charts(painter, places, self.charts(), palette=palette)

    def natural_height(self, width: float) -> float:
        n = len(self.positions)
        return 2 * _MARGIN_PX + n * _CHART_PX + (n - 1) * _GAP_PX

    def rows(self) -> Iterator[Iterable[str]]:
        yield ("encoding", "dimension", "position", "value")
        for table in self.positions:
            for k in self._held(table):
                for position, value in enumerate(table.matrix[:, k]):
                    yield (safe_cell(table.name), str(k), str(position), exact_number_text(value))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Values of each encoding [n_positions, n_dimensions], and the dimensions' numbers."""
        arrays: dict[str, NDArray[np.generic]] = {}
        for i, table in enumerate(self.positions):
            held = self._held(table)
            arrays[f"{i}_values"] = table.matrix[:, held]
            arrays[f"{i}_dimensions"] = np.array(held, dtype=np.int64)
        arrays["names"] = np.array([table.name for table in self.positions], dtype=np.str_)
        return arrays

    def shown_words(self) -> list[str]:
        others = [
            (table.name, held)
            for table in self.positions
            if {*(held := self._held(table))} - {*self.dimensions}
        ]
        of_others = "".join(f"; of {name} {', '.join(map(str, held))}" for name, held in others)
        return ["dimensions " + ", ".join(map(str, self.dimensions)) + of_others]

    def fits_together(self) -> bool:
        return all(table.matrix.size > 0 for table in self.positions) and min(self.dimensions, default=0) >= 0


def _chart(table: PositionTable, held: list[int]) -> Chart:
    column, row = table.axes
    xs = np.arange(len(table.matrix), dtype=np.float64)
    return Chart(
        title=table.name,
        x_label=row,
        y_label=_said(table),
        series=tuple(
            Series(
                name=f"{column} {k}",
                xs=xs,
                ys=table.matrix[:, k].astype(np.float64),
                colour=i,
            )
            for i, k in enumerate(held)
        ),
    )


def _said(table: PositionTable) -> str:
    """The formula of an encoding and its source; if none, a note that there are values."""
    source = f" ({table.source})" if table.source else ""
    return f"{table.formula.replace(',   ', ', ')}{source}" if table.formula else "value"


def _spread(width: int) -> tuple[int, ...]:
    """Dimensions of increasing wavelength, if dimensions are sorted so."""
    return tuple(sorted({0, width // 8, width // 4, width // 2} & {*range(width)}))


def _read(only: str, width: int) -> tuple[int, ...]:
    """Parse typed dimensions, `0, 4, 8` or `4-7`; raises UserError."""
    found: list[int] = []
    for part in only.replace(",", " ").split():
        first, dash, last = part.replace("–", "-").partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)) or int(last or first) >= width:
            found = []
            break
        found += range(int(first), int(last or first) + 1)
    chosen = tuple(dict.fromkeys(found))
    if not 1 <= len(chosen) <= MOST:
        raise UserError(
            f"'{only.strip()[:40]}' does not name dimensions to draw.",
            expected=f"1 to {MOST} whole numbers from 0 to {width - 1}, such as 0, 4 or 4-7",
            action="Correct the dimensions.",
        )
    return chosen
