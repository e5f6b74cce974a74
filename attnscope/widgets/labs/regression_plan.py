"""The lab of kernel regression: which controls it has."""

from dataclasses import replace

import numpy as np

from attnscope.counting import fixed, format_number
from attnscope.figures.lab_charts import regression_charts
from attnscope.viewmodels.labs.kernel_regression import (
    ENDS,
    FEATURES,
    Regression,
    RegressionChoice,
    regress,
    scores_offered,
)
from attnscope.widgets.labs.field_controls import pick, redraw, slide
from attnscope.widgets.labs.lab_view import LabPlan

_SIGMAS = tuple(float(v) for v in np.geomspace(0.05, 3.0, 60))
_QUERIES = tuple(float(v) for v in np.linspace(*ENDS, 121))


def regression_plan() -> LabPlan[RegressionChoice, Regression]:
    """Attention is kernel regression."""
    return LabPlan(
        title="Kernel regression",
        example=RegressionChoice(),
        resolve=regress,
        controls=(
            pick("score", "How a query scores a key", "score", scores_offered()),
            pick(
                "features",
                "What a query and a key consist of: the position itself, or sines and cosines of it",
                "features",
                FEATURES,
            ),
            slide(
                "σ",
                "Width of the Gaussian; σ² is the temperature of the other scores",
                "sigma",
                _SIGMAS,
                text=format_number,
            ),
            slide(
                "query",
                "The position of the query; drag it in the plot",
                "query",
                _QUERIES,
                text=fixed,
            ),
            slide(
                "samples",
                "The number of keys and values",
                "n_samples",
                (5, 10, 20, 40, 60, 100, 150, 200),
            ),
            slide(
                "noise",
                "Standard deviation of the values around the true curve",
                "noise",
                tuple(k / 20 for k in range(21)),
                text=lambda v: f"{v:.2f}",
            ),
            redraw("Other samples", "Draw other samples from the same curve"),
        ),
        charts=regression_charts,
        drag=lambda c, x: replace(c, query=min(max(x, ENDS[0]), ENDS[1])),
        stretches=(5, 2),
    )
