"""Runs that differ in nothing but the seed, as one curve: mean held-out loss, with a standard deviation."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from attnscope.records.charts import Chart, Series
from attnscope.records.runs import RunSummary
from attnscope.records.sweeps import seed_groups
from attnscope.records.training import loss_unit


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
