"""How soon a window is there, and attention in it: whole processes, timed from before they exist."""

import json
import subprocess
import sys
import time

from attnscope.bench.report import Measurement, percentile
from attnscope.boot import environment
from attnscope.errors import UserError

N_RUNS = 5
PAINT_TARGET_S, ATTENTION_TARGET_S = 1.0, 5.0
MILESTONES = {
    "painted": ("first paint", PAINT_TARGET_S),
    "ready": ("engine ready", None),
    "traced": ("first attention shown", ATTENTION_TARGET_S),
}


def measure_start(n_runs: int = N_RUNS) -> tuple[Measurement, ...]:
    """Median seconds from the start of the process to each milestone; the first run warms the disk."""
    runs = [start_once() for _ in range(n_runs + 1)][1:]
    return tuple(
        Measurement(
            name=f"start to {label} (median)",
            value=percentile([run[milestone] for run in runs], 50),
            unit="s",
            target=target,
            n_samples=len(runs),
        )
        for milestone, (label, target) in MILESTONES.items()
    )


def start_once() -> dict[str, float]:
    """Seconds from before the process existed to each milestone of one smoke run."""
    begin_s = time.time()
    process = subprocess.run(
        [sys.executable, "-m", "attnscope", "--smoke", "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    try:
        seen = json.loads(process.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise UserError(f"The program did not start: {process.stderr.strip()[-300:]}") from error
    if not seen["ok"]:
        raise UserError(f"The program did not start well: {seen['sentence']}")
    return {name: seen["started_at_s"] + seen[f"{name}_s"] - begin_s for name in MILESTONES}
