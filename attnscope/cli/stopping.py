"""Stopping a command from the process that started it, by closing this one's standard input.

It is the same on every system, where a signal is not (Windows ends the receiver at once), and a starter
that dies closes it too: nothing is left running.
"""

import os
import threading
from argparse import ArgumentParser
from collections.abc import Callable

STOP_AT_EOF = "--stop-at-eof"
_STDIN = 0


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
