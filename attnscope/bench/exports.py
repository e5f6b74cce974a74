"""How long a figure of 12 × 12 heads takes to be a file, in each format of pictures."""

import tempfile
import time
from pathlib import Path

from attnscope.app import make_application
from attnscope.bench.grid import random_grids
from attnscope.bench.report import Measurement, percentile
from attnscope.figures.export import save
from attnscope.figures.file_names import Format
from attnscope.figures.spec import FigureSpec

N_ROUNDS = 5
TARGET_S = 1.0
_FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")


def measure_exports(n_rounds: int = N_ROUNDS) -> tuple[Measurement, ...]:
    """Median seconds from the figure's numbers to the complete file on disk, its size beside it."""
    make_application()
    results = []
    with tempfile.TemporaryDirectory(prefix="attnscope-exports-") as folder:
        for format in _FORMATS:
            path = Path(folder) / f"grid.{format}"
            seconds = []
            for index in range(n_rounds):
                spec = FigureSpec(view="grid", grids=random_grids(index))
                begin_s = time.perf_counter()
                save(spec, path)
                seconds.append(time.perf_counter() - begin_s)
            results.append(
                Measurement(
                    name=f"figure of 144 heads as {format} (median)",
                    value=percentile(seconds, 50),
                    unit="s",
                    target=TARGET_S,
                    n_samples=n_rounds,
                    note=f"{path.stat().st_size / 1e6:.1f} MB",
                )
            )
    return tuple(results)
