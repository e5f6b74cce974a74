"""Explore on a stage, or in large type: texts on top, the head large, the grid above what the model says."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from attnscope.figures.style import type_px

_AROUND_HEAD_PX = (176, 112)
"""What stands beside and above the square of a map: labels and the bar of colours; labels and the name."""
_ANSWERS_PX = 332
_MOST_SHARE, _MOST_ANSWERS = 0.5, 0.42


class Presented:
    """Moves `bars` above all, `grid` to the top of `side`, `side` to the left of `columns`; and back."""

    def __init__(
        self,
        bars: QWidget,
        columns: QSplitter,
        pictures: QSplitter,
        side: QSplitter,
        grid: QWidget,
    ) -> None:
        self._bars, self._columns, self._pictures, self._side, self._grid = (
            bars,
            columns,
            pictures,
            side,
            grid,
        )
        self.is_on = False

    def switch(self, is_on: bool, page: QVBoxLayout, column: QVBoxLayout) -> bool:
        """Take the places of the stage, or those of every day; whether anything moved.

        The bars go from the top of `column` to that of `page`. A grid in a window of its own stays there,
        and everything else where it was.
        """
        if is_on == self.is_on or (is_on and self._grid.parentWidget() is not self._pictures):
            return False
        self.is_on = is_on
        (page if is_on else column).insertWidget(0, self._bars)
        self._bars.show()  # at once: what goes to another parent is hidden until the next event
        if is_on:
            self._side.insertWidget(0, self._grid)
            self._columns.insertWidget(0, self._side)
        else:
            self._pictures.insertWidget(0, self._grid)
            self._columns.addWidget(self._side)
        return True

    def fit(self, heading: QSize) -> None:
        """Give the head the width that it can use at this height, and the grid and the answers the rest.

        `heading` is what stands above it, in one line.
        """
        if not self.is_on:
            return
        width, height = self._columns.width(), self._columns.height()
        beside, above = (type_px(px) for px in _AROUND_HEAD_PX)
        head = max(height - heading.height() - above + beside, heading.width())
        left = max(width - head, self._side.minimumWidth())
        left = min(left, _MOST_SHARE * width)
        self._columns.setSizes([round(left), round(width - left)])
        answers = min(type_px(_ANSWERS_PX), _MOST_ANSWERS * height)
        rest = [0] * (self._side.count() - 2)
        self._side.setSizes([round(height - answers), *rest, round(answers)])
