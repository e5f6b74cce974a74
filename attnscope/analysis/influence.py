"""Attention across layers: which levels of a network read which, and rollout.

| symbol | meaning                                                 | shape                |
|--------|---------------------------------------------------------|----------------------|
| a      | mean over a site's heads; 0 where the mask forbids      | [n_queries, n_keys]  |
| A_l    | ½ a + ½ I, rows summing to 1                            | [n_queries, n_keys]  |
| R_l    | rollout: R_1 = A_1, R_l = A_l R_(l−1)                   | [n_queries, n_keys]  |

Rollout: Abnar and Zuidema 2020, section 3, equation 1 (upper layers multiply from the left). Our own
extension to the form encoder–decoder: cross-attention is one more level, of which half is the target
token's own stream and half the encoder's last level; the inputs are source tokens and target tokens.

A query that attends to nothing keeps its stream whole: its row of A is that of I. A key that no query may
see, such as padding, has no influence on any. Heads count in the mean by their gates, so that removed heads
have no say.

Attention as a network of pipes: the maximum flow from the inputs to one output token.

Nodes are tokens at these levels, an edge's capacity is the level's weight, ½ a + ½ I. The
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

Which inputs one logit owes itself to: attention weighted by its gradient, layer upon layer.

| symbol | meaning                                                    | shape                  |
|--------|------------------------------------------------------------|------------------------|
| y      | the logit that is explained                                | one number             |
| ∇a     | ∂y/∂a of one site                                          | [n_heads, n_q, n_k]    |
| Ā      | mean over heads of (∇a ∘ a)⁺ (equation 5)                  | [n_q, n_k]             |
| R_ss   | relevance of the tokens of one text to each other          | [n_s, n_s]             |
| R_sq   | relevance of the source tokens q to the target tokens s    | [n_s, n_q]             |

Chefer, Gur and Wolf 2021, checked against their code (Transformer-MM-Explainability, DETR, commit
14e55eee). Self-attention: R_ss ← R_ss + Ā R_ss and R_sq ← R_sq + Ā R_sq (6, 7), from R_ss = I and
R_sq = 0. Cross-attention: R_sq ← R_sq + N(R_ss)ᵀ Ā N(R_qq) (10), where N divides each row of R − I by its
sum and adds I again (8, 9); a row of zeros stays zero.

For a class of a whole input the row is Σ_i p_i R_i, with p the tokens that its logit is read off
(`answers.py`; ours): R of [CLS] where that token is read, as in their vision models.

The gradient of a weight needs no weights in the graph: ∂y/∂a_ij = ∂y/∂o_i · v_j, with o the head's output.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.answers import ClassSubject, reads_classes, told_position
from attnscope.analysis.model_adapter import (
    OwnSubject,
    Subject,
    TokenBatch,
    gate_tensors,
    require_tokens,
    subject_of,
)
from attnscope.analysis.watched_pass import WatchedCalls, known_finite, predicting_tokens, read_text
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, best_ids
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.nn import Edits, exact, stop_if_unwanted
from attnscope.records.causes import DEFAULT_THRESHOLD, AttentionGraph, GraphEdge, GraphNode, InfluenceMap
from attnscope.records.interventions import Interventions
from attnscope.records.sites import NO_GATES, Gates, Site, SiteKey, Stack, require_heads
from attnscope.records.tokens import Token
from attnscope.trace import Trace, weights_to_sum

_BLOCK_CELLS = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamLevel:
    """The tokens after one attention module.

    `parts` are (lower level, weights [n_tokens, its n_tokens]); none at the bottom. Over all parts the rows
    sum to 1.
    """

    name: str
    tokens: tuple[Token, ...]
    parts: tuple[tuple[int, Tensor], ...] = ()


def trace_levels(trace: Trace, stack: Stack | None = None) -> tuple[StreamLevel, ...]:
    """The levels under the last layer of a stack, bottom first; without a name, of the one that predicts.

    The last level is the stack's last layer.
    """
    form = {site.stack for site in trace.sites}
    if form == {"cross"}:
        raise UserError(
            "No layer of this model reads its own text through attention: there is nothing to follow.",
            expected="self-attention in the encoder or the decoder",
            action="Look at the maps of the cross-attention themselves.",
        )
    _require_tokens(trace)
    if stack is None:
        stack = "decoder" if "decoder" in form else "encoder"
    if stack == "encoder" or (stack == "decoder" and "cross" not in form):
        return tuple(_self_levels(trace, stack, start=0))
    if stack != "decoder":
        raise UserError(
            f"Layers of '{stack}' do not follow one another.",
            expected="encoder or decoder",
            action="Choose one of these.",
        )
    levels = _self_levels(trace, "encoder", start=0)
    memory = len(levels) - 1
    return (*levels, *_self_levels(trace, "decoder", start=len(levels), memory=memory))


def with_stream(mean: Tensor) -> Tensor:
    """A = ½ a + ½ I with rows that sum to 1; float64."""
    wide = exact(mean)
    both = wide + torch.eye(*wide.shape, dtype=wide.dtype, device=wide.device)
    return both / both.sum(dim=-1, keepdim=True)


def roll_out(levels: Sequence[StreamLevel]) -> list[Tensor]:
    """The rollout of every level, [its n_tokens, n_inputs]; inputs are all bottom levels in order."""
    starts = _input_starts(levels)
    n_inputs = sum(len(level.tokens) for level in levels if not level.parts)
    rolled: list[Tensor] = []
    for index, level in enumerate(levels):
        if level.parts:
            rolled.append(sum_of([weights @ rolled[lower] for lower, weights in level.parts]))
        else:
            own = torch.zeros(len(level.tokens), n_inputs, dtype=torch.float64, device=_device(levels))
            start = starts[index]
            own[:, start : start + len(level.tokens)] = torch.eye(len(level.tokens), dtype=torch.float64)
            rolled.append(own)
    return rolled


def rollout(trace: Trace, stack: Stack | None = None, layer: int | None = None) -> InfluenceMap:
    """Rollout from the inputs to the last layer of a stack, or to `layer`, which counts from 0."""
    levels = trace_levels(trace, stack)
    top = _find_level(levels, layer)
    return influence_map("rollout", levels, top, roll_out(levels[: top + 1])[top])


def raw_attention(trace: Trace, stack: Stack | None = None, layer: int | None = None) -> InfluenceMap:
    """The mean attention of one layer of a stack (None: the last), as if it read the inputs directly."""
    only_stacks = {site.stack for site in trace.sites}
    chosen = stack or ("cross" if only_stacks == {"cross"} else trace_levels(trace)[-1].name.split()[0])
    sites = [site for site in trace.sites if site.stack == chosen]
    site = sites[-1] if layer is None else next((s for s in sites if s.layer == layer), None)
    if site is None:
        raise _no_layer(layer)
    queries, keys = trace.tokens(site)
    weights = mean_weights(trace, site).float().cpu().numpy()
    return InfluenceMap(
        method="raw", queries=queries, keys=keys, weights=weights, about=f"layer {site.layer}"
    )


def influence_map(method: str, levels: Sequence[StreamLevel], top: int, weights: Tensor) -> InfluenceMap:
    """The record of one level's influence; `weights` is [n_tokens, n_inputs]."""
    inputs = [level for level in levels[: top + 1] if not level.parts]
    return InfluenceMap(
        method=method,  # type: ignore[arg-type]
        queries=levels[top].tokens,
        keys=tuple(token for level in inputs for token in level.tokens),
        weights=weights.float().cpu().numpy(),
        n_source=len(inputs[0].tokens) if len(inputs) > 1 else 0,
        about=levels[top].name,
    )


def mean_weights(trace: Trace, site: Site) -> Tensor:
    """The mean over a site's heads, by their gates; float32 [n_queries, n_keys], 0 where forbidden.

    A few heads at a time, so that a long text needs no more memory than a few maps. When every head is
    off, all is 0. Raises NotFiniteError for weights that are no numbers.
    """
    record = trace.records[site.key]
    gates = [trace.gates.value(head) for head in site.heads]
    n_cells = max(1, record.n_queries * record.n_keys)
    size = max(1, _BLOCK_CELLS // n_cells)
    total = torch.zeros(record.n_queries, record.n_keys, device=record.q.device)
    for start in range(0, site.n_heads, size):
        heads = slice(start, min(start + size, site.n_heads))
        if any(gates[heads]):
            share = torch.tensor(gates[heads], device=total.device)
            total += torch.einsum("h,hqk->qk", share, weights_to_sum(record, heads))
    return total / (sum(gates) or 1.0)


def sum_of(tensors: Sequence[Tensor]) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def _self_levels(trace: Trace, stack: Stack, *, start: int, memory: int | None = None) -> list[StreamLevel]:
    """The inputs of a stack and a level for each of its sites; cross-attention reads level `memory`."""
    has_cross = memory is not None
    sites = [s for s in trace.sites if s.stack == stack or (has_cross and s.stack == "cross")]
    sites.sort(key=lambda site: (site.layer, site.stack == "cross"))
    tokens = trace.source.tokens if stack == "encoder" or trace.target is None else trace.target.tokens
    levels = [StreamLevel(name=f"{stack} input", tokens=tokens)]
    for site in sites:
        below, mean = start + len(levels) - 1, mean_weights(trace, site)
        if site.stack != "cross":
            parts: tuple[tuple[int, Tensor], ...] = ((below, with_stream(mean)),)
        else:
            wide = exact(mean)
            sums = 1.0 + wide.sum(dim=-1, keepdim=True)
            parts = ((below, torch.diag(1.0 / sums[:, 0])), (memory or 0, wide / sums))
        levels.append(StreamLevel(name=f"{site.stack} {site.layer}", tokens=tokens, parts=parts))
    return levels


def _require_tokens(trace: Trace) -> None:
    """Raise UserError if the layers cannot be followed from token to token."""
    require_heads(trace.sites)
    if any(site.keys == "slots" for site in trace.sites):
        raise UserError(
            "Keys are projected to slots here: no weight leads from a token to a token.",
            expected="a model without n_projected",
            action="Look at the maps themselves.",
        )
    if any(site.stack == "second" for site in trace.sites):
        raise UserError(
            "Two texts are matched here after their last layers: there is no one stream to follow.",
            expected="a model that reads one text, or writes its target",
            action="Look at the maps of 'cross' and 'back' themselves.",
        )


def _input_starts(levels: Sequence[StreamLevel]) -> dict[int, int]:
    starts, n = {}, 0
    for index, level in enumerate(levels):
        if not level.parts:
            starts[index] = n
            n += len(level.tokens)
    return starts


def _find_level(levels: Sequence[StreamLevel], layer: int | None) -> int:
    """The last level, or the last one of a layer of the top stack."""
    if layer is None:
        return len(levels) - 1
    stack = levels[-1].name.split()[0]
    names = [f"cross {layer}", f"decoder {layer}"] if stack != "encoder" else [f"encoder {layer}"]
    for index in range(len(levels) - 1, -1, -1):
        if levels[index].name in names:
            return index
    raise _no_layer(layer)


def _no_layer(layer: int | None) -> UserError:
    return UserError(
        f"There is no layer {layer} in this stack.", action="Choose a layer that exists; layers count from 0."
    )


def _device(levels: Sequence[StreamLevel]) -> torch.device:
    for level in levels:
        for _, weights in level.parts:
            return weights.device
    return torch.device("cpu")


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
    """A block of pipes while a flow is computed."""

    upper: int
    lower: int
    down: Numbers
    up: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.up = np.zeros_like(self.down)


def maximum_flow(sizes: Sequence[int], blocks: Sequence[Pipes], source: Node, sink: Node) -> float:
    """The maximum flow from one node, (layer, node), to another; `sizes` counts the layers' nodes.

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
    """The flow drawn from the sink upwards, each node taking in proportion to its pipes."""
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
    """Push the excess of every node, the farthest first, to nodes one step nearer."""
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
    """Flow that nodes push so that those below receive about what they need; at most `free`, rows at most
    `rest`.
    """
    columns = np.ones(free.shape[1])
    rows = np.ones(free.shape[0])
    for _ in range(_N_BALANCES):
        rows = np.minimum(1.0, rest / np.maximum(free @ columns, 1e-300))
        columns = np.minimum(1.0, wanted / np.maximum(rows @ free, 1e-300))
    return free * rows[:, None] * columns[None, :]


def reached_from(
    sizes: Sequence[int], blocks: Sequence[Pipes], source: Node
) -> tuple[NDArray[np.bool_], ...]:
    """Nodes that any flow from the source can reach, layer by layer."""
    reached = [np.zeros(size, np.bool_) for size in sizes]
    reached[source[0]][source[1]] = True
    for block in sorted(blocks, key=lambda one: -one.upper):
        reached[block.lower] |= (block.capacity[reached[block.upper]] > 0).any(axis=0)
    return tuple(reached)


def flows_to(
    sizes: Sequence[int], blocks: Sequence[Pipes], source: Node, sinks: Sequence[Node]
) -> Iterator[float]:
    """The maximum flow to each sink, one after the other; 0 to unreachable ones."""
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
    """Yield the maximum flow from each input token, one after the other; raises Stopped when cancelled."""
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
"""Many more than can be distinguished."""
_Node = tuple[int, int]
_Weights = list[list[tuple[int, NDArray[np.float64]]]]


def attention_graph(
    trace: Trace, position: int = -1, stack: Stack | None = None, threshold: float = DEFAULT_THRESHOLD
) -> AttentionGraph:
    """The inputs of one output token, their own inputs, and so on down to the text.

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
    """Inputs of a node, with their weights and their share of the output: `threshold` or more."""
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


def relevance(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    position: int = -1,
    token_id: int | None = None,
    gates: Gates = NO_GATES,
    interventions: Interventions = (),
    keeps_start: bool = True,
) -> InfluenceMap:
    """The relevance of every input token to the logit of one token at one position: a map of one row.

    `token_id` None explains the token, or the class, that the model says there, with these gates and
    changes. In the form encoder–decoder the columns are the source tokens, then the target tokens.
    `keeps_start` False takes off the 1 that every token starts with. A class of the whole input is told at
    one position (`told_position`); raises UserError for another.
    """
    inputs, batch = read_text(model, text, target)
    queries = predicting_tokens(inputs)
    position = check_position(position, len(queries))
    subject, place = _asked(model, inputs, position)
    edits = model.edits(interventions)
    explained, maps = relevance_maps(subject, batch, place, token_id=token_id, gates=gates, edits=edits)
    own, other = combine_maps(subject.sites, maps, len(inputs.source), len(queries))
    start = torch.eye(len(queries), dtype=own.dtype, device=own.device)[position]
    if isinstance(subject, ClassSubject):
        probe = WatchedCalls(gate_tensors(subject, gates) if gates else {}, edits)
        start = subject.reading_shares(explained, place, probe)
    row = start @ own if keeps_start else start @ own - start
    if other is not None:
        row = torch.cat((start @ other, row))
    source: tuple[Token, ...] = () if other is None else inputs.source.tokens
    said = model.network.answer(explained).piece
    where = f'at "{queries[position].piece}" ({position})'
    if isinstance(subject, ClassSubject) and subject.is_of_whole:
        where = f"of the whole {model.info.reads}"
    return InfluenceMap(
        method="relevance",
        queries=(queries[position],),
        keys=(*source, *queries),
        weights=known_finite(row)[None].float().cpu().numpy(),
        n_source=len(source),
        about=f'logit of "{said}" {where}',
    )


def _asked(model: Model, inputs: Inputs, position: int) -> tuple[Subject, int]:
    """The subject behind a model, and the position's index among its logits."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork) and reads_classes(model):
        place = 0 if network.task.kind.is_pooled else position
        told_position(model, inputs, position)
        return ClassSubject(network, inputs), place
    subject = subject_of(model)
    require_heads(model.sites)
    if isinstance(subject, OwnSubject):
        subject.require_transformer()
        require_tokens(model)
    return subject, position


def relevance_maps(
    subject: Subject,
    batch: TokenBatch,
    position: int,
    *,
    token_id: int | None = None,
    gates: Gates = NO_GATES,
    edits: Mapping[SiteKey, Edits] | None = None,
) -> tuple[int, dict[SiteKey, Tensor]]:
    """The explained token, and Ā of every site, float64 [n_queries, n_keys], for a batch of one."""
    probe = WatchedCalls(gate_tensors(subject, gates) if gates else {}, edits)
    with subject.studying(), torch.enable_grad():
        logits = subject.logits(subject.hidden(batch, probe)[0, position])
        explained = int(best_ids(logits)) if token_id is None else token_id
        outs = [seen.out for seen in probe.seen.values()]
        gradients = torch.autograd.grad(logits[explained], outs, allow_unused=True)
    maps = {}
    for (site, seen), gradient in zip(probe.seen.items(), gradients, strict=True):
        a = seen.weights()
        slope = torch.zeros_like(a) if gradient is None else exact(gradient[0]) @ seen.values().mT
        maps[site] = (slope * a).clamp(min=0).mean(dim=0)
    return explained, maps


def combine_maps(
    sites: tuple[Site, ...], maps: dict[SiteKey, Tensor], n_source: int, n_own: int
) -> tuple[Tensor, Tensor | None]:
    """R_ss and R_sq of the predicting text; R_sq is None if there is no other text."""
    order = sorted(sites, key=lambda site: (site.layer, site.stack == "cross"))
    has_cross = any(site.stack == "cross" for site in sites)
    device = next(iter(maps.values())).device
    source = torch.eye(n_source, dtype=torch.float64, device=device)
    own = torch.eye(n_own, dtype=torch.float64, device=device)
    other = torch.zeros(n_own, n_source, dtype=torch.float64, device=device)
    for site in order:  # the encoder whole, before the decoder reads it
        if site.stack == "encoder":
            source = source + maps[site.key] @ source
    for site in order:
        a = maps[site.key]
        if site.stack == "decoder":
            own, other = own + a @ own, other + a @ other
        elif site.stack == "cross":
            other = other + normalise_rows(own).T @ a @ normalise_rows(source)
    if has_cross:
        return own, other
    return (own if any(site.stack == "decoder" for site in sites) else source), None


def normalise_rows(relevance: Tensor) -> Tensor:
    """Equations 8 and 9: divide each row of R − I by its sum, and add I."""
    eye = torch.eye(*relevance.shape, dtype=relevance.dtype, device=relevance.device)
    gained = relevance - eye
    sums = gained.sum(dim=-1, keepdim=True)
    return torch.where(sums > 0, gained / sums.clamp(min=torch.finfo(sums.dtype).tiny), 0.0) + eye
