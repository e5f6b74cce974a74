"""Telling what a long piece of work is at, from its middle: reading a vocabulary, reading weights.

A thread says with `progress_heard` who listens, to words or to a record that the listener knows; whatever it
then calls tells by `tell`. In other threads nobody listens and nothing is told. Imports the standard library
only, as `nn.cancellation` does.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAINTED_S = 0.05
"""Time for the window to paint what was told: three of its frames."""
_heard = threading.local()


@contextmanager
def progress_heard(hear: Callable[[object], None]) -> Iterator[None]:
    """While this lasts, `hear` gets what this thread tells; it must return at once."""
    before = getattr(_heard, "hear", None)
    _heard.hear = hear
    try:
        yield
    finally:
        _heard.hear = before


def is_heard() -> bool:
    """Whether somebody listens on this thread."""
    return getattr(_heard, "hear", None) is not None


def tell(what: object) -> None:
    """Say what comes next, or what is known so far, where somebody listens on this thread."""
    hear = getattr(_heard, "hear", None)
    if hear is not None:
        hear(what)


def tell_and_wait(what: str) -> None:
    """The same before a call that holds the interpreter: first the window gets time to paint it."""
    hear = getattr(_heard, "hear", None)
    if hear is not None:
        hear(what)
        time.sleep(PAINTED_S)
