"""Attention as a network of pipes: maximum flow, and the graph from one output token to the inputs.

Nodes are tokens at the levels of `levels.py`, an edge's capacity is the level's weight, ½ a + ½ I. The
flow from input j to token i is the maximum flow between the two (Abnar and Zuidema 2020, section 3); see
`layered_flow.py`. Rows of a flow need not sum to 1: two inputs may use the same pipe, each by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.layered_flow import Block, flows_to
from attnscope.analysis.levels import Level, influence_map, roll_out, trace_levels
from attnscope.errors import UserError
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.records.importance import Progress
from attnscope.records.influence import AttentionGraph, GraphEdge, GraphNode, InfluenceMap
from attnscope.records.sites import Stack
from attnscope.trace.trace import Trace

DEFAULT_THRESHOLD = 0.01


def attention_flow(
    trace: Trace, stack: Stack | None = None, queries: Sequence[int] | None = None
) -> Iterator[Progress | InfluenceMap]:
    """Progress after each input of each query, then the flow to those queries (None: all); others are NaN.

    The time of one query grows with about the third power of the text.
    """
    levels = trace_levels(trace, stack)
    n_tokens = len(levels[-1].tokens)
    wanted = range(n_tokens) if queries is None else [check_position(query, n_tokens) for query in queries]
    rows = np.full((n_tokens, sum(len(level.tokens) for level in levels if not level.parts)), np.nan)
    n_inputs = rows.shape[1]
    for k, query in enumerate(wanted):
        for j, value in enumerate(flow_values(levels, query)):
            rows[query, j] = value
            yield Progress(n_done=k * n_inputs + j + 1, n_total=len(wanted) * n_inputs, about="flow")
    yield influence_map("flow", levels, len(levels) - 1, torch.from_numpy(rows))


def flow_row(levels: Sequence[Level], query: int) -> NDArray[np.float64]:
    """The maximum flow from each input token to one token of the last level, [n_inputs]."""
    return np.fromiter(flow_values(levels, query), np.float64)


def flow_values(levels: Sequence[Level], query: int) -> Iterator[float]:
    """The maximum flow from each input token, one after the other; raises Stopped where none is wanted."""
    sizes = [len(level.tokens) for level in levels]
    blocks = [
        Block(upper, lower, weights)
        for upper, parts in enumerate(_numpy_parts(levels).arrays)
        for lower, weights in parts
    ]
    sinks = [(index, j) for index, level in enumerate(levels) if not level.parts for j in range(sizes[index])]
    for value in flows_to(sizes, blocks, (len(levels) - 1, query), sinks):
        yield value
        stop_if_unwanted()


def attention_graph(
    trace: Trace, position: int, stack: Stack | None = None, threshold: float = DEFAULT_THRESHOLD
) -> AttentionGraph:
    """What one output token reads, and what that reads, down to the inputs.

    An edge is kept when it carries at least `threshold` of the output: its weight times the influence of
    its upper node along the edges that were kept.
    """
    levels = trace_levels(trace, stack)
    position = check_position(position, len(levels[-1].tokens))
    exact = roll_out(levels)[-1][position]
    maps = _numpy_parts(levels)
    influence: dict[_Node, float] = {(len(levels) - 1, position): 1.0}
    kept: list[tuple[_Node, _Node, float]] = []
    for index in range(len(levels) - 1, -1, -1):
        for upper in sorted(node for node in influence if node[0] == index):
            for lower, weight in maps.below(upper):
                carried = influence[upper] * weight
                if carried >= threshold:
                    kept.append((upper, lower, weight))
                    influence[lower] = influence.get(lower, 0.0) + carried
    order = {node: number for number, node in enumerate(influence)}
    shown = sum(value for node, value in influence.items() if not levels[node[0]].parts)
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
        kept_share=shown / float(exact.sum()),
    )


def check_position(position: int, n: int) -> int:
    """A position within a text, negative ones from its end; raises UserError."""
    if not -n <= position < n:
        raise UserError(f"There is no token {position} in the text.", expected=f"0 to {n - 1}")
    return position % n


_Node = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The levels' weights as arrays."""

    arrays: tuple[tuple[tuple[int, NDArray[np.float64]], ...], ...]

    def below(self, node: _Node) -> Iterator[tuple[_Node, float]]:
        """What a node reads, with its weights."""
        for lower, weights in self.arrays[node[0]]:
            row = weights[node[1]]
            for j in np.flatnonzero(row > 0):
                yield (lower, int(j)), float(row[j])


def _numpy_parts(levels: Sequence[Level]) -> _Parts:
    return _Parts(
        tuple(tuple((lower, weights.cpu().numpy()) for lower, weights in level.parts) for level in levels)
    )


def _is_stream(levels: Sequence[Level], upper: _Node, lower: _Node) -> bool:
    is_same_text = levels[upper[0]].name.startswith("encoder") == levels[lower[0]].name.startswith("encoder")
    return upper[1] == lower[1] and is_same_text
