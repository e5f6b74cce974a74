"""What the tokens that come out owe to the tokens that go in, across all layers.

| symbol  | meaning                                              | shape                 |
|---------|------------------------------------------------------|-----------------------|
| weights | influence of a key on a query; NaN = not computed    | [n_queries, n_keys]   |

In the form encoder–decoder the keys are the source tokens, then the target tokens.

As a graph: which tokens of which layers one output token is made of (Abnar and Zuidema 2020).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import freeze, frozen_array
from attnscope.records.interventions import Interventions
from attnscope.records.pictures import Picture
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates
from attnscope.records.tokens import Token

Method = Literal["raw", "rollout", "flow", "relevance"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceMap:
    """How much each input token counts for each output token.

    Rows of `raw` and `rollout` sum to 1; those of `flow` and `relevance` need not. The first `n_source` keys
    are of another text than the queries (0 where there is only one). `about` says what was explained.
    """

    method: Method
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    weights: NDArray[np.float32]
    n_source: int = 0
    about: str = ""

    def __post_init__(self) -> None:
        weights = frozen_array(self.weights, dtype=np.float32, rank=2, name="weights")
        if weights.shape != (len(self.queries), len(self.keys)):
            raise ValueError(f"shape {weights.shape}: {len(self.queries)} queries, {len(self.keys)} keys")
        object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceRow:
    """What one method says of one output token; `weights` [n_keys], or None and why it is refused.

    Of `relevance` the 1 that every token gives itself at the start is taken off.
    """

    method: Method
    weights: NDArray[np.float32] | None = None
    refusal: str = ""

    def __post_init__(self) -> None:
        freeze(self, "weights", dtype=np.float32, rank=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowInfluence(Request):
    """What the output token at `position` owes to the inputs, by every method. Newest wins.

    `trace` is the number of the trace that is shown; text, target, gates and changes are those it was made
    with, and `position` counts the tokens of the stack that predicts.
    """

    is_view = True
    trace: int
    position: int
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceShown(Reply):
    """What a ShowInfluence asked for; the first `n_source` keys are of another text.

    Comes again as more methods are done; those that are not are missing in `rows`. `explained` is the token
    whose logit the relevance explains. `picture` as in `records.causes.OutputAttributed`.
    `flow_done` counts the inputs whose flow is known while it is not known of all.
    """

    position: int
    keys: tuple[Token, ...]
    rows: tuple[InfluenceRow, ...]
    n_source: int = 0
    explained: str = ""
    picture: Picture | None = None
    flow_done: int = 0

    @property
    def is_passing(self) -> bool:
        """Whether it has no new method, only more of the flow."""
        return bool(self.flow_done)


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
