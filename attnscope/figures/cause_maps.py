"""What made an output, as maps: the parts that add up to it, and patches. For the screen and for files."""

import math

import numpy as np

from attnscope.figures.cell_map import CellMap
from attnscope.records.attribution import Attribution, Contribution, PatchMap
from attnscope.records.sites import Stack

_SLACK = 1.02


def attribution_cells(found: Attribution) -> CellMap:
    """Layers down; heads, feed-forward and the rest (embeddings, biases) across: together the difference.

    Embeddings stand in a row before the layers, what is added after them in a row behind.
    """
    parts = found.contributions
    n_heads = max((part.head.head + 1 for part in parts if part.head is not None), default=0)
    own = next((part.stack for part in parts if part.kind == "embedding"), parts[0].stack)
    rows = dict.fromkeys(_row_of(part, own) for part in parts)
    places = {name: i for i, name in enumerate(rows)}
    values = np.full((len(places), n_heads + 2), np.nan)
    for part in parts:
        if part.head is not None:
            column = part.head.head
        else:
            column = n_heads + (part.kind != "feed-forward")
        cell = (places[_row_of(part, own)], column)
        values[cell] = part.value + (0.0 if np.isnan(values[cell]) else values[cell])
    return CellMap(
        title=f"logit({found.answer.piece}) − logit({found.other.piece})",
        note=f"= {found.difference:.4g} logits, the sum of all cells",
        values=values,
        kind="signed",
        limit=float(np.nanmax(np.abs(values))) or 1.0,
        rows=tuple(places),
        columns=(*(f"H{head}" for head in range(n_heads)), "FFN", "rest"),
        row_title="layer",
        column_title="part",
        legend=("no such part",),
        has_numbers=True,
    )


def _row_of(part: Contribution, own: Stack) -> str:
    """The row of a part; biases of a layer stand with the stack that reads its own text."""
    if part.layer < 0:
        return "embedding" if part.kind == "embedding" or part.label.startswith("embedding") else "output"
    return f"{part.stack if part.head is not None else own} {part.layer}"


def patch_cells(found: PatchMap) -> CellMap:
    """The map of patches, from −limit to limit; 1 is the other run's output."""
    values = found.patched.astype(np.float64)
    is_any = np.isfinite(values).any()
    limit = _round_limit(float(np.nanmax(np.abs(values)))) if is_any else 1.0
    return CellMap(
        title="Heads" if found.kind == "head" else "Stream",
        note=f"share of the difference that comes back: {found.answer.piece} over {found.other.piece}",
        values=values,
        kind="signed",
        limit=limit,
        rows=found.rows,
        columns=found.columns,
        row_title="layer",
        column_title="head" if found.kind == "head" else "position",
        legend=("no such head",),
        has_numbers=True,
    )


def _round_limit(largest: float) -> float:
    """The next of 0.1, 0.2, 0.5, 1, 2, 5, …, or the one just passed: maps of like sizes have one scale."""
    if largest <= 0.1:
        return 0.1
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if largest <= step * power * _SLACK)
