"""What becomes of a metric as heads are removed, least important first.

Iterative pruning after Michel et al. (2019, section 4.2): a tenth of the heads goes at a time. With
`is_rescored` the heads that are left are scored again after each removal, so that a head whose twin has
gone can become important; otherwise the first scores decide all. Heads are removed by gates of 0, which
equals removing their weights; the model is left as it was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnscope.analysis.batches import Sample, build_batches
from attnscope.analysis.bootstrap import interval_of_sums
from attnscope.analysis.importance import heads_of, importance_of_gates, learn_gates, measure_importance
from attnscope.analysis.metrics import Counts, Metric, make_metric
from attnscope.analysis.model_adapter import Subject, TokenBatch, subject_of
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.importance import (
    CurvePoint,
    CurveSoFar,
    Importance,
    LearnedGates,
    MetricName,
    PartsDone,
    PruningCurve,
    Ranking,
)
from attnscope.records.sites import NO_GATES, Gates, HeadRef

DEFAULT_RANKINGS: tuple[Ranking, ...] = ("gradient", "random")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveChoices:
    """What is measured, the share of the heads removed at a time, and how heads are scored.

    They are scored again after each removal (`is_rescored`), on `scoring_samples`, or the same texts where
    that is None; with `is_normalised` the scores of a site have the Euclidean norm 1.
    """

    metric: MetricName = "loss"
    step_share: float = 0.1
    is_rescored: bool = True
    is_normalised: bool = False
    scoring_samples: Sequence[Sample] | None = None
    batch_size: int = 16
    seed: int = 0


AS_USUAL = CurveChoices()


def pruning_curves(
    model: Model,
    samples: Sequence[Sample],
    rankings: Sequence[Ranking] = DEFAULT_RANKINGS,
    choices: CurveChoices = AS_USUAL,
) -> Iterator[PartsDone | Importance | CurveSoFar | PruningCurve]:
    """Progress, each ranking's first scores, its curve as it grows and when it is whole; stop iterating to
    cancel.

    The first scores are those with every head on. Raises UserError for an impossible share or a metric that
    does not apply.
    """
    if not 0.0 < choices.step_share <= 1.0:
        raise UserError(
            f"A share of {choices.step_share} of the heads is removed at a time.",
            expected="above 0, at most 1",
            action="A tenth (0.1) is usual.",
        )
    subject, batches = subject_of(model), build_batches(model, samples, choices.batch_size)
    scoring = batches
    if choices.scoring_samples is not None:
        scoring = build_batches(model, choices.scoring_samples, choices.batch_size)
    measure = make_metric(choices.metric, model, subject, batches, samples)
    parts: list[Counts] = []
    for part in measure.count(NO_GATES):
        parts.append(part)
        yield PartsDone(n_done=0, n_total=1, about="every head on")
    untouched = np.concatenate(parts)
    for ranking in rankings:
        order = _Order(subject, scoring, ranking, choices)
        curve = PruningCurve(
            ranking=ranking,
            metric=choices.metric,
            points=(_point(0, NO_GATES, untouched, measure),),
            n_heads=len(order.heads),
            n_texts=len(untouched),
            is_rescored=order.is_rescored,
            seed=choices.seed,
            is_per_text=bool(model.info.labels),
        )
        yield CurveSoFar(curve=curve)
        for event in _removals(order, measure, choices.step_share):
            if isinstance(event, CurvePoint):
                curve = replace(curve, points=(*curve.points, event))
                yield CurveSoFar(curve=curve)
            else:
                yield event
        yield curve


def pruning_curve(
    model: Model, samples: Sequence[Sample], ranking: Ranking = "gradient", **choices: object
) -> PruningCurve:
    """One whole curve: a metric on `samples` as heads are removed, least important by `ranking` first.

    The choices: `metric` (loss, accuracy, bleu …; loss), `step_share` of the heads removed at a time
    (0.1), `is_rescored` after each removal (True), `is_normalised` scores of each layer (False),
    `scoring_samples` to score the heads on (the same texts), `batch_size` (16), and `seed` (0).
    Raises UserError for an impossible share or a metric that does not apply.
    """
    events = pruning_curves(model, samples, (ranking,), CurveChoices(**choices))  # type: ignore[arg-type]
    return next(event for event in events if isinstance(event, PruningCurve))


def removal_steps(n_heads: int, step_share: float) -> list[int]:
    """The numbers of removed heads of a curve: 0, one step, two steps … every head."""
    step = max(1, round(n_heads * step_share))
    return [*range(0, n_heads, step), n_heads]


class _Order:
    """Says which heads go next; scores again where that is wanted and of use."""

    def __init__(
        self, subject: Subject, batches: Sequence[TokenBatch], ranking: Ranking, choices: CurveChoices
    ) -> None:
        self.heads = heads_of(subject)
        self.ranking = ranking
        # Random numbers and learned gates stay what they are; only measured scores change.
        self.is_rescored = choices.is_rescored and ranking in ("gradient", "leave-one-out")
        self._subject, self._batches, self._seed = subject, batches, choices.seed
        self._is_normalised = choices.is_normalised and ranking == "gradient"
        self._order: tuple[HeadRef, ...] = ()

    def score(self, gates: Gates) -> Iterator[PartsDone | Importance]:
        """Score the heads with the present gates, unless that is known already; the first scores are told."""
        is_first = not self._order
        if not is_first and not self.is_rescored:
            return
        n_texts = sum(batch.n_texts for batch in self._batches)
        events: Iterator[PartsDone | Importance | LearnedGates]
        if self.ranking == "learned":
            events = learn_gates(self._subject, self._batches, seed=self._seed)
        else:
            events = measure_importance(
                self._subject,
                self._batches,
                self.ranking,
                gates=gates,
                is_normalised=self._is_normalised,
                seed=self._seed,
            )
        for event in events:
            if isinstance(event, PartsDone):
                yield event
            else:
                found = importance_of_gates(event, n_texts) if isinstance(event, LearnedGates) else event
                self._order = tuple(found.order)
                if is_first:
                    yield found

    def next(self, removed: Gates, n: int) -> tuple[HeadRef, ...]:
        """The `n` least important heads that are still on."""
        gone = set(removed.off())
        return tuple(head for head in self._order if head not in gone)[:n]


def _removals(
    order: _Order, measure: Metric, step_share: float
) -> Iterator[PartsDone | Importance | CurvePoint]:
    gates = NO_GATES
    steps = removal_steps(len(order.heads), step_share)[1:]
    for index, n_removed in enumerate(steps):
        for event in order.score(gates):
            is_score = isinstance(event, Importance)
            scoring = PartsDone(n_done=index, n_total=len(steps), about=f"{order.ranking}: scoring heads")
            yield event if is_score else scoring
        going = order.next(gates, n_removed - len(gates.off()))
        gates = Gates.of({**dict(gates.values), **dict.fromkeys(going, 0.0)})
        about = f"{order.ranking}: {n_removed} of {len(order.heads)} heads off"
        parts: list[Counts] = []
        for part in measure.count(gates):
            parts.append(part)
            yield PartsDone(n_done=index, n_total=len(steps), about=about)
        yield _point(n_removed, gates, np.concatenate(parts), measure)
        yield PartsDone(n_done=index + 1, n_total=len(steps), about=about)


def _point(n_removed: int, gates: Gates, counts: Counts, measure: Metric) -> CurvePoint:
    low, high = interval_of_sums(counts, measure.value, limits=measure.limits)
    return CurvePoint(
        n_removed=n_removed,
        gates=gates,
        value=float(measure.value(counts.sum(axis=0))),
        low=low,
        high=high,
    )
