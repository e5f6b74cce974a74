"""Small experiments that the worker runs for labs: questions, findings, and their progress.

A question holds all that its finding depends on, so equal questions have equal findings and are asked once.

| symbol | meaning                                     |
|--------|---------------------------------------------|
| L      | number of layers                            |
| T      | number of tokens of a text                  |
"""

from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from attnscope.records.measures import CollapseCurve, Share
from attnscope.records.modifications import Group
from attnscope.records.requests import CountedNews, Request
from attnscope.records.sites import Stack
from attnscope.schemes.positions import POSITIONS

Place = Literal["post", "pre"]
PLACES: tuple[Place, ...] = get_args(Place)
GradientStack = Literal["decoder", "encoder"]
"""The decoder of an encoder–decoder, as Xiong et al. 2020 measure it, or an encoder alone."""
Drawing = Literal["xavier", "he", "small"]
"""First weights: Glorot and Bengio 2010, as in Xiong et al. 2020; He et al. 2015; N(0, 0.02²), as GPT-2."""
Warming = Literal["none", "warmup", "radam"]
WARMINGS: tuple[Warming, ...] = get_args(Warming)
"""Adam at its full rate at once, Adam with a linear warm-up, RAdam (Liu et al. 2020)."""
SCHEMES: tuple[str, ...] = tuple(scheme.name for scheme in POSITIONS.values() if scheme.is_compared)
"""The position schemes that are compared past the trained length."""
Writer = Literal["none", "additive", "dot", "transformer"]
"""GRUs that hand over one vector, that attend as Bahdanau et al. 2014 or Luong et al. 2015; a Transformer."""
WRITERS: tuple[Writer, ...] = get_args(Writer)
WritingTask = Literal["reverse", "copy"]
Reader = Literal["attention", "convolution", "gru", "retention", "selective"]
"""What moves numbers from token to token: `mixer` of a decoder's configuration, or the cells of a GRU."""
READERS: tuple[Reader, ...] = get_args(Reader)
DISTANCES: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 48)
"""Distance of the token to repeat; each is trained separately."""
ALL_RIGHT = 0.999
"""A reader that tells this share of the tokens has nothing more to learn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModel:
    """The open model as seen by labs: `key` identifies it, `text` is the text it has read.

    `translates` says that it writes one text after another, `is_toy` that it knows a few whole words.
    """

    key: str
    text: str = ""
    target: str | None = None
    translates: bool = False
    is_toy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseQuestion:
    """Ask how the tokens of a text become alike in the open model; `model` is its hash."""

    model: str
    text: str
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseFinding:
    """‖res(X)‖/‖X‖ of the open model, by layer, with skips and feed-forward on and off."""

    question: CollapseQuestion
    name: str
    stack: Stack
    curves: tuple[CollapseCurve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientQuestion:
    """Gradients of a new Transformer at its first step, for depths up to `n_layers`; means over `n_draws`."""

    stack: GradientStack = "decoder"
    n_layers: int = 12
    d_model: int = 64
    drawing: Drawing = "xavier"
    seed: int = 0
    n_draws: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCurve:
    """One placement of the norms, of one depth: ‖∂loss/∂W₂‖ of each layer's feed-forward, first to last."""

    place: Place
    n_layers: int
    norms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFinding:
    """Every depth with both placements; so far, those that are done."""

    question: GradientQuestion
    curves: tuple[GradientCurve, ...]

    def curve(self, place: Place, n_layers: int) -> GradientCurve | None:
        """One of the curves, None while it is missing."""
        found = (c for c in self.curves if c.place == place and c.n_layers == n_layers)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupQuestion:
    """The first steps of a tiny Transformer with norms at one place, trained by the methods of `WARMINGS`."""

    place: Place = "post"
    learning_rate: float = 0.01
    n_warmup: int = 40
    n_steps: int = 80
    n_layers: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupRun:
    """One method: the loss (nats a token) and the size of each step's update.

    `histograms` [n_steps, n_bins] counts parameters by log10 |Δθ|, `typical` is the median of |Δθ|.
    """

    warming: Warming
    losses: tuple[float, ...]
    histograms: tuple[tuple[int, ...], ...]
    typical: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupFinding:
    """Every method so far. `edges` [n_bins + 1] border the bins in log10 |Δθ|.

    What is beyond the first or the last border is counted in the bin next to it.
    """

    question: WarmupQuestion
    edges: tuple[float, ...]
    runs: tuple[WarmupRun, ...]
    n_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachQuestion:
    """Tiny models with different positions, trained on short texts and read on longer ones."""

    n_trained: int = 16
    n_steps: int = 1000
    look_back: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachCurve:
    """One scheme: the loss (nats a token) at each position, NaN where it has no position.

    The first `look_back` places cannot be predicted and are NaN as well.
    """

    scheme: str
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachFinding:
    """Every finished scheme; `chance` is the loss of guessing, `n_read` the length read."""

    question: ReachQuestion
    curves: tuple[ReachCurve, ...]
    chance: float
    n_read: int
    n_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingQuestion:
    """Small models that copy rows of tokens, trained on short rows and read on longer ones."""

    task: WritingTask = "reverse"
    n_trained: int = 12
    d_model: int = 32
    n_steps: int = 2000
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingCurve:
    """One model after its last reading: mean loss (nats a token) of the steps before each reading so far.

    Of every length in turn `n_exact` rows were written right to the end, and `token_shares` of their tokens.
    """

    writer: Writer
    n_parameters: int
    losses: tuple[float, ...]
    n_exact: tuple[int, ...]
    token_shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingFinding:
    """Every model that was evaluated: `n_rows` rows of each of `lengths`, first after `read_every` steps."""

    question: WritingQuestion
    lengths: tuple[int, ...]
    n_rows: int
    read_every: int
    curves: tuple[WritingCurve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyQuestion:
    """The unmodified small Transformer and its modifications of a group, each trained `n_seeds` times; only
    the named ones, if any are named.
    """

    group: Group = "activation"
    n_steps: int = 500
    n_seeds: int = 3
    seed: int = 0
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyRow:
    """One of `MODIFICATIONS`, with a number for each finished seed, [n_done].

    Losses are nats a token of held-out texts after a quarter of the steps and after all of them, BLEU is of
    greedy translations, NaN where none were made. `seconds` of the processor were needed for a model.
    """

    name: str
    n_parameters: int
    earlies: tuple[float, ...]
    finals: tuple[float, ...]
    bleus: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyFinding:
    """The rows with at least one finished seed, in the order of the list."""

    question: ModifyQuestion
    rows: tuple[ModifyRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneQuestion:
    """The model stories-masked, fine-tuned with every pair of two seeds, by both methods.

    `n_inits` seeds draw the weights that are new, `n_orders` the batches. In the second way the
    `reinit_layers` layers next to the output begin anew as well.
    """

    n_inits: int = 4
    n_orders: int = 4
    n_examples: int = 48
    n_steps: int = 30
    reinit_layers: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRun:
    """One run: its two seeds from 0, the share of N_HELD_OUT sentences predicted right, and ‖θ_t − θ_0‖.

    `moved` has a number for each of the finding's layers; `is_reinitialised` says which way it was.
    """

    is_reinitialised: bool
    init: int
    order: int
    accuracy: float
    moved: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneFinding:
    """The finished runs; `layers` names the model's layers from the input on."""

    question: TuneQuestion
    layers: tuple[str, ...]
    n_held_out: int
    n_parameters: int
    runs: tuple[TuneRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayQuestion:
    """Small decoders that repeat the token so many positions back, for each of DISTANCES.

    Each is trained until nothing more is learned, for `n_steps` at most.
    """

    d_model: int = 32
    kernel_width: int = 3
    n_steps: int = 3000
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayPoint:
    """One model at one distance after its `n_steps` of training: right tokens, of the finding's `n_read`."""

    reader: Reader
    distance: int
    n_right: int
    n_steps: int
    n_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayFinding:
    """The finished points."""

    question: DelayQuestion
    n_read: int
    points: tuple[DelayPoint, ...]

    def point(self, reader: Reader, distance: int) -> DelayPoint | None:
        """One of them, None while it is missing."""
        found = (p for p in self.points if (p.reader, p.distance) == (reader, distance))
        return next(found, None)


Keeping = Literal["plain", "reversible"]
KEEPINGS: tuple[Keeping, ...] = get_args(Keeping)
"""How layers add, and so what they keep: `residual` of a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuestion:
    """Decoders of growing depth, with plain and with reversible layers, run forwards and backwards."""

    n_layers: int = 12
    d_model: int = 64
    n_tokens: int = 64
    dropout: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """One decoder: bytes kept once the loss is known, the peak, and the median time of a step."""

    keeping: Keeping
    n_layers: int
    kept_bytes: int
    most_bytes: int
    step_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFinding:
    """The finished decoders; `errors` of the deepest, at the input of each layer, once all are done.

    They are the largest difference between what a layer read and what is found again, as a share of the
    largest number there: in float32, and `wide_errors` in float64.
    """

    question: StoreQuestion
    rows: tuple[StoreRow, ...]
    errors: tuple[float, ...]
    wide_errors: tuple[float, ...]


StepWay = Literal["whole", "parts", "checkpointed", "bfloat16"]
STEP_WAYS: tuple[StepWay, ...] = get_args(StepWay)
"""A step of training in float32 with the batch at once, in parts, with blocks computed twice; in bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsQuestion:
    """The same decoder trained on the same batches by each of `STEP_WAYS`; `n_parts` of each batch."""

    n_parts: int = 4
    batch: int = 32
    n_tokens: int = 64
    d_model: int = 64
    n_layers: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsRow:
    """One method: its loss before each step in nats a token, the median time of a step, and the peak bytes of
    a step's tensors.

    `gradient_error` is ‖g − g₆₄‖ / ‖g₆₄‖ of the first step, where g₆₄ is the gradient in float64.
    """

    way: StepWay
    losses: tuple[float, ...]
    step_ms: float
    most_bytes: int
    gradient_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsFinding:
    """All methods, as far as they have trained."""

    question: StepsQuestion
    rows: tuple[StepsRow, ...]


WritingWay = Literal["greedy", "beams"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuQuestion:
    """The BLEU of a translation model on pairs of sentences: the first `n_pairs` of a file, or the bundled
    ones.

    `model` is the open one, else english-french. `stamp` tells the file from what it was before. With a
    `held_out` share only pairs that this share kept from training by their checksums are read.
    """

    model: str = ""
    way: WritingWay = "greedy"
    n_beams: int = 4
    file: str = ""
    stamp: str = ""
    held_out: float = 0.0
    n_pairs: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuText:
    """One translation: the counted `words`, and for n = 1 … 4 the n-grams found in a reference.

    `index` is its place among the texts. `matches[n - 1]` has the n-gram that begins at each word.
    """

    index: int
    source: str
    written: str
    references: tuple[str, ...]
    words: tuple[str, ...]
    matches: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuNumbers:
    """BLEU of some texts, 0…100, with the ends of its 95 % interval, NaN until it is computed.

    `n_words` have the translations, `n_right_words` the references that they are held against.
    """

    value: float
    low: float
    high: float
    precisions: tuple[float, ...]
    brevity: float
    n_texts: int
    n_words: int
    n_right_words: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuPart:
    """BLEU of the texts whose sources have from `first` to `last` words."""

    first: int
    last: int
    score: BleuNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class BleuFinding:
    """The finished translations, short sources first, and their score; parts by length at the end.

    `n_cut` were cut before they ended. `signature` names sacrebleu's version and settings.
    """

    question: BleuQuestion
    name: str
    pairs: str
    texts: tuple[BleuText, ...]
    score: BleuNumbers
    parts: tuple[BleuPart, ...]
    n_cut: int
    signature: str


WordPiece = Literal["last", "first", "mean"]
"""Of a word of several pieces: which one's row is read, or the mean of all."""
LabelColumn = Literal["upos", "xpos", "deprel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """Linear probes on every layer of a model for a label of each word, and for the control task.

    `source` names a model, else `model` is the open one, else it is stories-masked. The sentences are those
    of a file, labels in its `column`, one in four held out, or else of the task tagging. `stamp` tells the
    file from what it was before.
    """

    model: str = ""
    source: str = ""
    file: str = ""
    stamp: str = ""
    column: LabelColumn = "upos"
    n_sentences: int = 200
    piece: WordPiece = "last"
    strength: float = 0.1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLayer:
    """The probes after so many layers: accuracies on held-out words, with their intervals.

    `by_label` is the share of the task among the words of each of the finding's labels.
    """

    task: Share
    control: Share
    selectivity: Share
    by_label: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFinding:
    """The finished layers, the first of which is the input of the first layer, of `n_layers`.

    `majority` and `word_alone` are right without a model: the most frequent label, and the most frequent one
    of each word. `n_unread` labelled words were cut off or share their pieces.
    """

    question: ProbeQuestion
    name: str
    text: str
    labels: tuple[str, ...]
    layers: tuple[ProbeLayer, ...]
    n_layers: int
    majority: float
    word_alone: float
    n_trained: int
    n_held_out: int
    n_sentences_out: int
    n_unread: int
    unknown_share: float


Question = (
    CollapseQuestion
    | GradientQuestion
    | WarmupQuestion
    | ReachQuestion
    | WritingQuestion
    | ModifyQuestion
    | TuneQuestion
    | DelayQuestion
    | StoreQuestion
    | StepsQuestion
    | BleuQuestion
    | ProbeQuestion
)
Finding = (
    CollapseFinding
    | GradientFinding
    | WarmupFinding
    | ReachFinding
    | WritingFinding
    | ModifyFinding
    | TuneFinding
    | DelayFinding
    | StoreFinding
    | StepsFinding
    | BleuFinding
    | ProbeFinding
)
F = TypeVar("F", bound=Finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExperiment(Request):
    """Run an experiment in the background; it ends another one of its kind."""

    question: Question

    @property
    def work(self) -> str:
        """At most one experiment runs for each kind of question."""
        return type(self.question).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentNews(CountedNews):
    """Progress of an experiment; `finding` is what is known so far, complete when `is_done`."""

    number: int = 0
    finding: Finding | None = None
    is_done: bool = False

    @property
    def is_passing(self) -> bool:
        return not self.is_done


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentAnswer:
    """The answer to a question so far: a finding, perhaps of an earlier question, and the progress of the new
    one.

    `is_kept` where it came with the program and was not worked out here.
    """

    finding: Finding | None = None
    is_exact: bool = False
    is_kept: bool = False
    is_asked: bool = False
    n_done: int = 0
    n_total: int = 0
    error: str = ""

    def of(self, kind: type[F]) -> F | None:
        """The finding if it is of this kind, else None."""
        return self.finding if isinstance(self.finding, kind) else None

    @property
    def progress(self) -> str:
        """Progress in words; empty if nothing is running."""
        if self.error:
            return self.error
        if not self.is_asked or self.is_exact:
            return ""
        return f"Working it out: {self.n_done} of {self.n_total}…" if self.n_total else "Working it out…"


NO_ANSWER = ExperimentAnswer()
