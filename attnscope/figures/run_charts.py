"""The curves of a training run as charts, the same for the window's export and the command line."""

import numpy as np

from attnscope.figures.spec import Chart, Series
from attnscope.viewmodels.curve_data import CurveData, decimated, sampled
from attnscope.viewmodels.run_curves import RunCurves

Source = tuple[str, CurveData, int]
"""The name of a curve, its data, and its place in the palette's series."""

NEVER_SMOOTHED = ("validation", "rate")
PARTS = (
    ("Loss", "nats per token"),
    ("Learning rate", ""),
    ("Gradient norm", "before clipping"),
    ("Speed", "tokens/s"),
)
"""Title and unit of each chart, in order."""
_BUCKETS = 500


def sources_of(curves: RunCurves) -> tuple[tuple[Source, ...], ...]:
    """The curves of each of `PARTS`."""
    return (
        (("train", curves.train_loss, 0), ("validation", curves.validation_loss, 1)),
        (("rate", curves.learning_rate, 2),),
        (("norm", curves.gradient_norm, 3),),
        (("speed", curves.tokens_per_s, 4),),
    )


def run_charts(curves: RunCurves, *, smoothing: float, is_log: bool) -> tuple[Chart, ...]:
    """A chart of each part that has data; `smoothing` is the factor of the running mean, 0…1."""
    return tuple(
        Chart(
            title=title,
            x_label="step",
            y_label=unit,
            series=tuple(series for source in sources for series in _series(*source, smoothing)),
            is_log_y=is_log and title != "Speed",
        )
        for (title, unit), sources in zip(PARTS, sources_of(curves), strict=True)
        if any(len(curve) for _, curve, _ in sources)
    )


def _series(name: str, curve: CurveData, colour: int, smoothing: float) -> tuple[Series, ...]:
    window = (-np.inf, np.inf, _BUCKETS)
    xs, ys = decimated(curve.steps, curve.values, *window)
    if name in NEVER_SMOOTHED or not smoothing:
        return (Series(name=name, xs=xs, ys=ys, colour=colour, has_points=name == "validation"),)
    smooth_xs, smooth = sampled(curve.steps, curve.smoothed(smoothing), *window)
    return (
        Series(name="", xs=xs, ys=ys, colour=colour, is_quiet=True),
        Series(name=name, xs=smooth_xs, ys=smooth, colour=colour),
    )
