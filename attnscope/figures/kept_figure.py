"""The figure of a figure file that holds its numbers: written whole, and looked at before it is painted.

Types are seen to by `record_json` and shapes within a record by the record; here are the rules between them,
so that no painter meets a map without tokens or a token that is not there.
"""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from attnscope.figures.cell_map import CellMap
from attnscope.figures.figure_checks import check_look
from attnscope.figures.panels import MAX_PANELS, PANEL_VIEWS
from attnscope.figures.record_json import record_as_json, record_from_json
from attnscope.figures.spec import Chart, FigureSpec, MapPart, check_spec
from attnscope.records.attention_graph import AttentionGraph
from attnscope.records.inside import HeadInside
from attnscope.records.maps import HeadMap, SelfCheck, SiteGrid
from attnscope.records.positions import PositionTable
from attnscope.viewmodels.compare.difference import ComparedMaps


def kept_as_json(spec: FigureSpec) -> dict[str, object]:
    """Everything that is painted; where it came from is in the caption."""
    bare = tuple(dataclasses.replace(panel, origin=None) for panel in spec.panels)
    return record_as_json(dataclasses.replace(spec, origin=None, panels=bare))


def kept_from_json(values: object) -> FigureSpec:
    """The figure again; raises ValueError or UserError where it could not be painted."""
    spec = record_from_json(FigureSpec, values)
    check_spec(spec)
    for part in (spec, *spec.panels):
        check_look(part.style)
        for reason in _reasons(part):
            raise ValueError(reason)
    if len(spec.panels) > MAX_PANELS or any(panel.view not in PANEL_VIEWS for panel in spec.panels):
        raise ValueError(f"panels are up to {MAX_PANELS} heads, lines and grids")
    for panel in spec.panels:
        check_spec(panel)
    panels = tuple(_without_claims(panel) for panel in spec.panels)
    return dataclasses.replace(_without_claims(spec), panels=panels)


def _without_claims(spec: FigureSpec) -> FigureSpec:
    """The part with checks that its own numbers bear out, whatever the file claims of them."""
    maps = tuple(dataclasses.replace(one, check=_check_again(one)) for one in spec.maps)
    return dataclasses.replace(spec, maps=maps)


def _check_again(head_map: HeadMap) -> SelfCheck | None:
    """A warning as it is; of a good check the sums of a head's rows, and nothing where they tell nothing.

    Rows may sum to less than 1, where a head has a sink, and never to more.
    """
    claimed, weights = head_map.check, head_map.weights
    if claimed is None or claimed.is_empty or not claimed.is_good:
        return claimed
    if head_map.name or head_map.is_partial:
        return None
    seen = weights[~np.isnan(weights).all(axis=1)]
    sums = np.where(np.isnan(seen), 0.0, seen).sum(axis=1, dtype=np.float64)
    error = float(np.abs(sums - 1.0).max(initial=0.0))
    check = SelfCheck(
        row_sum_error=error, forbidden_weight=0.0, output_error=0.0, is_evaluation_mode=True, is_given=True
    )
    is_less = bool((sums <= 1.0 + check.tolerance).all()) and not bool((weights < 0.0).any())
    return None if is_less and not check.is_good else check


def _reasons(spec: FigureSpec) -> Iterator[str]:
    """What stands against painting a figure or one of its panels."""
    heads = itertools.chain((m.head for m in spec.maps), spec.selection, (h for h, _ in spec.gates.values))
    if any(min(head.layer, head.head) < 0 for head in heads):
        yield "a head below 0"
    if any(not head_map.weights.size or not head_map.full > 0 for head_map in spec.maps):
        yield "a map without a cell"
    checks = (
        *map(_is_grid, spec.grids),
        *map(_is_table, spec.positions),
        *map(_is_chart, spec.charts),
        *map(_is_cells, spec.cells),
        spec.part is None or _is_part(spec.part),
        spec.compared is None or _is_compared(spec.compared),
        spec.inside is None or _is_inside(spec.inside.inside, spec.inside.row),
        spec.graph is None or _is_graph(spec.graph),
        _is_picture(spec),
        _has_gold(spec),
    )
    if not all(checks):
        yield "its parts do not fit together"


def _is_grid(grid: SiteGrid) -> bool:
    is_site = grid.site.layer >= 0 and grid.site.n_heads > 0
    return is_site and grid.levels.size > 0 and min(grid.n_queries, grid.n_keys) > 0


def _is_table(table: PositionTable) -> bool:
    n = len(table.matrix)
    fits = table.cosine.shape == (n, n) and table.by_offset.shape == table.dot_by_offset.shape == (n,)
    return table.matrix.size > 0 and fits


def _is_chart(chart: Chart) -> bool:
    low, high = chart.y_range or (0.0, 1.0)
    marks = np.array([x for x, _ in chart.marks] + [n for x, y, _ in chart.notes for n in (x, y)])
    field = chart.field
    is_field = field is None or (len(field.xs) > 0 and len(field.edges) > 1)
    return len(chart.series) > 0 and low < high and bool(np.isfinite(marks).all()) and is_field


def _is_cells(cells: CellMap) -> bool:
    seen = cells.values[np.isfinite(cells.values)]
    is_named = cells.kind != "kinds" or not seen.size or 1 <= seen.min() <= seen.max() <= len(cells.legend)
    is_named &= cells.kind != "steps" or seen.size == cells.values.size or bool(cells.legend)
    backdrop = cells.backdrop
    is_seen = backdrop is None or (backdrop.ndim == 3 and backdrop.shape[2] == 3 and backdrop.size > 0)
    return cells.values.size > 0 and 0 < cells.limit < np.inf and is_named and is_seen


def _is_part(part: MapPart) -> bool:
    tile = part.tile
    places = ((tile.rows, part.queries), (tile.cols, part.keys))
    are_there = all(0 <= first < end <= len(tokens) for (first, end), tokens in places)
    is_scaled = bool(np.isfinite((tile.peak, tile.head_peak)).all())
    return (
        are_there
        and is_scaled
        and tile.b > 0
        and (tile.weights is None or tile.weights.shape == tile.levels.shape)
    )


def _is_compared(shown: ComparedMaps) -> bool:
    rows = (shown.queries, *shown.side_queries)
    cols = (shown.keys, *shown.side_keys)
    fits = {len(row) for row in rows} == {len(shown.rows)} and {len(col) for col in cols} == {len(shown.cols)}
    return fits and shown.delta.size > 0 and shown.kinds.shape == shown.delta.shape and shown.limit >= 0


def _is_inside(inside: HeadInside, row: int | None) -> bool:
    return inside.q.size > 0 and (row is None or 0 <= row < len(inside.keys))


def _is_graph(graph: AttentionGraph) -> bool:
    shares = (*(node.influence for node in graph.nodes), *(edge.weight for edge in graph.edges))
    is_share = all(0 <= share <= 1.001 for share in (*shares, graph.threshold, graph.kept_share))
    return is_share and all(node.position >= 0 for node in graph.nodes)


def _is_picture(spec: FigureSpec) -> bool:
    if spec.picture is None or spec.view != "picture":
        return spec.picture is None
    n_tokens = spec.picture.picture.n_tokens
    return spec.maps[0].weights.shape == (n_tokens, n_tokens) and 0 <= spec.picture.query < n_tokens


def _has_gold(spec: FigureSpec) -> bool:
    if not spec.gold or spec.view != "head":
        return not spec.gold
    part = spec.part
    n_queries, n_keys = (
        (len(part.queries), len(part.keys)) if part is not None else spec.maps[0].weights.shape
    )
    return all(
        0 <= g.rows[0] < g.rows[1] <= n_queries and 0 <= g.cols[0] < g.cols[1] <= n_keys for g in spec.gold
    )
