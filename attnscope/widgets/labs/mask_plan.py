"""The lab of masks: which controls it has."""

from collections.abc import Callable
from dataclasses import replace

from attnscope.figures.lab_charts import mask_cells
from attnscope.viewmodels.labs.mask_structure import (
    BANDED,
    MASKS,
    MAX_TOKENS,
    WITH_GLOBAL,
    MaskChoice,
    MaskShown,
    show_mask,
)
from attnscope.widgets.labs.controls import Switch
from attnscope.widgets.labs.field_controls import pick, redraw, slide
from attnscope.widgets.labs.lab_view import LabPlan


def _with(*masks: str) -> Callable[[MaskChoice], bool]:
    """Whether one of these masks is chosen."""
    return lambda choice: choice.mask in masks


def mask_plan() -> LabPlan[MaskChoice, MaskShown]:
    """Masks as structure."""
    return LabPlan(
        title="Masks as structure",
        example=MaskChoice(),
        resolve=show_mask,
        controls=(
            pick("mask", "Which keys a query may see", "mask", MASKS),
            Switch(
                name="also causal",
                tip="No key after the query, as in a decoder",
                get=lambda c: c.is_causal or c.mask in ("causal", "prefix"),
                change=lambda c, v: replace(c, is_causal=v),
                is_used=lambda c: c.mask not in ("causal", "prefix"),
            ),
            slide("tokens", "Length of the text, T", "n_tokens", range(8, MAX_TOKENS + 1)),
            slide(
                "window",
                "Positions a query sees on each side",
                "window",
                range(17),
                is_used=_with(*BANDED),
            ),
            slide(
                "dilation",
                "Only every n-th position is seen",
                "dilation",
                range(1, 9),
                is_used=_with("dilated"),
            ),
            slide(
                "global",
                "Tokens that see and are seen by all",
                "n_global",
                range(9),
                is_used=_with(*WITH_GLOBAL),
            ),
            slide(
                "random",
                "Random earlier blocks for each block",
                "n_random",
                range(5),
                is_used=_with("bigbird"),
            ),
            slide("block", "Tokens in a block", "block", range(1, 9), is_used=_with("bigbird")),
            slide(
                "prefix",
                "Tokens that everything sees",
                "n_prefix",
                range(33),
                is_used=_with("prefix"),
            ),
            slide("padding", "Padding tokens at the end", "n_padding", range(8)),
            redraw("Other random blocks", "Draw new random blocks", is_used=_with("bigbird")),
        ),
        cells=mask_cells,
        figure_mm=(220.0, 130.0),
    )
