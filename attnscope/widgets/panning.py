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
    """One press of the mouse, which becomes a drag when it moves far enough."""

    def __init__(self, position: QPointF) -> None:
        self.start = position
        self.last = position
        self.is_moving = False

    @classmethod
    def begun(cls, event: QMouseEvent) -> "Drag | None":
        """The drag that a press may become: with the left or the middle button."""
        is_ours = event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        return cls(event.position()) if is_ours else None

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
