"""The lab of quality by length: which controls it has."""

from dataclasses import replace

from attnscope.figures.length_charts import quality_charts
from attnscope.records.experiments import NO_ANSWER
from attnscope.viewmodels.labs.length_quality import (
    LENGTHS,
    STEPS,
    TASK_NAMES,
    WIDTHS,
    Quality,
    QualityChoice,
    judge_lengths,
)
from attnscope.widgets.labs.field_controls import pick, redraw, slide
from attnscope.widgets.labs.lab_view import LabPlan


def quality_plan() -> LabPlan[QualityChoice, Quality]:
    """How good what is written is, by length."""
    return LabPlan(
        title="Quality by length",
        example=QualityChoice(),
        resolve=judge_lengths,
        controls=(
            pick("write", "In which order the models write the tokens they read", "task", TASK_NAMES),
            slide(
                "trained L",
                "Tokens of the longest rows that the models are trained on; rows of up to 1.5·L are read",
                "n_trained",
                LENGTHS,
            ),
            slide(
                "width d",
                "Numbers in a state, and so in the single vector that a GRU without attention passes on",
                "d_model",
                WIDTHS,
            ),
            slide("steps", "Steps of training of each model; a step reads 32 rows", "n_steps", STEPS),
            redraw("Other models", "Train models with other first weights, on other rows"),
        ),
        charts=quality_charts,
        is_example=_is_example,
        stretches=(5, 4),
        names_px=112,
        figure_mm=(200.0, 150.0),
    )


def _is_example(choice: QualityChoice, example: QualityChoice) -> bool:
    """Whether all that a person can choose is as at first."""
    return replace(choice, answer=NO_ANSWER) == example
