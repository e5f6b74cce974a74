"""Giving up a long pass in its middle: between two layers, two blocks of rows, two heads.

A thread says with `stoppable` how to learn that nobody waits for its work any more; whatever it then calls
asks by `stop_if_unwanted` at places where nothing is half done. In other threads the question is not asked.
Imports no torch, so that the thread can know it before torch is there.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attnscope.errors import Stopped as Stopped

_asked = threading.local()


@contextmanager
def stoppable(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """While this lasts, `stop_if_unwanted` asks `is_unwanted`, which is cheap, on this thread."""
    before = getattr(_asked, "is_unwanted", None)
    _asked.is_unwanted = is_unwanted
    try:
        yield
    finally:
        _asked.is_unwanted = before


def stop_if_unwanted() -> None:
    """Raise Stopped where this thread's work is wanted no more."""
    is_unwanted = getattr(_asked, "is_unwanted", None)
    if is_unwanted is not None and is_unwanted():
        raise Stopped
