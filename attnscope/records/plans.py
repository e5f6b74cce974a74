"""The cost of a recipe on paper, before anything is allocated; and the models of the literature.

Bytes are bytes, operations are floating-point operations, times are seconds.
"""

from dataclasses import dataclass

from attnscope.records.requests import Reply, Request

LEARNED_FROM = "what it learns from"
"""The part of the memory that the file of a recipe takes."""

_DOUBT_BESIDE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Operations a second of the device in training, and how they are known.

    The truth is expected between `flops_per_s / doubt` and `flops_per_s * doubt`. `beside` are the seconds
    that a run takes beside its steps, by part.
    """

    flops_per_s: float
    doubt: float
    words: str
    beside: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A recipe on paper.

    A batch holds at most `n_sequences` texts of `n_tokens` tokens (and as many target tokens where one is
    read); `mean_tokens` is what a text has on average, padding included. `flops_a_step` are those of forward
    and backward pass at the mean length. `memory` is by parts, for the longest batch. `disk_bytes` is of all
    checkpoints and states at the most. `n_learned` is how many numbers change where not all parameters do:
    beside the parameters, for low-rank changes. `rates` are steps from the first to the last, each with its
    learning rate; `texts` and `lengths` those with the texts of a batch and the most tokens of a text, where
    a warm-up has them grow. `mean_share` is what a step then costs on average, of one with the largest batch.
    """

    name: str
    n_parameters: int
    parameters: tuple[tuple[str, int], ...]
    n_sequences: int
    n_tokens: int
    mean_tokens: float
    tokens_a_step: float
    n_steps: int
    flops_a_step: float
    memory: tuple[tuple[str, int], ...]
    available_bytes: int
    device: str
    precision: str
    pace: Pace | None
    n_checkpoints: int
    checkpoint_bytes: int
    disk_bytes: int
    free_disk_bytes: int | None
    notes: tuple[str, ...] = ()
    n_learned: int | None = None
    rates: tuple[tuple[int, float], ...] = ()
    texts: tuple[tuple[int, int], ...] = ()
    lengths: tuple[tuple[int, int], ...] = ()
    mean_share: float = 1.0

    @property
    def memory_bytes(self) -> int:
        return sum(n for _, n in self.memory)

    @property
    def fits(self) -> bool:
        return self.memory_bytes <= self.available_bytes

    @property
    def fits_disk(self) -> bool:
        """Whether the disk is large enough, as far as known."""
        return self.free_disk_bytes is None or self.disk_bytes <= self.free_disk_bytes

    @property
    def flops(self) -> float:
        return self.flops_a_step * self.n_steps * self.mean_share

    @property
    def seconds(self) -> tuple[float, float, float] | None:
        """Total time: shortest, expected, longest; None while no rate is known."""
        if self.pace is None or self.pace.flops_per_s <= 0:
            return None
        steps, doubt = self.flops / self.pace.flops_per_s, self.pace.doubt
        beside, other = self.beside_seconds, max(doubt, _DOUBT_BESIDE)
        return steps / doubt + beside / other, steps + beside, steps * doubt + beside * other

    @property
    def beside_seconds(self) -> float:
        """Part of the expected time not spent on steps."""
        return 0.0 if self.pace is None else sum(seconds for _, seconds in self.pace.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecipe(Request):
    """Estimate the cost of a recipe on `device`, written to `out`. Newest of a `place` wins.

    `run_folders` are runs, or folders of runs, whose speed may be known already.
    """

    is_view = True
    recipe: str
    out: str = ""
    device: str = "auto"
    base_folder: str = ""
    run_folders: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipePlanned(Reply):
    """The plan of a recipe, or in `problem` what is wrong with it, in words."""

    plan: Plan | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Published facts about a model: its size, its training data, on what hardware and for how long.

    What was not published is empty. `why` says what makes the published size another than the counted one.
    """

    parameters: str
    data: str
    hardware: str
    source: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetRow:
    """A model of the literature: its sizes, its cost, and its keys in a recipe as TOML values.

    `flops_a_token` are those of the forward pass over its longest text, `training_bytes` of weights,
    gradients and moments, `batch_bytes` of the activations of one text of `n_tokens` tokens.
    """

    name: str
    objective: str
    n_layers: int
    d_model: int
    d_ff: int
    n_heads: int
    n_tokens: int
    vocab_size: int
    n_parameters: int
    flops_a_token: float
    training_bytes: int
    batch_bytes: int
    keys: tuple[tuple[str, str], ...]
    published: Published

    @property
    def least_bytes(self) -> int:
        """Bytes of training with one text at a time."""
        return self.training_bytes + self.batch_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPresets(Request):
    """List the models of the literature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetsShown(Reply):
    """The models of the literature, and the free memory on the best device."""

    rows: tuple[PresetRow, ...]
    available_bytes: int
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCell:
    """One token as read, and its target; None: nothing.

    `note` says what became of a token that is to be guessed and is not hidden: "kept" or "random". `segment`
    is "A" or "B" where two texts are read as one.
    """

    piece: str
    told: str | None = None
    note: str = ""
    segment: str = ""
    is_padding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One text of a batch: the encoder's input, if there is one, the predicting stack's, and a remark."""

    source: tuple[BatchCell, ...]
    cells: tuple[BatchCell, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBatch:
    """The first rows of a run's first batch; the numbers are of the whole batch."""

    rows: tuple[BatchRow, ...]
    n_rows: int
    n_tokens: int
    n_padding: int
    n_predicted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowBatch(Request):
    """Read the data of a recipe for its first batch. Newest wins."""

    is_view = True
    recipe: str
    base_folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShown(Reply):
    """Reply to ShowBatch; without a batch, `problem` says what is wrong.

    `is_sample`: the recipe names no text yet, and the one that comes with the program was read.
    """

    batch: FirstBatch | None
    problem: str = ""
    is_sample: bool = False
