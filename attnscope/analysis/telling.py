"""The most telling texts of a corpus: those in which a head did most of what it does.

| symbol | meaning                                          | shape                     |
|--------|--------------------------------------------------|---------------------------|
| best   | the largest values so far, the largest first     | [N_TELLING, n_columns]    |
| texts  | the numbers of the texts they come from, −1 none | [N_TELLING, n_columns]    |
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.corpus_texts import Text
from attnscope.models.model import Model
from attnscope.records.measures import N_TELLING, TellingText
from attnscope.records.sites import HeadRef

SHORT = 5
"""Texts of fewer tokens are telling only when there are no others."""
_N_EDGES, _LEAST = 24, 0.01


class TellingTexts:
    """Remembers, for each column, the texts with the largest values as they stream by."""

    def __init__(self, n_columns: int) -> None:
        self._best = np.full((N_TELLING, n_columns), -np.inf)
        self.texts = np.full((N_TELLING, n_columns), -1, np.int32)

    def add(self, numbers: Sequence[int], lengths: Sequence[int], values: NDArray[np.float32]) -> None:
        """Values of some texts, [n_texts, n_columns]; NaN never tells anything."""
        short = np.array([length < SHORT for length in lengths], np.float64)  # a float32 would lose values
        ranked = np.where(np.isnan(values), -np.inf, values - 1e6 * short[:, None])
        texts = np.repeat(np.array(numbers, np.int32)[:, None], values.shape[1], axis=1)
        ranked, texts = np.concatenate([self._best, ranked]), np.concatenate([self.texts, texts])
        order = np.argsort(-ranked, axis=0, kind="stable")[:N_TELLING]
        self._best = np.take_along_axis(ranked, order, axis=0)
        self.texts = np.where(np.isneginf(self._best), -1, np.take_along_axis(texts, order, axis=0))


def show_texts(
    model: Model, head: HeadRef, texts: Sequence[Text], numbers: Sequence[int], measure: str = ""
) -> tuple[TellingText, ...]:
    """Some texts of a corpus with the strongest edges of one head in them.

    Unless the `measure` is about them, edges to the first key and to special tokens are left out: many
    heads rest there when they have nothing to do.
    """
    rests = measure in ("first", "separator")
    return tuple(_show(model, head, texts[number], number, rests=rests) for number in numbers)


def _show(model: Model, head: HeadRef, text: Text, number: int, *, rests: bool) -> TellingText:
    source, target = (text, None) if isinstance(text, str) else text
    trace = model.trace(source, target)
    queries, keys = trace.tokens(head.site_key)
    weights = trace.weights(head.site_key, head.head)
    filled = np.nan_to_num(weights, nan=-1.0)
    if not rests:
        filled[:, [j == 0 or token.is_special for j, token in enumerate(keys)]] = -1.0
        filled[[token.is_special for token in queries]] = -1.0
    order = np.argsort(-filled, axis=None, kind="stable")[:_N_EDGES]
    cells = [(int(cell) // len(keys), int(cell) % len(keys)) for cell in order]
    edges = tuple((i, j, float(filled[i, j])) for i, j in cells if filled[i, j] >= _LEAST)
    return TellingText(
        number=number,
        source=source,
        target=target,
        queries=tuple(token.piece for token in queries),
        keys=tuple(token.piece for token in keys),
        edges=edges,
    )
