"""The offsets that each head learned to attend to: a hard mask (Louizos et al. 2018).

| symbol | meaning                                                  | shape                |
|--------|----------------------------------------------------------|----------------------|
| m      | 1 where a head looks, 0 where it does not, by the offset | [n_heads, limit + 1] |
"""

import numpy as np

from attnscope.counting import few_listed, plural
from attnscope.questions.question import NoOptions, Numbers, OpenOffsets, Question, Reading
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series

_MOST_NAMED = 12


class LearnedMask(Question):
    """The open offsets of every head, and the mask of one over its map."""

    name, title, order = "learned-mask", "Learned mask", 75
    words = "at which offsets each head learned to look, and the hard mask that this lays over its map"
    source = "Louizos et al. 2018"
    needs = 'a model trained with span_limit and span_kind = "offsets"'
    kept_run = "copy-offsets"
    formula = "m_d ∈ {0, 1} learned for each offset d = |i − j|,   w_ij = (m_d e^(s_ij)) / (Σ m_d e^(s_ij))"
    search = ("learned hard mask", "hard mask", "hard concrete", "L0 gates", "sparse attention", "offsets")
    is_of_head = True
    options = NoOptions()

    def answer(self, reading: Reading, options: NoOptions) -> Answer:
        found, seen = reading.open_offsets(), reading.attended()
        own = found.masks[found.head.site_key][found.head.head]
        n = len(seen.weights)
        back = np.subtract.outer(np.arange(n), np.arange(n))
        mask = np.concatenate([own, [0.0]])[np.minimum(np.abs(back), len(own))]
        mask = np.where(back < 0, np.nan, mask) if found.head.stack == "decoder" else mask
        names = tuple(token.piece for token in seen.query_tokens)
        return Answer(
            sentence=_sentence(found, own),
            cells=(
                CellMap(title=f"Mask, {found.head.label}", values=mask, rows=names, columns=names),
                CellMap(title=f"Weights, {found.head.label}", values=seen.weights, rows=names, columns=names),
            ),
            charts=(_chart(found),),
            tables=(_table(found),),
            note="In training the mask is drawn anew at each step, with the chances of the chart; afterwards "
            "it is 1 where log α is above 0. All scores are worked out all the same: no time is saved.",
        )


def _sentence(found: OpenOffsets, own: Numbers) -> str:
    n_open = sum(float(masks[:, 1:].sum()) for masks in found.masks.values())
    n_all = sum(masks[:, 1:].size for masks in found.masks.values())
    return (
        f"{found.head.stack} {found.head.label} looks at {_offsets(own)}. All heads together keep "
        f"{int(n_open)} of {plural(n_all, 'offset')} open."
    )


def _offsets(mask: Numbers) -> str:
    """The open offsets in words, except that a query sees itself."""
    found = [str(d) for d in np.flatnonzero(mask) if d]
    if not found:
        return "nothing but the token itself"
    if len(found) == len(mask) - 1:
        return f"every offset up to {len(found)}"
    return f"{'the offset' if len(found) == 1 else 'the offsets'} {few_listed(found, _MOST_NAMED)}"


def _chart(found: OpenOffsets) -> Chart:
    p = found.p_open[found.head.site_key]
    curves = tuple(
        Series(
            name=f"H{head}",
            xs=np.arange(float(p.shape[1])),
            ys=row,
            colour=head,
            has_points=head == found.head.head,
            is_quiet=head != found.head.head,
        )
        for head, row in enumerate(p)
    )
    title = f"Open offsets, layer {found.head.layer}"
    return Chart(
        title=title, x_label="offset in tokens", y_label="P(open)", series=curves, y_range=(0.0, 1.0)
    )


def _table(found: OpenOffsets) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [
        (f"{stack} L{layer}H{head}", float(mask[1:].sum()), _offsets(mask))
        for (stack, layer), masks in found.masks.items()
        for head, mask in enumerate(masks)
    ]
    return NumberTable(title="Every head", columns=("head", "open offsets", "looks at"), rows=tuple(rows))
