"""Why warm-up: the sizes of Adam's first updates, and their effect on training (Liu et al. 2020).

    symbol   meaning                                                         shape
    m, v     means of the gradient and of its square, corrected for bias     each parameter
    Δθ       −η·m / (√v + ε), what a step changes (Kingma and Ba 2015)       each parameter

The numbers are the worker's: a tiny Transformer is trained three times, from the same weights on the same
texts.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number, one_of, redraw
from attnscope.labs.lab import BLUE, GREEN, OLIVE, ORANGE, Lab, LabWords, claimed, in_advance
from attnscope.labs.norm_placement import PLACE_NAMES
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import (
    NO_ANSWER,
    WARMINGS,
    ExperimentAnswer,
    Place,
    Warming,
    WarmupFinding,
    WarmupQuestion,
    WarmupRun,
)

Numbers = NDArray[np.float64]
RATES: tuple[float, ...] = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02)
LAYERS: tuple[int, ...] = (2, 4, 6)
N_WARMUP: tuple[int, ...] = (5, 10, 20, 40, 60)
N_STEPS = 80
_N_LAST = 10
_CLEARLY, _TIMES = 0.1, 1.1
"""A loss is called higher than another by so many nats and so many times."""
_LITTLE, _NOTHING = 0.8, 0.95
"""Of the loss of a guess: above it a model has learned little, and nothing."""
WARMING_NAMES: dict[Warming, str] = {"none": "no warm-up", "warmup": "warm-up", "radam": "RAdam"}
CLAIM = (
    "Adam's first step moves every parameter by the whole learning rate, however small its gradient: "
    "without warm-up this can derail a model for good."
)
CHANCE = float(np.log(16))
"""The loss of a guess: the tiny models read 16 different tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupChoice:
    """The tiny model, its learning rate, its warm-up, and the selected step."""

    step: int = number(
        1,
        range(1, N_STEPS + 1),
        title="step",
        tip="The step whose updates are shown; click or drag in the lower pictures",
    )
    place: Place = one_of(
        "post",
        PLACE_NAMES,
        title="norms",
        tip="After each branch, as in Vaswani et al. 2017, or before it",
    )
    learning_rate: float = number(0.01, RATES, title="rate η", tip="Adam's learning rate")
    n_warmup: int = number(40, N_WARMUP, title="warm-up", tip="Steps over which the rate rises from 0")
    n_layers: int = number(4, LAYERS, title="layers", tip="Depth of the tiny model")
    seed: int = redraw(title="Other weights", tip="Start from other weights and texts")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """By method: the histogram of the chosen step as share of parameters, losses and typical updates by step.

    `sizes` are the middles of the bins, |Δθ|; `steps` count from 1.
    """

    choice: WarmupChoice
    step: int
    sizes: Numbers
    shares: dict[Warming, Numbers]
    steps: Numbers
    losses: dict[Warming, Numbers]
    typical: dict[Warming, Numbers]
    words: LabWords


def warm_up(choice: WarmupChoice) -> Warmup:
    finding = choice.answer.of(WarmupFinding)
    runs = {run.warming: run for run in finding.runs} if finding is not None else {}
    edges = np.array(finding.edges) if finding is not None else np.linspace(-8.0, -1.0, 71)
    step = min(max(choice.step, 1), N_STEPS)
    sizes = 10.0 ** ((edges[1:] + edges[:-1]) / 2)
    losses = {w: _padded(runs.get(w), "losses") for w in WARMINGS}
    typical = {w: _padded(runs.get(w), "typical") for w in WARMINGS}
    return Warmup(
        choice=choice,
        step=step,
        sizes=sizes,
        shares={w: _shares(runs.get(w), step, len(sizes)) for w in WARMINGS},
        steps=np.arange(1.0, N_STEPS + 1),
        losses=losses,
        typical=typical,
        words=_words(choice, step, losses, typical, finding.n_parameters if finding is not None else 0),
    )


def _padded(run: WarmupRun | None, field: str) -> Numbers:
    """The values so far, NaN for future steps."""
    values = np.full(N_STEPS, np.nan)
    if run is not None:
        known = np.array(getattr(run, field), np.float64)[:N_STEPS]
        values[: len(known)] = known
    return values


def _shares(run: WarmupRun | None, step: int, n_bins: int) -> Numbers:
    """The share of the parameters that changed in each bin."""
    if run is None or len(run.histograms) < step:
        return np.full(n_bins, np.nan)
    counts = np.array(run.histograms[step - 1], np.float64)
    return np.asarray(counts / max(counts.sum(), 1.0))


def _words(
    choice: WarmupChoice,
    step: int,
    losses: dict[Warming, Numbers],
    typical: dict[Warming, Numbers],
    n_parameters: int,
) -> LabWords:
    rate = choice.learning_rate * min(1.0, step / choice.n_warmup)
    numbers = (
        ("η now, no warm-up", format_number(choice.learning_rate)),
        ("η now, warm-up", format_number(rate)),
        *((f"median |Δθ|, {WARMING_NAMES[w]}", format_number(float(typical[w][step - 1]))) for w in WARMINGS),
        *((f"loss at the end, {WARMING_NAMES[w]}", format_number(_end(losses[w]))) for w in WARMINGS),
        ("loss of a guess, ln 16", format_number(CHANCE)),
        ("parameters", f"{n_parameters:,}" if n_parameters else "–"),
    )
    return LabWords(
        formula=("Δθ = −η·m / (√v + ε)", "step 1: m = g, √v = |g|", "so |Δθ| = η for every parameter"),
        numbers=numbers,
        sentence=_sentence(choice, losses),
    )


def _sentence(choice: WarmupChoice, losses: dict[Warming, Numbers]) -> str:
    plain, warm = (_end(losses[w]) for w in WARMINGS[:2])
    if choice.answer.progress or not np.isfinite(plain + warm):
        return claimed(CLAIM, choice.answer)
    how = "is derailed and stays" if plain > _NOTHING * CHANCE else "learns less and ends"
    if plain > max(warm + _CLEARLY, _TIMES * warm):
        return (
            f"Adam's first step moves every parameter by the whole rate, however small its gradient. "
            f"Without warm-up this model {how} at {format_number(plain, 2)} nats (a guess is "
            f"{format_number(CHANCE, 2)}); with {choice.n_warmup} steps of it, it ends at "
            f"{format_number(warm, 2)}.{in_advance(choice.answer)}"
        )
    if warm > _LITTLE * CHANCE and plain < 0.95 * warm:
        return (
            f"With {choice.n_warmup} of {N_STEPS} steps of warm-up the model has hardly begun to learn "
            f"({format_number(warm, 2)} nats, without {format_number(plain, 2)}): this rate does not need it."
        )
    if warm > _NOTHING * CHANCE:
        longer = "a longer warm-up, " if choice.n_warmup < N_WARMUP[-1] else ""
        return (
            f"With {choice.n_warmup} steps of warm-up it does not learn either: this rate is too high for "
            f"this model. Try {longer}a lower rate, fewer layers, or norms before."
        )
    if warm > _LITTLE * CHANCE:
        return (
            f"{N_STEPS} steps are too few here, with warm-up and without ({format_number(warm, 2)} and "
            f"{format_number(plain, 2)} nats, a guess is {format_number(CHANCE, 2)}): the model has hardly "
            "begun to learn."
        )
    return (
        f"Here it learns without warm-up as well ({format_number(plain, 2)} and "
        f"{format_number(warm, 2)} nats): with a low rate, or norms before, warm-up is not needed. Raise "
        f"the rate with norms after."
    )


def _end(losses: Numbers) -> float:
    return float(losses[-_N_LAST:].mean())


_OF_WARMING: dict[Warming, int] = {"none": ORANGE, "warmup": BLUE, "radam": GREEN}


def warmup_charts(shown: Warmup) -> tuple[Chart, ...]:
    """Charts of the parameters' change in a step, the loss, and the typical update."""
    at = float(shown.step)
    guess = Series(
        name="a guess", xs=shown.steps, ys=np.full(len(shown.steps), CHANCE), colour=OLIVE, is_quiet=True
    )

    def lines(values: dict[Warming, Numbers]) -> tuple[Series, ...]:
        return tuple(
            Series(name=WARMING_NAMES[w], xs=shown.steps, ys=ys, colour=_OF_WARMING[w])
            for w, ys in values.items()
        )

    return (
        Chart(
            title="Updates",
            x_label="size of the update |Δθ|",
            y_label=f"share of the parameters at step {shown.step}",
            series=tuple(
                Series(name=WARMING_NAMES[w], xs=shown.sizes, ys=ys, colour=_OF_WARMING[w])
                for w, ys in shown.shares.items()
            ),
            is_log_x=True,
        ),
        Chart(
            title="Loss",
            x_label="step",
            y_label="nats a token",
            series=(guess, *lines(shown.losses)),
            marks=((at, ""),),
        ),
        Chart(
            title="Typical update",
            x_label="step",
            y_label="median of |Δθ|",
            series=lines(shown.typical),
            is_log_y=True,
            marks=((at, ""),),
        ),
    )


class WarmUp(Lab[WarmupChoice, Warmup]):
    name = "Why warm-up"
    group = "Depth and training"
    order = 3
    shows = "Sizes of Adam's first updates with and without warm-up and with RAdam, and what follows"
    source = "Liu et al. 2020"
    search = ("inverse square root", "Noam", "learning-rate schedule")
    help = """The sizes of Adam's first updates with and without warm-up, and with RAdam, and their effect
    on the loss (Liu 2019). In the first steps the running mean of squared gradients rests on few samples,
    so the updates vary wildly. A tiny Transformer is trained here in each of the three ways. For a run of
    your own, the tab *Gradients and updates* of [Train](help:train) shows the same.
    """

    example = WarmupChoice()
    asks = WarmupQuestion
    dragged = (1, 2)
    names_px = 76
    figure_mm = (200.0, 150.0)

    resolve = staticmethod(warm_up)
    charts = staticmethod(warmup_charts)

    def drag(self, choice: WarmupChoice, x: float, y: float, *, is_start: bool) -> WarmupChoice:
        return replace(choice, step=min(max(round(x), 1), N_STEPS))
