"""How a run on a CPU computes: with how many threads, tried on its own batches, and in which precision.

Small products are over before a second thread has been woken, and a core that is busy with something else
holds up every product that waits for it. What is chosen changes the last digits of sums, so a run folder
keeps it, and a resumed run computes in the same way.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch

from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.outside import read_outside

NAME = "threads.txt"
PRECISION_NAME = "precision.txt"
_N_ROUNDS, _MOST_S = 10, 2.0
_LEAST_GAIN = 0.95
"""More threads are worth their place when a step takes at most so much of the time with fewer."""


def kept_threads(folder: Path) -> int:
    """The number that the run in a folder computes with; 0 where none is kept."""
    try:
        text = read_outside(folder / NAME, expected="a number of threads", max_bytes=16)
        return max(0, min(int(text), 1024))
    except (LoadError, ValueError):
        return 0


def keep_threads(folder: Path, n_threads: int) -> None:
    """Note the number for those who go on with the run."""
    replace_file(folder / NAME, f"{n_threads}\n".encode())


def kept_precision(folder: Path) -> str:
    """What `auto` was for the run in a folder, "bfloat16" or "float32"; empty where it is not kept."""
    try:
        text = read_outside(folder / PRECISION_NAME, expected="a precision", max_bytes=16).decode().strip()
    except (LoadError, ValueError):
        return ""
    return text if text in ("bfloat16", "float32") else ""


def keep_precision(folder: Path, precision: str) -> None:
    """Note what `auto` was for those who go on with the run."""
    replace_file(folder / PRECISION_NAME, f"{precision}\n".encode())


def quickest_threads(
    work: Callable[[], object], most: int, *, clock: Callable[[], float] = time.perf_counter
) -> int:
    """How many of 1, half of and all `most` threads do the work quickest, tried in turns for a few seconds.

    The least of equally quick ones. The number that torch computes with is as before.
    """
    ways = sorted({1, max(1, most // 2), most})
    before = torch.get_num_threads()
    took: dict[int, list[float]] = {n: [] for n in ways}
    begin_s = clock()
    try:
        for index in range(_N_ROUNDS + 1):
            for n in ways:
                torch.set_num_threads(n)
                start_s = clock()
                work()
                if index:  # the first round makes ready what later ones find
                    took[n].append(clock() - start_s)
            if index and clock() - begin_s > _MOST_S * len(ways):
                break
    finally:
        torch.set_num_threads(before)
    best = 1
    for n in ways[1:]:
        if _middle(took[n]) < _LEAST_GAIN * _middle(took[best]):
            best = n
    return best


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
