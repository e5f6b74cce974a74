"""Reading texts from files for the window. No Qt."""

from collections.abc import Iterator
from pathlib import Path

from attnscope.errors import UserError
from attnscope.records.masks import MAX_SHOWN, edges_from_text, read_edge_list
from attnscope.records.messages import Progress
from attnscope.records.requests import Reply
from attnscope.records.texts import OpenText, TextOpened
from attnscope.text.files import TextOfFile, read_text_file
from attnscope.workers.desk import Desk, serves


@serves(OpenText)
def open_text(request: OpenText, desk: Desk) -> Iterator[Reply]:
    """Read a text file piece by piece; raises LoadError, but for an edge list, whose reply has the fault."""
    path = Path(request.path)
    if request.tokens:
        yield _read_edges(request, path)
        return
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


def _read_edges(request: OpenText, path: Path) -> TextOpened:
    try:
        text = read_edge_list(path)
        edges = edges_from_text(text, request.tokens)
    except UserError as error:
        return TextOpened(number=request.number, name=path.name, text="", fault=str(error))
    return TextOpened(number=request.number, name=path.name, text=text[:MAX_SHOWN], edges=edges)
