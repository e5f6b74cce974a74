"""Frames of a view: each a step and the paint that follows, by the clock and by the processor.

The mouse presses, moves and turns its wheel over a widget, without a display.
"""

import time
from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QWidget

from bench.report import Measurement, percentile, worst_of


def measure_frames(
    name: str,
    step: Callable[[int], None],
    paint: Callable[[], None],
    n_frames: int,
    *,
    target_ms: float,
) -> Measurement:
    """Milliseconds of steps with their paints.

    The note says how much of it this thread itself worked, which other programs on the machine leave be.
    """
    wall_ms, cpu_ms = [], []
    for index in range(n_frames):
        begin_s, begin_cpu_s = time.perf_counter(), time.thread_time()
        step(index)
        paint()
        cpu_ms.append((time.thread_time() - begin_cpu_s) * 1e3)
        wall_ms.append((time.perf_counter() - begin_s) * 1e3)
    note = f"processor time p95 {percentile(cpu_ms, 95):.1f}"
    return worst_of(name, wall_ms, "ms", target=target_ms, note=note)


def show_and_wait(view: QWidget) -> None:
    """Show a view and wait until it has been painted."""
    view.show()
    while not view.windowHandle().isExposed():
        QApplication.processEvents()
    QApplication.processEvents()


def circle(view: QWidget, index: int) -> QPointF:
    """The next place on a circle around the middle of a view."""
    angle = index / 15.0
    offset = QPointF(120.0 * float(np.sin(angle)), 120.0 * float(np.cos(angle)))
    return QPointF(view.rect().center()) + offset


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
