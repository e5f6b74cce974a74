"""Attention as a graph: circles as large as their share of the output, lines as thick as what they carry."""

import math
from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.graph_layout import (
    HEAD_PX,
    ROW_PX,
    GraphLayout,
    graph_layout,
    has_target,
    natural_graph_height,
    row_words,
)
from attnscope.figures.style import SMALL_PX, font, type_px, wrapped
from attnscope.figures.token_axis import LINE_PX, label_font
from attnscope.records.influence import AttentionGraph

_FAINT, _FAINTEST_EDGE = 0.16, 0.3
_FOOT_PAD_PX = 8.0
"""Above and below what the marks mean."""


def paint_graph(painter: QPainter, rect: QRectF, graph: AttentionGraph, *, palette: Palette) -> None:
    """The graph with what its marks mean below it, for a figure."""
    lines = foot_lines(graph, rect.width() - 24.0)
    foot = len(lines) * type_px(LINE_PX) + 2 * _FOOT_PAD_PX
    field = rect.adjusted(0, 0, 0, -foot)
    paint_graph_field(painter, graph_layout(field, graph), graph, palette=palette)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for k, line in enumerate(lines):
        at = QPointF(rect.left() + 12.0, field.bottom() + _FOOT_PAD_PX + (k + 0.75) * type_px(LINE_PX))
        painter.drawText(at, line)


def natural_figure_height(width: float, graph: AttentionGraph) -> float:
    """The height of the graph and its words at a width."""
    return (
        natural_graph_height(graph) + len(foot_lines(graph, width - 24.0)) * type_px(LINE_PX) + _FOOT_PAD_PX
    )


def foot_lines(graph: AttentionGraph, width: float) -> list[str]:
    """What the marks mean, broken at a width."""
    return wrapped((f"{marks_words(graph)} {kept_words(graph)}",), width)


def marks_words(graph: AttentionGraph) -> str:
    """What circles and lines are."""
    levels = "in: the inputs; L: after a layer's self-attention"
    levels += "; ×: after its cross-attention." if has_target(graph) else "."
    return (
        f"Circles: share of the output (½ attention, mean over heads, + ½ stream). Blue: attention; grey: "
        f"the token's own stream. {levels}"
    )


def kept_words(graph: AttentionGraph) -> str:
    """Which lines there are, and how much of the output they account for."""
    if graph.threshold <= 0:
        return "Every line is shown."
    return (
        f"Lines that carry {100 * graph.threshold:.3g}\u00a0% of the output or more, and their tokens; the "
        f"inputs reached account for {100 * graph.kept_share:.0f}\u00a0%."
    )


def inputs_share_words(graph: AttentionGraph) -> str:
    """How much of the output the inputs that are shown account for."""
    return f"Inputs shown: {100 * graph.kept_share:.0f}\u00a0% of the output."


def paint_graph_field(
    painter: QPainter,
    layout: GraphLayout,
    graph: AttentionGraph,
    *,
    palette: Palette,
    is_quiet: bool = False,
) -> None:
    """Names, lines and circles, the output with a ring; quiet, as they stand behind a marked circle."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_names(painter, layout, palette)
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
    """A circle with its own lines and what they lead to, over a quiet graph."""
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
    """Some of the lines, thicker ones over thinner ones; `strength` 0…1 takes from their colour."""
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


def _paint_names(painter: QPainter, layout: GraphLayout, palette: Palette) -> None:
    """Levels above the columns, tokens left of the rows."""
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    height = type_px(ROW_PX)
    for column in layout.columns:
        place = QRectF(column.x - 40.0, layout.top, 80.0, type_px(HEAD_PX))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, column.name)
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
