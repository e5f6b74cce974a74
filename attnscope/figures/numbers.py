"""The numbers behind a figure, as CSV for people and NPZ for programs.

CSV is always quoted; a cell that a spreadsheet would read as a formula gets a leading apostrophe; NaN
(not allowed, or no data) is an empty cell.
"""

import csv
import io
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.plain import plain_text
from attnscope.figures.spec import FigureSpec
from attnscope.records.maps import HeadMap, SiteGrid

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(spec: FigureSpec) -> bytes:
    """The figure's numbers as a UTF-8 table, one number a row, with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(_rows(spec))
    return stream.getvalue().encode("utf-8", "replace")


def npz_bytes(spec: FigureSpec) -> bytes:
    """The figure's arrays under names such as `encoder_L0H3`, without pickles."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **_arrays(spec))
    return stream.getvalue()


def safe_cell(text: str) -> str:
    """Text for a table's cell: nothing invisible, and never a formula."""
    shown = plain_text(text) if not text.startswith(_FORMULA_STARTS[-2:]) else text
    is_formula = shown.startswith(_FORMULA_STARTS)
    return "'" + plain_text(shown) if is_formula else shown


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.9g}"


def _rows(spec: FigureSpec) -> Iterator[Iterable[str]]:
    match spec.view:
        case "head" | "lines":
            yield ("stack", "layer", "head", "query", "query token", "key", "key token", "weight")
            for head_map in spec.maps[:1] if spec.view == "head" else spec.maps:
                yield from _map_rows(head_map)
        case "grid":
            yield ("stack", "layer", "head", "row", "column", "weight", "gate")
            for grid in spec.grids:
                yield from _grid_rows(grid, spec)
        case "positions":
            yield ("encoding", "offset", "mean cosine", "mean dot product")
            for table in spec.positions:
                for i, (cosine, dot) in enumerate(zip(table.by_offset, table.dot_by_offset, strict=True)):
                    yield (safe_cell(table.name), str(i), _number(cosine), _number(dot))
        case "curves":
            yield ("chart", "series", "x", "y")
            for chart in spec.charts:
                for series in chart.series:
                    for x, y in zip(series.xs, series.ys, strict=True):
                        yield (safe_cell(chart.title), safe_cell(series.name), _number(x), _number(y))


def _map_rows(head_map: HeadMap) -> Iterator[Iterable[str]]:
    head = head_map.head
    for i, query in enumerate(head_map.queries):
        for j, key in enumerate(head_map.keys):
            names = (str(i), safe_cell(query.piece), str(j), safe_cell(key.piece))
            yield (head.stack, str(head.layer), str(head.head), *names, _number(head_map.weights[i, j]))


def _grid_rows(grid: SiteGrid, spec: FigureSpec) -> Iterator[Iterable[str]]:
    weights = weights_of_grid(grid)
    for head, thumbnail in zip(grid.site.heads, weights, strict=True):
        gate = f"{spec.gates.value(head):g}"
        for i, row in enumerate(thumbnail):
            for j, weight in enumerate(row):
                place = (head.stack, str(head.layer), str(head.head), str(i), str(j))
                yield (*place, _number(weight), gate)


def weights_of_grid(grid: SiteGrid) -> NDArray[np.float32]:
    """The weights that a grid's levels stand for, [n_heads, rows, cols], to 1/254 of each peak."""
    weights: NDArray[np.float32] = (
        (grid.levels.astype(np.float32) - 1) / np.float32(254) * grid.peaks[:, None, None]
    )
    weights[grid.levels == 0] = np.nan
    return weights


def _arrays(spec: FigureSpec) -> dict[str, NDArray[np.generic]]:
    arrays: dict[str, NDArray[np.generic]] = {}
    if spec.view in ("head", "lines"):
        maps = spec.maps[:1] if spec.view == "head" else spec.maps
        for head_map in maps:
            name = f"{head_map.head.stack}_{head_map.head.label}"
            arrays[name] = head_map.weights
            arrays[f"{name}_queries"] = np.array([t.piece for t in head_map.queries], dtype=np.str_)
            arrays[f"{name}_keys"] = np.array([t.piece for t in head_map.keys], dtype=np.str_)
    elif spec.view == "grid":
        for grid in spec.grids:
            arrays[f"{grid.site.stack}_L{grid.site.layer}"] = weights_of_grid(grid)
    elif spec.view == "positions":
        for i, table in enumerate(spec.positions):
            for field in ("matrix", "cosine", "by_offset", "dot_by_offset"):
                arrays[f"{i}_{field}"] = getattr(table, field)
        arrays["names"] = np.array([table.name for table in spec.positions], dtype=np.str_)
    else:
        for i, chart in enumerate(spec.charts):
            for j, series in enumerate(chart.series):
                arrays[f"{i}_{j}_x"], arrays[f"{i}_{j}_y"] = series.xs, series.ys
                arrays[f"{i}_{j}_name"] = np.array(f"{chart.title}: {series.name}")
    return arrays
