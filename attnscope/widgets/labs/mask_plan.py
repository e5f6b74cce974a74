"""The lab of masks: which controls it has."""

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
from attnscope.widgets.labs.controls import Pick, Push, Slide, Switch
from attnscope.widgets.labs.lab_view import LabPlan


def _count(
    name: str, tip: str, field: str, last: int, masks: tuple[str, ...] = (), first: int = 0
) -> Slide[MaskChoice]:
    """A slider of whole numbers for one field, used by some masks; none named: by all."""
    return Slide(
        name=name,
        tip=tip,
        values=tuple(float(n) for n in range(first, last + 1)),
        get=lambda c: float(getattr(c, field)),
        change=lambda c, v: replace(c, **{field: int(v)}),
        text=lambda v: f"{v:.0f}",
        is_used=lambda c: not masks or c.mask in masks,
    )


def mask_plan() -> LabPlan[MaskChoice, MaskShown]:
    """Masks as structure."""
    return LabPlan(
        title="Masks as structure",
        example=MaskChoice(),
        resolve=show_mask,
        controls=(
            Pick(
                name="mask",
                tip="Which keys a query may see",
                options={str(key): name for key, name in MASKS.items()},
                get=lambda c: c.mask,
                change=lambda c, v: replace(c, mask=v),  # type: ignore[arg-type]
            ),
            Switch(
                name="causal besides",
                tip="No key after the query, as in a decoder",
                get=lambda c: c.is_causal or c.mask in ("causal", "prefix"),
                change=lambda c, v: replace(c, is_causal=v),
                is_used=lambda c: c.mask not in ("causal", "prefix"),
            ),
            _count("tokens", "Length of the text, T", "n_tokens", MAX_TOKENS, first=8),
            _count("window", "Places a query sees to each side", "window", 16, BANDED),
            _count("dilation", "Only every n-th place is seen", "dilation", 8, ("dilated",), first=1),
            _count("global", "Tokens that see and are seen by all", "n_global", 8, WITH_GLOBAL),
            _count("random", "Random earlier blocks for each block", "n_random", 4, ("bigbird",)),
            _count("block", "Tokens in a block", "block", 8, ("bigbird",), first=1),
            _count("prefix", "Tokens that everything sees", "n_prefix", 32, ("prefix",)),
            _count("padding", "Tokens at the end that are no text", "n_padding", 7),
            Push(
                name="Other random blocks",
                tip="Draw the random blocks anew",
                change=lambda c: replace(c, seed=c.seed + 1),
                is_used=lambda c: c.mask == "bigbird",
            ),
        ),
        cells=mask_cells,
        figure_mm=(220.0, 130.0),
    )
