"""The lab of positions by offset: which controls it has."""

from dataclasses import replace

from attnscope.figures.position_charts import offset_charts
from attnscope.viewmodels.labs.position_offsets import (
    BASES,
    FURTHER,
    N_HEADS,
    TRAINED,
    WIDTHS,
    OffsetChoice,
    Offsets,
    look_past,
)
from attnscope.widgets.labs.controls import Slide
from attnscope.widgets.labs.field_controls import slide
from attnscope.widgets.labs.lab_view import LabPlan


def offset_plan() -> LabPlan[OffsetChoice, Offsets]:
    """What positions say past the trained length."""
    return LabPlan(
        title="Past the trained length",
        example=OffsetChoice(),
        resolve=look_past,
        controls=(
            Slide(
                name="offset Δ",
                tip="How far the two tokens are apart; click or drag in the upper pictures",
                values=tuple(float(n) for n in range(FURTHER * TRAINED[-1] + 1)),
                get=lambda c: float(min(c.offset, FURTHER * c.n_trained)),
                change=lambda c, v: replace(c, offset=min(int(v), FURTHER * c.n_trained)),
                text=lambda v: f"{v:.0f}",
            ),
            slide(
                "position t",
                "The position of the first of the two tokens: the relative rotation does not depend on it",
                "place",
                range(65),
            ),
            slide("trained L", "Tokens of the longest trained text", "n_trained", TRAINED),
            slide("width d", "d_model; a rotary head is a quarter of it", "d_model", WIDTHS),
            slide(
                "base",
                "Base of the rotary angles: a larger one rotates the slow pairs even more slowly",
                "base",
                BASES,
                text=lambda v: f"{v:,.0f}" if v < 1e5 else f"{v / 1000:,.0f} k",
            ),
            slide(
                "head",
                "Which of eight ALiBi heads: the first looks near, the last far",
                "head",
                range(1, N_HEADS + 1),
            ),
        ),
        charts=offset_charts,
        drag=drag_offset,
        n_draggable=2,
        stretches=(5, 4),
        names_px=84,
        figure_mm=(230.0, 190.0),
        other_page=("Matrices and similarities →", "positions"),
    )


def drag_offset(choice: OffsetChoice, x: float) -> OffsetChoice:
    """The offset nearest to the place dragged to."""
    return replace(choice, offset=min(max(round(x), 0), FURTHER * choice.n_trained))
