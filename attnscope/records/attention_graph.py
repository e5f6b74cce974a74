"""Attention as a graph: which tokens of which layers one output token is made of (Abnar and Zuidema 2020)."""

from dataclasses import dataclass

from attnscope.records.requests import Reply, Request
from attnscope.records.tokens import Token

THRESHOLDS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.001)
"""Shares of the output that can be asked for."""
DEFAULT_THRESHOLD = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """One token after one attention module; `level` indexes the graph's `levels`, 0 is at the bottom.

    `influence` is its share in the output, 0…1, along the edges that are kept.
    """

    level: int
    position: int
    token: Token
    influence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """How much of the upper node comes from the lower one; both index the graph's nodes.

    `is_stream` says that both are one token: the weight is that of the residual stream, with attention to
    itself.
    """

    upper: int
    lower: int
    weight: float
    is_stream: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionGraph:
    """Attention from one output token down to the inputs; node 0 is the output token.

    `levels` are named `encoder input`, `encoder 0`, `cross 1`. Edges that carry less than `threshold` of the
    output (their weight times the influence of the upper node) are left out; `kept_share` is what the inputs
    that are shown still account for, 0…1.
    """

    levels: tuple[str, ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    threshold: float
    kept_share: float

    def __post_init__(self) -> None:
        if any(not 0 <= node.level < len(self.levels) for node in self.nodes):
            raise ValueError("a node is at a level that does not exist")
        ends = {end for edge in self.edges for end in (edge.upper, edge.lower)}
        if not self.nodes or not ends <= set(range(len(self.nodes))):
            raise ValueError("an edge leads to a node that is not there")

    def carried(self, edge: GraphEdge) -> float:
        """The share of the output that an edge carries."""
        return edge.weight * self.nodes[edge.upper].influence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowGraph(Request):
    """What the output token at `position` reads, and what that reads, down to the inputs. Newest wins.

    `trace` is the number of the trace that is shown; `position` counts the tokens of the stack that predicts.
    """

    is_view = True
    trace: int
    position: int
    threshold: float = DEFAULT_THRESHOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphShown(Reply):
    """What a ShowGraph asked for."""

    position: int
    graph: AttentionGraph
