"""Lines of words broken at spaces to a width."""

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF

from attnscope.figures.style import SMALL_PX, font

LINE_PX = 15.0
"""From one small line to the next."""


def wrapped(lines: Iterable[str], width: float, face: QFont | None = None) -> list[str]:
    """Lines broken at spaces so that each fits; a word that is too long is elided."""
    metrics = QFontMetricsF(face or font(SMALL_PX))
    result = []
    for line in lines:
        current = ""
        for word in line.split(" "):
            longer = f"{current} {word}" if current else word
            if current and metrics.horizontalAdvance(longer) > width:
                result.append(current)
                current = word
            else:
                current = longer
        result.append(current)
    return [metrics.elidedText(line, Qt.TextElideMode.ElideRight, width) for line in result]
