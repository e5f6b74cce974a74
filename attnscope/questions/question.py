"""Shared by all questions, and the interface of a model that has read a text.

A question is arithmetic on arrays. How a model comes by them, ours or the library's, stands in one place
(`analysis/model_reading.py`), so that a file of this folder is read by the window as well, which must not
import torch.

| symbol | meaning                                               | shape                         |
|--------|-------------------------------------------------------|-------------------------------|
| x      | the stream: what a layer reads, and what the last left | [n_layers + 1, n_tokens, d]  |
| q, k, v| a head's queries, keys and values                     | [n_tokens, d_head]            |
| p      | probability of each token of the vocabulary           | [n_positions, vocab_size]     |

All arrays are float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attnscope.fields import one_of
from attnscope.records.charts import Answer
from attnscope.records.models import ModelInfo
from attnscope.records.sites import HeadRef, SiteKey, Stack
from attnscope.records.tokens import Token
from attnscope.schemes import Scheme

Numbers = NDArray[np.float64]
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streams:
    """The residual stream of one stack: `x[l]` enters layer l, `x[l + 1]` leaves it.

    `added[part]` [n_layers, n_tokens, d] is what attention, cross-attention and feed-forward give, times the
    factor that they are added with, in the order of the layer. `is_sum` says that a layer leaves exactly x
    plus these; otherwise a norm stands between, as in post-norm models, or several factors.
    """

    stack: Stack
    tokens: tuple[Token, ...]
    x: Numbers
    added: Mapping[str, Numbers]
    is_sum: bool


Order = Literal["in turn", "parallel", "reversible"]
"""How the parts of a layer follow each other: each reads the stream after the one before; all read the one
that entered; or each reads one of two streams and is added to the other (Gomez et al. 2017)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartPath:
    """One part of a layer on the path of the stream, [n_tokens, d] each.

    `reads` is the stream, or its norm where `is_normed`, None where that is not known; `inside`
    [n_tokens, n] what its last product reads: the outputs of all heads side by side, or units. `gives` is
    what that product makes of it, `end` its norm, where one follows; `after` the norm of the sum, in
    post-norm layers.
    """

    name: str
    reads: Numbers | None
    inside: Numbers | None
    gives: Numbers
    is_normed: bool = False
    end: Numbers | None = None
    after: Numbers | None = None

    @property
    def added(self) -> Numbers:
        """Contribution to the stream."""
        return self.gives if self.end is None else self.end


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Passage:
    """One of the `n_layers` layers of a stack: `x` [n_tokens, d] enters, `after` leaves.

    `adds_up` says that the parts, joined in their order, give exactly what leaves. Of reversible layers `x`
    and `after` are the sums of both streams.
    """

    stack: Stack
    tokens: tuple[Token, ...]
    layer: int
    n_layers: int
    x: Numbers
    parts: tuple[PartPath, ...]
    after: Numbers
    order: Order
    adds_up: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """A model's output at one token: `logits` and `p` [n_answers], of the `best` name and column.

    `x` [d] leaves the last layer, `normed` [d] is its norm, None where none follows, `reads` what the
    product with the vocabulary reads, None where that is not known. `is_of_whole`: the token stands for all.
    """

    x: Numbers
    normed: Numbers | None
    reads: Numbers | None
    logits: Numbers
    p: Numbers
    best: tuple[tuple[str, int], ...]
    is_of_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projections:
    """One head's q = x W_Q + b, k and v for each token: directly from the matrices, before any rotation."""

    head: HeadRef
    query_tokens: tuple[Token, ...]
    key_tokens: tuple[Token, ...]
    q: Numbers
    k: Numbers
    v: Numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NextTokens:
    """The predicted tokens, each with the position whose output predicts it.

    `is_second` says that they are a text that is written for another one, such as a translation.
    """

    tokens: tuple[Token, ...]
    positions: tuple[int, ...]
    is_second: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """Outputs of the units inside each layer's feed-forward part, after the activation.

    `activations[l]` is [n_tokens, d_ff]; with a gated activation each is the product of gate and value.
    """

    stack: Stack
    tokens: tuple[Token, ...]
    activations: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routing:
    """Experts for the tokens of one stack, in the layers that have some.

    For each of `layers`, [n_tokens, n_experts]: `weights` is what an expert counts for a token, 0 where it is
    not used, and `p` the softmax of the router's numbers. A token that no expert took has a row of 0.
    """

    stack: Stack
    tokens: tuple[Token, ...]
    layers: tuple[int, ...]
    weights: tuple[Numbers, ...]
    p: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attended:
    """One head's queries [n_queries, d] and keys [n_keys, d] as they are compared, after rotation and the
    like.

    `weights` [n_queries, n_keys] is NaN where the mask forbids.
    """

    head: HeadRef
    query_tokens: tuple[Token, ...]
    key_tokens: tuple[Token, ...]
    q: Numbers
    k: Numbers
    weights: Numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixing:
    """The weights by which layers without attention sum values: their recurrence or convolution, unrolled.

    `formula` is of a weight. `weights[l]` [n_heads, n_tokens, n_tokens] may be below 0 and need not add up to
    1. `softmax[l]` is what a softmax makes of the same products of queries and keys, None without them.
    """

    tokens: tuple[Token, ...]
    mixer: str
    formula: str
    weights: tuple[Numbers, ...]
    softmax: tuple[Numbers | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recalled:
    """Attention of a stack that reads in segments of `size` tokens, with `memory` tokens before them.

    `weights` of each site [n_heads, n_tokens, n_tokens], NaN where the mask forbids; `head` is asked about.
    """

    head: HeadRef
    tokens: tuple[Token, ...]
    size: int
    memory: int
    weights: Mapping[SiteKey, Numbers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spans:
    """Learned spans of heads: z of each head of each site [n_heads], at most `limit`, in tokens.

    A mask falls to 0 over `ramp` tokens more; `head` is asked about.
    """

    head: HeadRef
    limit: int
    ramp: float
    of_sites: Mapping[SiteKey, Numbers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenOffsets:
    """The offsets that heads learned to attend to: `masks` of each site [n_heads, limit + 1], 0 or 1.

    `p_open` [n_heads, limit + 1] is the chance that training left an offset open; `head` is asked about.
    """

    head: HeadRef
    masks: Mapping[SiteKey, Numbers]
    p_open: Mapping[SiteKey, Numbers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copied:
    """A copying model's output after each of `tokens`, the last of which it continues from.

    `p_write` [n_tokens] is the probability that the next one is of the vocabulary, `weights`
    [n_tokens, n_source] where it would be copied from, `p` that of the piece that comes next, `p_generator`
    what the vocabulary alone would give it. `told` are these pieces: those that stand there, and behind the
    last the most probable one.
    """

    tokens: tuple[Token, ...]
    source: tuple[Token, ...]
    told: tuple[Token, ...]
    p_write: Numbers
    weights: Numbers
    p: Numbers
    p_generator: Numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """Values in a recurrent decoder with attention at each of `target_tokens`, one a step.

    `h` [n_source, d] are the encoder's states; `s`, the context `c`, what is `joined` to it and the attention
    vector `t` [n_target, ..]; `scores` and `weights` [n_target, n_source] those of `head`; `best` the most
    probable next pieces with their probabilities. `is_fed`: the context goes into the cell as well.
    """

    head: HeadRef
    source_tokens: tuple[Token, ...]
    target_tokens: tuple[Token, ...]
    h: Numbers
    s: Numbers
    c: Numbers
    joined: Numbers
    t: Numbers
    scores: Numbers
    weights: Numbers
    best: tuple[tuple[tuple[str, float], ...], ...]
    is_fed: bool


class Reading(Protocol):
    """One text read by a model; each part is computed on request.

    All raise UserError, in one sentence, for a model that has no such part.
    """

    @property
    def model(self) -> ModelInfo:
        """The model in words and numbers."""

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the stack that predicts."""

    def streams(self, stack: str = AUTO) -> Streams:
        """The residual stream of `encoder` or `decoder`; auto: of the stack that predicts."""

    def passage(self, layer: int, stack: str = AUTO) -> Passage:
        """The path through a layer, the last one at most, of `encoder` or `decoder`; auto: as `streams`."""

    def said(self, token: int) -> Said:
        """The model's output at a token of the stack that predicts."""

    def projections(self) -> Projections:
        """Queries, keys and values of the head in question."""

    def next_tokens(self) -> NextTokens:
        """Predictions of the model, each from the tokens before it."""

    def log_p(self, positions: Sequence[int]) -> Numbers:
        """Log-probabilities at some positions, [n_positions, vocab_size]."""

    def units(self, stack: str = AUTO) -> Units:
        """The units inside the feed-forward parts of `encoder` or `decoder`; auto: of what predicts."""

    def routing(self, stack: str = AUTO) -> Routing:
        """Experts for the tokens, in `encoder` or `decoder`; auto: in the stack that predicts."""

    def attended(self) -> Attended:
        """Queries, keys and weights of the head in question, as they were in attention."""

    def mixing(self) -> Mixing:
        """The weights by which the layers of a model without attention mix tokens."""

    def spans(self) -> Spans:
        """The spans that heads learned."""

    def open_offsets(self) -> OpenOffsets:
        """The hard masks that heads learned."""

    def copied(self) -> Copied:
        """Words that a pointer-generator generates and copies."""

    def decoded(self) -> Decoded:
        """The steps of a recurrent decoder with attention."""

    def recalled(self) -> Recalled:
        """The weights of a stack that reads its text in segments with a memory."""


def stack_option() -> Any:
    """The choice of a stack, for questions about one."""
    stacks = {AUTO: AUTO, "encoder": "encoder", "decoder": "decoder"}
    return one_of(AUTO, stacks, title="stack", tip="Which stack is looked at; auto: the one that predicts")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """No options."""


class Question(Scheme, ABC):
    """A question about a model and a text. `name` is typed, `title` displayed."""

    words: ClassVar[str] = ""
    """Its content, in one line."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    needs: ClassVar[str] = "any model"
    """Which models can be asked, in words."""
    formula: ClassVar[str] = ""
    search: ClassVar[tuple[str, ...]] = ()
    """Other words by which the command palette finds it."""
    kept_run: ClassVar[str] = ""
    """The recipe of a kept run that can be asked, offered where the open model has no such part."""
    is_of_head: ClassVar[bool] = False
    """Whether it is about one head: in the window, the selected one."""
    options: ClassVar[Any] = NoOptions()
    """Default options: a frozen dataclass of settings of `attnscope.fields`."""

    @abstractmethod
    def answer(self, reading: Reading, options: Any) -> Answer:
        """Answer the question; raises UserError for a model without the part it needs."""
