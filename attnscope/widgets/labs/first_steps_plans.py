"""The labs that the worker computes for: norms before or after, warm-up, longer texts; their controls."""

from dataclasses import replace
from typing import TypeVar

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
from attnscope.widgets.labs.field_controls import pick, redraw, slide
from attnscope.widgets.labs.lab_view import LabPlan

C = TypeVar("C", PlacementChoice, WarmupChoice, LongerChoice)


def placement_plan() -> LabPlan[PlacementChoice, Placement]:
    """Norms before or after."""
    return LabPlan(
        title="Norms before or after",
        example=PlacementChoice(),
        resolve=place_norms,
        controls=(
            pick(
                "measured",
                "The decoder of an encoder–decoder, as in the paper, or an encoder alone",
                "stack",
                norm_placement.STACK_NAMES,
            ),
            slide("layers L", "Depth of the deepest model that is drawn", "n_layers", norm_placement.DEPTHS),
            slide("width d", "d_model", "d_model", norm_placement.WIDTHS),
            pick(
                "weights",
                "First weights: Xavier's, as in the paper; He's, larger; N(0, 0.02²), as GPT-2's",
                "drawing",
                DRAWINGS,
            ),
            redraw("Other weights", "Draw other models and texts; each number is the mean of three", step=10),
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
            slide(
                "step",
                "The step whose updates are shown; click or drag in the lower pictures",
                "step",
                range(1, N_STEPS + 1),
            ),
            pick("norms", "After each branch, as in Vaswani et al. 2017, or before it", "place", PLACE_NAMES),
            slide("rate η", "Adam's learning rate", "learning_rate", warmup.RATES),
            slide("warm-up", "Steps over which the rate rises from 0", "n_warmup", warmup.N_WARMUP),
            slide("layers", "Depth of the tiny model", "n_layers", warmup.LAYERS),
            redraw("Other weights", "Start from other weights and texts"),
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
            slide(
                "trained L",
                "Tokens of the texts that the models are trained on; texts of 4·L are read",
                "n_trained",
                longer_texts.LENGTHS,
            ),
            slide(
                "positions k",
                "Which token is to be repeated: the one k positions back",
                "look_back",
                longer_texts.LOOK_BACKS,
            ),
            slide("steps", "Steps of training of each model", "n_steps", longer_texts.STEPS),
            redraw("Other models", "Train models with other first weights, on other texts"),
        ),
        charts=longer_charts,
        is_example=_is_example,
        figure_mm=(180.0, 110.0),
        other_page=("Matrices and similarities →", "positions"),
    )


def _is_example(choice: C, example: C) -> bool:
    """Whether all that a person can choose is as at first."""
    return replace(choice, answer=NO_ANSWER) == example
