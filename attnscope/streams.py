"""Places that a save is written into, not put in place of: pipes, devices, the program's own output."""

import errno
import os
import stat
import sys
from pathlib import Path
from typing import TextIO


def open_stream(path: Path) -> int | None:
    """A descriptor to write into where `path` is no regular file, or is the program's own output.

    Raises OSError for what cannot be written into.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    own = _own_output(status)
    if own is not None:
        own.flush()
        return os.dup(own.fileno())
    if stat.S_ISREG(status.st_mode):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise OSError("it is a folder")
    if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)):
        raise OSError("it is not a regular file")
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError("nothing reads from this pipe") from error
        raise
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)
    return descriptor


def is_own_output(path: Path) -> bool:
    """Whether a file of that name is where the program's own words go, as `/dev/stdout` is."""
    try:
        return _own_output(path.stat()) is not None
    except (OSError, ValueError):
        return False


def _own_output(status: os.stat_result) -> TextIO | None:
    """Standard output or standard error, where it is the file with this status."""
    for own in (sys.__stdout__, sys.__stderr__):
        try:
            if own is not None and os.path.samestat(os.fstat(own.fileno()), status):
                return own
        except (OSError, ValueError):  # it is closed
            continue
    return None
