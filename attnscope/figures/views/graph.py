"""Attention as a graph: which tokens of which layers an output token is made of."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_graph import natural_figure_height, paint_graph
from attnscope.figures.spec import FigureSpec
from attnscope.figures.words_and_numbers import change_words, exact_number_text, quoted, safe_cell
from attnscope.records.causes import AttentionGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFigure(FigureSpec):
    """From one output token down to the inputs: circles are tokens after a layer, lines what they carry."""

    view = "graph"
    words = "attention as a graph"
    order = 6

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
