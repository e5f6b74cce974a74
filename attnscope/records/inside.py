"""The inside of one head on one query: every number from q and k to the head's output.

| symbol   | meaning                                                             | shape        |
|----------|---------------------------------------------------------------------|--------------|
| q        | the query                                                           | [d]          |
| k        | the shown keys                                                      | [n, d]       |
| products | what each dimension adds to `dot`: q ∘ k, or vector ∘ tanh(q + k)   | [n, d]       |
| dot      | Σ products                                                          | [n]          |
| scaled   | scale · dot                                                         | [n]          |
| logged   | ln(scaled), of kernel scores only                                   | [n] or None  |
| capped   | softcap · tanh(scaled / softcap), where the model caps              | [n] or None  |
| bias     | what is added then, where the model adds a bias                     | [n] or None  |
| score    | what the softmax reads; −∞ where the mask forbids                   | [n]          |
| weight   | exp(score − lse); NaN where the mask forbids                        | [n]          |
| v        | the values of the shown keys                                        | [n, d_value] |
| weighted | weight · v; 0 where the mask forbids                                | [n, d_value] |
| output   | Σ weight · v over all keys, recomputed                              | [d_value]    |

n shown keys of `n_keys`: all of them, or the strongest (`rest_weight` says what the others take).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.interventions import Interventions
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.records.tokens import Token
from attnscope.schemes.scores import Comparison

Numbers = NDArray[np.float32]
MAX_SHOWN = 64
"""Texts with more keys show their strongest only."""
N_STRONGEST = 48
TOLERANCE = 1e-4

_VECTORS = ("q", "output", "own_output")
_PER_KEY = ("dot", "scaled", "score", "weight", "value_norms")
_MAYBE_PER_KEY = ("logged", "capped", "bias")
_PER_DIMENSION = ("k", "products", "v", "weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadInside:
    """One head on one query; see the module's legend.

    `keys` are the places of the shown keys in the text, ascending; the mask allows `n_allowed` of all
    keys. `comparison` is how q and k are compared (`nn/scores.py`). `sink` is a logit that takes weight and
    gives no value. `own_output` is what the model itself computed, before the `gate`. `output_error` is
    max |output − own_output|, `row_sum_error` |Σ weight + sink's weight − 1|; 0 for a query that sees no key.
    """

    head: HeadRef
    query: int
    n_queries: int
    query_token: Token
    n_keys: int
    n_allowed: int
    keys: tuple[int, ...]
    key_tokens: tuple[Token, ...]
    comparison: Comparison
    scale: float
    lse: float
    q: Numbers
    k: Numbers
    products: Numbers
    dot: Numbers
    scaled: Numbers
    score: Numbers
    weight: Numbers
    v: Numbers
    value_norms: Numbers
    weighted: Numbers
    output: Numbers
    own_output: Numbers
    output_error: float
    row_sum_error: float
    softcap: float | None = None
    sink: float | None = None
    gate: float = 1.0
    logged: Numbers | None = None
    capped: Numbers | None = None
    bias: Numbers | None = None
    rest_weight: float = 0.0

    def __post_init__(self) -> None:
        n = len(self.keys)
        if len(self.key_tokens) != n:
            raise ValueError(f"{n} keys, {len(self.key_tokens)} tokens")
        for names, rank in ((_VECTORS, 1), (_PER_KEY, 1), (_MAYBE_PER_KEY, 1), (_PER_DIMENSION, 2)):
            for name in names:
                values = getattr(self, name)
                if values is None:
                    continue
                array = frozen_array(values, dtype=np.float32, rank=rank, name=name)
                if names is not _VECTORS and len(array) != n:
                    raise ValueError(f"{name} has {len(array)} rows, expected one for each of {n} keys")
                object.__setattr__(self, name, array)
        if not self.q.shape == self.k.shape[1:] == self.products.shape[1:]:
            raise ValueError(f"q is {self.q.shape}, k {self.k.shape}, the products {self.products.shape}")
        if not self.output.shape == self.own_output.shape == self.v.shape[1:] == self.weighted.shape[1:]:
            raise ValueError(f"the output is {self.output.shape}, v {self.v.shape}")

    @property
    def n_rest(self) -> int:
        return self.n_keys - len(self.keys)

    @property
    def is_blind(self) -> bool:
        """Whether the mask hides every key from the query."""
        return self.lse == -math.inf

    @property
    def sink_weight(self) -> float:
        """The weight that the sink takes, 0 without one."""
        return 0.0 if self.sink is None or self.is_blind else math.exp(self.sink - self.lse)

    @property
    def is_exact(self) -> bool:
        """Whether the recomputed output is the model's own, within the tolerance of the self-check."""
        return bool(max(self.output_error, self.row_sum_error) <= TOLERANCE)

    def is_allowed(self, row: int) -> bool:
        """Whether the mask lets the query see the key in a row."""
        return bool(self.score[row] > -math.inf)

    def strongest(self) -> int | None:
        """The row of the key with the largest weight; None where the mask hides all."""
        seen = np.nan_to_num(self.weight, nan=-1.0)
        return int(seen.argmax()) if seen.size and seen.max() >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowInside(Request):
    """Look inside one head of the open model on one query of a text. Newest wins.

    `target` None lets a sequence-to-sequence model write its own.
    """

    is_view = True
    needs_model = "Looking inside a head"
    head: HeadRef
    query: int
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    past_trained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideShown(Reply):
    """The numbers a ShowInside asked for."""

    inside: HeadInside
