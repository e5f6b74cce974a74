"""Writing to a terminal: names and texts from files cannot move the cursor or change colours.

Ctrl+C on the command line, never inside an import; stopping a training by a signal or a closed input.
"""

import _thread
import os
import signal
import sys
import threading
import time
import unicodedata
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TextIO

from attnscope import boot
from attnscope.errors import SaveError, UserError
from attnscope.files import is_own_output
from attnscope.outside import json_text

__all__ = ["json_text", "one_line", "printable", "say", "say_error", "say_json", "say_progress", "say_saved"]

_HARMLESS = {"\n", "\t"}


def printable(text: str) -> str:
    r"""`text` with control, bidi and unassigned characters written as escapes such as `\x1b`."""
    return "".join(
        character if character in _HARMLESS or not _is_hidden(character) else _escape(character)
        for character in text
    )


def one_line(text: str) -> str:
    """`printable` text with line breaks and runs of spaces replaced by single spaces."""
    return printable(" ".join(text.split()))


def in_columns(rows: Sequence[Sequence[str]], left: Collection[int]) -> str:
    """Rows as lines of text: the cells of some columns to the left, all others, numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def say(text: str = "") -> None:
    """Print a line to standard output."""
    _write(sys.stdout, printable(text))


def flush_said() -> int:
    """Flush argparse's own output, and return 0; raises as `say` does."""
    _write(sys.stdout, "", end="")
    return 0


def say_saved(path: Path, words: str) -> None:
    """Report a written file: on standard error if standard output is that file."""
    size = f"{path.stat().st_size:,} bytes, " if path.is_file() else ""
    (say_error if is_own_output(path) else say)(f"{path}: {size}{words}")


def save_finished(arguments: Namespace, save: Callable[..., object], *given: object, **named: object) -> bool:
    """Save a command's result; False if the disk refuses.

    What is printed is then printed all the same, and `attnscope.cli.main` tells the reason after it.
    """
    try:
        save(*given, **named)
    except SaveError as error:
        vars(arguments).setdefault("unsaved", []).append(error)
        return False
    return True


def say_error(text: str) -> None:
    """Print one line to standard error."""
    _write(sys.stderr, one_line(text))


def say_progress(text: str) -> None:
    """Show progress on standard error: on a terminal in one line, which an empty text clears."""
    if sys.stderr.isatty():
        draw_over(one_line(text))
    elif text:
        say_error(text)


PATIENCE_S = 10.0
_USUAL_COLUMNS = 80


class JobProgress:
    """Progress on standard error: a line for each new tenth of each of its parts.

    A part that is done with its first step tells nothing. On a terminal no line stays; elsewhere, in a log,
    the first ten seconds tell nothing.
    """

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._told: tuple[str, int] = ("", 0)

    def tell(self, about: str, n_done: int, n_total: int, unit: str = "") -> None:
        """Report it, unless that tenth has been reported."""
        part = (about.split(":")[0].split(",")[0], 10 * n_done // max(1, n_total))
        is_at_once = n_done >= n_total and part[0] != self._told[0]
        is_awaited = sys.stderr.isatty() or time.monotonic() - self._begun_s > PATIENCE_S
        if part != self._told and part[1] and not is_at_once and is_awaited:
            say_progress(f"{about}: {n_done:,} of {n_total:,} {unit}".rstrip())
        self._told = part

    def end(self) -> None:
        """Clear the last line."""
        say_progress("")


def draw_over(text: str) -> None:
    """Write over the line of a terminal on standard error: no more than fits, using only spaces and returns,
    which every terminal supports.
    """
    try:
        room = (os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS) - 1
    except (OSError, ValueError):  # no terminal after all
        room = _USUAL_COLUMNS - 1
    _write(sys.stderr, f"\r{' ' * room}\r{text[:room]}", end="")


def say_json(value: object) -> None:
    """Print `value` as JSON in ASCII, with null for numbers that are not finite."""
    _write(sys.stdout, json_text(value))


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _write(stream: TextIO, text: str, end: str = "\n") -> None:
    """Print, replacing characters that the terminal's encoding lacks.

    A signal's handler may call it in the middle of another write, in which the stream takes nothing: then its
    words go past the stream. Raises UserError where standard output takes no more, but for a reader that has
    gone (BrokenPipeError).
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    line = text.encode(encoding, errors="backslashreplace").decode(encoding)
    thread = threading.get_ident()
    if thread in _WRITING:
        with suppress(OSError):
            os.write(stream.fileno(), (line + end).encode(encoding))
        return
    _WRITING.add(thread)
    try:
        print(line, file=stream, end=end, flush=True)
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
    finally:
        _WRITING.discard(thread)


_WRITING: set[int] = set()
"""The threads that are in the middle of a write, in which a signal may come."""
STOPPED = 130
"""The exit code of a command that was stopped with Ctrl+C."""
_ENGINE = "torch"
_WAIT_S = 0.05


class Interrupts:
    """In the block, Ctrl+C raises KeyboardInterrupt between imports.

    In the imports that a command begins with there is nothing to save: the process ends at once. In a later
    one the interrupt waits until it is done.
    """

    def __enter__(self) -> "Interrupts":
        is_main = threading.current_thread() is threading.main_thread()
        # Whoever runs this with another handler, or with none (nohup), has a reason.
        self._is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        if not is_importing(frame):
            raise KeyboardInterrupt
        if not has_engine():
            say_error("attnscope: stopped.")
            boot.hard_exit(STOPPED)
        waiting = threading.Timer(_WAIT_S, _thread.interrupt_main)
        waiting.daemon = True
        waiting.start()


def is_importing(frame: FrameType | None) -> bool:
    """Whether an import is running in this frame or one of its callers."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def has_engine() -> bool:
    """Whether torch is loaded; without it nothing can have been computed."""
    spec = getattr(sys.modules.get(_ENGINE), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


STOP_AT_EOF = "--stop-at-eof"
_STDIN = 0
_OF_SIGNALS, _PIPE = 128, 13
"""What a shell adds to a signal's number in the exit code of what it ended: 129, 130, 143."""


class TrainingSignals:
    """In the block, Ctrl+C, SIGTERM and the end of the terminal call `stop` with the signal's number.

    Where `may_leave` a second Ctrl+C raises KeyboardInterrupt. A hang-up that is ignored from outside, as
    with nohup, stays ignored. Whoever finds that nobody reads what is told calls `reader_gone`.
    """

    def __init__(self, stop: Callable[[int], None], *, may_leave: bool = True) -> None:
        self._stop, self._may_leave = stop, may_leave
        self._heard: list[int] = []
        self._before: Mapping[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """Exit code of a command that was stopped before it was done."""
        return _OF_SIGNALS + [*self._heard, signal.SIGINT][0]

    def reader_gone(self) -> None:
        """Stop, and print nothing more."""
        boot.forget_output(has_errors=True)
        self._on_signal(getattr(signal, "SIGPIPE", _PIPE), None)

    def __enter__(self) -> "TrainingSignals":
        numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
        hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
        if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
            numbers.append(hang_up)
        self._before = {number: signal.signal(number, self._on_signal) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == getattr(signal, "SIGHUP", None):
            boot.forget_terminal()
        self._heard.append(number)
        if len(self._heard) == 1:
            self._stop(number)
        elif number == signal.SIGINT and self._may_leave:
            raise KeyboardInterrupt


def add_stop_argument(parser: ArgumentParser) -> None:
    """Add the option that a starting program gives."""
    parser.add_argument(
        STOP_AT_EOF,
        action="store_true",
        help="save and stop when standard input ends: for a program that starts this one",
    )


def at_end_of_input(stop: Callable[[], None]) -> None:
    """Call `stop` once, on a thread of its own, when standard input ends; earlier input is dropped.

    It is never called where there is no standard input. The thread does not keep the process from ending.
    """

    def watch() -> None:
        try:
            while os.read(_STDIN, 4096):  # not sys.stdin: its lock would be held when the process ends
                continue
        except OSError:
            return
        stop()

    threading.Thread(target=watch, name="end of input", daemon=True).start()
