"""Growth of the residual stream: its norm after every layer, and the contribution of each part of a layer."""

import math
from dataclasses import dataclass

import numpy as np

from attnscope.counting import fixed, format_number
from attnscope.fields import number
from attnscope.questions.question import Numbers, Question, Reading, Streams, stack_option
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series

_WIDE = 30.0
"""Norms that lie further apart than this are drawn on a logarithmic axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The stack, and the number of tokens in the map."""

    stack: str = stack_option()
    n_shown: int = number(
        24,
        (8, 16, 24, 32, 48, 64, 128, 256),
        title="tokens",
        tip="The map shows at most so many tokens, the last ones; the curves are means over all",
    )


class ResidualStream(Question):
    """Norms and cosines of the stream and of the contributions to it."""

    name, title, order = "residual-stream", "Residual stream", 10
    words = "how long the stream is after each layer, and what attention and feed-forward add to it"
    source = "Elhage et al. 2021"
    needs = "a Transformer with residual connections"
    formula = "x_(l+1) = x_l + Attn + FF,   cos = x_l·Δ / (‖x_l‖ ‖Δ‖)"
    search = ("norm", "skip connection", "layers", "growth", "cosine")
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.streams(options.stack)
        norms = np.linalg.norm(found.x, axis=-1)  # [L + 1, T]
        added = {name: np.linalg.norm(part, axis=-1) for name, part in found.added.items()}  # [L, T] each
        cosines = {name: cosine(found.x[:-1], part) for name, part in found.added.items()}
        return Answer(
            sentence=_sentence(norms.mean(axis=1), added, cosines),
            cells=(_map(found, norms, options.n_shown),),
            charts=(_norm_chart(norms, added), _cosine_chart(cosines)),
            tables=(_table(norms, added, cosines),),
            note=""
            if found.is_sum
            else "A norm or a factor comes in between, so a layer's output is not just x plus its parts.",
        )


def cosine(x: Numbers, change: Numbers) -> Numbers:
    """The cosine of the angle between two vectors, over the last axis; NaN if one is zero."""
    size = np.linalg.norm(x, axis=-1) * np.linalg.norm(change, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(size > 0, (x * change).sum(axis=-1) / size, np.nan)


def known_mean(values: Numbers) -> float:
    """The mean over the numbers; NaN if there is none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _sentence(norms: Numbers, added: dict[str, Numbers], cosines: dict[str, Numbers]) -> str:
    """Growth of the stream, and where each part adds most."""
    parts = []
    for name, sizes in added.items():
        means = sizes.mean(axis=1)
        layer = int(np.nanargmax(means))
        angle = fixed(known_mean(cosines[name][layer]))
        parts.append(f"{name} {format_number(means[layer])} in layer {layer} (cosine {angle})")
    grown = f"{format_number(norms[0])} at the input, {format_number(norms[-1])} after layer {len(norms) - 2}"
    return f"Mean norm of the stream: {grown}. Largest additions: {', '.join(parts)}."


def _map(found: Streams, norms: Numbers, n_shown: int) -> CellMap:
    shown = norms[:, -n_shown:]
    limit = float(np.quantile(shown, 0.98)) or 1.0
    is_cut = limit < shown.max()
    n_tokens = f"last {shown.shape[1]} of {norms.shape[1]} tokens" if shown.shape < norms.shape else ""
    over = f"colours end at {format_number(limit)}" if is_cut else f"0 to {format_number(limit)}"
    return CellMap(
        title="Norm of the stream",
        values=shown,
        limit=limit,
        note=" · ".join(filter(None, (over, n_tokens))),
        rows=("in", *(str(layer) for layer in range(len(shown) - 1))),
        columns=tuple(token.piece for token in found.tokens[-n_shown:]),
        row_title="after layer",
        column_title="token",
        has_numbers=True,
        is_wide=True,
    )


def _norm_chart(norms: Numbers, added: dict[str, Numbers]) -> Chart:
    layers = np.arange(len(norms) - 1, dtype=np.float64)
    means = {"stream": norms[1:].mean(axis=1), **{name: part.mean(axis=1) for name, part in added.items()}}
    every = np.concatenate(list(means.values()))
    least = float(every[every > 0].min(initial=np.inf))
    return Chart(
        title="Norms",
        x_label="layer",
        y_label="mean over tokens",
        series=tuple(
            Series(name=name, xs=layers, ys=ys, colour=k, has_points=True)
            for k, (name, ys) in enumerate(means.items())
        ),
        is_log_y=bool(every.max() > _WIDE * least),
    )


def _cosine_chart(cosines: dict[str, Numbers]) -> Chart:
    return Chart(
        title="Cosine with the stream",
        x_label="layer",
        y_label="mean over tokens",
        y_range=(-1.0, 1.0),
        series=tuple(
            Series(
                name=name,
                xs=np.arange(len(one), dtype=np.float64),
                ys=np.array([known_mean(row) for row in one]),
                colour=k,
                has_points=True,
            )
            for k, (name, one) in enumerate(cosines.items(), start=1)
        ),
    )


def _table(norms: Numbers, added: dict[str, Numbers], cosines: dict[str, Numbers]) -> NumberTable:
    """A row for each part of each layer, means over tokens."""
    rows: list[tuple[Cell, ...]] = []
    for layer, before in enumerate(norms[:-1]):
        for name, sizes in added.items():
            share = known_mean(sizes[layer] / np.where(before > 0, before, np.nan))
            numbers = (before.mean(), sizes[layer].mean(), share, known_mean(cosines[name][layer]))
            rows.append((f"{layer} {name}", *(float(one) for one in numbers)))
    columns = ("layer", "‖x‖", "‖Δ‖", "‖Δ‖ / ‖x‖", "cos(x, Δ)")
    return NumberTable(title="What each part adds", columns=columns, rows=tuple(rows))
