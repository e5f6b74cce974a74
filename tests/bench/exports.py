"""How long a figure of 12 × 12 heads takes to be a file, in each format of pictures."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from attnscope.app import make_application
from attnscope.figures import Format, save
from attnscope.figures.views import GridFigure
from bench.grid import random_grids
from bench.report import Measurement, median_of

N_ROUNDS = 5
TARGET_S = 1.0
_FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")


def measure_exports(n_rounds: int = N_ROUNDS) -> Iterator[Measurement]:
    """Median seconds from the figure's numbers to the complete file on disk, its size beside it."""
    make_application()
    with tempfile.TemporaryDirectory(prefix="attnscope-exports-") as folder:
        for format in _FORMATS:
            path = Path(folder) / f"grid.{format}"
            seconds = []
            for index in range(n_rounds):
                spec = GridFigure(grids=random_grids(index))
                begin_s = time.perf_counter()
                save(spec, path)
                seconds.append(time.perf_counter() - begin_s)
            yield median_of(
                f"figure of 144 heads as {format} (median)",
                seconds,
                "s",
                target=TARGET_S,
                note=f"{path.stat().st_size / 1e6:.1f} MB",
            )
