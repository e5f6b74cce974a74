"""The one door for foreign files: their kind and size are checked before anything is read, and JSON and TOML
are read strictly: UTF-8 only, no duplicate keys, no NaN or infinity.

A pipe or a device would be waited for, and a file without an end would fill the memory. What the standard
library lets pass silently is refused here by name.
"""

import json
import math
import os
import re
import stat
import tomllib
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

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
            data = stream.read(max_bytes + 1) or b""  # None: nothing now, of a log of the kernel
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


def regular_size(path: Path, *, action: str = _ACTION) -> int:
    """The size of a regular file in bytes; raises LoadError as `open_outside` does."""
    with open_outside(path, expected="a regular file", action=action) as stream:
        return os.fstat(stream.fileno()).st_size


def unreadable(
    path: Path, error: Exception, *, expected: str, what: str = "", action: str = _ACTION
) -> LoadError:
    """The error for an existing file that cannot or may not be read."""
    reason = getattr(error, "strerror", None) or str(error)
    return LoadError(
        f"{what or path} cannot be read: {reason}.", kind="unreadable", expected=expected, action=action
    )


class _NotRegular(ValueError):
    """An entry that is not a regular file."""


def _open_regular(path: str, flags: int) -> int:
    """As os.open, but refuses anything but a regular file, without waiting."""
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


MAX_JSON_BYTES = 10_000_000
MAX_DIGITS = 300
"""Of a whole number: what is longer is no float either, and readers may take one for the other."""
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES, has_infinity: bool = False) -> object:
    """The content of a JSON file; raises LoadError with the fault and its position.

    With `has_infinity` NaN and Infinity are numbers, as Python's own JSON writes them.
    """
    action = "Check the path, or restore the file from a copy."
    data = read_outside(path, expected="a JSON file", max_bytes=max_bytes, action=action)
    return parse_json(data, what=str(path), has_infinity=has_infinity)


def parse_json(data: bytes, *, what: str, kind: str = "json", has_infinity: bool = False) -> object:
    """Decode strict JSON from bytes; `what` names the source in the LoadError, whose kind is `kind`."""
    if data.startswith(_UTF_16_MARKS) or (len(data) > 3 and b"\0" in data[:4]):
        raise _refuse(what, "it is UTF-16 or UTF-32 text", kind=kind)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refuse(what, f"byte {error.start} is not UTF-8", kind=kind) from error
    constants: list[str] = []

    def constant(name: str) -> float:
        constants.append(name)
        return float(name)

    try:
        found: object = json.loads(
            text,
            object_pairs_hook=_object_of_unique_keys,
            parse_constant=constant,
            parse_float=_finite_float,
            parse_int=_int_in_range,
        )
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode())
        raise _refuse(what, f"{error.msg.removesuffix(' at')} at byte {offset}", kind=kind) from error
    except RecursionError as error:
        raise _refuse(what, "it is nested too deeply", kind=kind) from error
    except _DuplicateKey as error:
        raise _refuse(what, str(error), kind="duplicate") from error
    except ValueError as error:
        raise _refuse(what, str(error).split(";")[0], kind=kind) from error
    if constants and not has_infinity:  # told last: other readers of the same file may allow it
        raise _refuse(what, f"it holds {constants[0]}, which is not JSON", kind=kind)
    return found


def parse_object(data: bytes, *, what: str, kind: str = "json") -> dict[str, object]:
    """Like `parse_json`, for data whose outermost value must be an object."""
    return as_object(parse_json(data, what=what, kind=kind), what=what, kind=kind)


def as_object(value: object, *, what: str, kind: str = "json") -> dict[str, object]:
    """`value` when it is a JSON object; raises LoadError otherwise."""
    if not isinstance(value, dict):
        raise _refuse(what, f"it holds {_json_name(value)} where an object is expected", kind=kind)
    return value


class _DuplicateKey(ValueError):
    """A key that appears twice in one object."""


def _object_of_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(f"the key {key[:80]!r} appears twice")
        found[key] = value
    return found


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:40]} is out of range")
    return value


def _int_in_range(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"the number {digits[:40]} is out of range")
    return int(digits)


def _json_name(value: object) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a string"
        case bool() | None:
            return str(value)
        case _:
            return "a number"


def _refuse(what: str, reason: str, *, kind: str) -> LoadError:
    return LoadError(
        f"{what} cannot be read: {reason}.",
        kind=kind,
        expected="UTF-8 JSON with unique keys and finite numbers",
        action="Restore the file from a copy, or save it again with the program that made it.",
    )


def json_text(value: object, indent: int | None = 1) -> str:
    """`value` as JSON in ASCII, with null for numbers that are not finite; on one line without an indent."""
    return json.dumps(_finite(value), indent=indent, ensure_ascii=True, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


MAX_TOML_BYTES = 1_000_000
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{64}}")
"""The library takes time and memory with the square of a dotted key's depth."""


def read_toml_text(path: Path, *, what: str = "", action: str = "Choose a recipe, or check its path.") -> str:
    """The text of a recipe in a file, not yet parsed; raises LoadError."""
    return read_outside_text(path, expected="a TOML file", max_bytes=MAX_TOML_BYTES, what=what, action=action)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text; raises TOMLDecodeError for any fault."""
    if len(text) > MAX_TOML_BYTES:
        raise tomllib.TOMLDecodeError(f"it has {len(text):,} characters, at most {MAX_TOML_BYTES:,} are read")
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise tomllib.TOMLDecodeError(f"Key of more than 64 parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise tomllib.TOMLDecodeError(str(error).split(";")[0]) from error
