"""Stopping a training: by a signal, or by closing this process's standard input.

The second is the same on every system, where a signal is not (Windows ends the receiver at once), and a
starter that dies closes it too: nothing is left running.
"""

import os
import signal
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from attnscope import boot

STOP_AT_EOF = "--stop-at-eof"
_STDIN = 0
_OF_SIGNALS = 128
"""What a shell adds to a signal's number in the exit code of what it ended: 129, 130, 143."""


class TrainingSignals:
    """While it lasts, Ctrl+C, SIGTERM and the end of the terminal call `stop` with the signal's number.

    Where `may_leave` a second Ctrl+C raises KeyboardInterrupt. A hang-up that is ignored from outside, as
    with nohup, stays ignored.
    """

    def __init__(self, stop: Callable[[int], None], *, may_leave: bool = True) -> None:
        self._stop, self._may_leave = stop, may_leave
        self._first: int | None = None
        self._before: Mapping[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """Of a command that was stopped and not done."""
        return _OF_SIGNALS + (signal.SIGINT if self._first is None else self._first)

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
        if self._first is None:
            self._first = number
            self._stop(number)
        elif number == signal.SIGINT and self._may_leave:
            raise KeyboardInterrupt


def add_stop_argument(parser: ArgumentParser) -> None:
    """The option that a starter gives."""
    parser.add_argument(
        STOP_AT_EOF,
        action="store_true",
        help="save and stop when standard input ends: for a program that starts this one",
    )


def at_end_of_input(stop: Callable[[], None]) -> None:
    """Call `stop` once, on a thread of its own, when standard input ends; what comes in before is dropped.

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
