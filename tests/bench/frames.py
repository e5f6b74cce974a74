"""Frames of a view: each a step and the paint that follows, by the clock and by the processor."""

import time
from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPointF
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
