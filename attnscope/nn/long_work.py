"""Cancelling long work, and reporting its progress.

A thread says with `stoppable` how to learn that it is no longer wanteds work any more, and with
`progress_heard` who listens, to words or to a record that the listener knows. Whatever it then calls asks by
`stop_if_unwanted` at places where nothing is half done (between two layers, two blocks of rows, two heads),
and tells by `tell`. In other threads the question is not asked and nobody listens. Imports no torch, so that
the thread can know it before torch is there.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

from attnscope.errors import Stopped as Stopped

Step = TypeVar("Step")
News = TypeVar("News")
Result = TypeVar("Result")
_asked = threading.local()


@contextmanager
def stoppable(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """In the block, `stop_if_unwanted` calls `is_unwanted`, which is cheap, on this thread."""
    before = getattr(_asked, "is_unwanted", None)
    _asked.is_unwanted = is_unwanted
    try:
        yield
    finally:
        _asked.is_unwanted = before


def stop_if_unwanted() -> None:
    """Raise Stopped if this thread's work is no longer wanted."""
    is_unwanted = getattr(_asked, "is_unwanted", None)
    if is_unwanted is not None and is_unwanted():
        raise Stopped


def asking_as_here() -> Callable[[], AbstractContextManager[None]]:
    """For a helper thread: in the returned block, it checks for cancellation as this one would."""
    is_unwanted = getattr(_asked, "is_unwanted", None)
    return nullcontext if is_unwanted is None else partial(stoppable, is_unwanted)


PAINTED_S = 0.05
"""Time for the window to paint the progress: three frames."""
_heard = threading.local()


@contextmanager
def progress_heard(hear: Callable[[object], None]) -> Iterator[None]:
    """In the block, `hear` gets the progress reported by this thread; it must return at once."""
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
    """Report the next step, or the result so far, if somebody listens on this thread."""
    hear = getattr(_heard, "hear", None)
    if hear is not None:
        hear(what)


def ended(steps: Generator[object, None, Result]) -> Result:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            result: Result = last.value
            return result


def as_news(
    steps: Generator[Step, None, Result], say: Callable[[Step], News | None]
) -> Generator[News, None, Result]:
    """Turn some of the steps into news with `say`; returns the result of the work."""
    while True:
        try:
            step = next(steps)
        except StopIteration as last:
            result: Result = last.value
            return result
        news = say(step)
        if news is not None:
            yield news


def tell_and_wait(what: str) -> None:
    """The same before a call that holds the interpreter: the window first gets time to paint."""
    hear = getattr(_heard, "hear", None)
    if hear is not None:
        hear(what)
        time.sleep(PAINTED_S)
