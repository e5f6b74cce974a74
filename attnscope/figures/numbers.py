"""The numbers behind a figure, as CSV for people and NPZ for programs.

CSV is always quoted; a cell that a spreadsheet would read as a formula gets a leading apostrophe; NaN
(not allowed, no data) and what was left out are empty cells.
"""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.plain import plain_text
from attnscope.figures.shown_maps import lettered_maps
from attnscope.figures.spec import FigureSpec
from attnscope.records.maps import HeadMap
from attnscope.records.tokens import Token

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(spec: FigureSpec) -> bytes:
    """The figure's numbers as a UTF-8 table, one number a row, with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(spec.rows())
    return stream.getvalue().encode("utf-8", "replace")


def first_lines(spec: FigureSpec, format: str, n_lines: int) -> tuple[str, ...]:
    """The first lines of the table, or the names and shapes of the arrays, to be looked at before saving."""
    if format == "npz":
        shapes = ((name, " × ".join(map(str, a.shape)) or "1") for name, a in spec.arrays().items())
        lines = [f"{name}  [{shape}]" for name, shape in shapes]
    else:
        lines = [", ".join(row) for row in itertools.islice(spec.rows(), n_lines + 1)]
    return (*lines[:n_lines], "…") if len(lines) > n_lines else tuple(lines)


def npz_bytes(spec: FigureSpec) -> bytes:
    """The figure's arrays under names such as `encoder_L0H3`, without pickles."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **spec.arrays())
    return stream.getvalue()


def safe_cell(text: str) -> str:
    """Text for a table's cell: nothing invisible, and never a formula."""
    shown = plain_text(text) if not text.startswith(_FORMULA_STARTS[-2:]) else text
    is_formula = shown.startswith(_FORMULA_STARTS)
    return "'" + plain_text(shown) if is_formula else shown


def exact_number_text(value: float) -> str:
    """Nine digits, which give back a float32; what is counted, such as tokens read, has all of its own."""
    if not np.isfinite(value):
        return ""
    is_whole = 1e9 <= abs(value) < 2**53 and value == np.round(value)
    return f"{value:.0f}" if is_whole else f"{value:.9g}"


def map_rows(spec: FigureSpec) -> Iterator[Iterable[str]]:
    """One row for each weight of every map of a figure, with its panel where heads are not enough."""
    shown = lettered_maps(spec)
    panel = ("panel",) if any(letter for letter, _, _ in shown) else ()
    has_written = any(_writes(head_map) for _, _, head_map in shown)
    yield (*panel, *cell_header(has_written=has_written), "weight")
    for letter, _, head_map in shown:
        rows = weight_rows(head_map, has_written=has_written)
        yield from ((*((letter,) if panel else ()), *row) for row in rows)


def cell_header(*, has_written: bool = False) -> tuple[str, ...]:
    """The names of a cell's columns; a row may be called after what is written there."""
    written = ("written token",) if has_written else ()
    return ("stack", "layer", "head", "query", "query token", *written, "key", "key token")


def _writes(head_map: HeadMap) -> bool:
    """Whether the rows are called after what is written there."""
    return any(query.read for query in head_map.queries)


def weight_rows(
    head_map: HeadMap, only: int | None = None, *, has_written: bool = False
) -> Iterator[Iterable[str]]:
    """One row for each weight; the query's token is the one that was read."""
    head = head_map.head
    number = head_map.name or str(head.head)
    for i, query in enumerate(head_map.queries):
        written = (safe_cell(query.piece if query.read else ""),) if has_written else ()
        for j, key in enumerate(head_map.keys if only in (None, i) else ()):
            names = (str(i), safe_cell(query.read or query.piece), *written, str(j), safe_cell(key.piece))
            yield (head.stack, str(head.layer), number, *names, exact_number_text(head_map.weights[i, j]))


def map_arrays(spec: FigureSpec) -> dict[str, NDArray[np.generic]]:
    """The weights of every map of a figure, and the tokens of its rows and columns."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for letter, _, head_map in lettered_maps(spec):
        label = head_map.name.replace(" ", "_") or head_map.head.label
        name = "_".join(filter(None, (letter, head_map.head.stack, label)))
        arrays[name] = head_map.weights
        arrays |= token_arrays(name, head_map.queries, head_map.keys)
    return arrays


def token_arrays(
    name: str, queries: tuple[Token, ...], keys: tuple[Token, ...]
) -> dict[str, NDArray[np.generic]]:
    """What is read at the rows of a map, what is written there if that is another token, and its columns."""
    written = {f"{name}_written": _pieces(queries)} if any(query.read for query in queries) else {}
    read = np.array([query.read or query.piece for query in queries], dtype=np.str_)
    return {f"{name}_queries": read, **written, f"{name}_keys": _pieces(keys)}


def _pieces(tokens: tuple[Token, ...]) -> NDArray[np.generic]:
    return np.array([token.piece for token in tokens], dtype=np.str_)
