"""Keeps texts and files from crashing the program: text is made safe to encode, with a count of changes, and
faults of the `tokenizers` library are caught.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnscope.errors import LoadError, Stopped, UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as LibraryTokenizer

MAX_CHARACTERS = 200_000
MAX_CHUNK_CHARACTERS = 4_000
"""Characters encoded in one go: at most 16 kB of UTF-8, because the library holds the interpreter."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD_START = re.compile(r"(?<=\S) (?=\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanText:
    """A text that can be encoded as UTF-8.

    `n_replaced` characters became U+FFFD (one for one, so offsets still fit the text as it was
    typed); `n_cut` characters were cut off the end.
    """

    text: str
    n_replaced: int = 0
    n_cut: int = 0


def clean_text(text: str, *, max_characters: int | None = MAX_CHARACTERS) -> CleanText:
    """Replace lone surrogates by U+FFFD and cut what goes beyond `max_characters`."""
    n_cut = 0
    if max_characters is not None and len(text) > max_characters:
        n_cut = len(text) - max_characters
        text = text[:max_characters]
    text, n_replaced = _LONE_SURROGATE.subn("�", text)
    return CleanText(text=text, n_replaced=n_replaced, n_cut=n_cut)


def chunks(text: str, *, max_characters: int = MAX_CHUNK_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Cut a text into (offset, chunk), before a single space between two words if there is one.

    A chunk then begins with the space that belongs to its first word, so the tokens are those of the
    whole text; only a single word longer than a chunk is cut inside.
    """
    start = 0
    while len(text) - start > max_characters:
        end = start + max_characters
        for match in _WORD_START.finditer(text, start + max_characters // 2, end + 1):
            if match.start() < start + max_characters:
                end = match.start()
        yield start, text[start:end]
        start = end
    if start < len(text):
        yield start, text[start:]


_CAPTURING = threading.RLock()
_PANIC = re.compile(
    rb"\n?thread '[^\n]* panicked at [^\n]*\n"
    rb"(?:(?:(?!\n?thread '[^\n]* panicked at )[^\n]*\n)*?note: [^\n]*\n|[^\n]*\n)"
)
"""A panic's words: to their note, or one line; the library writes notes only for the first of a process."""
_LET_PASS = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, UserError, Stopped)


@contextmanager
def without_panic_words() -> Iterator[None]:
    """Keep the messages of the library's panics off standard error; other output comes after the block."""
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
    """Turn any error of the library inside, even a panic, into a LoadError of kind `tokenizer`."""
    try:
        yield
    except _LET_PASS:
        raise
    except BaseException as error:  # PanicException cannot be imported
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise LoadError(f"{happened}: {reason}", kind="tokenizer", action=action) from error


def empty_library(library: "LibraryTokenizer") -> None:
    """Free the vocabulary of a tokenizer no longer in use.

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
