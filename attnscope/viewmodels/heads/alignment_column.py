"""The table of heads with alignment error rate, precision and recall among its columns. Pure functions."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.records.intervals import with_interval
from attnscope.records.measures import N_TELLING, CorpusMeasure, HeadTable
from attnscope.records.word_tables import AlignmentTable

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
