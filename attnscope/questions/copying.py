"""The tokens that a model generates from its vocabulary, and those it copies (See et al. 2017, section 2.2).

| symbol | meaning                                                    | shape                |
|--------|------------------------------------------------------------|----------------------|
| p_gen  | probability that the next token is written and not copied  | [n_tokens]           |
| a      | where it would be copied from, mean over the heads         | [n_tokens, n_source] |
"""

import numpy as np

from attnscope.counting import few_listed, plural
from attnscope.questions.question import Copied, NoOptions, Question, Reading
from attnscope.records.charts import Answer, Cell, CellMap, Chart, NumberTable, Series

_MOST_NAMED = 6


class CopyOrWrite(Question):
    """p_gen at every token of a target, and the copied position of the source."""

    name, title, order = "copying", "Copy or write", 69
    words = "which tokens are written from the vocabulary, and which are copied from the source, with p_gen"
    source = "See et al. 2017"
    needs = "a model with copies_source"
    kept_run = "reports"
    formula = "P(w) = p_gen P_vocab(w) + (1 − p_gen) Σ a_i over i with w_i = w"
    search = ("pointer-generator", "copy mechanism", "copying", "pointer", "p_gen", "summarization")
    options = NoOptions()

    def answer(self, reading: Reading, options: NoOptions) -> Answer:
        found = reading.copied()
        names = tuple(token.piece for token in found.told)
        source = tuple(token.piece for token in found.source)
        counted = (1.0 - found.p_write)[:, None] * found.weights
        return Answer(
            sentence=_sentence(found),
            charts=(_chart(found, names),),
            cells=(
                CellMap(title="Copied: (1 − p_gen) a", values=counted, rows=names, columns=source),
                CellMap(title="Weights a, all heads", values=found.weights, rows=names, columns=source),
            ),
            tables=(_table(found),),
            note="A row is named after the token that is told there. Where a token stands in the vocabulary "
            "and in the source, its probability is the sum of both ways.",
        )


def _sentence(found: Copied) -> str:
    copied = [i for i, p in enumerate(found.p_write) if p < 0.5]
    n = len(found.told)
    if not copied:
        return f"All of {plural(n, 'token')} are written from the vocabulary: p_gen is at least a half."
    named = [found.told[i].piece for i in copied]
    return (
        f"{len(copied)} of {plural(n, 'token')} {'is' if len(copied) == 1 else 'are'} rather copied than "
        f"written, p_gen below a half: {few_listed(named, _MOST_NAMED)}."
    )


def _chart(found: Copied, names: tuple[str, ...]) -> Chart:
    xs = np.arange(1.0, len(names) + 1.0)
    curves = (
        Series(name="p_gen", xs=xs, ys=found.p_write, style="stems", has_points=True),
        Series(name="P of the token", xs=xs, ys=found.p, colour=1, style="points"),
    )
    title = "Written from the vocabulary"
    return Chart(
        title=title, x_label="token", y_label="probability", series=curves, y_range=(0.0, 1.0), x_names=names
    )


def _table(found: Copied) -> NumberTable:
    rows: list[tuple[Cell, ...]] = [
        (
            token.piece,
            float(found.p_write[i]),
            found.source[int(found.weights[i].argmax())].piece,
            float(found.weights[i].max()),
            float(found.p_generator[i]),
            float(found.p[i]),
        )
        for i, token in enumerate(found.told)
    ]
    columns = ("token", "p_gen", "looks most at", "a", "P_vocab", "P")
    return NumberTable(title="Token by token", columns=columns, rows=tuple(rows))
