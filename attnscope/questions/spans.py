"""How far back each head learned to look (Sukhbaatar et al. 2019, section 2.2).

| symbol | meaning                                                | shape               |
|--------|--------------------------------------------------------|---------------------|
| z, R   | the span of a head, and the tokens of its ramp         | [n_heads], number   |
| m      | min(max((R + z − d) / R, 0), 1) at a distance d        | [n_heads, n_tokens] |
"""

import numpy as np

from attnscope.counting import format_number, plural, share_words
from attnscope.questions.question import NoOptions, Numbers, Question, Reading, Spans
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series


class LearnedSpans(Question):
    """The span of every head, and the soft mask of one over its map."""

    name, title, order = "spans", "Adaptive span", 68
    words = "how far back each head learned to look, and the soft mask that this lays over its map"
    source = "Sukhbaatar et al. 2019"
    needs = "a model trained with span_limit"
    kept_run = "copy-spans"
    formula = "m_z(d) = min(max((R + z − d) / R, 0), 1),   w_ij = (m e^(s_ij)) / (Σ m e^(s_ij))"
    search = ("adaptive span", "attention span", "soft mask", "learned mask", "span of each head")
    is_of_head = True
    options = NoOptions()

    def answer(self, reading: Reading, options: NoOptions) -> Answer:
        found, seen = reading.spans(), reading.attended()
        own = found.of_sites[found.head.site_key][found.head.head]
        n = len(seen.weights)
        back = np.subtract.outer(np.arange(n), np.arange(n)).astype(np.float64)
        mask = _soft_mask(np.array([own]), found.ramp, np.abs(back))[0]
        mask = np.where(back < 0, np.nan, mask) if found.head.stack == "decoder" else mask
        names = tuple(token.piece for token in seen.query_tokens)
        return Answer(
            sentence=_sentence(found, own),
            cells=(
                CellMap(title=f"Soft mask, {found.head.label}", values=mask, rows=names, columns=names),
                CellMap(title=f"Weights, {found.head.label}", values=seen.weights, rows=names, columns=names),
            ),
            charts=(_chart(found),),
            tables=(_table(found),),
            note="How the spans grew while the model learned is a chart of its run, on the page Train. All "
            "scores are worked out whatever the spans are: the time that short ones could save is not saved.",
        )


def _soft_mask(z: Numbers, ramp: float, distance: Numbers) -> Numbers:
    """The mask m of each span at each distance, [n_heads, …]."""
    spread = z.reshape(-1, *[1] * distance.ndim)
    return np.asarray(np.clip((ramp + spread - distance) / ramp, 0.0, 1.0))


def _sentence(found: Spans, own: float) -> str:
    every = [
        (float(z), f"{stack} L{layer}H{head}")
        for (stack, layer), of_site in found.of_sites.items()
        for head, z in enumerate(of_site)
    ]
    (least, least_name), (most, most_name) = min(every), max(every)
    return (
        f"{found.head.stack} {found.head.label} learned a span of {format_number(own)} of at most "
        f"{plural(found.limit, 'token')}, and fades over {plural(round(found.ramp), 'token')} more. The "
        f"longest of {plural(len(every), 'span')} is that of {most_name} ({format_number(most)}), the "
        f"shortest that of {least_name} ({format_number(least)}); together they take "
        f"{share_words(sum(z for z, _ in every) / (len(every) * found.limit))} of what the limit allows."
    )


def _chart(found: Spans) -> Chart:
    spans = found.of_sites[found.head.site_key]
    reach = np.arange(0.0, float(spans.max()) + found.ramp + 2.0)
    curves = tuple(
        Series(
            name=f"H{head}",
            xs=reach,
            ys=_soft_mask(np.array([z]), found.ramp, reach)[0],
            colour=head,
            is_quiet=head != found.head.head,
            has_label=head == found.head.head,
        )
        for head, z in enumerate(spans)
    )
    title = f"Soft masks, layer {found.head.layer}"
    return Chart(title=title, x_label="distance in tokens", y_label="m", series=curves)


def _table(found: Spans) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [
        (f"{stack} L{layer}H{head}", float(z), float(np.ceil(z + found.ramp)))
        for (stack, layer), of_site in found.of_sites.items()
        for head, z in enumerate(of_site)
    ]
    return NumberTable(
        title="Every head", columns=("head", "span z", "nothing is seen from"), rows=tuple(rows)
    )
