"""Attention as a graph: circles as large as their share of the output, lines as thick as what they carry."""

import math

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.graph_layout import (
    HEAD_PX,
    ROW_PX,
    GraphLayout,
    graph_layout,
    has_two_texts,
    natural_graph_height,
    row_words,
)
from attnscope.figures.style import SMALL_PX, font, type_px
from attnscope.figures.token_axis import LINE_PX, label_font
from attnscope.figures.wrapping import wrapped
from attnscope.records.attention_graph import AttentionGraph

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
    levels += "; ×: after its cross-attention." if has_two_texts(graph) else "."
    return (
        f"Circles: share of the output (½ attention, mean over heads, + ½ stream). Blue: attention; grey: "
        f"the token's own stream. {levels}"
    )


def kept_words(graph: AttentionGraph) -> str:
    """Which lines there are, and how much of the output they account for."""
    if graph.threshold <= 0:
        return "Every line is shown."
    return (
        f"Lines that carry {100 * graph.threshold:.3g}\u00a0% of the output or more; the inputs reached "
        f"account for {100 * graph.kept_share:.0f}\u00a0%."
    )


def share_words(graph: AttentionGraph) -> str:
    """How much of the output the inputs that are shown account for."""
    return f"Inputs shown: {100 * graph.kept_share:.0f}\u00a0% of the output."


def paint_graph_field(
    painter: QPainter,
    layout: GraphLayout,
    graph: AttentionGraph,
    *,
    palette: Palette,
    marked: int | None = None,
) -> None:
    """Names, lines and circles; with a node `marked`, its own lines stand out."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_names(painter, layout, palette)
    for edge, width in sorted(zip(graph.edges, layout.widths, strict=True), key=lambda pair: pair[1]):
        strength = _FAINTEST_EDGE + (1 - _FAINTEST_EDGE) * math.sqrt(min(1.0, graph.carried(edge)))
        if marked is not None and marked not in (edge.upper, edge.lower):
            strength *= _FAINT / _FAINTEST_EDGE
        colour = QColor(palette.muted if edge.is_stream else palette.accent)
        colour.setAlphaF(min(1.0, strength))
        painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
        painter.drawLine(layout.nodes[edge.lower], layout.nodes[edge.upper])
    near = {end for e in graph.edges if marked in (e.upper, e.lower) for end in (e.upper, e.lower)}
    for i, (place, radius) in enumerate(zip(layout.nodes, layout.radii, strict=True)):
        is_quiet = marked is not None and i != marked and i not in near
        painter.setPen(QPen(QColor(palette.background), 1.0))
        painter.setBrush(QColor(palette.line if is_quiet else palette.text))
        painter.drawEllipse(place, radius, radius)
        if i == marked or (marked is None and i == 0):
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(palette.accent), 2.0))
            painter.drawEllipse(place, radius + 2.0, radius + 2.0)
    painter.restore()


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
