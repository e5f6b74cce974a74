"""The cells of small maps as rectangles, where a file can hold them: sharp at every size, each to be edited.

A run of cells of one colour in a row is one rectangle. Each reaches a little below what is drawn after it,
so that no viewer lets the paper shine through between two.
"""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from attnscope.figures.raster import HATCH_PERIOD_PX, NOT_ALLOWED, Codes, is_vector

MAX_CELLS = 4_000
"""A figure of so many cells, or more, has them as an image."""
_LAP_PX = 0.3


def has_vector_cells(painter: QPainter, n_cells: int) -> bool:
    """Whether this many cells are painted as rectangles: in SVG and PDF, where they are few enough."""
    return is_vector(painter) and 0 < n_cells < MAX_CELLS


def paint_vector_cells(
    painter: QPainter, rect: QRectF, codes: Codes, words: NDArray[np.uint32], *, hatch: str
) -> None:
    """Fill `rect` with `codes` [n_rows, n_cols] in the colours `words`, hatched where not allowed."""
    n_rows, n_cols = codes.shape
    width, height = rect.width() / n_cols, rect.height() / n_rows
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    runs = [(i, *run) for i in range(n_rows) for run in _runs(codes[i])]
    for i, first, end, code in runs:
        box = QRectF(rect.left() + first * width, rect.top() + i * height, (end - first) * width, height)
        lapped = box.adjusted(0, 0, _LAP_PX if end < n_cols else 0.0, _LAP_PX if i + 1 < n_rows else 0.0)
        painter.setBrush(QColor.fromRgb(int(words[code])))
        painter.drawRect(lapped)
    painter.setPen(QPen(QColor(hatch), 0.8))
    for i, first, end, code in runs:
        if code == NOT_ALLOWED:
            box = QRectF(rect.left() + first * width, rect.top() + i * height, (end - first) * width, height)
            painter.drawLines(_diagonals(box))
    painter.restore()


def _runs(row: Codes) -> list[tuple[int, int, int]]:
    """First, end and code of each run of equal codes."""
    edges = np.flatnonzero(np.diff(row)) + 1
    firsts, ends = [0, *edges.tolist()], [*edges.tolist(), len(row)]
    return [(first, end, int(row[first])) for first, end in zip(firsts, ends, strict=True)]


def _diagonals(box: QRectF) -> list[QLineF]:
    """The lines x + y = k · period within `box`, which go on from one box to the next."""
    low, high = box.left() + box.top(), box.right() + box.bottom()
    sums = np.arange(np.ceil(low / HATCH_PERIOD_PX), np.floor(high / HATCH_PERIOD_PX) + 1) * HATCH_PERIOD_PX
    lines = []
    for total in sums.tolist():
        left, right = max(box.left(), total - box.bottom()), min(box.right(), total - box.top())
        if right > left:
            lines.append(QLineF(left, total - left, right, total - right))
    return lines
