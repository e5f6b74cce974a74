"""Keeping the faults of the `tokenizers` library from ending the program.

The library answers some bad files and texts with a `PanicException`, which is a BaseException and so
passes every ordinary handler.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from attnscope.errors import LoadError, Stopped, UserError

_LET_PASS = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, UserError, Stopped)


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
