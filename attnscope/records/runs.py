"""Training runs: the events they report, and how runs look from outside.

Events of a training run, in the order a run tells them: Started, then any number of Step,
Evaluated, Saved and Watched, then one Finished.

Runs are followed while another process writes them, looked at many side by side, and step by step. Nothing
of that needs the process that trains: all of it is read from run folders.

How large updates and gradients of a step were, layer by layer:

| field          | meaning                                                     | shape       |
|----------------|-------------------------------------------------------------|-------------|
| layers         | names such as `tokens`, `encoder L0`, `head`                | [n_layers]  |
| gradient_norms | norm of each layer's gradient before clipping               | [n_layers]  |
| update_norms   | norm of what each layer's weights changed by                | [n_layers]  |
| update_counts  | weights whose change lies in each bin                       | [n_bins]    |
| moved_norms    | ‖θ_t − θ_0‖ of each layer since the run's first weights     | [n_layers]  |
| norms          | names of the norms, such as `encoder L0 attention`          | [n_norms]   |
| norm_inputs    | root mean square of what each norm reads, over all tokens   | [n_norms]   |

In a history each field has one more axis at its end: the steps that were looked at.

A sweep: one recipe with every combination of some values, each a run in a folder of its own.

Start many, stop early, continue some (Dodge et al. 2020, section 5): all runs make their first steps, then
only the best by held-out loss go on. Nothing is lost, for a stopped run can be continued later.
"""

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import RecipeError
from attnscope.records import freeze
from attnscope.records.requests import Reply, Request
from attnscope.schemes.objectives import OBJECTIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run is about to make its first step (`step` > 0 after a resume); `folder` is its run folder.

    `objective` is that of its recipe, empty in what older versions wrote: it says what losses are the mean
    over (`records/runs.py`).
    """

    folder: str
    step: int
    n_steps: int
    n_parameters: int
    device: str
    note: str = ""
    objective: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimiser step: mean training loss in nats, rate, gradient norm before clipping, speed.

    `n_tokens` were read in it, padding included; 0 in what older versions wrote. `open_heads` is the expected
    number of open heads while gates are learned. `n_texts` and `text_tokens` are the texts that were read and
    the most tokens of one, each where a warm-up has it grow.
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_s: float
    n_tokens: int = 0
    open_heads: float | None = None
    n_texts: int | None = None
    text_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An evaluation on held-out data: mean loss in nats, and accuracy over what is scored (0…1): tokens, or
    labels.

    Two are of next-sentence prediction, in nats and 0…1 over pairs; None where it is not learned. `spans` are
    those that heads have learned, in tokens, by the names of the heads.
    """

    step: int
    loss: float
    accuracy: float
    next_sentence_loss: float | None = None
    next_sentence_accuracy: float | None = None
    spans: tuple[tuple[str, float], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint is on disk and verified; `folder` is a model folder."""

    step: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The attention of the watched sentences is on disk for a step without a checkpoint; `file` has it."""

    step: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFailed:
    """A checkpoint could not be saved; training continues in memory and will try again."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run is over; `reason` says why, `note` explains it and what to do if that matters."""

    step: int
    reason: Literal["done", "stopped", "diverged", "out-of-memory"]
    note: str = ""


TrainingEvent = Started | Step | Evaluated | Saved | Watched | SaveFailed | Finished


_UNKNOWN = "token"
"""Runs that do not say what they learn are of versions that knew no labels."""


def loss_unit(objectives: Iterable[str]) -> str:
    """The unit of the losses of some runs, such as `nats per token`; both if they differ."""
    over = dict.fromkeys(OBJECTIVES[one].over if one in OBJECTIVES else _UNKNOWN for one in objectives)
    return f"nats per {' or '.join(over) or _UNKNOWN}"


RunEnd = Literal["done", "stopped", "diverged", "out-of-memory", "running", "broken off"]
"""How a run ended; `broken off` when nobody writes it any more and it never said that it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWriter:
    """The process that writes a run folder: its id, its computer, and since when (seconds since 1970).

    `is_here` says whether it runs on this computer; `silent_s` is how long ago the folder last changed.
    """

    pid: int
    host: str
    since: float
    is_here: bool
    silent_s: float

    @property
    def words(self) -> str:
        """In words: `process 4711 on this computer`."""
        return f"process {self.pid} on {'this computer' if self.is_here else self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """Position up to which a run's metrics were read: the offset, the text right before it, the last
    attempt.
    """

    n_bytes: int = 0
    before: bytes = b""
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRun(Request):
    """Ask for events in a run folder since `mark` (the beginning if omitted); several times a second.

    Nothing is kept between two requests, so that to stop following is to stop asking.
    """

    is_view = True
    folder: str
    mark: RunMark = field(default_factory=RunMark)

    @property
    def place(self) -> str:
        """Key: one for each folder."""
        return self.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews(Reply):
    """New entries of a run folder; ask for more with `mark`.

    With `is_restart` everything told before is to be forgotten: these are the first news, or the file was
    replaced. `recipe` is told with a restart only, and is empty while the run has none. `checkpoints` are
    the new ones, as (step, folder), `probes` the looks at the watched sentences, as (step, file). With
    `has_more` another RunNews of the same number follows at once. `writer` is None when no process writes
    the folder. `n_bad_lines` of the new lines could not be read.
    """

    folder: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, str], ...]
    mark: RunMark
    writer: RunWriter | None
    recipe: str = ""
    is_restart: bool = False
    has_more: bool = False
    n_bad_lines: int = 0
    probes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLines:
    """The losses of a run: `steps` ascending, `values` in nats, both [n]."""

    steps: NDArray[np.float64]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        freeze(self, "steps", "values", dtype=np.float64, rank=1)
        if self.steps.shape != self.values.shape:
            raise ValueError(f"{len(self.steps)} steps for {len(self.values)} values")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run among several.

    `name` is short and differs from the others'. `n_body` counts the parameters without embeddings, and is 0
    when unknown. Losses are in nats, over what `objective` says; `last_loss`, `best_loss` and `last_accuracy`
    are of held-out data, NaN without any. `n_tokens` were read in training, padding included; `flops` is what
    that costs on paper; `seconds` is the time of the steps alone; each NaN when unknown. `validation`
    has every one of its held-out losses. `settings` are the values of the recipe's keys that differ among the
    runs read together, as (key, value).
    """

    folder: str
    name: str
    end: RunEnd
    step: int
    n_steps: int
    n_parameters: int
    n_body: int
    last_loss: float
    best_loss: float
    best_step: int
    n_tokens: float
    flops: float
    seconds: float
    validation: RunLines
    recipe: str
    settings: tuple[tuple[str, str], ...] = ()
    note: str = ""
    device: str = ""
    writer: RunWriter | None = None
    objective: str = ""
    last_accuracy: float = math.nan

    @property
    def is_converged(self) -> bool:
        """Whether it made all its steps and its held-out loss is known: only such runs are fitted."""
        return self.end == "done" and math.isfinite(self.best_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRuns(Request):
    """Read several runs: each folder is a run, or a folder whose children are runs. Newest wins."""

    is_view = True
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOpened(Reply):
    """Reply to OpenRuns, by name; `left_out` lists folders that are not runs, and why."""

    folders: tuple[str, ...]
    runs: tuple[RunSummary, ...]
    left_out: tuple[str, ...] = ()


Numbers = NDArray[np.float64]

UPDATE_BINS: tuple[float, ...] = tuple(-9 + i / 5 for i in range(51))
"""Edges of the bins: log10 of a weight's change, 1e-9 to 10; the first and last take what lies beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One inspected step; the `n_still` unchanged weights in training are in no bin.

    `moved_norms` are those after the step; empty where the first weights are not known. Norms read the batch
    of the step, its padding included; there are none where the loss is compiled.
    """

    step: int
    learning_rate: float
    layers: tuple[str, ...]
    gradient_norms: tuple[float, ...]
    update_norms: tuple[float, ...]
    update_counts: tuple[int, ...]
    n_still: int
    moved_norms: tuple[float, ...] = ()
    norms: tuple[str, ...] = ()
    norm_inputs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionHistory:
    """The inspections of a run, at display size: NaN where a layer was not in training at a step.

    `steps`, `learning_rates` and `n_still` are [n_steps], steps ascending; `gradient_norms` and
    `update_norms` and `moved_norms` [n_layers, n_steps]; `update_counts` [n_bins, n_steps]; `norm_inputs`
    [n_norms, n_steps]. `n_steps_seen` were looked at, of which these are an even choice with the first and
    the last.
    """

    steps: Numbers
    learning_rates: Numbers
    n_still: Numbers
    layers: tuple[str, ...]
    gradient_norms: Numbers
    update_norms: Numbers
    update_counts: Numbers
    moved_norms: Numbers
    norms: tuple[str, ...]
    norm_inputs: Numbers
    n_steps_seen: int

    def __post_init__(self) -> None:
        by_step = ("steps", "learning_rates", "n_still")
        by_layer = ("gradient_norms", "update_norms", "update_counts", "moved_norms", "norm_inputs")
        freeze(self, *by_step, dtype=np.float64, rank=1)
        freeze(self, *by_layer, dtype=np.float64, rank=2)
        for name in (*by_step, *by_layer):
            n = getattr(self, name).shape[-1]
            if n != len(self.steps):
                raise ValueError(f"{name}: {n} entries for {len(self.steps)} steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowInspections(Request):
    """Ask for the inspections of a run's steps; `seen` is the `version` already known. Newest wins."""

    is_view = True
    folder: str
    seen: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionsShown(Reply):
    """The inspections of a run folder; `history` is None if the run has none, or none that is new.

    `version` is 0 for a run without any.
    """

    folder: str
    version: int
    history: InspectionHistory | None


SEED = "training.seed"
MAX_RUNS = 200
"""Of one sweep."""
_KEY = re.compile(r"[a-z_]{1,40}\.[a-z0-9_]{1,40}")
_MAX_VALUE, _MAX_DIGITS, _MAX_NAME_BYTES = 500, 19, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One run of a sweep: its folder's name, and the values that distinguish it, as overrides."""

    name: str
    overrides: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """The progress of one run of a sweep, with its held-out loss: written to and read from a line of
    the log.
    """

    place: int
    n_runs: int
    name: str
    step: int
    n_steps: int
    loss: float
    unit: str = ""

    def __str__(self) -> str:
        return f"[{self.place}/{self.n_runs}] {self.name}: {self.words} {self.unit}".rstrip()

    @property
    def words(self) -> str:
        """The step and the loss."""
        return f"step {self.step:,} of {self.n_steps:,}, validation {self.loss:.4f}"

    @classmethod
    def read(cls, line: str) -> "SweepStep | None":
        """Parse a line of the log; None for any other line."""
        found = _SWEEP_STEP.match(line)
        if found is None:
            return None
        place, n_runs, step, n_steps = (int(found[k].replace(",", "")) for k in (1, 2, 4, 5))
        loss, unit = float(found[6]), found[7] or ""
        return cls(
            place=place, n_runs=n_runs, name=found[3], step=step, n_steps=n_steps, loss=loss, unit=unit
        )


_SWEEP_STEP = re.compile(
    r"\[(\d+)/(\d+)\] (.*): step ([\d,]+) of ([\d,]+), validation (nan|-?inf|-?[\d.]+)(?: (.+))?$"
)


def parse_axes(texts: Iterable[str], seeds: str = "") -> dict[str, tuple[str, ...]]:
    """`key=v1,v2` texts as the values of each key; raises RecipeError for anything but a list of values."""
    axes: dict[str, tuple[str, ...]] = {}
    for text in [*texts, *([f"{SEED}={seeds}"] if seeds else [])]:
        key, equals, values = text.partition("=")
        key = key.strip()
        found = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
        if not equals or not _KEY.fullmatch(key) or not found:
            raise RecipeError(
                f"{text[:80]!r} names no values to sweep over.",
                expected="section.key=value,value, for instance model.d_model=64,128",
                action="Give one key with its values; list several keys one by one.",
            )
        _check_values(key, found)
        if key in axes:
            raise RecipeError(
                f"{key} is swept twice.", expected="each key once", action="Put all of its values together."
            )
        axes[key] = found
    return axes


def sweep_runs(axes: Mapping[str, Sequence[str]]) -> tuple[SweepRun, ...]:
    """Every combination, the last key changing fastest; raises RecipeError if there are too many."""
    n_runs = math.prod(len(values) for values in axes.values())
    if n_runs > MAX_RUNS:
        raise RecipeError(
            f"The sweep would make {n_runs:,} runs.",
            expected=f"at most {MAX_RUNS}",
            action="Sweep over fewer values, or split it up.",
        )
    short = _short_keys(tuple(axes))
    runs: dict[str, SweepRun] = {}
    for values in itertools.product(*axes.values()):
        overrides = tuple(zip(axes, values, strict=True))
        name = ",".join(f"{short[key]}={_as_file_name(value)}" for key, value in overrides)
        if name in runs or len(name.encode()) > _MAX_NAME_BYTES:  # each run has a folder of its own
            mark = hashlib.sha256(repr(overrides).encode()).hexdigest()[:8]
            name = f"{name.encode()[:_MAX_NAME_BYTES].decode(errors='ignore')}-{mark}"
        runs[name] = SweepRun(name=name, overrides=overrides)
    return tuple(runs.values())


def _check_values(key: str, values: Sequence[str]) -> None:
    """Raise RecipeError for a value that no recipe can contain."""
    for value in values:
        fault = f"{len(value):,} characters" if len(value) > _MAX_VALUE else ""
        if not value.isprintable():
            fault = "a character that cannot be printed"
        if value.isdecimal() and len(value) > _MAX_DIGITS:
            fault = f"{len(value):,} digits"
        if fault:
            raise RecipeError(
                f"A value of {key} has {fault}: {value[:40]!r}…",
                expected=f"at most {_MAX_VALUE} characters that can be printed, or {_MAX_DIGITS} digits",
                action="Correct it.",
            )


def best_at(runs: Sequence[RunSummary], step: int, n_kept: int) -> tuple[RunSummary, ...]:
    """The `n_kept` runs with the lowest held-out loss at `step`, best first; a run without one is worst."""
    return tuple(sorted(runs, key=lambda run: (loss_at(run, step), run.name))[:n_kept])


def loss_at(run: RunSummary, step: int) -> float:
    """The last held-out loss up to `step`; infinite if there is none, or the run had diverged."""
    return look_at(run, step)[1]


def look_at(run: RunSummary, step: int) -> tuple[int, float]:
    """The same with its step."""
    n_looks = int(np.searchsorted(run.validation.steps, step, side="right"))
    if not n_looks or (run.end == "diverged" and run.step < step):
        return 0, math.inf
    loss = float(run.validation.values[n_looks - 1])
    return int(run.validation.steps[n_looks - 1]), loss if math.isfinite(loss) else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSpread:
    """Runs that differ only in the seed: mean and sample standard deviation of their best losses."""

    settings: tuple[tuple[str, str], ...]
    n: int
    mean: float
    deviation: float


def seed_groups(runs: Iterable[RunSummary]) -> dict[tuple[tuple[str, str], ...], tuple[RunSummary, ...]]:
    """The runs of each setting, whatever their seeds, in order of appearance."""
    groups: dict[tuple[tuple[str, str], ...], tuple[RunSummary, ...]] = {}
    for run in runs:
        settings = tuple((key, value) for key, value in run.settings if key != SEED)
        groups[settings] = (*groups.get(settings, ()), run)
    return groups


def seed_spreads(runs: Sequence[RunSummary]) -> tuple[SeedSpread, ...]:
    """The spread over seeds of each setting that has several converged runs, best mean first."""
    converged = [run for run in runs if run.is_converged and any(key == SEED for key, _ in run.settings)]
    spreads = []
    for settings, seeds in seed_groups(converged).items():
        losses = [run.best_loss for run in seeds]
        if len(losses) > 1:
            mean = sum(losses) / len(losses)
            deviation = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1))
            spreads.append(SeedSpread(settings=settings, n=len(losses), mean=mean, deviation=deviation))
    return tuple(sorted(spreads, key=lambda spread: spread.mean))


def _short_keys(keys: Sequence[str]) -> dict[str, str]:
    """`d_model` for `model.d_model`, unless two keys have the same ending."""
    lasts = [key.rpartition(".")[2] for key in keys]
    return {key: last if lasts.count(last) == 1 else key for key, last in zip(keys, lasts, strict=True)}


def _as_file_name(value: str) -> str:
    return re.sub(r"[^\w.+-]", "_", value)[:60]
