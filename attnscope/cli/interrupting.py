"""Ctrl+C on the command line: never inside an import.

An import that is broken off leaves modules half made: native libraries abort the process then, and Python
drops the interrupt where it comes in a callback, so that the command goes on as if nobody had pressed.
"""

import _thread
import signal
import sys
import threading
from types import FrameType, TracebackType

from attnscope import boot
from attnscope.cli.terminal import say_error

STOPPED = 130
"""The exit code of a command that was stopped with Ctrl+C."""
_ENGINE = "torch"
_WAIT_S = 0.05


class Interrupts:
    """While it lasts, Ctrl+C raises KeyboardInterrupt between imports.

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
    """Whether an import is under way in this frame or in one that called it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def has_engine() -> bool:
    """Whether torch is there, without which nothing can have been computed."""
    spec = getattr(sys.modules.get(_ENGINE), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)
