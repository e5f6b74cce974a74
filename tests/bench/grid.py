"""How quickly the grid of 12 × 12 heads is painted, panned and zoomed."""

from collections.abc import Callable, Iterator

import numpy as np

from attnscope.app import make_application
from attnscope.records import Site, SiteGrid
from attnscope.widgets.explore import GridView
from bench.frames import circle, measure_frames, move_to, press, release, show_and_wait, turn_wheel
from bench.report import Measurement

N_LAYERS = N_HEADS = 12
N_TOKENS = 96
N_FRAMES = 100
TARGET_MS, NEW_DATA_MS = 8.0, 50.0
"""New data come with a keystroke, which has twice as long in all."""


def measure_grid(n_frames: int = N_FRAMES) -> Iterator[Measurement]:
    """Milliseconds for one repaint, one step of a drag, one notch of the wheel, and new data."""
    make_application()
    view = GridView()
    view.resize(900, 800)
    fresh = [random_grids(seed) for seed in range(10)]
    view.set_grids(fresh[0])
    show_and_wait(view)
    steps: dict[str, Callable[[int], None]] = {
        "repaint": lambda index: None,
        "zoom": lambda index: turn_wheel(view, 120 if index % 20 < 10 else -120),
        "pan": lambda index: move_to(view, circle(view, index)),
        "new data": lambda index: view.set_grids(fresh[index % len(fresh)]),
    }
    for name, step in steps.items():
        if name == "pan":
            view.seen.fit()
            turn_wheel(view, 600)
            press(view)
        target_ms = NEW_DATA_MS if name == "new data" else TARGET_MS
        yield measure_frames(f"grid of 144 heads, {name}", step, view.repaint, n_frames, target_ms=target_ms)
    release(view)
    view.close()
    view.deleteLater()


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
