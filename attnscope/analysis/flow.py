"""Attention as a network of pipes: the maximum flow from the inputs to one output token.

Nodes are tokens at the levels of `levels.py`, an edge's capacity is the level's weight, ½ a + ½ I. The
flow from input j to token i is the maximum flow between the two (Abnar and Zuidema 2020, section 3); see
`layered_flow.py`. Rows of a flow need not sum to 1: two inputs may use the same pipe, each by itself.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.layered_flow import Pipes, flows_to
from attnscope.analysis.rollout import StreamLevel
from attnscope.errors import UserError
from attnscope.nn.cancellation import stop_if_unwanted


def flow_row(levels: Sequence[StreamLevel], query: int) -> NDArray[np.float64]:
    """The maximum flow from each input token to one token of the last level, [n_inputs]."""
    return np.fromiter(flow_values(levels, query), np.float64)


def flow_values(levels: Sequence[StreamLevel], query: int) -> Iterator[float]:
    """The maximum flow from each input token, one after the other; raises Stopped where none is wanted."""
    sizes = [len(level.tokens) for level in levels]
    blocks = [
        Pipes(upper, lower, weights.cpu().numpy())
        for upper, level in enumerate(levels)
        for lower, weights in level.parts
    ]
    sinks = [(index, j) for index, level in enumerate(levels) if not level.parts for j in range(sizes[index])]
    for value in flows_to(sizes, blocks, (len(levels) - 1, query), sinks):
        yield value
        stop_if_unwanted()


def check_position(position: int, n: int) -> int:
    """A position within a text, negative ones from its end; raises UserError."""
    if not -n <= position < n:
        raise UserError(f"There is no token {position} in the text.", expected=f"0 to {n - 1}")
    return position % n
