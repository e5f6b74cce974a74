"""This machine: double precision, threads, the device for a model, and free memory.

How numbers are worked out: where double precision exists, and how many threads a pass on a CPU pays for.

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

What this machine has: the device where a model computes, and free memory.

A model that is too large is refused on paper, before anything is allocated.
"""

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.nn.config import ModelConfig, check_fits
from attnscope.schemes.positions import POSITIONS

_WITH_DOUBLE = ("cpu", "cuda")


def has_double(device: torch.device) -> bool:
    """Whether the device supports float64 tensors."""
    return device.type in _WITH_DOUBLE


def exact(tensor: Tensor) -> Tensor:
    """The tensor in float64, on the CPU if its device has no double precision."""
    return (tensor if has_double(tensor.device) else tensor.cpu()).double()


_LEAST_PRODUCTS, _PER_THREAD = 120e6, 30e6
_LEAST_TOKENS = 24
_PER_CELL = 256.0


def layer_products(n_weights: float, n_tokens: int) -> float:
    """The multiplications of a layer with so many weights: of its matrices (12 d² in most) and attention."""
    d_model = math.sqrt(n_weights / 12)
    return n_weights * max(n_tokens, _LEAST_TOKENS) + 2.0 * d_model * n_tokens**2


def map_products(n_cells: int) -> float:
    """The number of multiplications that take as long as reading so many weights of maps."""
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
    """The cores that this thread may use, divided among `n`; empty if there are too few."""
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    return [set(cores[i::n]) if len(cores) >= n else set() for i in range(n)]


@contextmanager
def keeping_to(cores: set[int]) -> Iterator[None]:
    """Restrict this thread to these cores; no restriction if there are none, or the system refuses."""
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


DEVICE_NAMES = ("auto", "cpu", "cuda", "mps")
_DEVICE_WORDS = (
    "CUDA error",
    "HIP error",
    "MPS backend error",
    "cuDNN error",
    "CUBLAS error",
    "CUDA driver error",
)


def choose_device(name: str = "auto") -> torch.device:
    """The device with this name; `auto` takes an accelerator if there is one.

    Raises UserError for an unknown name and for a device this machine does not have.
    """
    kind, colon, number = name.partition(":")
    if kind not in DEVICE_NAMES or (colon and not (kind == "cuda" and number.isdecimal())):
        raise UserError(
            f"The device {name!r} is not known.",
            expected="one of " + ", ".join(DEVICE_NAMES) + ", or cuda:1 for the second GPU",
            action="Choose one of them.",
        )
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if kind == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if has[kind]))
    if not has[kind] or (number and int(number) >= torch.cuda.device_count()):
        there = [kind for kind in ("cpu", "cuda", "mps") if has[kind]]
        there += [f"cuda:{index}" for index in range(1, torch.cuda.device_count() if has["cuda"] else 0)]
        raise UserError(
            f"This computer has no usable {name} device.",
            expected="one of " + ", ".join(there),
            action="Choose auto or cpu.",
        )
    found = torch.device(name)
    if number:
        torch.cuda.set_device(found)  # streams, and what a GPU can do, are asked of the current one
    return found


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished all its work, so that a time can be measured."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def lost_device(error: BaseException) -> UserError | None:
    """Message for a user whose accelerator failed; None for any other error.

    After such a fault every later call of the process on that device fails too (CUDA C++ Programming Guide,
    "Error Checking"), so the words do not advise to try again. Running out of memory is not such a fault.
    """
    words = str(error).strip()
    is_of_device = isinstance(error, torch.AcceleratorError) or (
        isinstance(error, RuntimeError) and words.startswith(_DEVICE_WORDS)
    )
    if not is_of_device or isinstance(error, torch.OutOfMemoryError):
        return None
    first = words.splitlines()[0][:200] if words else type(error).__name__
    return UserError(
        f"The graphics device stopped responding: {first.rstrip('.')}.",
        expected="a working device",
        action="Files on disk are intact: a run continues from its last checkpoint. Start AttnScope "
        "again "
        "to use the device, or open the model on the CPU (--device cpu).",
    )


_M_MMAP_THRESHOLD = -3
"""From glibc's malloc.h."""
_UNKNOWN_BYTES = 8 * 2**30
_MAX_TABLE_BYTES = 2**30


def available_bytes() -> int:
    """Memory available without swapping; 8 GiB if the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    found = _free_on_windows()
    if found:
        return found
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return _UNKNOWN_BYTES


def map_large_blocks() -> None:
    """Make the C library of Linux return every freed block of 1 MB or more to the system at once.

    For work whose blocks have ever other sizes: kept ones leave gaps that nothing fits into, and batches of
    sentences sorted by length made a process that needs 1.3 GB grow to 6.6 GB. Takes 5 % more time there.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    set_option = getattr(library, "mallopt", None)  # other C libraries may not have it
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, 2**20)


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of sysinfoapi.h."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total_bytes", ctypes.c_uint64),
        ("free_bytes", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 5),
    )


def _free_on_windows() -> int:
    """Free memory in bytes according to Windows; 0 elsewhere."""
    libraries = getattr(ctypes, "windll", None)
    if libraries is None:
        return 0
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    is_told = libraries.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status.free_bytes) if is_told else 0


def refuse_too_large(config: ModelConfig, where: str) -> None:
    """Raise LoadError if the model of `config` does not fit this machine; allocates nothing."""
    try:
        check_fits(config, available_bytes())
    except RecipeError as error:
        raise LoadError(
            f"{where}: {error.happened}", kind="too-large", expected=error.expected, action=error.action
        ) from error
    positions = POSITIONS[config.position]
    width = 0 if config.is_recurrent else (1 + positions.is_turn) * positions.width(config)
    n_table_bytes = 8 * config.max_tokens * width
    if n_table_bytes > _MAX_TABLE_BYTES:
        raise LoadError(
            f"{where}: the table of {config.max_tokens:,} positions needs {n_table_bytes / 1e9:.1f} GB.",
            kind="too-large",
            expected=f"at most {_MAX_TABLE_BYTES / 1e9:.1f} GB",
            action="Make max_tokens smaller.",
        )
