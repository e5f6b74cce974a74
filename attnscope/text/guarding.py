"""Keeping the faults of the `tokenizers` library from ending the program.

The library answers some bad files and texts with a `PanicException`, which is a BaseException and so
passes every ordinary handler.
"""

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnscope.errors import LoadError, Stopped, UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as LibraryTokenizer

_CAPTURING = threading.RLock()
_PANIC = re.compile(
    rb"\n?thread '[^\n]* panicked at [^\n]*\n"
    rb"(?:(?:(?!\n?thread '[^\n]* panicked at )[^\n]*\n)*?note: [^\n]*\n|[^\n]*\n)"
)
"""A panic's words: to their note, or one line; the library writes notes only for the first of a process."""
_LET_PASS = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, UserError, Stopped)


@contextmanager
def without_panic_words() -> Iterator[None]:
    """Keep what the library's panics print out of standard error; whatever else is printed comes after."""
    is_linux = sys.platform == "linux"  # elsewhere no file lies in memory
    made = os.fdopen(os.memfd_create("kept"), "w+b", buffering=0) if is_linux else tempfile.TemporaryFile()
    with _CAPTURING, made as kept:
        try:
            own = os.dup(2)
        except OSError:  # there is no standard error
            yield
            return
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(own, 2)
            os.close(own)
            kept.seek(0)
            if others := _PANIC.sub(b"", kept.read()):
                os.write(2, others)


@contextmanager
def library_errors(happened: str, *, action: str) -> Iterator[None]:
    """Turn whatever the library raises inside, panics too, into a LoadError of kind `tokenizer`."""
    try:
        yield
    except _LET_PASS:
        raise
    except BaseException as error:  # PanicException cannot be imported
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise LoadError(f"{happened}: {reason}", kind="tokenizer", action=action) from error


def empty_library(library: "LibraryTokenizer") -> None:
    """Free the vocabulary of a tokenizer that nobody reads with any more.

    Dropping it would hold the interpreter for as long as reading it did, and with it the window: 0.3 s for
    250,000 pieces of a unigram model. Training, which puts another vocabulary in its place, lets it go.
    """
    try:
        trainer = library.model.get_trainer()
        trainer.show_progress = False
        trainer.special_tokens = ["-"]
        with without_panic_words():
            library.train_from_iterator([], trainer)
    except _LET_PASS:
        raise
    except BaseException:  # noqa: BLE001  a PanicException cannot be imported; what is left is dropped as ever
        return
