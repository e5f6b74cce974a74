"""Pruning curves (Michel, Levy and Neubig 2019, section 4), and each stack by itself (section 5).

Heads are scored on one half of the texts, the metrics are those of the other half. A share of the heads is
called removable when the accuracy stays within `TOLERANCE` of the whole model's, at that point of the curve
and at every one before it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnscope.analysis.batches import Sample, build_batches
from attnscope.analysis.importance import CurveChoices, importance, pruning_curves, removal_steps
from attnscope.analysis.metrics import Metric, make_metric
from attnscope.analysis.model_adapter import subject_of
from attnscope.models import Model, load
from attnscope.records.charts import Chart, Series
from attnscope.records.importance import Importance, MetricName, PartsDone, PruningCurve, Ranking
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack
from attnscope.studies.making import DEMO, halves
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard

CARD = StudyCard(
    name="pruning-curve",
    place=3,
    paper="Michel, Levy and Neubig 2019, Are sixteen heads really better than one?",
    question="How many heads can be removed before a model gets worse, and in which order?",
    takes=("model", "corpus"),
)

TOLERANCE = 0.01
"""So much of the whole model's accuracy may go before heads count as missed."""
_N_TEXTS, _N_SEEDS = 256, 5
_LIKE = (0.15, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One order of removal: at each number of heads removed, the loss and the accuracy."""

    name: str
    n_removed: tuple[int, ...]
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    n_heads: int

    @property
    def removable(self) -> float:
        """The share of heads that can go; see the module's text."""
        return removable_share(self.n_removed, self.accuracies, self.n_heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How the next heads to remove are chosen."""

    name: str
    ranking: Ranking
    is_rescored: bool = False
    is_normalised: bool = False
    seed: int = 0


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Curves of every order on the grammar demo or the model given, then each stack alone."""
    model = load(choices.model or DEMO, device=choices.device)
    n_texts = 8 if choices.is_quick else _N_TEXTS
    scoring, measuring, source = halves(model, n_texts, choices.corpus)
    step_share = 0.5 if choices.is_quick else 0.1
    removals: list[Removal] = []
    for order in orders(2 if choices.is_quick else _N_SEEDS, choices.seed):
        for event in follow(model, order, scoring, measuring, step_share):
            if isinstance(event, Removal):
                removals.append(event)
            else:
                yield event
    found = importance(model, scoring, "gradient", is_normalised=True)
    stacks: list[Removal] = []
    for stack in dict.fromkeys(site.stack for site in model.sites):
        yield PartsDone(n_done=len(stacks), n_total=3, about=f"removing heads of {stack}")
        stacks.append(remove_of(model, found, stack, measuring))
    texts = f"{len(scoring)} to score, {len(measuring)} to measure; {source}"
    yield _study(choices, model, removals, stacks, texts)


def orders(n_seeds: int, seed: int) -> tuple[Order, ...]:
    """Every order of the study; the random ones last."""
    measured = (
        Order(name="gradient, iterated", ranking="gradient", is_rescored=True, is_normalised=True),
        Order(name="gradient, once", ranking="gradient", is_normalised=True),
        Order(name="leave one out, iterated", ranking="leave-one-out", is_rescored=True),
        Order(name="leave one out, once", ranking="leave-one-out"),
    )
    controls = (Order(name=f"random {n}", ranking="random", seed=seed + n) for n in range(n_seeds))
    return (*measured, *controls)


def follow(
    model: Model, order: Order, scoring: Sequence[Sample], measuring: Sequence[Sample], step_share: float
) -> Iterator[PartsDone | Removal]:
    """Progress, and the removal in one order: the curve's own losses, and the accuracies of its gates."""
    events = pruning_curves(
        model,
        measuring,
        (order.ranking,),
        CurveChoices(
            metric="loss",
            step_share=step_share,
            is_rescored=order.is_rescored,
            is_normalised=order.is_normalised,
            scoring_samples=scoring,
            seed=order.seed,
        ),
    )
    measure = _metric(model, measuring, "accuracy")
    for event in events:
        if isinstance(event, PruningCurve):
            yield Removal(
                name=order.name,
                n_removed=tuple(point.n_removed for point in event.points),
                losses=tuple(point.value for point in event.points),
                accuracies=tuple(measure.of(point.gates) for point in event.points),
                n_heads=event.n_heads,
            )
        elif isinstance(event, PartsDone):
            yield PartsDone(n_done=event.n_done, n_total=event.n_total, about=f"{order.name}: {event.about}")


def remove_of(model: Model, found: Importance, stack: Stack, measuring: Sequence[Sample]) -> Removal:
    """Remove the heads of one stack, an eighth at a time, the least important of it first."""
    heads: list[HeadRef] = [head for head in found.order if head.stack == stack]
    loss, accuracy = _metric(model, measuring, "loss"), _metric(model, measuring, "accuracy")
    steps = removal_steps(len(heads), 0.125)
    gates = [Gates.of(dict.fromkeys(heads[:n], 0.0)) if n else NO_GATES for n in steps]
    return Removal(
        name=stack,
        n_removed=tuple(steps),
        losses=tuple(loss.of(one) for one in gates),
        accuracies=tuple(accuracy.of(one) for one in gates),
        n_heads=len(heads),
    )


def removable_share(n_removed: Sequence[int], accuracies: Sequence[float], n_heads: int) -> float:
    """The largest share of heads removed before the accuracy first leaves the tolerance."""
    most = 0
    for n, accuracy in zip(n_removed, accuracies, strict=True):
        if accuracy < accuracies[0] - TOLERANCE:
            break
        most = n
    return most / n_heads


_DIFFERENCES = (
    "Their models have 288 heads (WMT, 6 layers of 16 heads in three stacks) and 144 (BERT); ours is small.",
    "Their metric is BLEU or a task's accuracy after writing; ours is the accuracy of each token with the"
    " right ones before it, which falls later than BLEU would.",
    f"“Without noticeable effect” is here an accuracy within {100 * TOLERANCE:g} point of the whole model's.",
    "Scores are normalised by layer as in their section 4.1; heads are scored on texts other than those"
    " measured.",
)
_DEMO_DIFFERENCE = (
    "The demo has 48 heads in two layers and solves a small grammar completely: it has more heads to spare"
    " than a model of a whole language, and its encoder can do without attention."
)


def _study(
    choices: Choices, model: Model, removals: Sequence[Removal], stacks: Sequence[Removal], texts: str
) -> Study:
    return Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=(
            ("model", f"{model.info.name}, {removals[0].n_heads} heads"),
            ("texts", texts),
            ("accuracy of the whole model", f"{removals[0].accuracies[0]:.4f}"),
            ("random orders", str(len(_random(removals)))),
            ("seed", str(choices.seed)),
        ),
        comparisons=_compare(removals, stacks),
        differences=(*_DIFFERENCES, *(() if choices.model else (_DEMO_DIFFERENCE,))),
        charts=_charts(removals, stacks),
        columns=("order", "n_heads", "n_removed", "loss", "accuracy"),
        data=tuple(row for one in (*removals, *stacks) for row in _rows(one)),
        model=model.info.name,
        sha256=model.info.sha256,
    )


def _compare(removals: Sequence[Removal], stacks: Sequence[Removal]) -> tuple[PaperComparison, ...]:
    by_name = {one.name: one for one in removals}
    first, chance = by_name["gradient, iterated"], [one.removable for one in _random(removals)]
    rows = [_share_of(by_name[order.name]) for order in orders(0, 0)]
    rows.append(
        PaperComparison(
            what=f"heads removable, random order, mean of {len(chance)}",
            published="direction only: a random order does worse",
            where="control",
            ours=float(np.mean(chance)),
            low=min(chance),
            high=max(chance),
            unit="of the heads",
            is_as_published=_beats(first.removable, chance),
            undecided="within what random orders give",
        )
    )
    rows.append(_worth_scoring_again(by_name))
    by_stack = {one.name: one.removable for one in stacks}
    if "cross" in by_stack:
        others = max(share for name, share in by_stack.items() if name != "cross")
        rows.append(
            PaperComparison(
                what="cross-attention heads removable, alone",
                published="direction only: encoder–decoder attention depends most on many heads",
                where="abstract; section 5",
                ours=by_stack["cross"],
                unit=", ".join(f"{name} {share:.2f}" for name, share in by_stack.items() if name != "cross"),
                is_as_published=by_stack["cross"] < others,
            )
        )
    return tuple(rows)


def _beats(share: float, chance: Sequence[float]) -> bool | None:
    """Whether more can be removed than in any random order, or less; None where it lies among them."""
    return None if min(chance) <= share <= max(chance) else share > max(chance)


def _share_of(one: Removal) -> PaperComparison:
    published = "0.20 (WMT) and 0.40 (BERT)" if one.name == "gradient, iterated" else "—"
    is_like = _LIKE[0] <= one.removable <= _LIKE[1] if published != "—" else None
    return PaperComparison(
        what=f"heads removable, {one.name}",
        published=published,
        where="section 4.2" if published != "—" else "—",
        ours=one.removable,
        unit="of the heads",
        is_as_published=is_like,
        remark=f"From {_LIKE[0]} to {_LIKE[1]} counts as theirs." if published != "—" else "",
    )


def _worth_scoring_again(by_name: Mapping[str, Removal]) -> PaperComparison:
    again, once = by_name["gradient, iterated"], by_name["gradient, once"]
    pairs = zip(once.losses[1:-1], again.losses[1:-1], strict=True)
    gains = [a - b for a, b in pairs] or [math.nan]
    return PaperComparison(
        what="loss saved by scoring again after each removal, mean over the curve",
        published="nothing claimed",
        where="—",
        ours=float(np.mean(gains)),
        unit="nats per token",
    )


def _charts(removals: Sequence[Removal], stacks: Sequence[Removal]) -> tuple[Chart, ...]:
    total = f"heads removed of {removals[0].n_heads}"
    label = "share of tokens predicted correctly"
    shares = [
        Series(
            name=one.name,
            xs=np.array(one.n_removed, np.float64) / one.n_heads,
            ys=np.array(one.accuracies),
            colour=colour,
            has_points=True,
        )
        for colour, one in enumerate(stacks)
    ]
    return (
        Chart(
            title="Accuracy",
            x_label=total,
            y_label=label,
            series=_lines(removals, "accuracies"),
            y_range=(0.0, 1.02),
        ),
        Chart(title="Loss", x_label=total, y_label="nats per token", series=_lines(removals, "losses")),
        Chart(
            title="One stack alone",
            x_label="share of its heads removed",
            y_label=label,
            series=tuple(shares),
            y_range=(0.0, 1.02),
        ),
    )


def _lines(removals: Sequence[Removal], what: str) -> tuple[Series, ...]:
    """One curve for each measured order; the random ones faint, and their mean."""
    chance = _random(removals)
    measured = [one for one in removals if one not in chance]
    series = [_line(one.name, one, getattr(one, what), colour=colour) for colour, one in enumerate(measured)]
    faint = [_line("", one, getattr(one, what), colour=5, is_quiet=True) for one in chance]
    mean = np.mean([getattr(one, what) for one in chance], axis=0)
    return (*faint, *series, _line("random, mean", chance[0], mean, colour=5))


def _line(name: str, one: Removal, values: Sequence[float], *, colour: int, is_quiet: bool = False) -> Series:
    xs = np.array(one.n_removed, np.float64)
    return Series(
        name=name, xs=xs, ys=np.array(values), colour=colour, is_quiet=is_quiet, has_points=not is_quiet
    )


def _random(removals: Sequence[Removal]) -> list[Removal]:
    return [one for one in removals if one.name.startswith("random")]


def _rows(one: Removal) -> list[tuple[Cell, ...]]:
    columns = zip(one.n_removed, one.losses, one.accuracies, strict=True)
    return [(one.name, one.n_heads, n, loss, accuracy) for n, loss, accuracy in columns]


def _metric(model: Model, samples: Sequence[Sample], name: MetricName) -> Metric:
    return make_metric(name, model, subject_of(model), build_batches(model, samples), samples)
