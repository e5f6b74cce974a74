"""The axes of a plot: how far apart their numbers stand, and which numbers they name."""

import math

import pyqtgraph as pg
from PySide6.QtGui import QFontMetricsF

from attnscope.figures.style import SMALL_PX, font


class UprightAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis whose numbers never stand closer than a line of type."""

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        levels: list[tuple[float, float]] = super().tickSpacing(low, high, size)
        least = 0.85 * QFontMetricsF(font(SMALL_PX)).height() * abs(high - low) / max(size, 1.0)
        if not levels or levels[0][0] >= least:
            return levels
        wider = [levels[0][0] * k for k in (2, 4, 10, 20, 50)]
        seen = [step for step in wider if math.floor(high / step) * step >= low] or [levels[0][0]]
        return [(next((step for step in seen if step >= least), seen[-1]), 0)]


class LevelAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis of what is counted, such as steps: between 2 and 3 there is nothing to name."""

    is_whole = True

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        levels: list[tuple[float, float]] = super().tickSpacing(low, high, size)
        if not self.is_whole:
            return levels
        return [level for level in levels if level[0] >= 1.0] or [(1.0, 0)]
