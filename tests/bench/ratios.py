"""Two ways of the same pass, timed in turns within one run."""

import math
import time
from collections.abc import Callable

import torch

from attnscope.nn.machine import wait_for

VOCAB_SIZE = 4096
"""Smaller than the presets', so that the output layer does not hide what attention costs."""


N_LEAST, N_WARM = 3, 3
"""Rounds that are measured at least, and that warm up at most."""


def time_ratios(
    plain: Callable[[], object],
    other: Callable[[], object],
    n_rounds: int,
    *,
    device: torch.device,
    within_s: float = math.inf,
) -> tuple[list[float], list[float]]:
    """`other` over `plain` in each round, and the times of `plain` in ms.

    After `within_s` no round begins that is not needed: the first ones warm up, three are measured.
    """
    ratios: list[float] = []
    plain_ms: list[float] = []
    begin_s, n_warm = time.perf_counter(), 0
    with torch.inference_mode():
        while len(ratios) < n_rounds:
            spent_s = time.perf_counter() - begin_s
            if spent_s > within_s and len(ratios) >= N_LEAST:
                break
            runs = (plain, other) if len(ratios) % 2 else (other, plain)
            times = {run: _run_ms(run, device) for run in runs}
            if n_warm < N_WARM and (not n_warm or spent_s < within_s / 4):
                n_warm += 1
                continue
            ratios.append(times[other] / times[plain])
            plain_ms.append(times[plain])
    return ratios, plain_ms


def _run_ms(run: Callable[[], object], device: torch.device) -> float:
    wait_for(device)
    begin_s = time.perf_counter()
    run()
    wait_for(device)
    return (time.perf_counter() - begin_s) * 1e3
