"""What mouse and keys mean in every view that can be walked, panned and zoomed."""

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

ARROWS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
"""How many rows and columns further an arrow key goes."""
ZOOM_KEYS = {Qt.Key.Key_Plus: 1.25, Qt.Key.Key_Equal: 1.25, Qt.Key.Key_Minus: 0.8}
"""How much a key zooms."""


class Drag:
    """A press of the mouse, which becomes a drag when it moves far enough; made with its widget."""

    def __init__(self) -> None:
        self._start = self._last = QPointF(0, 0)
        self.is_down = self.is_moving = False

    def press(self, event: QMouseEvent) -> None:
        """The left or the middle button is pressed; any other ends it."""
        self.is_down = event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        self.is_moving = False
        self._start = self._last = event.position()

    def release(self) -> bool:
        """It is over; whether it was a click, of a press that did not move far."""
        was_click = self.is_down and not self.is_moving
        self.is_down = self.is_moving = False
        return was_click

    def move(self, position: QPointF) -> QPointF:
        """How far to pan since the last call; zero while it may still become a click."""
        if not self.is_moving:
            distance = (position - self._start).manhattanLength()
            if distance < QApplication.startDragDistance():
                return QPointF(0, 0)
            self.is_moving = True
        step = position - self._last
        self._last = position
        return step


def zoom_factor(wheel_delta: int) -> float:
    """How much one turn of the wheel zooms: a notch (120) is 25 %."""
    return float(1.25 ** (wheel_delta / 120))
