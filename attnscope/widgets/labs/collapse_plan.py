"""The lab of rank collapse: which controls it has."""

from dataclasses import replace

from attnscope.figures.depth_charts import collapse_cells, collapse_charts
from attnscope.viewmodels.labs.rank_collapse import (
    HEADS,
    LAYERS,
    TOKENS,
    WIDTHS,
    Collapse,
    CollapseChoice,
    collapse,
)
from attnscope.widgets.labs.field_controls import redraw, slide, switch
from attnscope.widgets.labs.lab_view import LabPlan


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
                "Each token to mean 0 and variance 1 before each branch: it does not stop the collapse",
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
