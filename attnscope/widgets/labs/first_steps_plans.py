"""The labs that the worker computes for: norms before or after, warm-up, longer texts; their controls."""

from dataclasses import replace
from typing import Any, TypeVar

from attnscope.figures.training_charts import longer_charts, placement_charts, warmup_charts
from attnscope.records.experiments import NO_ANSWER
from attnscope.viewmodels.labs import longer_texts, norm_placement, warmup
from attnscope.viewmodels.labs.longer_texts import Longer, LongerChoice, read_longer
from attnscope.viewmodels.labs.norm_placement import (
    DRAWINGS,
    PLACE_NAMES,
    Placement,
    PlacementChoice,
    place_norms,
)
from attnscope.viewmodels.labs.warmup import N_STEPS, Warmup, WarmupChoice, warm_up
from attnscope.widgets.labs.controls import Pick, Push, Slide
from attnscope.widgets.labs.lab_view import LabPlan

C = TypeVar("C", PlacementChoice, WarmupChoice, LongerChoice)


def placement_plan() -> LabPlan[PlacementChoice, Placement]:
    """Norms before or after."""
    return LabPlan(
        title="Norms before or after",
        example=PlacementChoice(),
        resolve=place_norms,
        controls=(
            _slide("layers L", "Depth of the deepest model that is drawn", "n_layers", norm_placement.DEPTHS),
            _slide("width d", "d_model", "d_model", norm_placement.WIDTHS),
            Pick(
                name="weights",
                tip="First weights: Xavier's, as in the paper; He's, larger; N(0, 0.02²), as GPT-2's",
                options={str(d): name for d, name in DRAWINGS.items()},
                get=lambda c: c.drawing,
                change=lambda c, v: replace(c, drawing=next(d for d in DRAWINGS if d == v)),
            ),
            Push(
                name="Other weights",
                tip="Draw other models and texts; each number is the mean of three",
                change=lambda c: replace(c, seed=c.seed + 10),
            ),
        ),
        charts=placement_charts,
        is_example=_is_example,
        figure_mm=(180.0, 150.0),
    )


def warmup_plan() -> LabPlan[WarmupChoice, Warmup]:
    """Why warm-up."""
    return LabPlan(
        title="Why warm-up",
        example=WarmupChoice(),
        resolve=warm_up,
        controls=(
            _slide(
                "step",
                "The step whose updates are shown; click or drag in the lower pictures",
                "step",
                tuple(range(1, N_STEPS + 1)),
            ),
            Pick(
                name="norms",
                tip="After each branch, as in Vaswani et al. 2017, or before it",
                options={str(p): name for p, name in PLACE_NAMES.items()},
                get=lambda c: c.place,
                change=lambda c, v: replace(c, place=next(p for p in PLACE_NAMES if p == v)),
            ),
            Slide(
                name="rate η",
                tip="Adam's learning rate",
                values=warmup.RATES,
                get=lambda c: c.learning_rate,
                change=lambda c, v: replace(c, learning_rate=v),
                text=lambda v: f"{v:g}",
            ),
            _slide("warm-up", "Steps over which the rate rises from 0", "n_warmup", warmup.N_WARMUP),
            _slide("layers", "Depth of the tiny model", "n_layers", warmup.LAYERS),
            Push(
                name="Other weights",
                tip="Begin with other weights and texts",
                change=lambda c: replace(c, seed=c.seed + 1),
            ),
        ),
        charts=warmup_charts,
        drag=lambda choice, x: replace(choice, step=min(max(round(x), 1), N_STEPS)),
        dragged_from=1,
        is_example=_is_example,
        names_px=76,
        figure_mm=(200.0, 150.0),
    )


def longer_plan() -> LabPlan[LongerChoice, Longer]:
    """Loss past the trained length."""
    return LabPlan(
        title="Longer texts",
        example=LongerChoice(),
        resolve=read_longer,
        controls=(
            _slide(
                "trained L",
                "Tokens of the texts that the models are trained on; texts of 4·L are read",
                "n_trained",
                longer_texts.LENGTHS,
            ),
            _slide(
                "places k",
                "Which token is to be said again: the one k places before",
                "look_back",
                longer_texts.LOOK_BACKS,
            ),
            _slide("steps", "Steps of training of each model", "n_steps", longer_texts.STEPS),
            Push(
                name="Other models",
                tip="Train models with other first weights, on other texts",
                change=lambda c: replace(c, seed=c.seed + 1),
            ),
        ),
        charts=longer_charts,
        is_example=_is_example,
        figure_mm=(180.0, 110.0),
        other_page=("Matrices and similarities →", "positions"),
    )


def _is_example(choice: C, example: C) -> bool:
    """Whether all that a person can choose is as at first."""
    return replace(choice, answer=NO_ANSWER) == example


def _slide(name: str, tip: str, field: str, values: tuple[int, ...]) -> Slide[Any]:
    """A slider over whole numbers of one field."""
    return Slide(
        name=name,
        tip=tip,
        values=tuple(float(v) for v in values),
        get=lambda c: float(getattr(c, field)),
        change=lambda c, v: replace(c, **{field: int(v)}),
        text=lambda v: f"{v:.0f}",
    )
