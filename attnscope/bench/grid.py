"""How quickly the grid of 12 × 12 heads is painted, panned and zoomed."""

import time
from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

from attnscope.app import make_application
from attnscope.bench.report import Measurement, spread
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Site
from attnscope.widgets.grid_view import GridView

N_LAYERS = N_HEADS = 12
N_TOKENS = 96
N_FRAMES = 100
TARGET_MS = 8.0


def measure_grid(n_frames: int = N_FRAMES) -> tuple[Measurement, ...]:
    """Milliseconds for one repaint, one step of a drag, one notch of the wheel, and new data."""
    make_application()
    view = GridView()
    view.resize(900, 800)
    view.show()
    fresh = [random_grids(seed) for seed in range(10)]
    view.set_grids(fresh[0])
    while not view.windowHandle().isExposed():
        QApplication.processEvents()
    QApplication.processEvents()
    steps: dict[str, Callable[[int], None]] = {
        "repaint": lambda index: None,
        "zoom": lambda index: turn_wheel(view, 120 if index % 20 < 10 else -120),
        "pan": lambda index: drag_to(view, index),
        "new data": lambda index: view.set_grids(fresh[index % len(fresh)]),
    }
    results: list[Measurement] = []
    for name, step in steps.items():
        if name == "pan":
            view.fit()
            turn_wheel(view, 600)
            press(view)
        samples = [frame_ms(view, step, index) for index in range(n_frames)]
        targets = {} if name == "new data" else {95: TARGET_MS}
        results += spread(f"grid of 144 heads, {name}", samples, "ms", targets=targets)
    release(view)
    view.close()
    view.deleteLater()
    return tuple(results)


def random_grids(seed: int) -> tuple[SiteGrid, ...]:
    """Twelve layers of twelve causal maps, peaked like real ones."""
    random = np.random.default_rng(seed)
    allowed = np.tri(N_TOKENS, dtype=bool)
    grids = []
    for layer in range(N_LAYERS):
        weights = random.random((N_HEADS, N_TOKENS, N_TOKENS)) ** 8
        levels = np.where(allowed, 1 + 254 * weights / weights.max(), 0).astype(np.uint8)
        grids.append(
            SiteGrid(
                site=Site(stack="encoder", layer=layer, n_heads=N_HEADS, n_kv_heads=N_HEADS),
                n_queries=N_TOKENS,
                n_keys=N_TOKENS,
                levels=levels,
                peaks=np.ones(N_HEADS, dtype=np.float32),
            )
        )
    return tuple(grids)


def frame_ms(view: GridView, step: Callable[[int], None], index: int) -> float:
    """Milliseconds for one step and the paint that follows."""
    begin_s = time.perf_counter()
    step(index)
    view.repaint()
    return (time.perf_counter() - begin_s) * 1e3


def turn_wheel(view: GridView, delta: int) -> None:
    """Turn the wheel over the middle of the view."""
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


def press(view: GridView) -> None:
    """Take hold of the middle of the view."""
    _mouse(view, QEvent.Type.MouseButtonPress, QPointF(view.rect().center()), Qt.MouseButton.LeftButton)


def drag_to(view: GridView, index: int) -> None:
    """Move on a circle around the middle."""
    angle = index / 15.0
    offset = QPointF(120.0 * float(np.sin(angle)), 120.0 * float(np.cos(angle)))
    position = QPointF(view.rect().center()) + offset
    _mouse(view, QEvent.Type.MouseMove, position, Qt.MouseButton.NoButton)


def release(view: GridView) -> None:
    """Let go."""
    _mouse(view, QEvent.Type.MouseButtonRelease, QPointF(0, 0), Qt.MouseButton.LeftButton)


def _mouse(view: GridView, kind: QEvent.Type, position: QPointF, button: Qt.MouseButton) -> None:
    held = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseButtonRelease else Qt.MouseButton.LeftButton
    event = QMouseEvent(
        kind, position, view.mapToGlobal(position), button, held, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(view, event)
