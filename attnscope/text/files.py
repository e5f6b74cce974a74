"""Reading a text from a file, in pieces and no more of it than can be used."""

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from attnscope.errors import LoadError
from attnscope.outside import open_outside
from attnscope.text.cleaning import MAX_CHARACTERS

PIECE_BYTES = 32_768
_FORMATS = {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    b"PK\x03\x04": "zip",
    b"%PDF": "PDF",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOfFile:
    """What was read; `n_cut_bytes` were not, `n_replaced` bytes were no UTF-8 and became U+FFFD."""

    text: str
    n_bytes: int
    n_cut_bytes: int = 0
    n_replaced: int = 0


def read_text_file(path: Path, *, max_characters: int = MAX_CHARACTERS) -> Iterator[float | TextOfFile]:
    """The text of a UTF-8 file, last; before it, after each piece of 32 kB, how far the reading is (0…1).

    Raises LoadError for what is no regular file, cannot be read, or is not a text.
    """
    with open_outside(path, expected="a UTF-8 text file", what=f"The text {path}") as stream:
        try:
            yield from _read(stream, path, os.fstat(stream.fileno()).st_size, max_characters)
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error), "Check its path and rights.") from error


def _read(stream: BinaryIO, path: Path, n_bytes: int, max_characters: int) -> Iterator[float | TextOfFile]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    pieces: list[str] = []
    n_characters = n_read = 0
    while n_characters < max_characters:
        piece = stream.read(PIECE_BYTES)
        if n_read == 0:
            _refuse_other_formats(piece, path)
        text = decoder.decode(piece, final=not piece)
        n_read += len(piece)
        pieces.append(text)
        n_characters += len(text)
        if not piece:
            break
        yield min(1.0, max(n_read / max(1, n_bytes), n_characters / max_characters))
    whole = "".join(pieces)[:max_characters]
    n_replaced = whole.count("\ufffd")
    if n_replaced > max(16, len(whole) // 20):
        raise _unreadable(path, f"{n_replaced:,} of its characters are not UTF-8")
    is_cut = n_characters > max_characters or n_read < n_bytes
    n_kept = len(whole.encode("utf-8", "replace"))
    n_cut = max(0, n_bytes - n_kept) if is_cut else 0
    yield TextOfFile(text=whole, n_bytes=n_bytes, n_cut_bytes=n_cut, n_replaced=n_replaced)


def _refuse_other_formats(start: bytes, path: Path) -> None:
    for mark, name in _FORMATS.items():
        if start.startswith(mark):
            raise _unreadable(path, f"it is {name}")
    if b"\0" in start:
        raise _unreadable(path, "it contains bytes that do not occur in text")


def _unreadable(path: Path, why: str, action: str = "Save it as UTF-8 and open it again.") -> LoadError:
    return LoadError(
        f"The text {path} cannot be read: {why}.",
        kind="unreadable",
        expected="a UTF-8 text file",
        action=action,
    )
