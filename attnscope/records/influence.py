"""What the tokens that come out owe to the tokens that go in, across all layers.

| symbol  | meaning                                              | shape                 |
|---------|------------------------------------------------------|-----------------------|
| weights | influence of a key on a query; NaN = not computed    | [n_queries, n_keys]   |

In the form encoder–decoder the keys are the source tokens, then the target tokens.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
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
        if self.weights is not None:
            weights = frozen_array(self.weights, dtype=np.float32, rank=1, name="weights")
            object.__setattr__(self, "weights", weights)


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
    whose logit the relevance explains. `picture` as in `records.attribution.OutputAttributed`.
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
