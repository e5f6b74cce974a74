"""The lab of kernel regression: which controls it has."""

from dataclasses import replace

import numpy as np

from attnscope.figures.lab_charts import regression_charts
from attnscope.viewmodels.labs.kernel_regression import (
    ENDS,
    FEATURES,
    SCORES,
    Regression,
    RegressionChoice,
    regress,
)
from attnscope.viewmodels.labs.lab import said
from attnscope.widgets.labs.controls import Pick, Push, Slide
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
            Pick(
                name="score",
                tip="How a query scores a key",
                options={str(key): name for key, name in SCORES.items()},
                get=lambda c: c.score,
                change=lambda c, v: replace(c, score=v),  # type: ignore[arg-type]
            ),
            Pick(
                name="features",
                tip="What a query and a key are made of: the place itself, or sines and cosines of it",
                options={str(key): name for key, name in FEATURES.items()},
                get=lambda c: c.features,
                change=lambda c, v: replace(c, features=v),  # type: ignore[arg-type]
            ),
            Slide(
                name="σ",
                tip="Width of the Gaussian; σ² is the temperature of the other scores",
                values=_SIGMAS,
                get=lambda c: c.sigma,
                change=lambda c, v: replace(c, sigma=v),
                text=said,
            ),
            Slide(
                name="query",
                tip="Where the query stands; it can be dragged in the picture",
                values=_QUERIES,
                get=lambda c: c.query,
                change=lambda c, v: replace(c, query=v),
                text=lambda v: f"{v:.2f}".replace("-", "−"),
            ),
            Slide(
                name="samples",
                tip="How many keys with their values there are",
                values=tuple(float(n) for n in (5, 10, 20, 40, 60, 100, 150, 200)),
                get=lambda c: c.n_samples,
                change=lambda c, v: replace(c, n_samples=int(v)),
                text=lambda v: f"{v:.0f}",
            ),
            Slide(
                name="noise",
                tip="Standard deviation of the values around the true curve",
                values=tuple(k / 20 for k in range(21)),
                get=lambda c: c.noise,
                change=lambda c, v: replace(c, noise=v),
                text=lambda v: f"{v:.2f}",
            ),
            Push(
                name="Other samples",
                tip="Draw other samples from the same curve",
                change=lambda c: replace(c, seed=c.seed + 1),
            ),
        ),
        charts=regression_charts,
        drag=lambda c, x: replace(c, query=min(max(x, ENDS[0]), ENDS[1])),
        stretches=(5, 2),
    )
