"""Repeated fine-tuning: how much is luck (Dodge 2020), and which layers change (Zhang 2021).

    symbol       meaning                                                               shape
    a_ij         accuracy with first weights i and order of the data j                  [n_inits, n_orders]
    E[max of n]  expected best of n runs, Σ a_(k) (F(a_(k))^n − F(a_(k−1))^n)            [n_runs]
    F            share of the runs that are not better, a_(k) the k-th in order
    ‖θ_t − θ_0‖  how far a layer has come in a run, mean and deviation over the runs     [n_layers]

E[max of n] is that of Dodge et al. 2019, equation 1: n draws, with replacement, from the runs that were made.
The variance that a seed explains is that of the means of its rows over the variance of all runs. One way is
told to be better where the 95 % intervals of the paired differences, by Student's t, leave out 0: that over
the runs, and those over the means of each first weights and each order: runs that share a seed are alike.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import percent, plural
from attnscope.fields import number, redraw
from attnscope.labs.lab import BLUE, ORANGE, Lab, LabWords, asked, claimed, where_trained
from attnscope.records.charts import CellMap, Chart, Series, whiskers
from attnscope.records.experiments import NO_ANSWER, ExperimentAnswer, TuneFinding, TuneQuestion
from attnscope.records.measures import student_t

Numbers = NDArray[np.float64]
EXAMPLES: tuple[int, ...] = (32, 48, 64, 96)
STEPS: tuple[int, ...] = (15, 30, 60)
SEEDS: tuple[int, ...] = (2, 3, 4, 5)
REINITIALISED: tuple[int, ...] = (1, 2, 3)
WAYS: dict[bool, str] = {False: "all layers kept", True: "top layers anew"}
COLOURS = {False: BLUE, True: ORANGE}
CLAIM = (
    "The same model on the same sentences: the seed of the new weights and the order of the data alone "
    "decide over many points of accuracy, and the best of several runs is luck as much as merit."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneChoice:
    """The number of runs, and how each is trained."""

    n_inits: int = number(4, SEEDS, title="weights", tip="Seeds of the weights that are new")
    n_orders: int = number(4, SEEDS, title="orders", tip="Seeds of the order of the data")
    n_examples: int = number(48, EXAMPLES, title="sentences", tip="Sentences that are trained on")
    n_steps: int = number(30, STEPS, title="steps", tip="Steps of each run, 16 sentences each")
    reinit_layers: int = number(
        1, REINITIALISED, title="anew", tip="Layers next to the output that begin anew in the second way"
    )
    seed: int = redraw(title="Other runs", tip="Other sentences and other seeds", step=10)
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """By method: accuracies [n_inits, n_orders], NaN: not done; ‖θ_t − θ_0‖ of those done [n_runs,
    n_layers].
    """

    choice: TuneChoice
    layers: tuple[str, ...]
    accuracies: dict[bool, Numbers]
    moved: dict[bool, Numbers]
    words: LabWords


def tuned_so_far(choice: TuneChoice) -> Tuned:
    found = choice.answer.of(TuneFinding)
    question = found.question if found is not None else asked(TuneQuestion, choice)
    runs = found.runs if found is not None else ()
    layers = found.layers if found is not None else ()
    accuracies, moved = {}, {}
    for way in WAYS:
        grid = np.full((question.n_inits, question.n_orders), np.nan)
        of_way = [run for run in runs if run.is_reinitialised == way]
        for run in of_way:
            grid[run.init, run.order] = run.accuracy
        accuracies[way] = grid
        moved[way] = np.array([run.moved for run in of_way], np.float64).reshape(len(of_way), len(layers))
    return Tuned(
        choice=choice,
        layers=layers,
        accuracies=accuracies,
        moved=moved,
        words=_words(choice, question, found, accuracies, moved),
    )


def expected_best(values: Numbers) -> Numbers:
    """E[max of n] for 1, 2, … up to as many draws as there are values."""
    ordered = np.sort(values)
    n_values = len(ordered)
    below = np.arange(n_values + 1) / n_values  # F before and at each
    draws = np.arange(1.0, n_values + 1)[:, None]
    return np.asarray(((below[1:] ** draws - below[:-1] ** draws) * ordered).sum(axis=1))


def explained(grid: Numbers, axis: int) -> float:
    """The share of the variance of all runs explained by the means along an axis; NaN if all are equal."""
    whole = float(grid.var())
    return float(grid.mean(axis=1 - axis).var() / whole) if whole > 0 else float("nan")


def _words(
    choice: TuneChoice,
    question: TuneQuestion,
    found: TuneFinding | None,
    accuracies: dict[bool, Numbers],
    moved: dict[bool, Numbers],
) -> LabWords:
    def both(numbers: dict[bool, str]) -> str:
        return " · ".join(numbers[way] for way in WAYS)

    def told(compute: Callable[[Numbers], float]) -> str:
        return both({way: _percent(compute, grid) for way, grid in accuracies.items()})

    numbers = (
        (" · ".join(WAYS.values()), "accuracy"),
        ("mean", told(np.mean)),
        ("worst", told(np.min)),
        ("best", told(np.max)),
        ("standard deviation", told(lambda grid: float(grid.std(ddof=1)))),
        ("variance by first weights", told(lambda grid: explained(grid, 0))),
        ("variance by order", told(lambda grid: explained(grid, 1))),
        (where_trained(choice.answer), f"{question.n_steps} × 16 sentences"),
        ("held-out sentences", str(found.n_held_out) if found is not None else "–"),
        ("parameters", f"{found.n_parameters:,}" if found is not None and found.n_parameters else "–"),
    )
    return LabWords(
        formula=("E[max of n] = Σ a₍ₖ₎ (F(a₍ₖ₎)ⁿ − F(a₍ₖ₋₁₎)ⁿ)", "moved: ‖θ_t − θ_0‖"),
        numbers=numbers,
        sentence=_sentence(choice, question, accuracies, moved),
    )


def _percent(compute: Callable[[Numbers], float], grid: Numbers) -> str:
    if not np.isfinite(grid).all():
        return "–"
    return percent(float(compute(grid)), 1)


def _sentence(
    choice: TuneChoice, question: TuneQuestion, accuracies: dict[bool, Numbers], moved: dict[bool, Numbers]
) -> str:
    if choice.answer.progress or not all(np.isfinite(grid).all() for grid in accuracies.values()):
        return claimed(CLAIM, choice.answer)
    plain, anew = accuracies[False], accuracies[True]
    kept = ", trained in advance" if choice.answer.is_kept else ""
    differences = anew - plain
    reach = max(map(_reach, (differences.ravel(), differences.mean(axis=0), differences.mean(axis=1))))
    better = "better" if differences.mean() > 0 else "worse"
    clear = better if abs(differences.mean()) > reach else "not clearly better or worse"
    ends = [f"{100 * one:.0f}" for one in (plain.min(), plain.max())]
    luck = (
        f"{' to '.join(ends)} %: whoever reports the best of them reports luck"
        if plain.min() < plain.max()
        else f"{ends[0]} %, all of them"
    )
    return (
        f"{plural(plain.size, 'run')} that differ in their seeds alone reach {luck}. With "
        f"{plural(question.reinit_layers, 'top layer')} begun anew the mean is {clear}: "
        f"{100 * anew.mean():.1f} against {100 * plain.mean():.1f} %{kept}."
    )


def _reach(values: Numbers) -> float:
    """Half the width of the 95 % interval of a mean."""
    return student_t(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))


def tune_cells(shown: Tuned) -> tuple[CellMap, ...]:
    """Accuracy by both seeds, for each method."""
    return tuple(
        CellMap(
            title=WAYS[way].capitalize(),
            note="accuracy, %",
            values=100 * grid,
            limit=100.0,
            rows=tuple(str(i + 1) for i in range(grid.shape[0])),
            columns=tuple(str(j + 1) for j in range(grid.shape[1])),
            row_title="first weights",
            column_title="order of the data",
            has_numbers=True,
            is_wide=True,
        )
        for way, grid in shown.accuracies.items()
    )


def tune_charts(shown: Tuned) -> tuple[Chart, ...]:
    """The expected best of n runs, and the change of each layer."""
    best, far = [], []
    xs = np.arange(1.0, len(shown.layers) + 1)
    for way, grid in shown.accuracies.items():
        done = grid[np.isfinite(grid)]
        draws = np.arange(1.0, len(done) + 1)
        ys = expected_best(done) if len(done) else np.zeros(0)
        best.append(Series(name=WAYS[way], xs=draws, ys=100 * ys, colour=COLOURS[way], has_points=True))
        rows = shown.moved[way]
        if len(rows):
            mean, deviation = rows.mean(axis=0), rows.std(axis=0, ddof=1 if len(rows) > 1 else 0)
            ends = np.stack([mean - deviation, mean + deviation], axis=1)
            bars = whiskers(xs, ends, COLOURS[way], "deviation")
            far += [bars, Series(name=WAYS[way], xs=xs, ys=mean, colour=COLOURS[way], has_points=True)]
    return (
        Chart(title="Best of n", x_label="n runs", y_label="expected accuracy, %", series=tuple(best)),
        Chart(
            title="Change by layer",
            x_label="",
            y_label="‖θ_t − θ_0‖ ± std. dev.",
            series=tuple(far),
            x_names=tuple(name.removeprefix("encoder ") for name in shown.layers),
        ),
    )


class FineTuning(Lab[TuneChoice, Tuned]):
    name = "Fine-tuning and luck"
    group = "Depth and training"
    order = 7
    shows = "One model fine-tuned with many seeds: spread of accuracy, best of n runs, change of each layer"
    source = "Dodge et al. 2020, Zhang et al. 2021"
    search = (
        "fine-tuning instability",
        "early stopping",
        "variance over seeds",
        "random seeds",
        "weight change by layer",
    )
    help = """The model *stories-masked* is fine-tuned again and again on a few sentences whose mood it is to
    tell; nothing differs but two seeds, that of the new weights and that of the order of the data. The maps
    show the accuracy of every pair, the first chart the best accuracy to be expected of n runs (Dodge 2019,
    2020): it grows with n though no run is a better method. In the second way the layers next to the
    output begin anew (Zhang 2021), and the second chart shows how far each layer has come from where it
    began. For runs of your own: *×n* on the page Train trains a recipe with several seeds, `reinit_layers`
    in [start] begins layers anew, and with `inspect_every` in [training] the
    [accumulated update](help:train#gradients-and-updates) of every layer is drawn.
    """

    example = TuneChoice()
    asks = TuneQuestion
    names_px = 100
    figure_mm = (200.0, 170.0)

    resolve = staticmethod(tuned_so_far)
    cells = staticmethod(tune_cells)
    charts = staticmethod(tune_charts)
