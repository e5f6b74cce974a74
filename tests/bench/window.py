"""A real program, offscreen, to measure: opened on a demo model, with its event loop turned by hand."""

import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from PySide6.QtCore import QEventLoop, QTimer

from attnscope.app import Program, make_application
from attnscope.boot import prepared, spare_sources
from attnscope.crash import CrashLog
from attnscope.errors import UserError
from attnscope.settings import Settings, StartOptions

WITHIN_S = 60.0


@contextmanager
def window_threads() -> Iterator[None]:
    """Computing with the threads of a program with a window, which leaves a core to it."""
    before, wished = torch.get_num_threads(), prepared(has_window=True)["OMP_NUM_THREADS"]
    if wished.isdigit():
        torch.set_num_threads(max(1, int(wished)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def open_program(source: str = "grammar") -> Iterator[Program]:
    """A shown program that has traced its first sentence; stopped and gone afterwards.

    The model is always the same, whichever the program opens on, so that rows of several versions compare.
    What is imported after Qt, and what the start has made, is spared as in a program that a person starts.
    """
    make_application()
    spare_sources()
    with window_threads(), tempfile.TemporaryDirectory(prefix="attnscope-bench-") as folder:
        program = Program(
            settings=Settings(),
            crash_log=CrashLog(Path(folder)),
            options=StartOptions(source=source, may_choose_threads=True),
            is_remembering=False,
            is_measuring=True,
        )
        try:
            program.window.resize(1280, 800)
            program.show()
            gc.freeze()
            wait_until(program, lambda: is_settled(program), "the first trace")
            yield program
        finally:
            program.close()
            program.deleteLater()
            turn_loop(0.05)
            gc.unfreeze()


def is_settled(program: Program) -> bool:
    """Whether the newest text has been traced and shown."""
    traced = program.session.traced
    return traced is not None and traced.known is None and not program.session.tracing.is_stale


def wait_until(program: Program, is_true: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Turn the event loop until something is so; raises UserError when it takes too long."""
    loop = QEventLoop()

    def look() -> None:
        if is_true():
            loop.quit()

    program.session.changed.connect(look)
    deadline = QTimer(loop, singleShot=True, interval=int(within_s * 1000))
    deadline.timeout.connect(loop.quit)
    deadline.start()
    while not is_true() and deadline.isActive():  # what was true when it was told may be so no longer
        loop.exec()
    program.session.changed.disconnect(look)
    deadline.stop()
    if not is_true():
        notice = program.session.notices.shown
        said = f" The window says: {notice.message}" if notice else ""
        raise UserError(f"Waited {within_s:.0f} s for {what}.{said}")


def turn_loop(seconds: float) -> None:
    """Turn the event loop for a while."""
    loop = QEventLoop()
    QTimer.singleShot(int(seconds * 1000), loop.quit)
    loop.exec()
