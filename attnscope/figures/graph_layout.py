"""Where an attention graph lies: a row for each token that counts, a column for each level, inputs left.

Of two texts the source's rows stand above the target's, and the encoder's levels left of the decoder's, so
that everything is read from left to right.
"""

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import SMALL_PX, text_width, type_px
from attnscope.figures.token_axis import label_width
from attnscope.records.influence import AttentionGraph
from attnscope.records.tokens import Token

ROW_PX, MOST_ROW_PX, HEAD_PX = 22.0, 34.0, 20.0
_MARGIN_PX, _LABEL_GAP_PX = 12.0, 10.0
_MOST_RADIUS_PX, _LEAST_RADIUS_PX = 9.0, 1.5
_LEAST_EDGE_PX, _MOST_EDGE_PX = 0.6, 9.0
_NEAR_PX = 6.0
SOURCE, TARGET = "source", "target so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRow:
    """A line of the picture: a token, or the title of those below it."""

    y: float
    token: Token | None = None
    title: str = ""
    is_output: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphColumn:
    """A level: its place, what stands above it (empty where there is no room), and its whole name."""

    x: float
    name: str
    whole: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """Places in pixels; `nodes` and `radii` go with the graph's nodes, `widths` with its edges."""

    rows: tuple[GraphRow, ...]
    columns: tuple[GraphColumn, ...]
    nodes: tuple[QPointF, ...]
    radii: tuple[float, ...]
    widths: tuple[float, ...]
    label_right: float
    label_px: float
    top: float

    def node_at(self, place: QPointF) -> int | None:
        """The nearest node, where one is near."""
        apart = [math.hypot(n.x() - place.x(), n.y() - place.y()) for n in self.nodes]
        best = min(range(len(apart)), key=apart.__getitem__)
        return best if apart[best] <= self.radii[best] + type_px(_NEAR_PX) else None


def graph_layout(rect: QRectF, graph: AttentionGraph, *, most_label_px: float = 132.0) -> GraphLayout:
    """Lay the graph out in `rect`; rows are never further apart than reads well."""
    lines = _lines(graph)
    margin, head = type_px(_MARGIN_PX), type_px(HEAD_PX)
    step = min(type_px(MOST_ROW_PX), (rect.height() - head) / max(1, len(lines)))
    rows, row_of = [], {}
    for k, (title, at) in enumerate(lines):
        y = rect.top() + head + (k + 0.5) * step
        node = graph.nodes[at] if at is not None else None
        rows.append(
            GraphRow(
                y=y,
                title=title,
                token=node.token if node is not None else None,
                is_output=node is not None and _place(graph, at or 0) == _place(graph, 0),
            )
        )
        if at is not None:
            row_of[_place(graph, at)] = y
    widest = max(label_width(row.token) for row in rows if row.token is not None)
    label = min(widest, most_label_px)
    left = rect.left() + margin + label + type_px(_LABEL_GAP_PX + _MOST_RADIUS_PX)
    right = rect.right() - margin - type_px(_MOST_RADIUS_PX)
    gap = (right - left) / max(1, len(graph.levels) - 1)
    largest = min(type_px(_MOST_RADIUS_PX), step * 0.45, max(2.0, gap * 0.45))
    thickest = min(type_px(_MOST_EDGE_PX), step * 0.4)
    return GraphLayout(
        rows=tuple(rows),
        columns=_columns(graph, left, gap),
        nodes=tuple(
            QPointF(left + node.level * gap, row_of[_place(graph, i)]) for i, node in enumerate(graph.nodes)
        ),
        radii=tuple(
            max(_LEAST_RADIUS_PX, largest * math.sqrt(min(1.0, node.influence))) for node in graph.nodes
        ),
        widths=tuple(max(_LEAST_EDGE_PX, thickest * graph.carried(edge)) for edge in graph.edges),
        label_right=rect.left() + margin + label,
        label_px=label,
        top=rect.top(),
    )


def natural_graph_height(graph: AttentionGraph) -> float:
    """The height at which the rows read well."""
    return type_px(HEAD_PX) + len(_lines(graph)) * type_px(ROW_PX)


def row_words(row: GraphRow) -> str:
    """What stands at the left of a row."""
    return row.title if row.token is None else isolated(plain_piece(row.token.label))


def has_target(graph: AttentionGraph) -> bool:
    """Whether a source and a target are read."""
    return any(name.startswith("cross") for name in graph.levels)


def is_of_source(graph: AttentionGraph, level: int) -> bool:
    """Whether a level's tokens are those of the source, where there is one."""
    return has_target(graph) and graph.levels[level].startswith("encoder")


def _place(graph: AttentionGraph, node: int) -> tuple[bool, int]:
    found = graph.nodes[node]
    return not is_of_source(graph, found.level), found.position


def _lines(graph: AttentionGraph) -> list[tuple[str, int | None]]:
    """Titles, and a node of each token that has one, from top to bottom."""
    of_place = {_place(graph, i): i for i in range(len(graph.nodes))}
    lines: list[tuple[str, int | None]] = []
    for is_own, title in ((False, SOURCE), (True, TARGET)):
        nodes = [of_place[place] for place in sorted(of_place) if place[0] == is_own]
        if nodes and has_target(graph):
            lines.append((title, None))
        lines += [("", node) for node in nodes]
    return lines


def _columns(graph: AttentionGraph, left: float, gap: float) -> tuple[GraphColumn, ...]:
    """Levels from the left; every so many are named as there is room for, counted from the output."""
    short = [_short(name) for name in graph.levels]
    room = max(text_width(name, SMALL_PX) for name in short) + type_px(6)
    every = max(1, math.ceil(room / gap)) if gap > 0 else 1
    last = len(short) - 1
    return tuple(
        GraphColumn(x=left + k * gap, name=name if (last - k) % every == 0 else "", whole=graph.levels[k])
        for k, name in enumerate(short)
    )


def _short(level: str) -> str:
    """`encoder input` as in, `encoder 0` as L0, `cross 0` as ×0."""
    stack, _, layer = level.partition(" ")
    if layer == "input":
        return "in"
    return f"×{layer}" if stack == "cross" else f"L{layer}"
