"""Positional encodings side by side: their matrices, and how alike each pair of positions is."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.numbers import number_text, safe_cell
from attnscope.figures.paint_positions import natural_positions_height, paint_positions
from attnscope.figures.spec import FigureSpec
from attnscope.records.positions import PositionTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsFigure(FigureSpec):
    """One column of pictures for each encoding."""

    view = "positions"
    words = "positional encodings"
    order = 9
    least_px = 250.0

    positions: tuple[PositionTable, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.positions

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        paint_positions(painter, rect, self.positions, palette=palette)

    def natural_height(self, width: float) -> float:
        return natural_positions_height(width, self.positions)

    def rows(self) -> Iterator[Iterable[str]]:
        yield ("encoding", "offset", "mean cosine", "mean dot product")
        for table in self.positions:
            for i, (cosine, dot) in enumerate(zip(table.by_offset, table.dot_by_offset, strict=True)):
                yield (safe_cell(table.name), str(i), number_text(cosine), number_text(dot))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays: dict[str, NDArray[np.generic]] = {}
        for i, table in enumerate(self.positions):
            for field in ("matrix", "cosine", "by_offset", "dot_by_offset"):
                arrays[f"{i}_{field}"] = getattr(table, field)
        arrays["names"] = np.array([table.name for table in self.positions], dtype=np.str_)
        return arrays

    def fits_together(self) -> bool:
        return all(map(_is_whole, self.positions))


def _is_whole(table: PositionTable) -> bool:
    n = len(table.matrix)
    fits = table.cosine.shape == (n, n) and table.by_offset.shape == table.dot_by_offset.shape == (n,)
    return table.matrix.size > 0 and fits
