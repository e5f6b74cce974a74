"""Two ways of the same pass, timed in turns within one run."""

import time
from collections.abc import Callable

import torch

from attnscope.models.device import wait_for

VOCAB_SIZE = 4096
"""Smaller than the presets', so that the output layer does not hide what attention costs."""


def time_ratios(
    plain: Callable[[], object], other: Callable[[], object], n_rounds: int, *, device: torch.device
) -> tuple[list[float], list[float]]:
    """`other` over `plain` in each round, and the times of `plain` in ms; three rounds warm up."""
    ratios: list[float] = []
    plain_ms: list[float] = []
    with torch.inference_mode():
        for index in range(n_rounds + 3):
            runs = (plain, other) if index % 2 else (other, plain)
            times = {run: _run_ms(run, device) for run in runs}
            if index >= 3:
                ratios.append(times[other] / times[plain])
                plain_ms.append(times[plain])
    return ratios, plain_ms


def _run_ms(run: Callable[[], object], device: torch.device) -> float:
    wait_for(device)
    begin_s = time.perf_counter()
    run()
    wait_for(device)
    return (time.perf_counter() - begin_s) * 1e3
