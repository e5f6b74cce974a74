"""Events of a training run, in the order a run tells them: Started, then any number of Step,
Evaluated, Saved and Watched, then one Finished.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from attnscope.schemes.objectives import OBJECTIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run is about to make its first step (`step` > 0 after a resume); `folder` is its run folder.

    `objective` is that of its recipe, empty in what older versions wrote: it says what losses are the mean
    over (`records/training.py`).
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
    """A look at held-out data: mean loss in nats, and accuracy over what is scored (0…1): tokens, or labels.

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
    """A checkpoint could not be written; training goes on in memory and will try again."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run is over; `reason` says why, `note` in words with what to do where it matters."""

    step: int
    reason: Literal["done", "stopped", "diverged", "out-of-memory"]
    note: str = ""


TrainingEvent = Started | Step | Evaluated | Saved | Watched | SaveFailed | Finished


_UNKNOWN = "token"
"""Runs that do not say what they learn are of versions that knew no labels."""


def loss_unit(objectives: Iterable[str]) -> str:
    """The unit of the losses of some runs, such as `nats per token`; both where they differ."""
    over = dict.fromkeys(_over(objective) for objective in objectives)
    return f"nats per {' or '.join(over) or _UNKNOWN}"


def _over(objective: str) -> str:
    return OBJECTIVES[objective].over if objective in OBJECTIVES else _UNKNOWN
