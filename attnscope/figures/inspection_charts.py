"""Gradients by layer and sizes of updates over the steps of a run as charts: for window and export."""

import numpy as np

from attnscope.records.charts import Chart, ChartField, Series
from attnscope.records.inspections import UPDATE_BINS, InspectionHistory
from attnscope.viewmodels.training.run_inspections import typical_updates

_MOST_NAMED = 8
_MEDIAN, _RATE = 1, 6


def inspection_charts(history: InspectionHistory) -> tuple[Chart, Chart]:
    """The gradient's norm of every layer, and how many weights changed by how much (both logarithmic)."""
    return _gradients(history), _updates(history)


def _gradients(history: InspectionHistory) -> Chart:
    n = len(history.layers)
    named = set(np.linspace(0, n - 1, min(n, _MOST_NAMED)).round().astype(int).tolist())
    return Chart(
        title="Gradients by layer",
        x_label="step",
        y_label="norm before clipping",
        is_log_y=True,
        series=tuple(
            Series(name=layer, xs=history.steps, ys=norms, colour=i, has_label=i in named)
            for i, (layer, norms) in enumerate(zip(history.layers, history.gradient_norms, strict=True))
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
