"""Induction heads forming in training (Olsson et al. 2022, argument 1), on one axis with the loss.

| symbol    | meaning                                                                            |
|-----------|------------------------------------------------------------------------------------|
| induction | the stripe: weight at offset 1 − s over the second copy of random tokens, best head |
| previous  | weight on the token before, best head                                              |
| loss      | nats per token of the second copy, over held-out rows                              |

A change's middle is the step at which half of the way from its first to its last value is covered, its
window the steps from a tenth to nine tenths of the way; between checkpoints values are joined by lines.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnscope.analysis.batches import build_batches, text_losses
from attnscope.analysis.corpus import measure_corpus
from attnscope.analysis.importance import heads_of
from attnscope.analysis.model_adapter import subject_of
from attnscope.models import Model, load
from attnscope.records.charts import Chart, Series
from attnscope.records.importance import PartsDone
from attnscope.records.measures import HeadTable
from attnscope.records.sites import HeadRef
from attnscope.studies.making import QUICK, checkpoints_of, parameters_said, run_folder, train_study
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard
from attnscope.text.examples import Example
from attnscope.text.tasks import make_task

CARD = StudyCard(
    name="induction",
    place=2,
    paper="Olsson et al. 2022, In-context learning and induction heads",
    question="Do induction heads form abruptly, together with the drop of the loss?",
)

_LAYERS = (2, 1)
_N_ROWS = 64
_TASK = {"min_words": 10, "max_words": 25}
_HELD_OUT_SEED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One checkpoint: the loss, and both scores of every head in the order of the model's heads."""

    step: int
    loss: float
    induction: tuple[float, ...]
    previous: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All checkpoints of one run."""

    n_layers: int
    heads: tuple[HeadRef, ...]
    looks: tuple[Look, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of the checkpoints."""
        return tuple(look.step for look in self.looks)

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss at each."""
        return tuple(look.loss for look in self.looks)

    @property
    def induction(self) -> tuple[float, ...]:
        """The best head's induction score at each."""
        return tuple(max(look.induction) for look in self.looks)

    @property
    def previous(self) -> tuple[float, ...]:
        """The best head's previous-token score at each."""
        return tuple(max(look.previous) for look in self.looks)


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Train two layers, and one layer as the control; then look at every checkpoint."""
    rows = make_task("induction", **_TASK).examples(
        4 if choices.is_quick else _N_ROWS, seed=_HELD_OUT_SEED, held_out=True
    )
    histories: list[History] = []
    for n_layers in _LAYERS:
        out = run_folder(choices, f"{n_layers}-layers")
        changes = {**(QUICK if choices.is_quick else {}), "model.n_layers": str(n_layers)}
        yield from train_study("induction", out, seed=choices.seed, device=choices.device, changes=changes)
        for event in look_back(out, rows, choices.device):
            if isinstance(event, History):
                histories.append(event)
            else:
                yield event
    model = load(run_folder(choices, f"{_LAYERS[0]}-layers"), device=choices.device)
    yield _study(choices, histories[0], histories[1], model)


def look_back(run: Path, rows: Sequence[Example], device: str = "auto") -> Iterator[PartsDone | History]:
    """Progress after each checkpoint of a run, then its history."""
    checkpoints = checkpoints_of(run)
    looks: list[Look] = []
    heads: tuple[HeadRef, ...] = ()
    for step, folder in checkpoints:
        model = load(folder, device=device)
        heads = heads_of(subject_of(model))
        looks.append(look_at(model, rows, step))
        yield PartsDone(n_done=len(looks), n_total=len(checkpoints), about=f"looking at {run.name}")
    n_layers = 1 + max(head.layer for head in heads)
    yield History(n_layers=n_layers, heads=heads, looks=tuple(looks))


def look_at(model: Model, rows: Sequence[Example], step: int) -> Look:
    """One checkpoint on rows written twice, of which the second copy is scored."""
    subject = subject_of(model)
    losses: list[float] = []
    for batch in build_batches(model, rows):
        with subject.studying():
            losses += text_losses(subject, batch).tolist()
    texts = [row.source for row in rows]
    table = next(event for event in measure_corpus(model, texts) if isinstance(event, HeadTable))
    heads = heads_of(subject)
    return Look(
        step=step,
        loss=float(np.mean(losses)),
        induction=tuple(table.estimate(head, "stripe").value for head in heads),
        previous=tuple(table.estimate(head, "previous").value for head in heads),
    )


def middle_of(steps: Sequence[float], values: Sequence[float], share: float = 0.5) -> float:
    """The first step by which `share` of the way from the first to the last value is covered, or NaN."""
    start, end = values[0], values[-1]
    if start == end:
        return math.nan
    covered = [(value - start) / (end - start) for value in values]
    for index in range(1, len(values)):
        if covered[index] >= share:
            before, after = covered[index - 1], covered[index]
            part = 0.0 if after == before else (share - before) / (after - before)
            return steps[index - 1] + part * (steps[index] - steps[index - 1])
    return math.nan


def window_of(steps: Sequence[float], values: Sequence[float]) -> float:
    """Steps from a tenth to nine tenths of the way."""
    return middle_of(steps, values, 0.9) - middle_of(steps, values, 0.1)


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Pearson's correlation; NaN where one of them does not change."""
    x, y = np.array(xs) - np.mean(xs), np.array(ys) - np.mean(ys)
    length = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / length if length else math.nan


_DIFFERENCES = (
    "Theirs are language models on text, 1 to 40 layers; ours reads random letters written twice, in which"
    " induction is the only thing to learn. What they call in-context learning (loss late in a text against"
    " loss early) is here the loss of the second copy: the first cannot be told by anyone.",
    "Their window is 2.5 to 5 billion tokens of text; ours is counted in steps of a short run, so only its"
    " share of the run can be compared, and that only loosely.",
    "Our models have feed-forward layers and rotary positions; their small ones come with and without the"
    " former.",
    "One layer is the control: letters that the first copy has and the second has not had yet can be told"
    " from one layer, so its loss falls as well, but not to nothing.",
)


def _study(choices: Choices, two: History, one: History, model: Model) -> Study:
    return Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=(
            ("model", parameters_said("induction", model.info.n_parameters)),
            ("control", "the same with one layer"),
            ("checkpoints", f"{len(two.looks)}, up to step {two.steps[-1]:,}"),
            ("probes", "loss and previous on held-out rows; induction on random letters written twice"),
            ("seed", str(choices.seed)),
        ),
        comparisons=_compare(two, one),
        differences=_DIFFERENCES,
        charts=_charts(two, one),
        columns=("n_layers", "step", "loss", "head", "induction", "previous"),
        data=tuple(row for history in (two, one) for row in _rows(history)),
        model=model.info.name,
        sha256=model.info.sha256,
    )


def _compare(two: History, one: History) -> tuple[PaperComparison, ...]:
    best = two.heads[int(np.argmax(two.looks[-1].induction))]
    gained = [history.losses[0] - history.losses[-1] for history in (two, one)]
    return (
        PaperComparison(
            what=f"best induction score at the end, two layers ({best.label})",
            published="direction only: induction heads form",
            where="argument 1, models of 2 layers or more",
            ours=two.induction[-1],
            unit=f"of the weight, {two.induction[0]:.2f} at the start",
            is_as_published=two.induction[-1] > 0.5,
        ),
        PaperComparison(
            what="best induction score at the end, one layer",
            published="direction only: none form",
            where="argument 1, one-layer model",
            ours=one.induction[-1],
            unit="of the weight",
            is_as_published=one.induction[-1] < 0.5 * two.induction[-1],
        ),
        *_compare_times(two),
        PaperComparison(
            what="fall of the loss with one layer over that with two",
            published="direction only: with one layer little in-context learning ever forms",
            where="argument 1",
            ours=gained[1] / gained[0] if gained[0] else math.nan,
            unit=f"(to {one.losses[-1]:.2f} and {two.losses[-1]:.2f} nats)",
            is_as_published=gained[1] < 0.75 * gained[0],
        ),
    )


def _compare_times(two: History) -> tuple[PaperComparison, ...]:
    """Compare when and how quickly things happen with two layers."""
    loss_at, score_at = middle_of(two.steps, two.losses), middle_of(two.steps, two.induction)
    previous_at = middle_of(two.steps, two.previous)
    width, n_steps = window_of(two.steps, two.induction), two.steps[-1]
    together = correlation(two.losses, two.induction)
    return (
        PaperComparison(
            what="window in which the induction score rises (a tenth to nine tenths)",
            published="2.5 to 5 billion tokens of training, early and narrow",
            where="argument 1",
            ours=width,
            unit=f"steps of {n_steps:,}",
            is_as_published=width < 0.35 * n_steps,
            remark="Only the share of the run is compared: about a third or less counts as abrupt.",
        ),
        PaperComparison(
            what="middle of the loss's fall minus middle of the induction score's rise",
            published="direction only: at the same time",
            where="argument 1",
            ours=loss_at - score_at,
            unit=f"steps (loss {loss_at:.0f}, score {score_at:.0f})",
            is_as_published=abs(loss_at - score_at) < max(width, 1.0),
            remark=f"Correlation of loss and score over the checkpoints: {together:.2f}.",
        ),
        PaperComparison(
            what="middle of the previous-token score's rise minus that of the induction score's",
            published="direction only: induction heads read what a previous-token head wrote below",
            where="after Elhage et al. 2021",
            ours=previous_at - score_at,
            unit=f"steps (best previous-token score {two.previous[-1]:.2f})",
            is_as_published=previous_at <= score_at + width,
        ),
    )


def _charts(two: History, one: History) -> tuple[Chart, ...]:
    return (
        Chart(
            title="Two layers: scores and loss",
            x_label="step",
            y_label="best head's score; loss as share of its first value",
            series=(
                _series("induction", two.steps, two.induction, 0),
                _series("previous token", two.steps, two.previous, 2),
                _series("loss", two.steps, _as_share(two.losses), 1),
            ),
            y_range=(0.0, 1.08),
        ),
        Chart(
            title="One layer",
            x_label="step",
            y_label="the same",
            series=(
                _series("induction", one.steps, one.induction, 0),
                _series("previous token", one.steps, one.previous, 2),
                _series("loss", one.steps, _as_share(one.losses), 1),
            ),
            y_range=(0.0, 1.08),
        ),
        Chart(
            title="Loss",
            x_label="step",
            y_label="nats per token of the second copy",
            series=(
                _series("two layers", two.steps, two.losses, 1),
                _series("one layer", one.steps, one.losses, 3),
            ),
        ),
    )


def _series(name: str, steps: Sequence[float], values: Sequence[float], colour: int) -> Series:
    return Series(
        name=name, xs=np.array(steps, np.float64), ys=np.array(values), colour=colour, has_points=True
    )


def _as_share(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(value / values[0] for value in values)


def _rows(history: History) -> list[tuple[Cell, ...]]:
    return [
        (history.n_layers, look.step, look.loss, head.label, induction, previous)
        for look in history.looks
        for head, induction, previous in zip(history.heads, look.induction, look.previous, strict=True)
    ]
