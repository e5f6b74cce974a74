"""Maps of the parts that add up to an output, and of patches. For the screen and for files."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import number_text
from attnscope.records.causes import Attribution, Contribution, Method, PatchMap
from attnscope.records.charts import CellMap
from attnscope.records.maps import Picture
from attnscope.records.sites import Stack
from attnscope.records.tokens import Token

_SLACK = 1.02


def attribution_cells(found: Attribution) -> CellMap:
    """Layers down; heads, feed-forward and the rest across: their sum is the difference.

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
        note=f"= {number_text(found.difference)} logits, the sum of all cells",
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
    """The row of a part; biases of a layer belong to the stack that reads its own text."""
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


def reads_cells(found: Attribution, picture: Picture) -> CellMap:
    """Attention of all heads to each patch, over the picture; raises ValueError if missing."""
    if found.reads is None:
        raise ValueError("an attribution of a text has no patches")
    reads = found.reads.astype(np.float64)
    values = reads[picture.n_first :].reshape(picture.n_rows, picture.n_columns)
    return CellMap(
        title="Patches",
        note=f"logits: {_apart(reads, picture, '+.3g')}",
        values=values,
        kind="signed",
        limit=float(np.abs(values).max()) or 1.0,
        row_title="row",
        column_title="column",
        backdrop=picture.pixels,
    )


def influence_cells(name: str, weights: NDArray[np.float64], picture: Picture) -> CellMap:
    """Influence of each patch on one output token by one method, over the picture; `weights` [n_tokens]."""
    values = weights[picture.n_first :].reshape(picture.n_rows, picture.n_columns)
    limit = float(np.nan_to_num(values).max())
    return CellMap(
        title=name,
        note=f"0–{limit:.2g}; {_apart(weights, picture, '.2g')}",
        values=values,
        limit=limit or 1.0,
        row_title="row",
        column_title="column",
        backdrop=picture.pixels,
    )


def table_cells(
    keys: tuple[Token, ...], found: Mapping[Method, NDArray[np.float64]], n_source: int, unit: str
) -> CellMap:
    """Influence of each input on one output token: inputs down, methods across; `found` [n_keys] each."""
    values = np.stack(list(found.values()), axis=1)
    finite = values[np.isfinite(values)]
    names = [token.piece for token in keys]
    if n_source:
        places = [f"source {i}" if i < n_source else f"target {i - n_source}" for i in range(len(keys))]
        names = [f"{name} ({place})" for name, place in zip(names, places, strict=True)]
    return CellMap(
        title=next(iter(found)).capitalize() if len(found) == 1 else "Rollout and flow",
        note=unit,
        values=values,
        limit=float(finite.max()) if finite.size and finite.max() > 0 else 1.0,
        rows=tuple(names),
        columns=tuple(found),
        row_title="input",
        column_title="method",
        has_numbers=True,
        is_wide=True,
    )


def _apart(weights: NDArray[np.float64], picture: Picture, form: str) -> str:
    """The shares of special tokens and of all patches."""
    on_first = float(np.nansum(weights[: picture.n_first]))
    on_patches = float(np.nansum(weights[picture.n_first :]))
    said = f"{format(on_patches, form)} on patches"
    if picture.n_first:
        said += f", {format(on_first, form)} elsewhere"
    return said.replace("-", "−")


def _round_limit(largest: float) -> float:
    """The next of 0.1, 0.2, 0.5, 1, 2, 5, …, or the one just passed: maps of similar size share a scale."""
    if largest <= 0.1:
        return 0.1
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if largest <= step * power * _SLACK)
