"""The lab of saturation: which controls it has."""

from dataclasses import replace

from attnscope.figures.lab_charts import saturation_charts
from attnscope.viewmodels.labs.saturation import SIZES, Saturation, SaturationChoice, saturate
from attnscope.widgets.labs.controls import Push, Slide
from attnscope.widgets.labs.lab_view import LabPlan


def saturation_plan() -> LabPlan[SaturationChoice, Saturation]:
    """Why scores are divided by √d."""
    return LabPlan(
        title="Scaling by √d",
        example=SaturationChoice(),
        resolve=saturate,
        controls=(
            Slide(
                name="d",
                tip="Width of queries and keys, d_k; click or drag in the lower pictures",
                values=tuple(float(d) for d in SIZES),
                get=lambda c: c.d_k,
                change=lambda c, v: replace(c, d_k=int(v)),
                text=lambda v: f"{v:.0f}",
            ),
            Slide(
                name="keys",
                tip="How many keys a query chooses from",
                values=tuple(float(n) for n in (2, 4, 8, 12, 16, 24, 32, 48, 64)),
                get=lambda c: c.n_keys,
                change=lambda c, v: replace(c, n_keys=int(v)),
                text=lambda v: f"{v:.0f}",
            ),
            Push(
                name="Other vectors",
                tip="Draw other random queries and keys: 100 queries, entries from N(0, 1)",
                change=lambda c: replace(c, seed=c.seed + 1),
            ),
        ),
        charts=saturation_charts,
        drag=drag_width,
        figure_mm=(220.0, 130.0),
        dragged_from=2,
        names_px=60,
    )


def drag_width(choice: SaturationChoice, x: float) -> SaturationChoice:
    """The width nearest to the one dragged to, by its ratio."""
    return replace(choice, d_k=min(SIZES, key=lambda d: max(d / x, x / d)))
