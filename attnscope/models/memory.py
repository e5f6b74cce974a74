"""How much memory is free, to refuse a model on paper before anything is allocated."""

import ctypes
import os
import sys
from pathlib import Path

from attnscope.errors import LoadError, RecipeError
from attnscope.nn.config import ModelConfig, check_fits
from attnscope.schemes.positions import POSITIONS

_M_MMAP_THRESHOLD = -3
"""From glibc's malloc.h."""
_UNKNOWN_BYTES = 8 * 2**30
_MAX_TABLE_BYTES = 2**30


def available_bytes() -> int:
    """Memory that can be had without swapping; 8 GiB where the system does not say."""
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
    """Have the C library of Linux give every freed block of 1 MB or more back to the system at once.

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
    """Free memory in bytes as Windows says it; 0 elsewhere."""
    libraries = getattr(ctypes, "windll", None)
    if libraries is None:
        return 0
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    is_told = libraries.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status.free_bytes) if is_told else 0


def refuse_too_large(config: ModelConfig, where: str) -> None:
    """Raise LoadError when the model of `config` does not fit this machine; allocates nothing."""
    try:
        check_fits(config, available_bytes())
    except RecipeError as error:
        raise LoadError(
            f"{where}: {error.happened}", kind="too-large", expected=error.expected, action=error.action
        ) from error
    positions = POSITIONS[config.position]
    width = 0 if config.is_recurrent else positions.n_tables * positions.width(config)
    n_table_bytes = 8 * config.max_tokens * width
    if n_table_bytes > _MAX_TABLE_BYTES:
        raise LoadError(
            f"{where}: the table of {config.max_tokens:,} positions needs {n_table_bytes / 1e9:.1f} GB.",
            kind="too-large",
            expected=f"at most {_MAX_TABLE_BYTES / 1e9:.1f} GB",
            action="Make max_tokens smaller.",
        )
