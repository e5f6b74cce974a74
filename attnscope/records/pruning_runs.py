"""Measuring pruning curves in the background: what the window asks for, and what comes back."""

from dataclasses import dataclass
from typing import Literal

from attnscope.records.importance import Importance, MetricName, PruningCurve, Ranking
from attnscope.records.requests import News, Reply, Request

TextSource = Literal["own", "samples", "file"]
"""Texts that the program has for the model (of its task, or else its samples), its samples, or a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureCurves(Request):
    """Measure a metric as the open model's heads are removed, in the order of each ranking.

    `path` names the file for `file`. `random` is measured `n_random` times, with seeds that follow `seed`.
    The pass runs in the background; a new one ends it.
    """

    needs_model = "Pruning"
    rankings: tuple[Ranking, ...]
    metric: MetricName = "loss"
    source: TextSource = "own"
    path: str = ""
    max_texts: int = 100
    n_random: int = 3
    is_rescored: bool = True
    step_share: float = 0.1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvesNews(News):
    """What is being done, how far all of it is (0…1) and how long the rest will take; None: not known."""

    what: str
    fraction: float | None = None
    left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsRanked(Reply):
    """The importance of every head by one ranking, with every head on."""

    importance: Importance


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveMeasured(Reply):
    """One curve; while it is not `is_whole`, the points there are so far."""

    curve: PruningCurve
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvesMeasured(Reply):
    """The pass is complete; `texts` says what the texts were."""

    texts: str
    duration_s: float
