"""How long the grid takes to repaint, pan and zoom: called by `attnscope bench`."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF
from PySide6.QtGui import QPixmap

from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Site
from attnscope.widgets.grid_view import GridView

_N_TIMES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """95th percentiles in ms: by the clock, and of this thread alone, which other programs leave be."""

    wall_ms: float
    cpu_ms: float


def measure_grid(
    *, n_layers: int = 12, n_heads: int = 12, n_tokens: int = 96, size_px: tuple[int, int] = (800, 800)
) -> dict[str, Timing]:
    """The 95th percentile of `new_data`, `repaint`, `pan` and `zoom`, painted off screen.

    Needs a QApplication. The maps are causal ramps: what they show does not change the cost.
    """
    view = GridView()
    view.resize(*size_px)
    canvas = QPixmap(*size_px)
    grids = tuple(_ramp_grid(layer, n_heads, n_tokens) for layer in range(n_layers))
    centre = QPointF(size_px[0] / 3, size_px[1] / 3)

    def show_new_data(_: int) -> None:
        view.set_grids(grids)
        view.render(canvas)

    def pan(i: int) -> None:
        view.pan_by(QPointF(-3 if i < _N_TIMES // 2 else 3, -2))
        view.render(canvas)

    def zoom(i: int) -> None:
        view.zoom_at(centre, 1.1 if i < _N_TIMES // 2 else 0.9)
        view.render(canvas)

    timings = {
        "new_data": _p95(show_new_data),
        "repaint": _p95(lambda _: view.render(canvas)),
        "zoom": _p95(zoom),
    }
    view.fit()
    view.zoom_at(centre, 2.0)
    timings["pan"] = _p95(pan)
    view.deleteLater()
    return timings


def _p95(action: Callable[[int], None]) -> Timing:
    action(0)
    timings = []
    for i in range(_N_TIMES):
        start, start_cpu = time.perf_counter(), time.thread_time()
        action(i)
        timings.append((time.perf_counter() - start, time.thread_time() - start_cpu))
    wall, cpu = np.percentile(np.array(timings) * 1000, 95, axis=0)
    return Timing(wall_ms=float(wall), cpu_ms=float(cpu))


def _ramp_grid(layer: int, n_heads: int, n: int) -> SiteGrid:
    levels = (np.arange(n_heads * n * n).reshape(n_heads, n, n) % 254 + 1).astype(np.uint8)
    levels[:, ~np.tri(n, dtype=bool)] = 0
    site = Site(stack="decoder", layer=layer, n_heads=n_heads, n_kv_heads=n_heads)
    return SiteGrid(site=site, n_queries=n, n_keys=n, levels=levels, peaks=np.ones(n_heads, np.float32))
