"""Attention as a graph from one output token to the inputs (Abnar and Zuidema 2020, figure 1).

Nodes are tokens at the levels of `levels.py`, edges the weights ½ a + ½ I between them. Starting at the
output token, influence is handed down along the edges: the share of the output that an edge carries is its
weight times the influence of its upper node. With every edge kept the influence of an input is its rollout.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.flow import check_position
from attnscope.analysis.rollout import StreamLevel, trace_levels
from attnscope.errors import UserError
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.records.influence import DEFAULT_THRESHOLD, AttentionGraph, GraphEdge, GraphNode
from attnscope.records.sites import Stack
from attnscope.trace.trace import Trace

MAX_EDGES = 100_000
"""Many more than can be told apart."""
_Node = tuple[int, int]
_Weights = list[list[tuple[int, NDArray[np.float64]]]]


def attention_graph(
    trace: Trace, position: int = -1, stack: Stack | None = None, threshold: float = DEFAULT_THRESHOLD
) -> AttentionGraph:
    """What one output token reads, and what that reads, down to the inputs.

    An edge is kept when it carries at least `threshold` of the output, 0…1. Raises UserError for another
    threshold, for a position that is not there, for more edges than can be seen, and for a model whose
    layers cannot be followed.
    """
    if isinstance(threshold, bool) or not 0.0 <= threshold <= 1.0:
        raise UserError(
            f"The threshold is {threshold}.",
            expected="a share of the output from 0 to 1",
            action="0.01 leaves out what hardly counts.",
        )
    return graph_of(trace_levels(trace, stack), position, threshold=threshold)


def graph_of(levels: Sequence[StreamLevel], position: int, *, threshold: float) -> AttentionGraph:
    """The graph from one token of the last level; see `attention_graph`."""
    position = check_position(position, len(levels[-1].tokens))
    weights = [[(lower, part.cpu().numpy()) for lower, part in level.parts] for level in levels]
    influence: dict[_Node, float] = {(len(levels) - 1, position): 1.0}
    kept: list[tuple[_Node, _Node, float]] = []
    for index in range(len(levels) - 1, -1, -1):
        stop_if_unwanted()
        for upper in sorted(node for node in influence if node[0] == index):
            for lower, weight, carried in _read_by(upper, weights, influence[upper], threshold):
                kept.append((upper, lower, weight))
                influence[lower] = influence.get(lower, 0.0) + carried
            if len(kept) > MAX_EDGES:
                raise UserError(
                    f"More than {MAX_EDGES:,} edges carry {threshold:g} of the output or more.",
                    expected=f"at most {MAX_EDGES:,}",
                    action="Choose a larger threshold, or a shorter text.",
                )
    shown = sum(value for node, value in influence.items() if not levels[node[0]].parts)
    return _graph(levels, influence, kept, threshold, shown)  # of 1: the rows of every level sum to 1


def _read_by(
    node: _Node, weights: _Weights, influence: float, threshold: float
) -> Iterator[tuple[_Node, float, float]]:
    """What a node reads, with its weight and what that carries of the output: `threshold` or more."""
    for lower, part in weights[node[0]]:
        row = part[node[1]]
        carried = influence * row  # 0 where weights are too small for a product
        for j in np.flatnonzero((carried >= threshold) & (carried > 0)):
            yield (lower, int(j)), float(row[j]), float(carried[j])


def _graph(
    levels: Sequence[StreamLevel],
    influence: dict[_Node, float],
    kept: Sequence[tuple[_Node, _Node, float]],
    threshold: float,
    kept_share: float,
) -> AttentionGraph:
    order = {node: number for number, node in enumerate(influence)}
    return AttentionGraph(
        levels=tuple(level.name for level in levels),
        nodes=tuple(
            GraphNode(level=node[0], position=node[1], token=levels[node[0]].tokens[node[1]], influence=value)
            for node, value in influence.items()
        ),
        edges=tuple(
            GraphEdge(
                upper=order[upper],
                lower=order[lower],
                weight=weight,
                is_stream=_is_stream(levels, upper, lower),
            )
            for upper, lower, weight in kept
        ),
        threshold=threshold,
        kept_share=min(1.0, kept_share),
    )


def _is_stream(levels: Sequence[StreamLevel], upper: _Node, lower: _Node) -> bool:
    is_same_text = levels[upper[0]].name.startswith("encoder") == levels[lower[0]].name.startswith("encoder")
    return upper[1] == lower[1] and is_same_text
