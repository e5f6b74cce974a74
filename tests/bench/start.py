"""How soon a window is there, and attention in it: whole processes, timed from before they exist."""

import tempfile
import time
from collections.abc import Iterator

from attnscope.errors import UserError
from bench.child import told_by
from bench.report import Measurement, median_of

N_RUNS = 3
PAINT_TARGET_S, ATTENTION_TARGET_S = 1.0, 5.0
MILESTONES = {
    "painted": ("first paint", PAINT_TARGET_S),
    "traced": ("first attention shown", ATTENTION_TARGET_S),
}


def measure_start(n_runs: int = N_RUNS) -> Iterator[Measurement]:
    """Median seconds from the start of the process to each milestone, as of an installed program.

    The first run is left out: it warms the disk, and compiles modules where none are kept compiled.
    """
    with tempfile.TemporaryDirectory(prefix="attnscope-bench-") as compiled:
        runs = [start_once(compiled) for _ in range(n_runs + 1)][1:]
    for milestone, (label, target) in MILESTONES.items():
        yield median_of(f"start to {label} (median)", [run[milestone] for run in runs], "s", target=target)


def start_once(compiled: str) -> dict[str, float]:
    """Seconds from before the process existed to each milestone of one smoke run; see `told_by`."""
    begin_s = time.time()
    seen = told_by("attnscope", "--smoke", "--json", has_window=True, compiled=compiled)
    if not seen["ok"]:
        raise UserError(f"The program did not start well: {seen['sentence']}")
    return {name: seen["started_at_s"] + seen[f"{name}_s"] - begin_s for name in MILESTONES}
