"""Attention as a graph: circle size shows a token's share of the output, line width what it carries."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import SMALL_PX, drawn_piece, font, isolated, text_width, type_px, wrapped
from attnscope.figures.token_axis import AXIS_LINE_PX, label_font, label_width
from attnscope.figures.words_and_numbers import change_words, exact_number_text, quoted, safe_cell
from attnscope.records.causes import AttentionGraph
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
    """A level: its position, its title (empty if there is no room), and its whole name."""

    x: float
    name: str
    whole: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """Positions in pixels; `nodes` and `radii` match the graph's nodes, `widths` its edges."""

    rows: tuple[GraphRow, ...]
    columns: tuple[GraphColumn, ...]
    nodes: tuple[QPointF, ...]
    radii: tuple[float, ...]
    widths: tuple[float, ...]
    label_right: float
    label_px: float
    top: float

    def node_at(self, place: QPointF) -> int | None:
        """The nearest node, if one is close."""
        apart = [math.hypot(n.x() - place.x(), n.y() - place.y()) for n in self.nodes]
        best = min(range(len(apart)), key=apart.__getitem__)
        return best if apart[best] <= self.radii[best] + type_px(_NEAR_PX) else None


def graph_layout(rect: QRectF, graph: AttentionGraph, *, most_label_px: float = 132.0) -> GraphLayout:
    """Lay the graph out in `rect`; the distance of rows is limited for readability."""
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
    """The height at which the rows are readable."""
    return type_px(HEAD_PX) + len(_lines(graph)) * type_px(ROW_PX)


def row_words(row: GraphRow) -> str:
    """Label at the left of a row."""
    return row.title if row.token is None else isolated(drawn_piece(row.token.label))


def has_target(graph: AttentionGraph) -> bool:
    """Whether a source and a target are read."""
    return any(name.startswith("cross") for name in graph.levels)


def is_of_source(graph: AttentionGraph, level: int) -> bool:
    """Whether a level's tokens are those of the source, if there is one."""
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
    """Levels from the left, named at intervals as space allows, counted from the output."""
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


_FAINT, _FAINTEST_EDGE = 0.16, 0.3
_FOOT_PAD_PX = 8.0
"""Above and below what the marks mean."""


def paint_graph(painter: QPainter, rect: QRectF, graph: AttentionGraph, *, palette: Palette) -> None:
    """The graph with a legend below it, for a figure."""
    lines = foot_lines(graph, rect.width() - 24.0)
    foot = len(lines) * type_px(AXIS_LINE_PX) + 2 * _FOOT_PAD_PX
    field = rect.adjusted(0, 0, 0, -foot)
    paint_graph_field(painter, graph_layout(field, graph), graph, palette=palette)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for k, line in enumerate(lines):
        at = QPointF(rect.left() + 12.0, field.bottom() + _FOOT_PAD_PX + (k + 0.75) * type_px(AXIS_LINE_PX))
        painter.drawText(at, line)


def natural_figure_height(width: float, graph: AttentionGraph) -> float:
    return (
        natural_graph_height(graph)
        + len(foot_lines(graph, width - 24.0)) * type_px(AXIS_LINE_PX)
        + _FOOT_PAD_PX
    )


def foot_lines(graph: AttentionGraph, width: float) -> list[str]:
    """Meaning of the marks, wrapped to a width."""
    return wrapped((f"{marks_words(graph)} {kept_words(graph)}",), width)


def marks_words(graph: AttentionGraph) -> str:
    """Meaning of circles and lines."""
    levels = "in: the inputs; L: after a layer's self-attention"
    levels += "; ×: after its cross-attention." if has_target(graph) else "."
    return (
        f"Circles: share of the output (½ attention, mean over heads, + ½ stream). Blue: attention; grey: "
        f"the token's own stream. {levels}"
    )


def kept_words(graph: AttentionGraph) -> str:
    """Number of lines shown, and their share of the output."""
    if graph.threshold <= 0:
        return "Every line is shown."
    return (
        f"Lines that carry {100 * graph.threshold:.3g}\u00a0% of the output or more, and their tokens; the "
        f"inputs reached account for {100 * graph.kept_share:.0f}\u00a0%."
    )


def inputs_share_words(graph: AttentionGraph) -> str:
    """Share of the output from the inputs shown."""
    return f"Inputs shown: {100 * graph.kept_share:.0f}\u00a0% of the output."


def paint_graph_field(
    painter: QPainter,
    layout: GraphLayout,
    graph: AttentionGraph,
    *,
    palette: Palette,
    is_quiet: bool = False,
    names_rows: bool = True,
) -> None:
    """Paint names, lines and circles, the output with a ring; faint behind a marked circle."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_levels(painter, layout, palette)
    if names_rows:
        paint_row_names(painter, layout, palette)
    _paint_lines(
        painter, layout, graph, range(len(graph.edges)), palette, _FAINT / _FAINTEST_EDGE if is_quiet else 1.0
    )
    for place, radius in zip(layout.nodes, layout.radii, strict=True):
        _paint_circle(painter, place, radius, palette.line if is_quiet else palette.text, palette)
    if not is_quiet:
        _paint_ring(painter, layout, 0, palette)
    painter.restore()


def paint_marked(
    painter: QPainter, layout: GraphLayout, graph: AttentionGraph, marked: int, *, palette: Palette
) -> None:
    """Paint a circle with its own lines and their targets, over a faint graph."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    own = [k for k, edge in enumerate(graph.edges) if marked in (edge.upper, edge.lower)]
    _paint_lines(painter, layout, graph, own, palette)
    ends = {end for k in own for end in (graph.edges[k].upper, graph.edges[k].lower)}
    for node in {*ends, marked}:
        _paint_circle(painter, layout.nodes[node], layout.radii[node], palette.text, palette)
    _paint_ring(painter, layout, marked, palette)
    painter.restore()


def _paint_lines(
    painter: QPainter,
    layout: GraphLayout,
    graph: AttentionGraph,
    chosen: Iterable[int],
    palette: Palette,
    strength: float = 1.0,
) -> None:
    """Paint some of the lines, thicker ones over thinner ones; `strength` 0…1 weakens their colour."""
    for k in sorted(chosen, key=layout.widths.__getitem__):
        edge = graph.edges[k]
        share = _FAINTEST_EDGE + (1 - _FAINTEST_EDGE) * math.sqrt(min(1.0, graph.carried(edge)))
        colour = QColor(palette.muted if edge.is_stream else palette.accent)
        colour.setAlphaF(min(1.0, strength * share))
        painter.setPen(QPen(colour, layout.widths[k], Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
        painter.drawLine(layout.nodes[edge.lower], layout.nodes[edge.upper])


def _paint_circle(painter: QPainter, place: QPointF, radius: float, colour: str, palette: Palette) -> None:
    painter.setPen(QPen(QColor(palette.background), 1.0))
    painter.setBrush(QColor(colour))
    painter.drawEllipse(place, radius, radius)


def _paint_ring(painter: QPainter, layout: GraphLayout, node: int, palette: Palette) -> None:
    radius = layout.radii[node] + 2.0
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.accent), 2.0))
    painter.drawEllipse(layout.nodes[node], radius, radius)


def _paint_levels(painter: QPainter, layout: GraphLayout, palette: Palette) -> None:
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for column in layout.columns:
        place = QRectF(column.x - 40.0, layout.top, 80.0, type_px(HEAD_PX))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, column.name)


def paint_row_names(painter: QPainter, layout: GraphLayout, palette: Palette) -> None:
    """Paint tokens left of the rows, and titles above those of a text."""
    height = type_px(ROW_PX)
    for row in layout.rows:
        is_title = row.token is None
        face = font(SMALL_PX) if row.token is None else label_font(row.token)
        quiet = is_title or (row.token is not None and row.token.is_special)
        painter.setFont(face)
        painter.setPen(QColor(palette.accent if row.is_output else palette.muted if quiet else palette.text))
        words = QFontMetricsF(face).elidedText(
            row_words(row), Qt.TextElideMode.ElideRight, layout.label_px + (200.0 if is_title else 1.0)
        )
        side = Qt.AlignmentFlag.AlignLeft if is_title else Qt.AlignmentFlag.AlignRight
        place = QRectF(layout.label_right - layout.label_px, row.y - height / 2, layout.label_px, height)
        if is_title:
            place.setWidth(200.0)
        painter.drawText(place, side | Qt.AlignmentFlag.AlignVCenter, words)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFigure(FigureSpec):
    """From one output token down to the inputs: circles are tokens after a layer, lines carry influence."""

    view = "graph"
    words = "attention as a graph"
    order = 6
    options = frozenset({"query", "threshold"})

    graph: AttentionGraph

    @property
    def is_empty(self) -> bool:
        return not self.graph.nodes

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        paint_graph(painter, rect, self.graph, palette=palette)

    def natural_height(self, width: float) -> float:
        return natural_figure_height(width, self.graph)

    def shown_words(self) -> list[str]:
        start = quoted(self.graph.nodes[0].token.piece)
        words = [f"from {start} at {self.graph.levels[-1]} down to the inputs"]
        return words + change_words(self.gates, self.interventions)

    def rows(self) -> Iterator[Iterable[str]]:
        """One row for each edge, from the lower level to the upper one, with its share of the output."""
        yield ("from level", "position", "token", "to level", "position", "token", "weight", "carried")
        graph = self.graph
        for edge in graph.edges:
            ends = (graph.nodes[edge.lower], graph.nodes[edge.upper])
            places = ((graph.levels[n.level], str(n.position), safe_cell(n.token.piece)) for n in ends)
            yield (
                *itertools.chain(*places),
                exact_number_text(edge.weight),
                exact_number_text(graph.carried(edge)),
            )

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Nodes [n_nodes] and edges [n_edges]; `lower` and `upper` count the nodes."""
        nodes, edges = self.graph.nodes, self.graph.edges
        return {
            "levels": np.array(self.graph.levels, dtype=np.str_),
            "level": np.array([node.level for node in nodes]),
            "position": np.array([node.position for node in nodes]),
            "token": np.array([node.token.piece for node in nodes], dtype=np.str_),
            "influence": np.array([node.influence for node in nodes]),
            "lower": np.array([edge.lower for edge in edges], dtype=np.int64),
            "upper": np.array([edge.upper for edge in edges], dtype=np.int64),
            "weight": np.array([edge.weight for edge in edges]),
            "carried": np.array([self.graph.carried(edge) for edge in edges]),
        }

    def fits_together(self) -> bool:
        graph = self.graph
        shares = (*(node.influence for node in graph.nodes), *(edge.weight for edge in graph.edges))
        is_share = all(0 <= share <= 1.001 for share in (*shares, graph.threshold, graph.kept_share))
        return is_share and all(node.position >= 0 for node in graph.nodes)
