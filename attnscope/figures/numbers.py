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

from attnscope.figures.inside_numbers import HEADER, inside_arrays, inside_rows
from attnscope.figures.panels import lettered_maps
from attnscope.figures.plain import plain_text
from attnscope.figures.spec import Chart, FigureSpec, MapPart
from attnscope.records.attention_graph import AttentionGraph
from attnscope.records.compare import BOTH, NEITHER, NOWHERE, ONLY_A, ONLY_B
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.tiles import MapTile
from attnscope.records.tokens import Token
from attnscope.viewmodels.compare.difference import ComparedMaps

_ALLOWED_BY = {BOTH: "both", NEITHER: "neither", ONLY_A: "A", ONLY_B: "B", NOWHERE: "no such cell"}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(spec: FigureSpec) -> bytes:
    """The figure's numbers as a UTF-8 table, one number a row, with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(_rows(spec))
    return stream.getvalue().encode("utf-8", "replace")


def first_lines(spec: FigureSpec, format: str, n_lines: int) -> tuple[str, ...]:
    """The first lines of the table, or the names and shapes of the arrays, to be looked at before saving."""
    if format == "npz":
        shapes = ((name, " × ".join(map(str, a.shape)) or "1") for name, a in _arrays(spec).items())
        lines = [f"{name}  [{shape}]" for name, shape in shapes]
    else:
        lines = [", ".join(row) for row in itertools.islice(_rows(spec), n_lines + 1)]
    return (*lines[:n_lines], "…") if len(lines) > n_lines else tuple(lines)


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
    """Nine digits, which give back a float32; what is counted, such as tokens read, has all of its own."""
    if not np.isfinite(value):
        return ""
    is_whole = 1e9 <= abs(value) < 2**53 and value == np.round(value)
    return f"{value:.0f}" if is_whole else f"{value:.9g}"


def _rows(spec: FigureSpec) -> Iterator[Iterable[str]]:
    match spec.view:
        case "head" if spec.part is not None:
            yield ("stack", "layer", "head", "first query", "first key", "cells a side", "weight")
            yield from _part_rows(spec.part)
        case "head" | "lines" | "panels":
            shown = lettered_maps(spec)
            panel = ("panel",) if any(letter for letter, _, _ in shown) else ()
            has_written = any(_writes(head_map) for _, _, head_map in shown)
            written = ("written token",) if has_written else ()
            place = ("stack", "layer", "head", "query", "query token", *written, "key", "key token")
            yield (*panel, *place, "weight")
            for letter, _, head_map in shown:
                rows = _map_rows(head_map, has_written=has_written)
                yield from ((*((letter,) if panel else ()), *row) for row in rows)
        case "picture" if spec.picture is not None:
            yield ("stack", "layer", "head", "query", "query token", "key", "key token", "weight")
            yield from _map_rows(spec.maps[0], only=spec.picture.query)
        case "inside" if spec.inside is not None:
            yield HEADER
            inside = spec.inside.inside
            head = (inside.head.stack, str(inside.head.layer), str(inside.head.head))
            for key, token, name, d, value in inside_rows(inside):
                query = (str(inside.query), safe_cell(inside.query_token.piece))
                yield (*head, *query, key, safe_cell(token), name, d, _number(value))
        case "graph" if spec.graph is not None:
            yield ("from level", "position", "token", "to level", "position", "token", "weight", "carried")
            yield from _graph_rows(spec.graph)
        case "difference" if spec.compared is not None:
            written = ("written token",) if any(q.read for q in spec.compared.queries) else ()
            place = ("stack", "layer", "head", "query", "query token", *written, "key", "key token")
            yield (*place, "weight A", "weight B", "B - A", "allowed by")
            yield from _compared_rows(spec.compared)
        case "grid":
            yield ("stack", "layer", "head", "row", "column", "weight", "gate")
            for grid in spec.grids:
                yield from _grid_rows(grid, spec)
        case "positions":
            yield ("encoding", "offset", "mean cosine", "mean dot product")
            for table in spec.positions:
                for i, (cosine, dot) in enumerate(zip(table.by_offset, table.dot_by_offset, strict=True)):
                    yield (safe_cell(table.name), str(i), _number(cosine), _number(dot))
        case "curves" | "lab":
            yield ("chart", "series", "x", "y", "x is", "y is")
            for chart in spec.charts:
                for series in chart.series:
                    names = series.labels or itertools.repeat(series.name, len(series.xs))
                    for name, x, y in zip(names, series.xs, series.ys, strict=True):
                        yield (safe_cell(chart.title), safe_cell(name), _number(x), _number(y), *_axes(chart))
                yield from _field_rows(chart)
            for cells in spec.cells:
                for i, row in enumerate(cells.values):
                    for j, value in enumerate(row):
                        names = (cells.title, cells.row_name(i), cells.column_name(j))
                        yield (*map(safe_cell, names), _number(value), "", "")


def _graph_rows(graph: AttentionGraph) -> Iterator[Iterable[str]]:
    """One row for each edge, from the lower level to the upper one; carried is its share of the output."""
    for edge in graph.edges:
        ends = (graph.nodes[edge.lower], graph.nodes[edge.upper])
        places = ((graph.levels[n.level], str(n.position), safe_cell(n.token.piece)) for n in ends)
        yield (*itertools.chain(*places), _number(edge.weight), _number(graph.carried(edge)))


def _axes(chart: Chart) -> tuple[str, str]:
    """What stands along both axes, units among it."""
    return safe_cell(chart.x_label), safe_cell(chart.y_label)


def _field_rows(chart: Chart) -> Iterator[Iterable[str]]:
    """One row for each bin that holds anything, named by its ends, at each place."""
    field = chart.field
    if field is None:
        return
    for i, j in np.argwhere(field.values).tolist():
        name = f"{field.unit}, {field.edges[i]:.3g} to {field.edges[i + 1]:.3g}"
        numbers = (_number(field.xs[j]), _number(field.values[i, j]))
        yield (safe_cell(chart.title), name, *numbers, *_axes(chart))


def _writes(head_map: HeadMap) -> bool:
    """Whether the rows are called after what is written there."""
    return any(query.read for query in head_map.queries)


def _map_rows(
    head_map: HeadMap, only: int | None = None, *, has_written: bool = False
) -> Iterator[Iterable[str]]:
    """One row for each weight; the query's token is the one that was read."""
    head = head_map.head
    number = head_map.name or str(head.head)
    for i, query in enumerate(head_map.queries):
        written = (safe_cell(query.piece if query.read else ""),) if has_written else ()
        for j, key in enumerate(head_map.keys if only in (None, i) else ()):
            names = (str(i), safe_cell(query.read or query.piece), *written, str(j), safe_cell(key.piece))
            yield (head.stack, str(head.layer), number, *names, _number(head_map.weights[i, j]))


def _compared_rows(compared: ComparedMaps) -> Iterator[Iterable[str]]:
    """One row for each cell of the shared axes; empty where a side has no such cell or no weight."""
    head = (compared.head.stack, str(compared.head.layer), str(compared.head.head))
    has_written = any(query.read for query in compared.queries)
    for i, query in enumerate(compared.queries):
        written = (safe_cell(query.piece if query.read else ""),) if has_written else ()
        for j, key in enumerate(compared.keys):
            names = (str(i), safe_cell(query.read or query.piece), *written, str(j), safe_cell(key.piece))
            values = (compared.first[i, j], compared.second[i, j], compared.delta[i, j])
            yield (*head, *names, *map(_number, values), _ALLOWED_BY[int(compared.kinds[i, j])])


def _part_rows(part: MapPart) -> Iterator[Iterable[str]]:
    """One row for each block of a long map: where it begins, its side in cells, what it stands for."""
    tile, weights = part.tile, weights_of_tile(part.tile)
    head = (tile.head.stack, str(tile.head.layer), str(tile.head.head))
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            place = (str(tile.rows[0] + i * tile.b), str(tile.cols[0] + j * tile.b), str(tile.b))
            yield (*head, *place, _number(weight))


def weights_of_tile(tile: MapTile) -> NDArray[np.float32]:
    """The weights of a tile: exact ones where it has them, else what its levels stand for."""
    if tile.weights is not None:
        return tile.weights
    shares = (tile.levels.astype(np.float32) - 1) / np.float32(254)
    weights: NDArray[np.float32] = shares * np.float32(tile.peak)
    weights[tile.levels == 0] = np.nan
    return weights


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
    if spec.view == "head" and spec.part is not None:
        tile = spec.part.tile
        name = f"{tile.head.stack}_{tile.head.label}"
        arrays[name] = weights_of_tile(tile)
        arrays[f"{name}_first_query_key_side"] = np.array([tile.rows[0], tile.cols[0], tile.b])
    elif spec.view in ("head", "lines", "panels"):
        for letter, _, head_map in lettered_maps(spec):
            label = head_map.name.replace(" ", "_") or head_map.head.label
            name = "_".join(filter(None, (letter, head_map.head.stack, label)))
            arrays[name] = head_map.weights
            arrays[f"{name}_queries"] = np.array([t.read or t.piece for t in head_map.queries], dtype=np.str_)
            if _writes(head_map):
                arrays[f"{name}_written"] = np.array([t.piece for t in head_map.queries], dtype=np.str_)
            arrays[f"{name}_keys"] = np.array([t.piece for t in head_map.keys], dtype=np.str_)
    elif spec.picture is not None:
        head_map, part = spec.maps[0], spec.picture
        arrays[f"{head_map.head.stack}_{head_map.head.label}_query_{part.query}"] = head_map.weights[
            part.query
        ]
        arrays["pixels"] = part.picture.pixels
        arrays["rows_columns_first"] = np.array(
            [part.picture.n_rows, part.picture.n_columns, part.picture.n_first]
        )
    elif spec.graph is not None:
        arrays |= _graph_arrays(spec.graph)
    elif spec.inside is not None:
        arrays |= inside_arrays(spec.inside.inside)
    elif spec.compared is not None:
        arrays |= _compared_arrays(spec.compared)
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
            if chart.field is not None:
                for name in ("xs", "edges", "values"):
                    arrays[f"{i}_field_{name}"] = getattr(chart.field, name)
        for i, cells in enumerate(spec.cells):
            arrays[f"map_{i}"] = cells.values
            arrays[f"map_{i}_name"] = np.array(cells.title)
    return arrays


def _graph_arrays(graph: AttentionGraph) -> dict[str, NDArray[np.generic]]:
    """Nodes [n_nodes] and edges [n_edges]; `lower` and `upper` count the nodes."""
    nodes, edges = graph.nodes, graph.edges
    return {
        "levels": np.array(graph.levels, dtype=np.str_),
        "level": np.array([node.level for node in nodes]),
        "position": np.array([node.position for node in nodes]),
        "token": np.array([node.token.piece for node in nodes], dtype=np.str_),
        "influence": np.array([node.influence for node in nodes]),
        "lower": np.array([edge.lower for edge in edges], dtype=np.int64),
        "upper": np.array([edge.upper for edge in edges], dtype=np.int64),
        "weight": np.array([edge.weight for edge in edges]),
        "carried": np.array([graph.carried(edge) for edge in edges]),
    }


def _compared_arrays(compared: ComparedMaps) -> dict[str, NDArray[np.generic]]:
    """Both maps and Δ on the shared axes; in A and B ∞ stands where a side has no such token."""
    name = f"{compared.head.stack}_{compared.head.label}"
    return {
        f"{name}_A": compared.first,
        f"{name}_B": compared.second,
        f"{name}_difference": compared.delta,
        f"{name}_allowed": compared.kinds,
        f"{name}_queries": np.array([t.read or t.piece for t in compared.queries], dtype=np.str_),
        **({f"{name}_written": _pieces(compared.queries)} if any(t.read for t in compared.queries) else {}),
        f"{name}_keys": np.array([t.piece for t in compared.keys], dtype=np.str_),
    }


def _pieces(tokens: tuple[Token, ...]) -> NDArray[np.generic]:
    return np.array([token.piece for token in tokens], dtype=np.str_)
