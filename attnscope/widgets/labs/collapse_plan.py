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
from attnscope.widgets.labs.controls import Push, Slide, Switch
from attnscope.widgets.labs.lab_view import LabPlan


def collapse_plan() -> LabPlan[CollapseChoice, Collapse]:
    """Why a Transformer has skips."""
    return LabPlan(
        title="Rank collapse",
        example=CollapseChoice(),
        resolve=collapse,
        controls=(
            Switch(
                name="skips",
                tip="Add each branch to the stream, in the Transformer that the maps show",
                get=lambda c: c.has_skips,
                change=lambda c, on: replace(c, has_skips=on),
            ),
            Switch(
                name="feed-forward",
                tip="A ReLU layer four times as wide after each attention",
                get=lambda c: c.has_feed_forward,
                change=lambda c, on: replace(c, has_feed_forward=on),
            ),
            Switch(
                name="layer norm",
                tip="Each token to mean 0 and variance 1 before each branch: it does not stop the collapse",
                get=lambda c: c.has_norm,
                change=lambda c, on: replace(c, has_norm=on),
            ),
            _slide(
                "layer",
                "The layer after which the maps show the stream; drag in the pictures",
                "layer",
                tuple(range(LAYERS[-1] + 1)),
            ),
            _slide("layers", "Depth of the Transformer", "n_layers", LAYERS),
            _slide("width", "d_model", "d_model", WIDTHS),
            _slide("heads", "Heads of each layer", "n_heads", HEADS),
            _slide("tokens", "Length of the random text", "n_tokens", TOKENS),
            Slide(
                name="sharpness",
                tip="Factor on queries and keys: the sharper attention is, the less it mixes",
                values=(0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0),
                get=lambda c: c.sharpness,
                change=lambda c, v: replace(c, sharpness=v),
                text=lambda v: f"{v:g}",
            ),
            Push(
                name="Other weights",
                tip="Draw other random weights and tokens",
                change=lambda c: replace(c, seed=c.seed + 1),
            ),
        ),
        charts=collapse_charts,
        cells=collapse_cells,
        drag=drag_layer,
        is_example=lambda choice, example: replace(choice, answer=example.answer) == example,
        stretches=(5, 6),
        names_px=100,
        figure_mm=(220.0, 170.0),
    )


def drag_layer(choice: CollapseChoice, x: float) -> CollapseChoice:
    """The layer nearest to the place dragged to."""
    return replace(choice, layer=min(max(round(x), 0), choice.n_layers))


def _slide(name: str, tip: str, field: str, values: tuple[int, ...]) -> Slide[CollapseChoice]:
    """A slider over whole numbers of one field."""
    return Slide(
        name=name,
        tip=tip,
        values=tuple(float(v) for v in values),
        get=lambda c: float(getattr(c, field)),
        change=lambda c, v: replace(c, **{field: int(v)}),
        text=lambda v: f"{v:.0f}",
    )
