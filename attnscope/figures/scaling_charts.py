"""Loss against parameters, data and compute over several runs as charts: for window and command line."""

from collections.abc import Sequence

import numpy as np

from attnscope.records.charts import Chart, Series
from attnscope.records.runs import RunSummary
from attnscope.records.training import loss_unit
from attnscope.viewmodels.training.recipe_differences import told_apart
from attnscope.viewmodels.training.scaling import SCALES, UNITS, Scale, ScalingPoints, scaling_points

TITLES: dict[Scale, str] = {"parameters": "Size", "data": "Data", "compute": "Compute"}
_MUST_REACH = 1.6
"""Learning curves are drawn from where they are within this factor of the worst run's end."""


def scaling_charts(runs: Sequence[RunSummary]) -> tuple[Chart, ...]:
    """A chart for each scale, both axes logarithmic; none when no run has converged.

    Points are the finished runs with what tells their names apart; the dashed line is the power law,
    stated beside the title. On data and compute the way of each run stands behind its point.
    """
    finished = [run for run in runs if run.is_converged]
    if not finished:
        return ()
    return tuple(_chart(scaling_points(runs, scale), finished) for scale in SCALES)


def _chart(points: ScalingPoints, finished: Sequence[RunSummary]) -> Chart:
    series = [] if points.scale == "parameters" else list(_ways(points.scale, finished))
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
