"""A mouse for measuring: it presses, moves and turns its wheel over a widget, without a display."""

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget


def turn_wheel(view: QWidget, delta: int) -> None:
    """Turn the wheel over the middle of the view; a notch is 120."""
    middle = QPointF(view.rect().center())
    event = QWheelEvent(
        middle,
        view.mapToGlobal(middle),
        QPoint(),
        QPoint(0, delta),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, event)


def press(view: QWidget) -> None:
    """Take hold of the middle of the view."""
    _send(view, QEvent.Type.MouseButtonPress, QPointF(view.rect().center()), Qt.MouseButton.LeftButton)


def move_to(view: QWidget, position: QPointF) -> None:
    """Move to a place in the view: a drag after a press, else pointing."""
    _send(view, QEvent.Type.MouseMove, position, Qt.MouseButton.NoButton)


def release(view: QWidget) -> None:
    """Let go."""
    _send(view, QEvent.Type.MouseButtonRelease, QPointF(0, 0), Qt.MouseButton.LeftButton)


def _send(view: QWidget, kind: QEvent.Type, position: QPointF, button: Qt.MouseButton) -> None:
    held = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseButtonRelease else Qt.MouseButton.LeftButton
    event = QMouseEvent(
        kind, position, view.mapToGlobal(position), button, held, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(view, event)
