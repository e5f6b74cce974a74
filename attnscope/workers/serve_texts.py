"""Reading texts from files for the window. No Qt."""

from collections.abc import Iterator
from pathlib import Path

from attnscope.records.messages import Progress, Reply
from attnscope.records.texts import OpenText, TextOpened
from attnscope.text.files import TextOfFile, read_text_file


def open_text(request: OpenText) -> Iterator[Reply]:
    """Read a text file piece by piece; raises LoadError."""
    path = Path(request.path)
    for found in read_text_file(path):
        if isinstance(found, TextOfFile):
            yield TextOpened(
                number=request.number,
                name=path.name,
                text=found.text,
                n_cut=found.n_cut_bytes,
                n_replaced=found.n_replaced,
            )
        else:
            yield Progress(number=request.number, what=f"Reading {path.name}", fraction=found)
