"""Writing to a terminal: names and texts from files cannot move its cursor or change its colours."""

import sys
import unicodedata
from pathlib import Path
from typing import TextIO

from attnscope import boot
from attnscope.errors import UserError
from attnscope.streams import is_own_output
from attnscope.strict_json import json_text

__all__ = ["json_text", "one_line", "printable", "say", "say_error", "say_json", "say_progress", "say_saved"]

_HARMLESS = {"\n", "\t"}


def printable(text: str) -> str:
    r"""`text` with control, bidi and unassigned characters written as escapes such as `\x1b`."""
    return "".join(
        character if character in _HARMLESS or not _is_hidden(character) else _escape(character)
        for character in text
    )


def one_line(text: str) -> str:
    """`printable` text with its line breaks and runs of blanks made single blanks."""
    return printable(" ".join(text.split()))


def say(text: str = "") -> None:
    """Print a line to standard output."""
    _write(sys.stdout, printable(text))


def say_saved(path: Path, words: str) -> None:
    """Tell of a file that was written: on standard error where standard output is that file."""
    size = f"{path.stat().st_size:,} bytes, " if path.is_file() else ""
    (say_error if is_own_output(path) else say)(f"{path}: {size}{words}")


def say_error(text: str) -> None:
    """Print one line to standard error."""
    _write(sys.stderr, one_line(text))


def say_progress(text: str) -> None:
    """Show how far a job is on standard error: on a terminal in one line that an empty text takes away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{one_line(text)}", file=sys.stderr, end="", flush=True)
    elif text:
        say_error(text)


def say_json(value: object) -> None:
    """Print `value` as JSON in ASCII, numbers that are not finite as null."""
    _write(sys.stdout, json_text(value))


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _write(stream: TextIO, text: str) -> None:
    """Print, replacing what the terminal's encoding lacks.

    Raises UserError where standard output takes no more, but for a reader that has gone (BrokenPipeError).
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = text.encode(encoding, errors="backslashreplace").decode(encoding)
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        if stream is sys.stderr:
            return  # nobody can be told
        boot.forget_output()  # else it is tried again when the process ends
        raise UserError(
            f"Standard output could not be written: {error.strerror or error}.",
            action="Send it elsewhere, or free some space.",
        ) from error
