"""Reading an edge list from a file: UTF-8, not too large."""

from pathlib import Path

from attnscope.errors import LoadError
from attnscope.records.edge_lists import MAX_CHARACTERS


def read_edge_list(path: Path) -> str:
    """The text of an edge list; raises LoadError."""
    try:
        with path.open("rb") as stream:
            return stream.read(4 * MAX_CHARACTERS + 4).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise LoadError(
            f"The edge list {path} cannot be read: {getattr(error, 'strerror', None) or error}.",
            kind="missing" if isinstance(error, FileNotFoundError) else "unreadable",
            expected="a text file in UTF-8",
            action="Choose another file.",
        ) from error
