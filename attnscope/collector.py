"""When and on which thread Python's garbage collector runs.

Importing torch and the parts of this program makes some four hundred thousand objects, which stay. The
collector walks them again and again meanwhile: an eighth of the processor time of a short command. So a
process that is a command of ours collects seldom until there is a model, or a training begins; elsewhere
nothing is changed.

A window collects on its own thread alone. Python does it on whichever thread happens to make an object, and
an object of Qt that is freed beside the window's thread, or in the midst of a call from Qt, ends the process.
"""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

_SELDOM = 200_000
_usual: list[tuple[int, int, int]] = []
_resting: list[None] = []
_REST_S, _RESTS = 5.0, 200
"""After a walk over everything the next one is so far away, and so many times as long as the walk took."""


def collect_seldom() -> None:
    """From now on collect young objects only when there are 200,000 of them."""
    if gc.isenabled() and not _usual:
        _usual.append(gc.get_threshold())
        gc.set_threshold(_SELDOM, *_usual[0][1:])


def collect_as_usual() -> None:
    """Undo `collect_seldom`; present objects stay and are not scanned again."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())


class OneThread:
    """Until its `end`, garbage is collected only on this thread, where `collect_due` is called."""

    _held: ClassVar[list["OneThread"]] = []
    _was_enabled: ClassVar[bool] = True

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._wanted, self._done = threading.Event(), threading.Event()
        self._everything_from_s = 0.0
        if not self._held:
            OneThread._was_enabled = gc.isenabled()
        self._held.append(self)
        gc.disable()

    def end(self) -> None:
        """Restore the earlier state, if nobody else collects on one thread."""
        if self in self._held:
            self._held.remove(self)
            if not self._held and self._was_enabled:
                gc.enable()

    @classmethod
    def now(cls) -> "OneThread | None":
        """The object that now collects on one thread, if any."""
        return cls._held[-1] if cls._held else None

    def collect_due(self) -> None:
        """Collect what Python would have collected by now; call it every few hundredths of a second."""
        if self._wanted.is_set():
            self._wanted.clear()
            self._collect(2)
            self._done.set()
        elif not _resting:
            due = self._due()
            if due is not None:
                self._collect(due)

    def collect_all(self, within_s: float = 1.0) -> None:
        """Collect everything; from another thread: request it, and wait at most `within_s`."""
        if threading.get_ident() == self._thread:
            self._collect(2)
        else:
            self._done.clear()
            self._wanted.set()
            self._done.wait(within_s)

    def _due(self) -> int | None:
        """The generation that is due, as Python counts; everything only after a rest."""
        counts, limits = gc.get_count(), gc.get_threshold()
        if not limits[0] or counts[0] <= limits[0]:
            return None
        if counts[2] > limits[2] and time.monotonic() >= self._everything_from_s:
            return 2
        return 1 if counts[1] > limits[1] else 0

    def _collect(self, generation: int) -> None:
        began_s = time.monotonic()
        gc.collect(generation)
        if generation == 2:
            ended_s = time.monotonic()
            self._everything_from_s = ended_s + max(_REST_S, _RESTS * (ended_s - began_s))


def collect_all() -> None:
    """Collect everything, on the thread that may."""
    one = OneThread.now()
    if one is None:
        gc.collect()
    else:
        one.collect_all()


@contextmanager
def collector_resting() -> Iterator[None]:
    """Suspend collection in the block; the objects present afterwards stay and are not scanned again."""
    was_enabled = gc.isenabled()
    gc.disable()
    _resting.append(None)
    try:
        yield
    finally:
        _resting.pop()
        gc.freeze()
        if was_enabled:
            gc.enable()
