"""Attention of a Transformer-XL layer to the segment before, and where in it (Dai et al. 2019).

| symbol | meaning                                                          | shape                         |
|--------|------------------------------------------------------------------|-------------------------------|
| L, M   | tokens of a segment, and tokens remembered from before it        | numbers                       |
| w      | weights of a head on a whole text, NaN where the mask forbids    | [n_heads, n_tokens, n_tokens] |
| r      | r_i = Σ w_ij over keys j before the segment of query i           | [n_heads, n_tokens]           |
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attnscope.counting import plural, share_words
from attnscope.errors import UserError
from attnscope.fields import number
from attnscope.questions.question import Numbers, Question, Reading, Recalled
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The segment to map."""

    segment: int = number(1, range(1, 4096), title="segment", tip="Which segment is mapped; the first is 0")


class SegmentBefore(Question):
    """The keys of the segment before, apart from those of the segment itself."""

    name, title, order = "segment-before", "The segment before", 65
    words = "how much of a head's weight lies in the segment before, which Transformer-XL remembers"
    source = "Dai et al. 2019"
    needs = 'a model trained with mask = "segment-recurrence"'
    kept_run = "copy-segments"
    formula = "r_i = Σ_j w_ij over the keys j before the segment of query i"
    search = ("transformer-xl", "segment recurrence", "memory", "recurrence", "extended context")
    is_of_head = True
    options = Options()

    def answer(self, reading: Reading, options: Options) -> Answer:
        found = reading.recalled()
        n = len(found.tokens)
        if n <= found.size or not found.memory:
            what = f"only {plural(n, 'token')}" if found.memory else "no memory"
            raise UserError(
                f"There is no segment before: {what} where a segment has {found.size}.",
                expected=f"a text of more than {found.size} tokens and a model whose segments remember",
                action="Type a longer text.",
            )
        shares = {label: remembered(weights, found.size) for label, weights in found.weights.items()}
        own = shares[found.head.site_key][found.head.head]
        return Answer(
            sentence=_sentence(found, own),
            cells=_maps(found, min(options.segment, (n - 1) // found.size)),
            charts=(_chart(found, shares[found.head.site_key]),),
            tables=(_table(found, shares),),
            note="No gradient goes into what is remembered: a layer learns to read it, not to write it.",
        )


def remembered(weights: Numbers, size: int) -> Numbers:
    """The share r of each head and query, [n_heads, n_tokens]; 0 in the first segment."""
    n = weights.shape[-1]
    start = np.arange(n) // size * size
    is_before = np.arange(n)[None, :] < start[:, None]
    return np.asarray(np.where(is_before, np.nan_to_num(weights), 0.0).sum(axis=-1))


def by_place(shares: Numbers, size: int) -> Numbers:
    """The mean of r over the segments with a memory, by position in a segment; NaN: no token."""
    later = shares[..., size:]
    short = -later.shape[-1] % size
    padded = np.concatenate((later, np.full((*later.shape[:-1], short), np.nan)), axis=-1)
    folded = padded.reshape(*later.shape[:-1], -1, size)
    n_there = (~np.isnan(folded)).sum(axis=-2)
    return np.asarray(np.nansum(folded, axis=-2) / np.where(n_there > 0, n_there, np.nan))


def _sentence(found: Recalled, own: Numbers) -> str:
    places = by_place(own, found.size)
    known = places[~np.isnan(places)]
    return (
        f"{found.head.stack} {found.head.label} gives {share_words(float(own[found.size :].mean()))} of its "
        f"weight to what segments remember, at most {plural(found.memory, 'token')} before them: "
        f"{share_words(float(known[0]))} at the first place of a segment, "
        f"{share_words(float(known[-1]))} at place {len(known) - 1}."
    )


def _maps(found: Recalled, segment: int) -> tuple[CellMap, ...]:
    start = segment * found.size
    rows = slice(start, start + found.size)
    weights = found.weights[found.head.site_key][found.head.head][rows]
    names = tuple(token.piece for token in found.tokens)
    parts = (
        (f"Segment before, {found.head.label}", slice(max(0, start - found.memory), start)),
        (f"Its own segment {segment}", rows),
    )
    return tuple(
        CellMap(title=title, values=weights[:, part], rows=names[rows], columns=names[part])
        for title, part in parts
    )


def _chart(found: Recalled, shares: Numbers) -> Chart:
    curves = tuple(
        Series(
            name=f"H{head}",
            xs=np.arange(found.size, dtype=np.float64),
            ys=one,
            colour=head,
            has_points=True,
            is_quiet=head != found.head.head,
            has_label=head == found.head.head,
        )
        for head, one in enumerate(by_place(shares, found.size))
    )
    title = f"Weight in the segment before, layer {found.head.layer}"
    return Chart(title=title, x_label="place in the segment", y_label="share of weight", series=curves)


def _table(found: Recalled, shares: Mapping[SiteKey, Numbers]) -> NumberTable:
    rows: list[tuple[Cell, ...]] = []
    for (_, layer), of_heads in shares.items():
        places = by_place(of_heads, found.size)
        rows += [
            (f"L{layer}H{head}", float(one[found.size :].mean()), float(places[head][0]))
            for head, one in enumerate(of_heads)
        ]
    columns = ("head", "share in the segment before", "at a segment's first place")
    return NumberTable(title="Every head", columns=columns, rows=tuple(rows))
