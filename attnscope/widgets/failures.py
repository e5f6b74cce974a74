"""Failures that pages tell in the window's banner, each with a subject: its message goes when its cause has.

A page has a signal `failed = Signal(str, str)`: the subject and why it failed, or no words once it is well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from attnscope.errors import UserError


class Failing(Protocol):
    """A page's signal `failed`."""

    def emit(self, subject: str, why: str, /) -> None:
        """Tell why, or with no words that nothing is wrong with the subject any more."""
        ...


@contextmanager
def told_failures(failed: Failing, subject: str) -> Iterator[None]:
    """Do something that the person may have to mend; what they are told of it lasts until it goes well."""
    try:
        yield
    except UserError as error:
        failed.emit(subject, str(error))
    else:
        failed.emit(subject, "")
