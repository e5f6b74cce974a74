"""The lab of gradients by distance: which controls it has."""

from dataclasses import replace

from attnscope.figures.depth_charts import collapse_cells, collapse_charts, reach_charts
from attnscope.viewmodels.labs.gradient_reach import BIASES, LENGTHS, RADII, GradientReach, ReachChoice, reach
from attnscope.viewmodels.labs.rank_collapse import (
    HEADS,
    LAYERS,
    TOKENS,
    WIDTHS,
    Collapse,
    CollapseChoice,
    collapse,
)
from attnscope.widgets.labs.controls import Slide
from attnscope.widgets.labs.field_controls import redraw, slide, switch
from attnscope.widgets.labs.lab_view import LabPlan

# The lab of rank collapse: which controls it has.


def collapse_plan() -> LabPlan[CollapseChoice, Collapse]:
    """Why a Transformer has skips."""
    return LabPlan(
        title="Rank collapse",
        example=CollapseChoice(),
        resolve=collapse,
        controls=(
            switch(
                "skips", "Add each branch to the stream, in the Transformer that the maps show", "has_skips"
            ),
            switch(
                "feed-forward", "A ReLU layer four times as wide after each attention", "has_feed_forward"
            ),
            switch(
                "layer norm",
                "Each token to mean 0 and variance 1 before each branch; this does not stop the collapse",
                "has_norm",
            ),
            slide(
                "layer",
                "The layer after which the maps show the stream; drag in the pictures",
                "layer",
                range(LAYERS[-1] + 1),
            ),
            slide("layers", "Depth of the Transformer", "n_layers", LAYERS),
            slide("width", "d_model", "d_model", WIDTHS),
            slide("heads", "Heads of each layer", "n_heads", HEADS),
            slide("tokens", "Length of the random text", "n_tokens", TOKENS),
            slide(
                "sharpness",
                "Factor on queries and keys: the sharper attention is, the less it mixes",
                "sharpness",
                (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0),
            ),
            redraw("Other weights", "Draw other random weights and tokens"),
        ),
        charts=collapse_charts,
        cells=collapse_cells,
        drag=drag_layer,
        is_example=lambda choice, example: replace(choice, answer=example.answer) == example,
        stretches=(5, 6),
        names_px=136,
        figure_mm=(220.0, 170.0),
    )


def drag_layer(choice: CollapseChoice, x: float) -> CollapseChoice:
    """The layer nearest to the place dragged to."""
    return replace(choice, layer=min(max(round(x), 0), choice.n_layers))


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
