"""How a run on a CPU computes: with how many threads, tried on its own batches, and in which precision.

Small products are over before a second thread has been woken, and a core that is busy with something else
holds up every product that waits for it; threads that each take rows of a batch meet only once a step. What
is chosen changes the last digits of sums, so a run folder keeps it, and a resumed run computes in the same
way.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.outside import read_outside
from attnscope.training.evaluation import has_bfloat16_instructions, has_quick_bfloat16

NAME = "threads.txt"
PRECISION_NAME = "precision.txt"
N_ROUNDS, MOST_S = 10, 2.0
_LEAST_GAIN = 0.9
"""More threads are worth their place when a step takes at most so much of the time with fewer."""
_BY_ROWS = " by rows"


class Way(NamedTuple):
    """So many threads: in each product, or each with rows of the batch of its own."""

    n: int = 1
    is_by_rows: bool = False

    @property
    def in_products(self) -> int:
        return 1 if self.is_by_rows else self.n


def ways_up_to(most: int, n_rows: int = 0) -> list[Way]:
    """One thread; then half of `most` and all of them, by rows where there are as many, and in products."""
    several = sorted({max(1, most // 2), most} - {1})
    by_rows = [Way(n, True) for n in several if n <= n_rows]
    return [Way(), *by_rows, *(Way(n) for n in several)]


def kept_way(folder: Path) -> Way | None:
    """How the run in a folder computes; None where nothing is kept."""
    try:
        text = read_outside(folder / NAME, expected="a number of threads", max_bytes=16).decode().strip()
        n = int(text.removesuffix(_BY_ROWS))
    except (LoadError, ValueError):
        return None
    return Way(min(n, 1024), text.endswith(_BY_ROWS)) if n > 0 else None


def keep_way(folder: Path, way: Way) -> None:
    """Note it for those who go on with the run."""
    replace_file(folder / NAME, f"{way.n}{_BY_ROWS * way.is_by_rows}\n".encode())


def settled_precision(folder: Path, device: torch.device, *, is_older: bool, is_alone: bool) -> str:
    """What `auto` was for the run in a folder, "bfloat16" or "float32"; of a new one, what is quick here.

    Processes that train together must not measure for themselves, and a run that `is_older` was begun by a
    version that kept nothing.
    """
    try:
        text = read_outside(folder / PRECISION_NAME, expected="a precision", max_bytes=16).decode().strip()
    except (LoadError, ValueError):
        text = ""
    if text in ("bfloat16", "float32"):
        return text
    alike = is_older or not is_alone
    is_quick = has_bfloat16_instructions() if alike else has_quick_bfloat16(device)
    return "bfloat16" if is_quick else "float32"


def keep_precision(folder: Path, precision: str) -> None:
    """Note what `auto` was for those who go on with the run."""
    replace_file(folder / PRECISION_NAME, f"{precision}\n".encode())


def quickest_way(
    work: Callable[[Way], object], ways: Sequence[Way], *, clock: Callable[[], float] = time.perf_counter
) -> Way:
    """The way that does the work quickest, tried in turns for a few seconds; the first unless one clearly is.

    Ways are compared round by round, so that a bad moment of the machine slows them alike. The number that
    torch computes with is as before.
    """
    before = torch.get_num_threads()
    took: dict[Way, list[float]] = {way: [] for way in ways}
    begin_s = clock()
    try:
        for index in range(N_ROUNDS + 1):
            for way in ways:
                torch.set_num_threads(way.in_products)
                start_s = clock()
                work(way)
                if index:  # the first round makes ready what later ones find
                    took[way].append(clock() - start_s)
            if index and clock() - begin_s > MOST_S * len(ways):
                break
    finally:
        torch.set_num_threads(before)
    best = ways[0]
    for way in ways[1:]:
        ratios = [own / other for own, other in zip(took[way], took[best], strict=True)]
        if sorted(ratios)[len(ratios) // 2] < _LEAST_GAIN:
            best = way
    return best
