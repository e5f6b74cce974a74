"""Ways of doing the same, timed in turns within one run."""

import math
import time
from collections.abc import Callable, Sequence

import torch

from attnscope.nn import wait_for
from bench.report import is_clear

VOCAB_SIZE = 4096
"""Smaller than the presets', so that the output layer does not hide what attention costs."""


N_LEAST, N_WARM, WARM_S = 3, 3, 1.0
"""Rounds that are measured at least; those that warm up at most, and when no other of them begins."""

Way = Callable[[], object]
Rounds = Sequence[Sequence[float]]
"""The ms of each way, of each round."""


def time_ratios(
    plain: Way,
    other: Way,
    n_rounds: int,
    *,
    device: torch.device,
    within_s: float = math.inf,
    target: float | None = None,
) -> tuple[list[float], list[float]]:
    """`other` over `plain` in each round, and the times of `plain` in ms.

    The rounds end earlier where it is clear that the ratio is within its target, or above it.
    """

    def is_enough(rounds: Rounds) -> bool:
        return target is not None and is_clear([two / one for one, two in rounds], target)

    rounds = time_in_turns((plain, other), n_rounds, device=device, within_s=within_s, is_enough=is_enough)
    return [two / one for one, two in rounds], [one for one, _ in rounds]


def time_in_turns(
    ways: Sequence[Way],
    n_rounds: int,
    *,
    device: torch.device,
    within_s: float = math.inf,
    is_enough: Callable[[Rounds], bool] = lambda _rounds: False,
    n_warm: int = N_WARM,
) -> Rounds:
    """The ms of each way in each round, whose order turns round every time: the last way begins.

    After `within_s` no round begins that is not needed: up to `n_warm` warm up, three are measured.
    """
    rounds: list[list[float]] = []
    begin_s, n_warmed = time.perf_counter(), 0
    with torch.inference_mode():
        while len(rounds) < n_rounds:
            spent_s = time.perf_counter() - begin_s
            if len(rounds) >= N_LEAST and (spent_s > within_s or is_enough(rounds)):
                break
            order = range(len(ways))
            times = {way: _run_ms(ways[way], device) for way in (order if len(rounds) % 2 else order[::-1])}
            if n_warmed < n_warm and (not n_warmed or spent_s < WARM_S):
                n_warmed += 1
                continue
            rounds.append([times[way] for way in order])
    return rounds


def _run_ms(run: Way, device: torch.device) -> float:
    wait_for(device)
    begin_s = time.perf_counter()
    run()
    wait_for(device)
    return (time.perf_counter() - begin_s) * 1e3
