"""The one door for files from outside: their kind and size are looked at before anything is read.

A pipe or a device would be waited for, and a file without an end would fill the memory.
"""

import os
import stat
from io import BufferedReader, BufferedWriter
from pathlib import Path

from attnscope.errors import LoadError

_ACTION = "Check the path, and that you may read it."


def open_outside(
    path: Path, *, expected: str, max_bytes: int | None = None, what: str = "", action: str = _ACTION
) -> BufferedReader:
    """A regular file, open for reading; `what` names it in errors, which end with `action`.

    Raises LoadError of kind `missing`, `not-a-file`, `too-large` or `unreadable`, at once.
    """
    what = what or str(path)
    try:
        stream = open(path, "rb", opener=_open_regular)
    except FileNotFoundError as error:
        raise LoadError(
            f"{what} cannot be read: it does not exist.", kind="missing", expected=expected, action=action
        ) from error
    except _NotRegular as error:
        raise LoadError(
            f"{what} is {error}, not a regular file.", kind="not-a-file", expected=expected, action=action
        ) from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error, expected=expected, what=what, action=action) from error
    n_bytes = os.fstat(stream.fileno()).st_size
    if max_bytes is not None and n_bytes > max_bytes:
        stream.close()
        raise _too_large(what, n_bytes, max_bytes, expected)
    return stream


def open_to_append(path: Path) -> BufferedWriter:
    """A regular file, new or old, open for writing at its end; raises OSError."""
    try:
        return open(path, "ab", opener=_open_regular)
    except _NotRegular as error:
        raise OSError(f"it is {error}, not a regular file") from error


def read_outside(
    path: Path, *, expected: str, max_bytes: int, what: str = "", action: str = _ACTION
) -> bytes:
    """The content of a regular file of at most `max_bytes`; raises LoadError as `open_outside` does."""
    what = what or str(path)
    with open_outside(path, expected=expected, max_bytes=max_bytes, what=what, action=action) as stream:
        try:
            data = stream.read(max_bytes + 1)
        except OSError as error:
            raise unreadable(path, error, expected=expected, what=what, action=action) from error
    if len(data) > max_bytes:  # it grew, or does not tell its size
        raise _too_large(what, len(data), max_bytes, expected)
    return data


def read_outside_text(
    path: Path, *, expected: str, max_bytes: int, what: str = "", action: str = _ACTION
) -> str:
    """The text of a regular UTF-8 file; raises LoadError also of kind `not-utf-8`."""
    data = read_outside(path, expected=expected, max_bytes=max_bytes, what=what, action=action)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LoadError(
            f"{what or path} cannot be read: byte {error.start} (line {line}) is not UTF-8.",
            kind="not-utf-8",
            expected=f"{expected} in UTF-8",
            action="Save it as UTF-8 and open it again.",
        ) from error


def regular_size(path: Path, *, expected: str, what: str = "", action: str = _ACTION) -> int:
    """The size of a regular file in bytes; raises LoadError as `open_outside` does."""
    with open_outside(path, expected=expected, what=what, action=action) as stream:
        return os.fstat(stream.fileno()).st_size


def unreadable(
    path: Path, error: Exception, *, expected: str, what: str = "", action: str = _ACTION
) -> LoadError:
    """The error of a file that is there and may not, or can not, be read."""
    reason = getattr(error, "strerror", None) or str(error)
    return LoadError(
        f"{what or path} cannot be read: {reason}.", kind="unreadable", expected=expected, action=action
    )


class _NotRegular(ValueError):
    """What there is instead of a regular file."""


def _open_regular(path: str, flags: int) -> int:
    """As os.open, but what is no regular file is not opened, and would not be waited for."""
    try:
        _require_regular(os.stat(path).st_mode)  # first: opening some devices does something
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    try:
        _require_regular(os.fstat(descriptor).st_mode)
    except _NotRegular:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        is_pipe = stat.S_ISFIFO(mode)
        raise _NotRegular("a folder" if stat.S_ISDIR(mode) else "a named pipe" if is_pipe else "a device")


def _too_large(what: str, n_bytes: int, max_bytes: int, expected: str) -> LoadError:
    return LoadError(
        f"{what} has {n_bytes:,} bytes.",
        kind="too-large",
        expected=f"{expected} of at most {max_bytes:,} bytes",
        action="Choose a smaller file.",
    )
