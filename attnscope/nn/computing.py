"""How numbers are worked out: where double precision exists, and how many threads a pass on a CPU pays for.

Graphics devices of Apple know no float64: making such a tensor there raises TypeError. Must not import
anything of the program.

A thread that waits asleep, as ours do beside a window, is woken for every product: some hundred microseconds,
in which one thread alone does four million multiplications. So a second thread makes a small pass slower, up
to three times, and a large one almost twice as fast. Measured with layers 64 to 1,024 wide and 1 to 512
tokens on two processors that share a machine with others, two threads are even with one near 120 million
multiplications a layer; a product of few tokens waits for its weights to be read, and takes as long as one of
two dozen. More than two threads were not measured: where two pay, there is one for every 30 million.
Other threads keep the number that they have; one that first computes meanwhile begins with the smaller one.

Linux wakes a thread on the core of the one that woke it, as threads do for Python's lock all the time, and
may leave both there for seconds beside an idle core (6.18, two cores): so those that compute side by side
keep to cores of their own.
"""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

_WITH_DOUBLE = ("cpu", "cuda")


def has_double(device: torch.device) -> bool:
    """Whether tensors of float64 can be made on the device."""
    return device.type in _WITH_DOUBLE


def exact(tensor: Tensor) -> Tensor:
    """The tensor in float64, on the CPU where its device has no double precision."""
    return (tensor if has_double(tensor.device) else tensor.cpu()).double()


_LEAST_PRODUCTS, _PER_THREAD = 120e6, 30e6
_LEAST_TOKENS = 24
_PER_CELL = 256.0


def layer_products(n_weights: float, n_tokens: int) -> float:
    """The multiplications of a layer with so many weights: of its matrices (12 d² in most) and attention."""
    d_model = math.sqrt(n_weights / 12)
    return n_weights * max(n_tokens, _LEAST_TOKENS) + 2.0 * d_model * n_tokens**2


def map_products(n_cells: int) -> float:
    """The multiplications that reading so many weights of maps takes as long as."""
    return _PER_CELL * n_cells


@contextmanager
def threads_for(n_products: float) -> Iterator[None]:
    """One thread below 120 million multiplications, then one for every 30 million; no more than there are."""
    most = torch.get_num_threads()
    n_threads = 1 if n_products < _LEAST_PRODUCTS else min(most, int(n_products / _PER_THREAD))
    if n_threads == most:
        yield
        return
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(most)


def core_groups(n: int) -> list[set[int]]:
    """The cores that this thread may use, dealt out to `n`; empty where they are too few."""
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    return [set(cores[i::n]) if len(cores) >= n else set() for i in range(n)]


@contextmanager
def keeping_to(cores: set[int]) -> Iterator[None]:
    """Have this thread use these cores only; any where there are none, or the system does not let it."""
    if sys.platform != "linux" or not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # the cores of a container may have become fewer
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)
