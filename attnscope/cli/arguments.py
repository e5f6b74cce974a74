"""Types of options: numbers in a range, files to write, and a record of the options given.

Files that a command is asked to write are looked at before it begins to work. Options that a user gave are
told from those left out with their default.
"""

import argparse
import errno
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attnscope.cli.terminal import say_error
from attnscope.errors import UserError
from attnscope.figures.file_names import checked_target, is_stream

MOST = 10**9


def whole(least: int = 0, most: int = MOST) -> Callable[[str], int]:
    """Parse a whole number from `least` to `most`; raises ArgumentTypeError."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            is_number = text.strip().lstrip("+-").isdecimal()
            is_beyond = is_number and (value is None or value > most or least == -MOST)
            raise _refused(text, "a whole number", least, most, is_beyond=is_beyond)
        return value

    return read


def real(least: float = 0.0, most: float = 1.0) -> Callable[[str], float]:
    """Parse a number from `least` to `most`; raises ArgumentTypeError."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise _refused(text, "a number", least, most)
        return value

    return read


seed = whole(0, 2**63 - 1)
token_place = whole(-MOST, MOST)
"""A place in a text, from its end where it is negative."""


def _refused(
    text: str, kind: str, least: float, most: float, *, is_beyond: bool = False
) -> argparse.ArgumentTypeError:
    """Found and expected values; a very distant bound is shown only to those who exceed it."""
    is_open = most >= MOST and not is_beyond
    end = f" from {least:,.12g} upwards" if is_open else f" from {least:,.12g} to {most:,.20g}"
    return argparse.ArgumentTypeError(
        f"{text[:40]!r} is not {kind}{'' if is_open and least == -MOST else end}"
    )


def path_of(text: str) -> Path:
    """A valid path, whether it exists or not; raises ArgumentTypeError."""
    try:
        os.lstat(text)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a valid file name") from error
    return Path(text)


class _StandardInput(type(Path())):  # type: ignore[misc]  # a Path itself takes no subclass before Python 3.12
    """The file that holds standard input, which messages do not name."""

    def __str__(self) -> str:
        return "standard input"

    def __fspath__(self) -> str:
        return str(super().__str__())


def text_file(text: str) -> Path:
    """As `path_of`; "-" is standard input, which is kept in a file until the command ends."""
    if text != "-":
        return path_of(text)
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="attnscope-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path: Path = _StandardInput(folder, "standard-input.txt")
    try:
        if sys.stdin is None or sys.stdin.isatty():
            raise OSError("neither a pipe nor a file is there")
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
    except OSError as error:
        told = f"'-', standard input, cannot be read: {error.strerror or error}"
        raise argparse.ArgumentTypeError(told) from error
    return path


def name_argument(text: str) -> str:
    """As `path_of`, but returns the text, which may be empty."""
    path_of(text)
    return text


def output_file(text: str) -> Path:
    """A file that appears to be writable; raises ArgumentTypeError."""
    path = path_of(text)
    _refuse_folder(text)
    if text == "-":
        raise argparse.ArgumentTypeError("'-' is not a file name; /dev/stdout is standard output")
    if not path.name or os.path.isdir(path):  # pathlib raises where a folder may not be looked into
        raise argparse.ArgumentTypeError(f"'{text}' is a folder, not the name of a file")
    if not os.path.isdir(path.parent):
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist")
    if not is_stream(path) and not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"nothing can be written into {path.parent}")
    return path


def _refuse_folder(text: str) -> None:
    if text.endswith(("/", os.sep)):
        raise argparse.ArgumentTypeError(
            f"'{text}' is a folder, not the name of a file: leave out the {text[-1]} at its end"
        )


def figure_file(text: str) -> Path:
    """As `output_file`, with the extension of a figure."""
    _refuse_folder(text)
    try:
        return output_file(str(checked_target(str(path_of(text)))[0]))
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error).removesuffix(".")) from error


class _Noted:
    """Records the name of an option in `arguments.given`, besides its usual action."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)  # type: ignore[misc]
        if option_string is not None:
            namespace.given = {*getattr(namespace, "given", ()), self.dest}  # type: ignore[attr-defined]


class _NotedStore(_Noted, argparse._StoreAction):
    """`store`, recorded."""


class _NotedTrue(_Noted, argparse._StoreTrueAction):
    """`store_true`, recorded."""


class _NotedAppend(_Noted, argparse._AppendAction):
    """`append`, recorded."""


def note_given(parser: argparse.ArgumentParser) -> None:
    """Record options added to this parser from now on in `arguments.given`."""
    for name, kind in ((None, _NotedStore), ("store", _NotedStore), ("store_true", _NotedTrue)):
        parser.register("action", name, kind)
    parser.register("action", "append", _NotedAppend)


def given_options(arguments: argparse.Namespace) -> frozenset[str]:
    """The names (`width_mm`) of the options given, without positional arguments."""
    return frozenset(getattr(arguments, "given", ()))


def flag_of(name: str) -> str:
    """The option as typed: `--width-mm`."""
    return "--" + name.replace("_", "-")


def tell_unused(options: Iterable[str], why: str) -> None:
    """Report on standard error that these options have no effect, and why."""
    for option in sorted(options):
        say_error(f"attnscope: {flag_of(option)} has no effect {why}.")
