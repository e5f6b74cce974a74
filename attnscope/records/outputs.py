"""A model's output: predictions, two outputs side by side, and generated text.

Of a text: how it is to be chosen, what was written, and the tree of a beam search. `WriteText` is the
request, `WritingNews` and `TextWritten` are the replies.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from attnscope.errors import UserError
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.records.tokens import Token, Tokens

OutputKind = Literal["next-token", "masked-token", "translation", "class", "nothing"]
WRITING: tuple[OutputKind, ...] = ("next-token", "translation")
TELLING_TOKENS: tuple[OutputKind, ...] = (*WRITING, "masked-token")
NOT_MEANT = "–"
"""The label of a token that is not pointed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One candidate token, with its probability (0…1).

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
    """The model's output for one text.

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
    """The complete comparison for the trace with this number, whose maps were sent before it was
    generated.
    """

    comparison: Comparison


WriteMode = Literal["greedy", "sample", "beams"]
WRITE_MODES: tuple[WriteMode, ...] = get_args(WriteMode)
NodeState = Literal["kept", "dropped", "finished"]
WRITTEN_TRACE = "written"
"""Names the trace of the text written last in a `ShowHeads`."""
MAX_BEAMS = 64
MAX_NEW_TOKENS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """How the next token is chosen, and when generation ends.

    `greedy` takes the most probable token. `sample` divides the logits by `temperature` (0: greedy),
    keeps the `top_k` most probable tokens (0: all), of those the fewest that hold `top_p` of the
    probability, and draws one with `seed`. `beams` follows the `n_beams` best texts at a time and ranks them
    with `length_penalty`, the α of Wu et al. 2016 (0: none). At most `max_tokens` are generated.
    The record keeps the `n_alternatives` most probable tokens of each step. `mode` is one of the three.
    """

    mode: WriteMode = "greedy"
    max_tokens: int = 50
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    n_beams: int = 4
    length_penalty: float = 0.6
    n_alternatives: int = 8

    def check(self) -> None:
        """Raise UserError for an impossible value."""
        if self.mode not in WRITE_MODES:
            raise _impossible("way to choose tokens", self.mode, "one of " + ", ".join(WRITE_MODES))
        for name, value, least, most in (
            ("number of tokens", self.max_tokens, 1, MAX_NEW_TOKENS),
            ("temperature", self.temperature, 0.0, 100.0),
            ("top-k", self.top_k, 0, 10_000_000),
            ("number of beams", self.n_beams, 1, MAX_BEAMS),
            ("length penalty", self.length_penalty, 0.0, 10.0),
            ("seed", self.seed, 0, 2**63 - 1),
            ("number of alternatives", self.n_alternatives, 1, 1000),
        ):
            if not least <= value <= most:
                raise _impossible(name, value, f"from {least:,} to {most:,}")
        if not 0.0 < self.top_p <= 1.0:
            raise _impossible("top-p", self.top_p, "above 0, at most 1")

    @property
    def sentence(self) -> str:
        """The settings in words."""
        if self.mode == "beams":
            return f"{self.n_beams} beams, length penalty {self.length_penalty:g}"
        if self.mode == "greedy" or self.temperature == 0.0:
            return "greedy"
        filters = [f"top-k {self.top_k}"] if self.top_k else []
        filters += [f"top-p {self.top_p:g}"] if self.top_p < 1.0 else []
        return ", ".join(["sampled", f"temperature {self.temperature:g}", *filters, f"seed {self.seed}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenToken:
    """One generated token, and the alternatives to it.

    `position` is the row of the maps it was predicted from: the query of the token before it.
    `probability` is the model's own; `chance` is its probability under the settings (1 when
    nothing was drawn). `alternatives` are the model's most probable tokens, most probable first, each with
    its chance where one was drawn.
    """

    token: Token
    position: int
    probability: float
    chance: float
    alternatives: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamNode:
    """One token considered by a beam search, after the text of its parents.

    `parent` is an index into `BeamTree.nodes`, None for a first token; `depth` counts from 1.
    `log_probability` is the token's own in nats, `total` the sum along the path, `score` is
    total / ((5 + depth) / 6)^α (Wu et al. 2016, equation 14). A `finished` node ends its text.
    """

    parent: int | None
    depth: int
    token: Token
    log_probability: float
    total: float
    score: float
    state: NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamTree:
    """Every node that a beam search considered, parents before children; `best` ends the best text."""

    nodes: tuple[BeamNode, ...]
    best: int
    n_beams: int
    length_penalty: float

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from a first token to `node`."""
        found: list[int] = []
        at: int | None = node
        while at is not None:
            found.append(at)
            at = self.nodes[at].parent
        return tuple(reversed(found))

    @property
    def depth(self) -> int:
        """The number of tokens of the longest text considered."""
        return max((node.depth for node in self.nodes), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """Text generated after a prompt.

    `source` and `target` are the tokens of the maps: prompt and written text, without the end token
    that may have stopped it (`has_ended`), which is the last of `tokens`. `text` is what was written;
    `whole` is prompt and written text, as the model reads it again. `tree` is there for beams.
    """

    settings: WriteSettings
    text: str
    whole: str
    source: Tokens
    target: Tokens | None
    tokens: tuple[WrittenToken, ...]
    has_ended: bool
    log_probability: float
    tree: BeamTree | None = None
    tokens_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteText(Request):
    """Let the open model continue `text`, or translate it (after `prefix`).

    Replies: `WritingNews` while it writes, then a `Traced` of the whole and a `TextWritten`, all with
    this number. `heads` are shown in full. Newest wins.
    """

    is_view = True
    needs_model = "Writing"
    text: str
    prefix: str = ""
    settings: WriteSettings
    gates: Gates = NO_GATES
    heads: tuple[HeadRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingNews(Reply):
    """The text so far, at most 20 times a second; with beams the best one so far.

    `whole` is the prompt with it; `n_most` tokens may be written.
    """

    tokens: tuple[WrittenToken, ...]
    whole: str
    n_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWritten(Reply):
    """The model has ended, or reached the maximum length."""

    written: WrittenText
    gates: Gates


def _impossible(name: str, value: object, expected: str) -> UserError:
    return UserError(
        f"The {name} is {value}.", expected=f"{expected}", action="Change it and generate again."
    )
