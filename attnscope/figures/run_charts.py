"""Curves of training as charts, for window, export and command line: runs, seeds, gradients, scaling."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from attnscope.records.charts import Chart, ChartField, Series
from attnscope.records.runs import UPDATE_BINS, InspectionHistory, Numbers, RunSummary, loss_unit, seed_groups
from attnscope.viewmodels.training.overlaid_curves import (
    CurveLine,
    Drawing,
    Quantity,
    ShownRun,
    lines_of,
    unit_of_losses,
)
from attnscope.viewmodels.training.recipe_text import told_apart
from attnscope.viewmodels.training.run_curves import AXES
from attnscope.viewmodels.training.run_inspections import typical_updates
from attnscope.viewmodels.training.scaling import (
    PUBLISHED_BY,
    SCALES,
    UNITS,
    Scale,
    ScalingPoints,
    published_law,
    scaling_points,
)

# Gradients by layer and sizes of updates over the steps of a run as charts: for window and export.

_MOST_NAMED = 8
_MEDIAN, _RATE = 1, 6


def inspection_charts(history: InspectionHistory) -> tuple[Chart, ...]:
    """The gradient's norm of every layer and how many weights changed by how much, both logarithmic; where
    they are known, how far the layers have come from their first weights, and the inputs of the norms.
    """
    layers, norms = history.layers, history.norms
    found = [
        _by_name(history, "Gradients by layer", "norm before clipping", layers, history.gradient_norms),
        _updates(history),
    ]
    if np.isfinite(history.moved_norms).any():
        moved = _by_name(history, "Accumulated update", "‖θ_t − θ_0‖", layers, history.moved_norms)
        found.append(replace(moved, is_log_y=False))
    if norms:
        found.append(_by_name(history, "Inputs of the norms", "root mean square", norms, history.norm_inputs))
    return tuple(found)


def _by_name(
    history: InspectionHistory, title: str, y_label: str, names: Sequence[str], values: Numbers
) -> Chart:
    n = len(names)
    named = set(np.linspace(0, n - 1, min(n, _MOST_NAMED)).round().astype(int).tolist())
    return Chart(
        title=title,
        x_label="step",
        y_label=y_label,
        is_log_y=True,
        series=tuple(
            Series(name=name, xs=history.steps, ys=norms, colour=i, has_label=i in named)
            for i, (name, norms) in enumerate(zip(names, values, strict=True))
        ),
    )


def _updates(history: InspectionHistory) -> Chart:
    rates = np.where(history.learning_rates > 0, history.learning_rates, np.nan)
    return Chart(
        title="Sizes of updates",
        x_label="step",
        y_label="|Δθ| of single weights",
        is_log_y=True,
        series=(
            Series(name="median", xs=history.steps, ys=typical_updates(history), colour=_MEDIAN),
            Series(name="learning rate", xs=history.steps, ys=rates, colour=_RATE),
        ),
        field=ChartField(
            xs=history.steps,
            edges=10.0 ** np.array(UPDATE_BINS),
            values=history.update_counts,
            unit="weights",
        ),
    )


# Loss against parameters, data and compute over several runs as charts: for window and command line.

TITLES: dict[Scale, str] = {"parameters": "Size", "data": "Data", "compute": "Compute"}
_MUST_REACH = 1.6
"""Learning curves are drawn from where they are within this factor of the worst run's end."""


_BESIDE = 1.25
"""How far a published law is drawn past the points, as a factor: also where there is only one."""


def scaling_charts(runs: Sequence[RunSummary], *, has_published: bool = False) -> tuple[Chart, ...]:
    """A chart for each scale, both axes logarithmic; none when no run has converged.

    Points are the finished runs with what tells their names apart; the dashed line is the power law,
    stated beside the title. On data and compute the way of each run stands behind its point.
    `has_published` adds the law of Kaplan et al. 2020.
    """
    finished = [run for run in runs if run.is_converged]
    if not finished:
        return ()
    return tuple(
        _chart(scaling_points(runs, scale), finished, has_published=has_published) for scale in SCALES
    )


def _chart(points: ScalingPoints, finished: Sequence[RunSummary], *, has_published: bool) -> Chart:
    series = [] if points.scale == "parameters" else list(_ways(points.scale, finished))
    if has_published and len(points.xs):
        xs = np.geomspace(points.xs[0] / _BESIDE, points.xs[-1] * _BESIDE, 50)
        ys = published_law(points.scale).at(xs)
        series.append(Series(name=PUBLISHED_BY, xs=xs, ys=ys, colour=1, is_dashed=True))
    if points.law is not None:
        xs = np.geomspace(points.xs[0], points.xs[-1], 50)
        series.append(Series(name="", xs=xs, ys=points.law.at(xs), is_reference=True))
    labels = told_apart(points.names)
    series.append(Series(name="", xs=points.xs, ys=points.losses, style="points", labels=labels))
    stated = points.law.words(points.scale) if points.law is not None else points.note
    return Chart(
        title=TITLES[points.scale],
        x_label=UNITS[points.scale],
        y_label=f"{loss_unit(run.objective for run in finished)}; {stated}",
        series=tuple(series),
        is_log_x=True,
        is_log_y=True,
    )


def _ways(scale: Scale, runs: Sequence[RunSummary]) -> list[Series]:
    """The held-out loss of each run on its way, quietly."""
    highest = _MUST_REACH * max(run.best_loss for run in runs)
    ways = []
    for run in runs:
        whole = run.n_tokens if scale == "data" else run.flops
        if not (np.isfinite(whole) and whole > 0 and run.step > 0):
            continue
        losses = np.where(run.validation.values <= highest, run.validation.values, np.nan)
        xs = run.validation.steps * (whole / run.step)
        ways.append(Series(name="", xs=xs[xs > 0], ys=losses[xs > 0], is_quiet=True))
    return ways


# Runs that differ in nothing but the seed, as one curve: mean held-out loss, with a standard deviation.


def seed_chart(runs: Sequence[RunSummary], *, is_log: bool = False) -> Chart:
    """The mean over seeds at the steps that all seeds of a setting have; quiet lines one deviation off.

    The deviation is the sample's (n − 1). A setting with one seed has its curve alone. Raises ValueError
    where no run has a held-out loss.
    """
    series: list[Series] = []
    has_spread = False
    for colour, (settings, seeds) in enumerate(seed_groups(runs).items()):
        steps, losses = _losses(seeds)
        if not len(steps):
            continue
        named = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings)
        named = named or ("mean" if len(seeds) > 1 else "validation")
        mean = losses.mean(axis=0)
        if len(seeds) > 1:
            has_spread, deviation = True, losses.std(axis=0, ddof=1)
            series += [
                Series(
                    name=f"{named}, {sign} s", xs=steps, ys=ys, colour=colour, is_quiet=True, has_label=False
                )
                for sign, ys in (("−", mean - deviation), ("+", mean + deviation))
            ]
            named += f" ({len(seeds)} seeds)"
        series.append(Series(name=named, xs=steps, ys=mean, colour=colour, has_points=True))
    if not series:
        raise ValueError("no run has a held-out loss")
    unit = loss_unit(run.objective for run in runs)
    return Chart(
        title="Held-out loss, mean over seeds" if has_spread else "Held-out loss",
        x_label="step",
        y_label=f"{unit}; pale: one standard deviation" if has_spread else unit,
        series=tuple(series),
        is_log_y=is_log,
    )


def _losses(seeds: Sequence[RunSummary]) -> tuple[np.ndarray, np.ndarray]:
    """The steps [n] at which every seed has a loss, and the losses [n_seeds, n]."""
    known = [run.validation.steps[np.isfinite(run.validation.values)] for run in seeds]
    steps = reduce(np.intersect1d, known)
    rows = [run.validation.values[np.searchsorted(run.validation.steps, steps)] for run in seeds]
    return steps.astype(np.float64), np.array(rows, np.float64)


PARTS: tuple[tuple[str, str, Quantity], ...] = (
    ("Loss", "nats", "loss"),
    ("Learning rate", "", "rate"),
    ("Gradient norm", "before clipping", "norm"),
    ("Speed", "tokens/s", "speed"),
    ("Accuracy", "share of held-out tokens or labels", "accuracy"),
    ("Open heads", "expected, gates are learned", "heads"),
    ("Span or open offsets", "of each head", "spans"),
    ("Next sentence", "share of pairs predicted correctly", "pairs"),
    ("Batch and length", "texts a step, most tokens of a text", "sizes"),
)
"""Title, unit and quantity of each chart, in order; what a loss is the mean over, only the runs tell."""
LINEAR: tuple[Quantity, ...] = ("speed", "accuracy", "heads", "spans", "pairs", "sizes")
"""What is never drawn by its logarithm."""
SHARES: tuple[Quantity, ...] = ("accuracy", "pairs")
"""What is never above 1."""


def shown_charts(
    shown: tuple[ShownRun, ...], drawing: Drawing, *, is_log: bool, wanted: Sequence[Quantity] = ()
) -> tuple[Chart, ...]:
    """A chart of each part that has data, or of the `wanted` ones, for all the runs, each in its colour."""
    charts = []
    for title, unit, quantity in PARTS:
        if wanted and quantity not in wanted:
            continue
        lines = lines_of(shown, quantity, drawing)
        if not any(len(line.xs) for line in lines):
            continue
        charts.append(
            Chart(
                title=title,
                x_label=AXES[drawing.axis],
                y_label=unit_of_losses(shown) if quantity == "loss" else unit,
                series=tuple(_series(line, shown) for line in lines),
                is_log_y=is_log and quantity not in LINEAR,
                y_range=_share_range(lines) if quantity in SHARES else None,
            )
        )
    return tuple(charts)


def _share_range(lines: Sequence[CurveLine]) -> tuple[float, float]:
    """From somewhat below the least share to 1."""
    known = np.concatenate([line.ys[np.isfinite(line.ys)] for line in lines])
    low = float(known.min()) if len(known) else 0.0
    return (0.0 if low < 0.35 else max(0.0, low - 0.04 - 0.06 * (1.0 - low))), 1.0


def _series(line: CurveLine, shown: tuple[ShownRun, ...]) -> Series:
    if len(shown) == 1:
        name = line.kind + (", every step" if line.is_pale else "")
    else:
        name = f"{line.run}, {line.kind}" if line.is_pale or not line.name else line.name
    return Series(
        name=name,
        xs=line.xs,
        ys=line.ys,
        colour=line.colour,
        is_quiet=line.is_pale,
        has_points=line.has_points,
        has_label=bool(line.name) or (len(shown) == 1 and not line.is_pale),
    )
