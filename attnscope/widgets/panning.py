"""Telling a click from a drag: both begin with a press."""

from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QApplication


class Drag:
    """One press of the mouse, which becomes a drag when it moves far enough."""

    def __init__(self, position: QPointF) -> None:
        self.start = position
        self.last = position
        self.is_moving = False

    def move(self, position: QPointF) -> QPointF:
        """How far to pan since the last call; zero while it may still become a click."""
        if not self.is_moving:
            distance = (position - self.start).manhattanLength()
            if distance < QApplication.startDragDistance():
                return QPointF(0, 0)
            self.is_moving = True
        step = position - self.last
        self.last = position
        return step


def zoom_factor(wheel_delta: int) -> float:
    """How much one turn of the wheel zooms: a notch (120) is 25 %."""
    return float(1.25 ** (wheel_delta / 120))
