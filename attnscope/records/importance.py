"""The importance of heads, a model's quality as heads are removed, and removing them for good.

What a removal was asked, what was proved of it, what it gained: a *gate* at 0 removes a head; a gate between
0 and 1 is multiplied into the weights that read the head, so that the smaller model equals the gated one.
Heads are counted anew afterwards.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from attnscope.codec import AllowedNames
from attnscope.counting import by_column, html_table, listed, plural
from attnscope.records.requests import News, Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack

LEARNING_STEPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingKind:
    """A way to say which heads matter least; `RANKED_BY` in `analysis/importance.py` computes it.

    `unit` is that of its column, `axis` what its scores count; `reads` are the options of the command that
    change it, `order` its place when several run, `least` no score is below. One scoring takes `n_passes` of
    a number of batches and of heads, with gradients or without. Only what is measured changes as heads go.
    """

    name: str
    title: str
    definition: str
    unit: str
    axis: str
    tip: str
    source: Literal["measured", "learned", "drawn"] = "measured"
    reads: tuple[str, ...] = ("normalise",)
    order: int
    least: float = -math.inf
    n_passes: Callable[[int, int], int]
    has_gradients: bool = False


_RANKINGS = (
    RankingKind(
        name="gradient",
        title="gradient",
        definition="E |∂L/∂g| over texts: how much the loss moves with the head's gate."
        " (Michel, Levy & Neubig 2019)",
        unit="nats",
        axis="mean |∂ loss / ∂ gate|, nats",
        tip="E |∂ loss / ∂ gate| of each head (Michel, Levy & Neubig 2019); quick.",
        order=1,
        least=0.0,
        n_passes=lambda n_batches, _: n_batches,
        has_gradients=True,
    ),
    RankingKind(
        name="leave-one-out",
        title="leave one out",
        definition="How much the loss rises, on average, when this head alone is off.",
        unit="nats",
        axis="rise of the loss, nats",
        tip="How much the loss rises without the head alone; as many passes as heads.",
        order=4,
        n_passes=lambda n_batches, n_heads: n_batches * (n_heads + 1),
    ),
    RankingKind(
        name="learned",
        title="learned gates",
        definition="Of a gate learned under a penalty on open gates; the weights stay."
        " (after Voita et al. 2019)",
        unit="chance of being open",
        axis="chance of being open",
        tip="Gates learned under a penalty on open ones (Voita et al. 2019); the weights stay.",
        source="learned",
        reads=("penalty", "steps", "seed"),
        order=3,
        n_passes=lambda *_: LEARNING_STEPS,
        has_gradients=True,
    ),
    RankingKind(
        name="random",
        title="random",
        definition="A random number, the control.",
        unit="random number",
        axis="random number",
        tip="Heads in random order, the control: a useful ranking must do better.",
        source="drawn",
        reads=("seed",),
        order=2,
        n_passes=lambda *_: 0,
    ),
)
RANKINGS = {one.name: one for one in _RANKINGS}
Ranking = Annotated[str, AllowedNames(RANKINGS)]
DEFAULT_RANKINGS: tuple[Ranking, ...] = ("gradient", "random")


def rankings_reading(option: str) -> str:
    """The rankings that an option changes, for instance `random and learned`."""
    found = (one for one in RANKINGS.values() if option in one.reads)
    return listed([one.name for one in sorted(found, key=lambda one: one.order)])


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricKind:
    """The metric as heads are removed; `MEASURED_BY` in `analysis/metrics.py` computes it.

    `unit` is what it counts, as an axis says it, `text_unit` the same for a model that tells one label for
    each text; it is at most `most`.
    """

    name: str
    title: str
    unit: str
    text_unit: str = ""
    most: float = 1.0
    needs_cross: bool = False


_METRICS = (
    MetricKind(name="loss", title="loss", unit="nats per token", text_unit="nats per text", most=math.inf),
    MetricKind(
        name="accuracy",
        title="accuracy",
        unit="share of tokens predicted correctly",
        text_unit="share of texts predicted correctly",
    ),
    MetricKind(name="exact-match", title="exact match", unit="share of texts predicted completely"),
    MetricKind(
        name="alignment-error", title="alignment error", unit="alignment error rate", needs_cross=True
    ),
    MetricKind(name="bleu", title="BLEU", unit="BLEU", most=100.0, needs_cross=True),
)
METRICS = {one.name: one for one in _METRICS}
MetricName = Annotated[str, AllowedNames(METRICS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsDone:
    """Progress of a long analysis: `n_done` of `n_total` parts, and the current step."""

    n_done: int
    n_total: int
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadScore:
    """The importance of one head with its interval."""

    head: HeadRef
    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """The importance of every head, in the order of the model's sites.

    `is_normalised` says that the scores of each site were divided by their Euclidean norm.
    """

    ranking: Ranking
    scores: tuple[HeadScore, ...]
    n_texts: int
    is_normalised: bool = False

    @property
    def order(self) -> tuple[HeadRef, ...]:
        """The heads, least important first; equal ones in the order of the sites."""
        return tuple(score.head for score in sorted(self.scores, key=lambda score: score.value))

    def score(self, head: HeadRef) -> HeadScore:
        """The score of one head; raises KeyError for a head that was not scored."""
        return {score.head: score for score in self.scores}[head]

    def rows(self) -> list[dict[str, object]]:
        """One row a head: stack, layer, head, value, and the interval from low to high."""
        return [
            {
                "stack": one.head.stack,
                "layer": one.head.layer,
                "head": one.head.head,
                "value": one.value,
                "low": one.low,
                "high": one.high,
            }
            for one in self.scores
        ]

    def to_dict(self) -> dict[str, list[object]]:
        """Each column of the rows by its name, as `pandas.DataFrame` takes it."""
        return by_column(self.rows())

    def _repr_html_(self) -> str:
        title = f"Importance by {self.ranking}, {plural(self.n_texts, 'text')}"
        columns = self.to_dict()
        return html_table(list(columns), zip(*columns.values(), strict=True), title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedGates:
    """Result of learning the gates: which heads to keep.

    `gates` are the values without noise; `open_probability` of each head, in the order of the sites, is
    the chance that its gate is not exactly 0.
    """

    gates: Gates
    open_probability: tuple[tuple[HeadRef, float], ...]
    penalty: float
    n_steps: int

    @property
    def n_kept(self) -> int:
        """Heads whose gate is not 0."""
        return len(self.open_probability) - len(self.gates.off())


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The metric with `n_removed` heads off; `gates` reproduces it in the explorer."""

    n_removed: int
    gates: Gates
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningCurve:
    """A metric against the number of heads removed, in the order of one ranking.

    `is_rescored` says that the ranking was computed anew after each removal; `seed` is of random ones.
    `is_per_text` says that one label is told for each text, so that the metric is a mean over texts.
    """

    ranking: Ranking
    metric: MetricName
    points: tuple[CurvePoint, ...]
    n_heads: int
    n_texts: int
    is_rescored: bool = False
    seed: int = 0
    is_per_text: bool = False

    @property
    def unit(self) -> str:
        """Unit of the metric, as an axis label."""
        kind = METRICS[self.metric]
        return (self.is_per_text and kind.text_unit) or kind.unit

    def rows(self) -> list[dict[str, object]]:
        """One row a point: how many heads are removed, value, and the interval from low to high."""
        return [
            {"n_removed": one.n_removed, "value": one.value, "low": one.low, "high": one.high}
            for one in self.points
        ]

    def to_dict(self) -> dict[str, list[object]]:
        """Each column of the rows by its name, as `pandas.DataFrame` takes it."""
        return by_column(self.rows())

    def _repr_html_(self) -> str:
        title = f"{self.metric} in {self.unit}, heads removed by {self.ranking}"
        columns = self.to_dict()
        return html_table(list(columns), zip(*columns.values(), strict=True), title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSoFar:
    """An unfinished curve, starting with every head on."""

    curve: PruningCurve


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
    """The current step, the share done (0…1) and the time left; None: not known."""

    what: str
    fraction: float | None = None
    left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsRanked(Reply):
    """The importance of every head by one ranking, with every head on."""

    importance: Importance


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveMeasured(Reply):
    """One curve; until it is `is_whole`, the points so far."""

    curve: PruningCurve
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvesMeasured(Reply):
    """The pass is complete; `texts` describes the texts."""

    texts: str


PruneShape = Literal["small", "same"]
"""`small`: what a removed head weighed is gone. `same`: tensors keep their sizes, removed heads are zeros."""

MAX_RELATIVE_DIFFERENCE = 1e-4
"""Largest |Δlogit|, as a part of the largest |logit|, with which a smaller model may be saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteHeads:
    """The heads of one site afterwards: `heads[n]` is the old number of head n.

    None stands for a head of zeros, which is there because a library wants it. `n_before` is the number
    of heads before.
    """

    stack: Stack
    layer: int
    n_before: int
    heads: tuple[int | None, ...]

    @property
    def n_left(self) -> int:
        """Heads that still have an effect."""
        return sum(head is not None for head in self.heads)

    @property
    def n_zero(self) -> int:
        return len(self.heads) - self.n_left


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningProof:
    """The gated model against the smaller one on the same texts, over every logit.

    Zero logits prove nothing, and a difference that is not a number is never good.
    """

    max_difference: float
    largest_logit: float
    n_texts: int
    n_logits: int

    @property
    def relative(self) -> float:
        """The largest difference relative to the largest logit."""
        return self.max_difference / self.largest_logit if self.largest_logit else self.max_difference

    @property
    def is_good(self) -> bool:
        """Whether the smaller model may be saved."""
        return min(self.n_texts, self.n_logits) > 0 and self.relative <= MAX_RELATIVE_DIFFERENCE

    @property
    def sentence(self) -> str:
        verdict = (
            "the pruned model gives the same output"
            if self.is_good
            else "the pruned model gives different output"
        )
        return (
            f"max |Δlogit| {self.max_difference:.1e} of {self.largest_logit:.3g} "
            f"over {self.n_logits:,} logits of {plural(self.n_texts, 'text')}: {verdict}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """A model's parameters, their bytes, and the bytes of its weights files; None if not on disk."""

    n_parameters: int
    n_bytes: int
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedChange:
    """Time of one pass, alternating between the original and the smaller model.

    Times are medians; `ratio` is the median of before / after over the turns, with its quartiles:
    above 1 the smaller model is faster.
    """

    before_ms: float
    after_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    n_turns: int
    n_tokens: int

    @property
    def is_certain(self) -> bool:
        """Whether both quartiles lie on one side of 1."""
        return self.ratio_low > 1.0 or self.ratio_high < 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningReport:
    """Result of pruning a model: its heads, the check, size and speed before and after.

    `opens_in` says in words what can open the saved folder; `notes` are further facts a user must know.
    `speed` is None when it was not measured.
    """

    shape: PruneShape
    opens_in: str
    sites: tuple[SiteHeads, ...]
    removed: tuple[HeadRef, ...]
    folded: tuple[tuple[HeadRef, float], ...]
    before: ModelSize
    after: ModelSize
    proof: PruningProof
    speed: SpeedChange | None = None
    notes: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPruning(Request):
    """Remove the heads that are off from a copy of the open model, check and measure it; saves nothing."""

    needs_model = "Pruning"
    gates: Gates = NO_GATES
    text: str = ""
    target: str | None = None
    shape: PruneShape = "small"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePruned(Request):
    """Save the copy made by the TryPruning numbered `tried`."""

    needs_model = "Pruning"
    tried: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPruned(Request):
    """Free the memory of the copy, which is no longer wanted. No reply comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningTried(Reply):
    """The smaller model has been made and checked; `shapes` are the forms in which it can be saved."""

    report: PruningReport
    shapes: tuple[PruneShape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedSaved(Reply):
    """The smaller model is in `report.folder`."""

    report: PruningReport
