"""Requests about the part of a model that made an output: the prediction of each layer if it were the last,
each part's contribution to the stream, and the effect of patching.

| symbol      | meaning                                               | shape                    |
|-------------|-------------------------------------------------------|--------------------------|
| probability | that the layer gives to the model's own first token   | [n_levels, n_positions]  |
| rank        | place of that token in the layer's list, from 0       | [n_levels, n_positions]  |
| kl_nats     | KL(output ‖ layer)                                    | [n_levels, n_positions]  |
| entropy     | of what the layer says, nats                          | [n_levels, n_positions]  |

What the tokens that come out owe to the tokens that go in, across all layers.

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

from attnscope.records import freeze
from attnscope.records.interventions import Interventions
from attnscope.records.maps import Picture
from attnscope.records.outputs import Candidate
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import NO_GATES, STACKS, Gates, HeadRef, Stack
from attnscope.records.tokens import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class LensTable:
    """The logit lens on one text: level 0 is the input of layer 0, level l + 1 the output of layer l.

    `candidates[level][column]` are the most probable tokens, most probable first; `positions` are the places
    of the columns in the text.
    """

    stack: Stack
    levels: tuple[str, ...]
    positions: tuple[int, ...]
    tokens: tuple[Token, ...]
    candidates: tuple[tuple[tuple[Candidate, ...], ...], ...]
    probability: NDArray[np.float32]
    rank: NDArray[np.int32]
    kl_nats: NDArray[np.float32]
    entropy: NDArray[np.float32]

    def __post_init__(self) -> None:
        shape = (len(self.levels), len(self.positions))
        freeze(self, "probability", "kl_nats", "entropy", dtype=np.float32, rank=2, shape=shape)
        freeze(self, "rank", dtype=np.int32, rank=2, shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLens(Request):
    """Apply the lens to every layer of the open model; for long texts at the last `max_positions`.

    `target` None lets a sequence-to-sequence model write its own. Newest wins.
    """

    is_view = True
    needs_model = "The lens"
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    n_candidates: int = 5
    max_positions: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LensShown(Reply):
    """Reply to ShowLens."""

    table: LensTable


PartKind = Literal["embedding", "head", "feed-forward", "bias"]
PatchKind = Literal["stream", "head"]
RunName = Literal["clean", "corrupt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The contribution of one part of the model to the answer; `layer` is −1 outside the layers."""

    label: str
    kind: PartKind
    value: float
    stack: Stack
    layer: int = -1
    head: HeadRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Every contribution to logit(answer) − logit(other) at one position, in the order of the model.

    `difference` is what the model itself says; the contributions add up to it (`total`), but for rounding.
    `note` says what else than norms was taken as it was in this run. Of a picture `reads` [n_tokens] says
    what all heads read at each of its tokens, in logits: together what the heads add. None for texts.
    """

    contributions: tuple[Contribution, ...]
    position: int
    token: Token
    answer: Token
    other: Token
    difference: float
    note: str = ""
    reads: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        freeze(self, "reads", dtype=np.float32, rank=1)

    @property
    def total(self) -> float:
        return sum(one.value for one in self.contributions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMap:
    """Degree to which each patch moves the receiver's output to the donor's, by layer and column.

    Values are 1 where the logit difference becomes that of the clean run and 0 where that of the corrupt
    one; columns are the receiver's positions (`stream`) or heads (`head`, NaN where a site has fewer).
    """

    kind: PatchKind
    donor: RunName
    receiver: RunName
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    patched: NDArray[np.float32]
    answer: Token
    other: Token
    clean_difference: float
    corrupt_difference: float

    def __post_init__(self) -> None:
        freeze(self, "patched", dtype=np.float32, rank=2, shape=(len(self.rows), len(self.columns)))

    def head_at(self, row: int, column: int) -> HeadRef | None:
        """The head of a cell; None in a map of positions, or if a site has no such head."""
        if self.kind != "head" or np.isnan(self.patched[row, column]):
            return None
        name, layer = self.rows[row].split()
        stack = next(stack for stack in STACKS if stack == name)
        return HeadRef(stack=stack, layer=int(layer), head=column)

    def cell_of(self, head: HeadRef | None) -> tuple[int, int]:
        """The cell of a head, (−1, −1) if the map has none."""
        row = f"{head.stack} {head.layer}" if head is not None and self.kind == "head" else ""
        return (self.rows.index(row), head.head) if head is not None and row in self.rows else (-1, -1)


WishedToken = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeOutput(Request):
    """Ask for every part's contribution to logit(answer) − logit(other). Newest wins.

    `position` counts the tokens of the stack that predicts. `other` None is the most probable token beside
    the answer.
    """

    is_view = True
    needs_model = "Adding up causes"
    position: int
    text: str
    target: str | None = None
    answer: WishedToken = None
    other: WishedToken = None
    gates: Gates = NO_GATES


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAttributed(Reply):
    """Reply to AttributeOutput; `candidates` are the most probable tokens, or classes, there.

    `picture` is what a vision model saw, None for texts and where its tokens are no grid of patches.
    """

    attribution: Attribution
    candidates: tuple[Candidate, ...]
    picture: Picture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchTexts(Request):
    """Put pieces of the run of one text into that of another, piece by piece, in the background.

    `position` None is where the two runs tell most clearly apart, or where the model tells a token. `stack`
    None is the one that predicts. A new request ends the one before.
    """

    needs_model = "Patching"
    clean: str
    corrupt: str
    target: str | None = None
    kind: PatchKind = "stream"
    stack: Stack | None = None
    position: int | None = None
    answer: WishedToken = None
    other: WishedToken = None
    gates: Gates = NO_GATES


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchingNews(CountedNews):
    """Progress of patching: pieces exchanged, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsPatched(Reply):
    """Reply to PatchTexts, with the position whose output was read."""

    patched: PatchMap
    position: int
    candidates: tuple[Candidate, ...]


Method = Literal["raw", "rollout", "flow", "relevance"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceMap:
    """Influence of each input token on each output token.

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
        freeze(self, "weights", dtype=np.float32, rank=2, shape=(len(self.queries), len(self.keys)))


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceRow:
    """One method's result for one output token; `weights` [n_keys], or None and the reason.

    Of `relevance` the 1 that every token gives itself at the start is taken off.
    """

    method: Method
    weights: NDArray[np.float32] | None = None
    refusal: str = ""

    def __post_init__(self) -> None:
        freeze(self, "weights", dtype=np.float32, rank=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowInfluence(Request):
    """Ask for the inputs' influence on the output token at `position`, by every method. Newest wins.

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
    """Reply to ShowInfluence; the first `n_source` keys are of another text.

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
        """Whether it only adds progress of the flow, and no new method."""
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
    """Share of the upper node that comes from the lower one; both index the graph's nodes.

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
    """Ask for the graph from the output token at `position` down to the inputs. Newest wins.

    `trace` is the number of the trace that is shown; `position` counts the tokens of the stack that predicts.
    """

    is_view = True
    trace: int
    position: int
    threshold: float = DEFAULT_THRESHOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphShown(Reply):
    """Reply to ShowGraph."""

    position: int
    graph: AttentionGraph
