"""The table of heads with the alignment error rate among its columns. Pure functions."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

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


def with_alignment(table: HeadTable, alignment: AlignmentTable | None) -> HeadTable:
    """The table with that column; heads that are not of cross-attention have no number in it."""
    if alignment is None:
        return table
    places = {head: place for place, head in enumerate(alignment.heads)}
    rows = [places.get(head, -1) for head in table.heads]

    def column(found: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.array([found[row] if row >= 0 else np.nan for row in rows], np.float32)[:, None]

    counts = np.array([[alignment.n_texts if row >= 0 else 0] for row in rows], np.int32)
    telling = np.full((len(rows), 1, N_TELLING), -1, np.int32)
    return dataclasses.replace(
        table,
        names=(*table.names, ALIGNMENT),
        values=np.concatenate([table.values, column(alignment.error_rate)], axis=1),
        low=np.concatenate([table.low, column(alignment.low)], axis=1),
        high=np.concatenate([table.high, column(alignment.high)], axis=1),
        counts=np.concatenate([table.counts, counts], axis=1),
        telling=np.concatenate([table.telling, telling], axis=1),
    )


def statement_of(alignment: AlignmentTable) -> str:
    """What the column is of, and the best head and layer mean, in one line."""
    n_heads = len(alignment.heads)
    parts = [f"alignment over {alignment.n_texts:,} pairs with gold links, rows {alignment.rows} a word"]
    for what, first, last in (("head", 0, n_heads), ("layer", n_heads, len(alignment.error_rate))):
        rates = alignment.error_rate[first:last]
        if len(rates) and not np.isnan(rates).all():
            best = first + int(np.nanargmin(rates))
            rate, low, high = (float(a[best]) for a in (alignment.error_rate, alignment.low, alignment.high))
            parts.append(f"best {what} {alignment.label(best)} with AER {rate:.3f} ({low:.3f}–{high:.3f})")
    return ", ".join(parts)
