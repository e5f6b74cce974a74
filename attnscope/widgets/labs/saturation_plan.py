"""The lab of saturation: which controls it has."""

from dataclasses import replace

from attnscope.figures.lab_charts import saturation_charts
from attnscope.viewmodels.labs.saturation import SIZES, Saturation, SaturationChoice, saturate
from attnscope.widgets.labs.field_controls import redraw, slide
from attnscope.widgets.labs.lab_view import LabPlan


def saturation_plan() -> LabPlan[SaturationChoice, Saturation]:
    """Why scores are divided by √d."""
    return LabPlan(
        title="Scaling by √d",
        example=SaturationChoice(),
        resolve=saturate,
        controls=(
            slide("d", "Width of queries and keys, d_k; click or drag in the lower pictures", "d_k", SIZES),
            slide("keys", "How many keys a query chooses from", "n_keys", (2, 4, 8, 12, 16, 24, 32, 48, 64)),
            redraw("Other vectors", "Draw other random queries and keys: 100 queries, entries from N(0, 1)"),
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
