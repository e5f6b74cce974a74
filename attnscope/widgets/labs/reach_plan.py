"""The lab of gradients by distance: which controls it has."""

from dataclasses import replace

from attnscope.figures.depth_charts import reach_charts
from attnscope.viewmodels.labs.gradient_reach import BIASES, LENGTHS, RADII, GradientReach, ReachChoice, reach
from attnscope.widgets.labs.controls import Push, Slide
from attnscope.widgets.labs.lab_view import LabPlan


def reach_plan() -> LabPlan[ReachChoice, GradientReach]:
    """How far back a gradient reaches."""
    return LabPlan(
        title="Gradient by distance",
        example=ReachChoice(),
        resolve=reach,
        controls=(
            Slide(
                name="radius ρ",
                tip="Spectral radius of the tanh network's matrix: its largest eigenvalue by size",
                values=RADII,
                get=lambda c: c.radius,
                change=lambda c, v: replace(c, radius=v),
                text=lambda v: f"{v:g}",
            ),
            Slide(
                name="forget",
                tip="Bias of the LSTM's forget gate: at 0 it keeps half of its cell, at 5 all but 0.7 %",
                values=BIASES,
                get=lambda c: c.forget_bias,
                change=lambda c, v: replace(c, forget_bias=v),
                text=lambda v: f"{v:+g}".replace("-", "−"),
            ),
            Slide(
                name="tokens T",
                tip="Length of the text",
                values=tuple(float(n) for n in LENGTHS),
                get=lambda c: c.n_tokens,
                change=lambda c, v: replace(c, n_tokens=int(v)),
                text=lambda v: f"{v:.0f}",
            ),
            Slide(
                name="distance",
                tip="How far back is looked at; click or drag in the pictures",
                values=tuple(float(n) for n in range(LENGTHS[-1])),
                get=lambda c: float(min(c.distance, c.n_tokens - 1)),
                change=lambda c, v: replace(c, distance=int(v)),
                text=lambda v: f"{v:.0f}",
            ),
            Push(
                name="Other networks",
                tip="Draw other random networks and texts; the curves are means over eight",
                change=lambda c: replace(c, seed=c.seed + 1),
            ),
        ),
        charts=reach_charts,
        drag=drag_distance,
        stretches=(5, 3),
        names_px=112,
        figure_mm=(180.0, 150.0),
    )


def drag_distance(choice: ReachChoice, x: float) -> ReachChoice:
    """The distance nearest to the place dragged to."""
    return replace(choice, distance=min(max(round(x), 0), choice.n_tokens - 1))
