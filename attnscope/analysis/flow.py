"""Attention as a network of pipes: the maximum flow from the inputs to one output token.

Nodes are tokens at the levels of `rollout.py`, an edge's capacity is the level's weight, ½ a + ½ I. The
flow from input j to token i is the maximum flow between the two (Abnar and Zuidema 2020, section 3).
Rows of a flow need not sum to 1: two inputs may use the same pipe, each by itself.

Maximum flow through dense layers, by pushing what has come down and going round what is full.

| symbol   | meaning                                                       | shape             |
|----------|---------------------------------------------------------------|-------------------|
| down     | what a pipe from an upper to a lower node can still take      | [n_upper, n_lower]|
| up       | what flows through it, and may be sent back                   | [n_upper, n_lower]|
| excess   | what has come to a node and not gone on                       | [n_nodes]         |
| distance | steps to the sink along pipes that are not full; ∞: no way    | [n_nodes]         |
| need     | how the flow into the sink would be spread, were it drawn     | [n_nodes]         |

Goldberg and Tarjan 1988 (a preflow is pushed along steps that lead nearer to the sink), with exact distances
before each round (Cherkassky and Goldberg 1997, global relabelling). All nodes of a layer push at once, as
array operations. Nodes whose excess cannot reach the sink show a cut that is full: what the sink has is the
maximum flow. A flow ends when less than `TOLERANCE` could still be on its way, so it is too small by that at
most.

As a graph from one output token to the inputs (figure 1 there): starting at the output token, influence is
handed down along the edges, the weights ½ a + ½ I. The share of the output that an edge carries is its weight
times the influence of its upper node. With every edge kept the influence of an input is its rollout.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.rollout import StreamLevel, trace_levels
from attnscope.errors import UserError
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.records.causes import DEFAULT_THRESHOLD, AttentionGraph, GraphEdge, GraphNode
from attnscope.records.sites import Stack
from attnscope.trace.trace import Trace

Numbers = NDArray[np.float64]
Distances = NDArray[np.int64]
Node = tuple[int, int]
"""A layer, and a node of it."""
TOLERANCE = 1e-9
_EMPTY = 1e-14
"""A pipe with less room than this is full: rounding leaves such rests."""
_FAR = 2**30
_N_BALANCES, _N_ROUNDS = 3, 2


@dataclass(frozen=True, slots=True, eq=False)
class Pipes:
    """All pipes from the nodes of one layer to those of another, [n_upper, n_lower]."""

    upper: int
    lower: int
    capacity: Numbers


@dataclass(slots=True, eq=False)
class _Pipes:
    """A block while a flow is made."""

    upper: int
    lower: int
    down: Numbers
    up: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.up = np.zeros_like(self.down)


def maximum_flow(sizes: Sequence[int], blocks: Sequence[Pipes], source: Node, sink: Node) -> float:
    """The largest flow from one node, (layer, node), to another; `sizes` are the layers' numbers of nodes.

    No pipe leads out of the sink, and none back to a layer from below it.
    """
    pipes = [_Pipes(block.upper, block.lower, block.capacity.copy()) for block in blocks]
    excess = [np.zeros(size) for size in sizes]
    excess[source[0]][source[1]] = sum(
        float(one.down[source[1]].sum()) for one in pipes if one.upper == source[0]
    )
    while True:
        distances = _distances(sizes, pipes, sink)
        waiting = sum(
            float(rest[distance < _FAR].sum()) for rest, distance in zip(excess, distances, strict=True)
        ) - float(excess[sink[0]][sink[1]])
        if waiting <= TOLERANCE:
            return float(excess[sink[0]][sink[1]])
        _push_all(pipes, excess, distances, _needs(sizes, pipes, distances, sink))


def _distances(
    sizes: Sequence[int], pipes: Sequence[_Pipes], sink: tuple[int, int]
) -> list[NDArray[np.int64]]:
    """Steps of every node to the sink."""
    distances = [np.full(size, _FAR) for size in sizes]
    distances[sink[0]][sink[1]] = 0
    front: dict[int, NDArray[np.intp]] = {sink[0]: np.array([sink[1]])}
    step = 0
    while front:
        step += 1
        found: dict[int, NDArray[np.bool_]] = {}
        for one in pipes:
            if one.lower in front:
                reached = (one.down[:, front[one.lower]] > _EMPTY).any(axis=1)
                found[one.upper] = reached | found.get(one.upper, np.zeros_like(reached))
            if one.upper in front:
                reached = (one.up[front[one.upper]] > _EMPTY).any(axis=0)
                found[one.lower] = reached | found.get(one.lower, np.zeros_like(reached))
        front = {}
        for layer, reached in found.items():
            new = np.flatnonzero(reached & (distances[layer] == _FAR))
            if len(new):
                distances[layer][new] = step
                front[layer] = new
    return distances


def _needs(
    sizes: Sequence[int],
    pipes: Sequence[_Pipes],
    distances: Sequence[NDArray[np.int64]],
    sink: tuple[int, int],
) -> list[Numbers]:
    """The flow drawn up from the sink, each node taking from those above in proportion to their pipes."""
    needs = [np.zeros(size) for size in sizes]
    needs[sink[0]][sink[1]] = 1.0
    for one in sorted(pipes, key=lambda one: one.lower):
        is_nearer = distances[one.upper][:, None] == distances[one.lower][None, :] + 1
        room = np.where(is_nearer, one.down, 0.0)
        total = room.sum(axis=0)
        needs[one.upper] += room @ np.divide(
            needs[one.lower], total, out=np.zeros_like(total), where=total > 0
        )
    return needs


def _push_all(
    pipes: Sequence[_Pipes],
    excess: Sequence[Numbers],
    distances: Sequence[Distances],
    needs: Sequence[Numbers],
) -> None:
    """Every node that has an excess, the farthest first, pushes it to those one step nearer."""
    farthest = max(int(one[one < _FAR].max(initial=0)) for one in distances)
    for step in range(farthest, 0, -1):
        for one in pipes:
            for is_down in (True, False):
                first, second = (one.upper, one.lower) if is_down else (one.lower, one.upper)
                rows = np.flatnonzero((distances[first] == step) & (excess[first] > 0))
                columns = np.flatnonzero(distances[second] == step - 1)
                if not len(rows) or not len(columns):
                    continue
                _push(one, is_down, rows, columns, excess[first], excess[second], needs[second][columns])


def _push(
    one: _Pipes,
    is_down: bool,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    giving: Numbers,
    taking: Numbers,
    need: Numbers,
) -> None:
    place = np.ix_(rows, columns) if is_down else np.ix_(columns, rows)
    room, back = (one.down, one.up) if is_down else (one.up, one.down)
    free = room[place] if is_down else room[place].T
    rest = giving[rows]
    left, wanted = free, need * (rest.sum() / (need.sum() or 1.0))
    for _ in range(_N_ROUNDS):
        pushed = _balanced(left, rest, wanted)
        left = left - pushed
        rest = np.maximum(rest - pushed.sum(axis=1), 0.0)
        wanted = np.maximum(wanted - pushed.sum(axis=0), 0.0)
    total = left.sum(axis=1)
    share = np.minimum(1.0, np.divide(rest, total, out=np.zeros_like(total), where=total > 0))
    pushed = free - left * (1.0 - share)[:, None]
    moved = pushed if is_down else pushed.T
    room[place] -= moved
    back[place] += moved
    giving[rows] = np.maximum(giving[rows] - pushed.sum(axis=1), 0.0)
    taking[columns] += pushed.sum(axis=0)


def _balanced(free: Numbers, rest: Numbers, wanted: Numbers) -> Numbers:
    """What nodes push so that those below get about what is wanted; at most `free`, rows at most `rest`."""
    columns = np.ones(free.shape[1])
    rows = np.ones(free.shape[0])
    for _ in range(_N_BALANCES):
        rows = np.minimum(1.0, rest / np.maximum(free @ columns, 1e-300))
        columns = np.minimum(1.0, wanted / np.maximum(rows @ free, 1e-300))
    return free * rows[:, None] * columns[None, :]


def reached_from(
    sizes: Sequence[int], blocks: Sequence[Pipes], source: Node
) -> tuple[NDArray[np.bool_], ...]:
    """Which nodes any flow from the source can come to, layer by layer."""
    reached = [np.zeros(size, np.bool_) for size in sizes]
    reached[source[0]][source[1]] = True
    for block in sorted(blocks, key=lambda one: -one.upper):
        reached[block.lower] |= (block.capacity[reached[block.upper]] > 0).any(axis=0)
    return tuple(reached)


def flows_to(
    sizes: Sequence[int], blocks: Sequence[Pipes], source: Node, sinks: Sequence[Node]
) -> Iterator[float]:
    """The maximum flow to each sink, one after the other; 0 to those that nothing can come to."""
    reached = reached_from(sizes, blocks, source)
    kept = [np.flatnonzero(one) for one in reached]
    narrow = [
        Pipes(one.upper, one.lower, one.capacity[np.ix_(kept[one.upper], kept[one.lower])]) for one in blocks
    ]
    n_kept = [len(one) for one in kept]
    start = (source[0], int(np.searchsorted(kept[source[0]], source[1])))
    for layer, node in sinks:
        if not reached[layer][node]:
            yield 0.0
        else:
            yield maximum_flow(n_kept, narrow, start, (layer, int(np.searchsorted(kept[layer], node))))


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
