"""The lab of gradients by distance: which controls it has."""

from dataclasses import replace

from attnscope.figures.depth_charts import reach_charts
from attnscope.viewmodels.labs.gradient_reach import BIASES, LENGTHS, RADII, GradientReach, ReachChoice, reach
from attnscope.widgets.labs.controls import Slide
from attnscope.widgets.labs.field_controls import redraw, slide
from attnscope.widgets.labs.lab_view import LabPlan


def reach_plan() -> LabPlan[ReachChoice, GradientReach]:
    """How far back a gradient reaches."""
    return LabPlan(
        title="Gradient by distance",
        example=ReachChoice(),
        resolve=reach,
        controls=(
            slide(
                "radius ρ",
                "Spectral radius of the tanh network's matrix: its largest eigenvalue by size",
                "radius",
                RADII,
            ),
            slide(
                "forget",
                "Bias of the LSTM's forget gate: at 0 it keeps half of its cell, at 5 all but 0.7 %",
                "forget_bias",
                BIASES,
                text=lambda v: f"{v:+g}".replace("-", "−"),
            ),
            slide("tokens T", "Length of the text", "n_tokens", LENGTHS),
            Slide(
                name="distance",
                tip="How far back is looked at; click or drag in the pictures",
                values=tuple(float(n) for n in range(1, LENGTHS[-1])),
                get=lambda c: float(min(c.distance, c.n_tokens - 1)),
                change=lambda c, v: replace(c, distance=int(v)),
                text=lambda v: f"{v:.0f}",
            ),
            redraw("Other networks", "Draw other random networks and texts; the curves are means over eight"),
        ),
        charts=reach_charts,
        drag=drag_distance,
        stretches=(5, 3),
        names_px=112,
        figure_mm=(180.0, 150.0),
    )


def drag_distance(choice: ReachChoice, x: float) -> ReachChoice:
    """The distance nearest to the place dragged to."""
    return replace(choice, distance=min(max(round(x), 1), choice.n_tokens - 1))
