"""What a model says: predictions, generated text, and two outputs side by side."""

from dataclasses import dataclass
from typing import Literal

from attnscope.records.requests import Reply
from attnscope.records.tokens import Token

OutputKind = Literal["next-token", "masked-token", "translation", "class", "nothing"]
NOT_MEANT = "–"
"""The label of a token that is not pointed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One token a model considers, with its probability (0…1).

    `chance` is what temperature, top-k and top-p made of it before a draw; None where nothing was drawn.
    """

    token: Token
    probability: float
    chance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The most probable tokens at one position, most probable first.

    `position` is the index of the query token whose output this is; `context` names it for people,
    for instance `after "the"` or `<mask> 2`.
    """

    position: int
    context: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the model says about one text.

    `next-token`: one prediction, after the last token; `masked-token`: one for each mask token (every
    token of the text when there is none); `translation`: one for each target token, and the text
    generated greedily; `class`: one, over the model's labels; `nothing`: the model has no output layer.
    `follows` is how probable the model holds it that the second text follows the first, 0…1; None for one
    that was never asked, and without a second text. `certainty` is the geometric mean of the probabilities
    that it gave to the tokens it generated, 0…1; None where no pass has read them. `p_write` is p_gen of each
    prediction, the probability that its token is written and not copied; only of a model that copies.
    """

    kind: OutputKind
    predictions: tuple[Prediction, ...]
    generated: str = ""
    follows: float | None = None
    certainty: float | None = None
    p_write: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The output without gates and with them.

    `kl_nats` holds KL(before ‖ after) in nats for each prediction, over the whole vocabulary. `refused` says
    why nothing is told of what the model said: it was no number. While `is_writing`, what is `generated` is
    not known yet.
    """

    before: Output
    after: Output
    kl_nats: tuple[float, ...]
    refused: str = ""
    is_writing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWritten(Reply):
    """The whole comparison of the trace with this number, whose maps came before it was written."""

    comparison: Comparison
