"""Reading an edge list from a file: UTF-8, not too large."""

from pathlib import Path

from attnscope.outside import read_outside_text
from attnscope.records.edge_lists import MAX_CHARACTERS


def read_edge_list(path: Path) -> str:
    """The text of an edge list; raises LoadError."""
    return read_outside_text(
        path, expected="a text file", max_bytes=4 * MAX_CHARACTERS, what=f"The edge list {path}"
    )
