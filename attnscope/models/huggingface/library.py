"""The optional libraries, imported when a model of theirs is opened, kept quiet and off the network."""

import gc
import importlib
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnscope.errors import LoadError, UserError
from attnscope.hub.library import how_to_install, import_hub, missing_library
from attnscope.nn.long_work import Stopped

MIN_VERSION, END_VERSION = (5, 3), (6, 0)
_JOIN_S = 5.0


def import_transformers() -> Any:
    """The module `transformers`, silent and without network; raises LoadError when it is not usable."""
    import_hub()
    try:
        library = importlib.import_module("transformers")
    except ImportError as error:
        raise missing_library("transformers", str(error)) from error
    version = _numbers(library.__version__)
    if not MIN_VERSION <= version < END_VERSION:
        raise LoadError(
            f"The library transformers has version {library.__version__}.",
            kind="library",
            expected="at least 5.3 and below 6",
            action=how_to_install(),
        )
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking what the first import of transformers makes, inside or later.

    That is more than half a million objects, which stay: with the collector on, it holds the interpreter, and
    with it the window, four times for 20 to 100 ms meanwhile and again at every full collection. Later on
    nothing is changed, so that no model which has been closed is kept.
    """
    if "transformers" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def library_faults(happened: str, *, kind: str, action: str) -> Iterator[None]:
    """Turn whatever the library raises inside into one LoadError, and its warnings into silence.

    Its own classes raise nearly every kind of exception for a configuration they cannot use.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, Stopped, LoadError):
        raise
    except UserError as error:
        told = f"{happened}. {error.happened}"
        raise LoadError(told, kind=kind, expected=error.expected, action=error.action) from error
    except BaseException as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise LoadError(f"{happened}: {reason}", kind=kind, action=action) from error


@contextmanager
def joined_threads() -> Iterator[None]:
    """Wait for the threads that the library's loading starts and leaves to end by themselves."""
    before = set(threading.enumerate())
    try:
        yield
    finally:
        for thread in set(threading.enumerate()) - before:
            if thread.name.startswith("ThreadPoolExecutor"):
                thread.join(_JOIN_S)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)
