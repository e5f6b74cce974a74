"""The table of heads with importance and alignment among its columns. Pure functions."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural, short_number
from attnscope.records.findings import AlignmentTable
from attnscope.records.importance import Importance, Ranking
from attnscope.records.intervals import with_interval
from attnscope.records.measures import (
    CORPUS_MEASURES,
    N_TELLING,
    CorpusMeasure,
    Estimate,
    HeadCard,
    HeadTable,
)
from attnscope.records.sites import HeadRef

RANKING_NAMES: dict[Ranking, str] = {
    "gradient": "gradient",
    "leave-one-out": "leave one out",
    "learned": "learned gates",
    "random": "random",
}

_PREFIX = "importance_"
_DEFINITIONS: dict[Ranking, tuple[str, str]] = {
    "gradient": (
        "nats",
        "E |∂L/∂g| over texts: how much the loss moves with the head's gate. (Michel, Levy & Neubig 2019)",
    ),
    "leave-one-out": ("nats", "How much the loss rises, on average, when this head alone is off."),
    "learned": (
        "chance of being open",
        "Of a gate learned under a penalty on open gates; the weights stay. (after Voita et al. 2019)",
    ),
    "random": ("random number", "A random number, the control."),
}
IMPORTANCE_COLUMNS: tuple[CorpusMeasure, ...] = tuple(
    CorpusMeasure(
        name=f"{_PREFIX}{ranking.replace('-', '_')}",
        title=f"importance, {RANKING_NAMES[ranking]}",
        unit=unit,
        definition=definition,
    )
    for ranking, (unit, definition) in _DEFINITIONS.items()
)
"""One column for each ranking."""
ALIGNMENT = "alignment_error"
ALIGNMENT_COLUMN = CorpusMeasure(
    name=ALIGNMENT,
    title="AER",
    unit="of 1",
    definition="Alignment error rate of cross-attention against gold word links: 1 − (|A∩S| + |A∩P|) /"
    " (|A| + |S|); 0 is perfect. A word is aligned with the source word that gets most of its weight."
    " (Och & Ney 2003)",
)
_OF_LINKS = " A: the head's links, S: sure, P: sure and possible ones. (Och & Ney 2003)"
ALIGNMENT_COLUMNS = (
    ALIGNMENT_COLUMN,
    CorpusMeasure(
        name="alignment_precision",
        title="precision",
        unit="of 1",
        definition="Share of the head's word links that are gold links: |A∩P| / |A|." + _OF_LINKS,
    ),
    CorpusMeasure(
        name="alignment_recall",
        title="recall",
        unit="of 1",
        definition="Share of the sure gold links that the head has: |A∩S| / |S|." + _OF_LINKS,
    ),
)
COLUMNS: tuple[CorpusMeasure, ...] = (*IMPORTANCE_COLUMNS, *ALIGNMENT_COLUMNS, *CORPUS_MEASURES)
"""Every column the table can have, in order."""


def is_importance(name: str) -> bool:
    """Whether a column is an importance."""
    return name.startswith(_PREFIX)


def with_importance(table: HeadTable, importances: Sequence[Importance]) -> HeadTable:
    """The table with a column for each ranking except the random one; heads not scored have none."""
    shown = [found for found in importances if found.ranking != "random"]
    if not shown:
        return table
    n = len(table.heads)
    columns = {name: [getattr(table, name)] for name in ("values", "low", "high", "counts", "telling")}
    for found in shown:
        scores = {score.head: score for score in found.scores}
        of_heads = [scores.get(head) for head in table.heads]
        for field in ("value", "low", "high"):
            numbers = np.array([getattr(score, field) if score else np.nan for score in of_heads], np.float32)
            columns["values" if field == "value" else field].append(numbers[:, None])
        columns["counts"].append(np.full((n, 1), found.n_texts, np.int32))
        columns["telling"].append(np.full((n, 1, N_TELLING), -1, np.int32))
    joined = {name: np.concatenate(parts, axis=1) for name, parts in columns.items()}
    names = [f"{_PREFIX}{found.ranking.replace('-', '_')}" for found in shown]
    return dataclasses.replace(
        table,
        names=(*table.names, *names),
        values=joined["values"],
        low=joined["low"],
        high=joined["high"],
        counts=joined["counts"],
        telling=joined["telling"],
    )


def bare_cards(heads: Sequence[HeadRef]) -> tuple[HeadCard, ...]:
    """Cards of heads of which only the importance is known."""
    sentence = "not measured over texts yet: press Measure for what it does"
    return tuple(HeadCard(head=head, sentence=sentence, roles=()) for head in heads)


def estimate_text(name: str, found: Estimate, *, has_interval: bool) -> str:
    """One number of the table, with its interval where that is wanted and known."""
    if not found.is_known:
        return "–"
    if not is_importance(name):
        return found.text if has_interval else f"{found.value:.2f}"
    value = short_number(found.value)
    if not has_interval or found.low != found.low:
        return value
    return f"{value} ({short_number(found.low)}–{short_number(found.high)})"


def cell_tip(found: Estimate) -> str:
    """The same with four digits and the number of texts."""
    if not found.is_known:
        return "does not apply"
    interval = "" if found.kind == "none" else f", {_digits(found.low)} to {_digits(found.high)}"
    return f"{_digits(found.value)}{interval}; {found.basis}"


def _digits(value: float) -> str:
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.01 else f"{value:.4g}"


def with_alignment(table: HeadTable, alignment: AlignmentTable | None) -> HeadTable:
    """The table with those columns; heads that are not of cross-attention have no number in them."""
    if alignment is None:
        return table
    places = {head: place for place, head in enumerate(alignment.heads)}
    rows = [places.get(head, -1) for head in table.heads]

    def columns(*found: NDArray[np.float32]) -> NDArray[np.float32]:
        padded = np.pad(np.stack(found, axis=1), ((0, 1), (0, 0)), constant_values=np.nan)
        return padded[rows]  # the row −1 is the padding

    n = len(ALIGNMENT_COLUMNS)
    counts = np.array([[alignment.n_texts if row >= 0 else 0] * n for row in rows], np.int32)
    telling = np.full((len(rows), n, N_TELLING), -1, np.int32)
    values = columns(alignment.error_rate, alignment.precision, alignment.recall)
    low = columns(alignment.low, alignment.precision_low, alignment.recall_low)
    high = columns(alignment.high, alignment.precision_high, alignment.recall_high)
    return dataclasses.replace(
        table,
        names=(*table.names, *(column.name for column in ALIGNMENT_COLUMNS)),
        values=np.concatenate([table.values, values], axis=1),
        low=np.concatenate([table.low, low], axis=1),
        high=np.concatenate([table.high, high], axis=1),
        counts=np.concatenate([table.counts, counts], axis=1),
        telling=np.concatenate([table.telling, telling], axis=1),
    )


def statement_of(alignment: AlignmentTable) -> str:
    """What the column is of, and the best head and layer mean, in one line."""
    n_heads = len(alignment.heads)
    parts = [
        f"alignment over {plural(alignment.n_texts, 'pair')} with gold links, rows {alignment.rows} a word"
    ]
    for what, first, last in (("head", 0, n_heads), ("layer", n_heads, len(alignment.error_rate))):
        rates = alignment.error_rate[first:last]
        if len(rates) and not np.isnan(rates).all():
            best = first + int(np.nanargmin(rates))
            rate, low, high = (float(a[best]) for a in (alignment.error_rate, alignment.low, alignment.high))
            parts.append(f"best {what} {alignment.label(best)} with AER {with_interval(rate, low, high, 3)}")
    parts.append(alignment.interval_said)
    return ", ".join(parts)
