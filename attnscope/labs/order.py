"""Attention without positions is blind to order: the same words give the same set of outputs.

    symbol       meaning                                              shape
    X            one random vector for each word, the same everywhere [n_words, d]
    Wq, Wk, Wv   fixed random projections                             [d, d]
    A            softmax(X Wq (X Wk)ᵀ / √d)                           [n_words, n_words]
    out          A X Wv                                               [n_words, d]

Permuting the rows of X permutes the rows of `out` and changes nothing else. Sums over words are taken with
`math.fsum`, which rounds once whatever the order, so that "nothing else" can be shown as an exact 0.
Sinusoidal positions: Vaswani et al. 2017, section 3.5.
"""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import line, number, redraw, switch
from attnscope.labs.lab import Lab, LabWords
from attnscope.records.charts import CellMap

Numbers = NDArray[np.float64]
WIDTH = 12
_SHARP = 1.4
"""How much larger the projections of queries and keys are than usual, so that weights differ clearly."""
MAX_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChoice:
    """Two sentences; `position_scale` 0 omits positions, `is_causal` hides later words."""

    first: str = line("Only I love you", title="A", tip="A sentence of at most 8 words")
    second: str = line("I love only you", title="B", tip="The same words in another order")
    position_scale: float = number(
        0.0,
        tuple(k / 10 for k in range(21)),
        title="positions",
        tip="How strongly sinusoidal positions are added to the words; 0 leaves them out",
        text=lambda v: f"× {v:.1f}" if v else "none",
    )
    is_causal: bool = switch(
        False, title="causal mask", tip="Each word sees only itself and what came before"
    )
    seed: int = redraw(title="Other weights", tip="Draw other random words and projections")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSentence:
    """The words of one sentence, their weights [n, n] and outputs [n, d], in the sentence's order."""

    words: tuple[str, ...]
    weights: Numbers
    outputs: Numbers

    @property
    def order(self) -> tuple[int, ...]:
        """The places of the words in alphabetical order."""
        return tuple(sorted(range(len(self.words)), key=lambda i: (self.words[i].lower(), i)))

    @property
    def counts(self) -> Counter[str]:
        """Counts of each word, ignoring case."""
        return Counter(word.lower() for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Both sentences; `difference` [n, d] is that of the outputs sorted by word, None for other words.

    `sorted_words` are the words of its rows; `largest` its largest size.
    """

    choice: OrderChoice
    first: ReadSentence
    second: ReadSentence
    sorted_words: tuple[str, ...]
    difference: Numbers | None
    largest: float
    words: LabWords


def compare_orders(choice: OrderChoice) -> Order:
    """Attend to both sentences and compare the outputs word by word."""
    first, second = attend_sentence(choice.first, choice), attend_sentence(choice.second, choice)
    difference, largest = None, math.nan
    if first.words and first.counts == second.counts:
        difference = second.outputs[list(second.order)] - first.outputs[list(first.order)]
        largest = float(np.abs(difference).max())
    return Order(
        choice=choice,
        first=first,
        second=second,
        sorted_words=tuple(first.words[i] for i in first.order),
        difference=difference,
        largest=largest,
        words=_words(choice, first, second, largest),
    )


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, at most MAX_WORDS."""
    return tuple(text.split()[:MAX_WORDS])


def attend_sentence(text: str, choice: OrderChoice) -> ReadSentence:
    """One layer of self-attention over the words of a text; an empty text has no rows."""
    words = words_of(text)
    rows = np.stack([word_vector(word, choice.seed) for word in words]) if words else np.zeros((0, WIDTH))
    rows = rows + choice.position_scale * sinusoids(len(words))
    random = np.random.default_rng(choice.seed)
    query, key, value = random.standard_normal((3, WIDTH, WIDTH)) / math.sqrt(WIDTH)
    query, key = _SHARP * query, _SHARP * key
    queries, keys, values = (_each_row(rows, matrix) for matrix in (query, key, value))
    weights = np.zeros((len(words), len(words)))
    for i in range(len(words)):
        seen = range(i + 1) if choice.is_causal else range(len(words))
        scores = [math.fsum(queries[i] * keys[j]) / math.sqrt(WIDTH) for j in seen]
        raised = [math.exp(score - max(scores)) for score in scores]
        weights[i, : len(raised)] = np.array(raised) / math.fsum(raised)
    outputs = [[math.fsum(row * values[:, c]) for c in range(WIDTH)] for row in weights]
    if choice.is_causal:
        weights[np.triu_indices(len(words), 1)] = np.nan
    return ReadSentence(words=words, weights=weights, outputs=np.array(outputs).reshape(len(words), WIDTH))


def word_vector(word: str, seed: int) -> Numbers:
    """A random vector determined by the word, ignoring case, and the seed."""
    letters = [ord(letter) for letter in word.lower()]
    return np.random.default_rng([seed, *letters]).standard_normal(WIDTH)


def sinusoids(n_positions: int) -> Numbers:
    """Sinusoidal positions [n, WIDTH]: sines in even columns, cosines in odd ones."""
    angles = np.arange(n_positions)[:, None] / 10000.0 ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(n_positions, WIDTH)


def _each_row(rows: Numbers, matrix: Numbers) -> Numbers:
    """`rows` @ `matrix`, one row at a time: the rounding of a matrix product may depend on a row's index."""
    found = [[math.fsum(row * matrix[:, c]) for c in range(matrix.shape[1])] for row in rows]
    return np.array(found).reshape(len(rows), matrix.shape[1])


def _words(choice: OrderChoice, first: ReadSentence, second: ReadSentence, largest: float) -> LabWords:
    size = float(np.abs(first.outputs).max()) if first.words else math.nan
    return LabWords(
        formula=(
            "x = word + position" if choice.position_scale else "x = word",
            "A = softmax(q·k / √d)" + (", past only" if choice.is_causal else ""),
            "out = A v",
        ),
        numbers=(
            ("largest |B − A|, sorted", format_number(largest)),
            ("largest output", format_number(size)),
            ("words", f"{len(first.words)} and {len(second.words)}"),
            ("width d", str(WIDTH)),
        ),
        sentence=_sentence(choice, first, second, largest),
    )


def _sentence(choice: OrderChoice, first: ReadSentence, second: ReadSentence, largest: float) -> str:
    if not first.words or first.counts != second.counts:
        return "Type the same words in both lines, in a different order, to compare the outputs."
    if [word.lower() for word in first.words] == [word.lower() for word in second.words]:
        return "Both lines are the same sentence. Change the order of the words in one of them."
    if largest == 0:
        return (
            "Another sentence, another meaning, the same outputs: sorted by word they differ by exactly 0. "
            "Without positions attention sees a set of words, not a sequence."
        )
    if choice.position_scale:
        return (
            f"With positions the outputs differ by up to {format_number(largest)}: a word now means "
            f"something else in another position."
        )
    return (
        f"No positions, and yet the outputs differ by up to {format_number(largest)}: the causal mask "
        f"shows each word only what came before, which reveals the order."
    )


def order_cells(shown: Order) -> tuple[CellMap, ...]:
    """The weights of both sentences, their outputs sorted by word, and the difference of these."""
    first, second = shown.first, shown.second
    limit = max([1e-9, *(float(np.abs(s.outputs).max()) for s in (first, second) if s.words)])
    maps = [
        CellMap(
            title=f"{name}: {' '.join(one.words)}"[:60],
            note="weights",
            values=_at_least_one(one.weights),
            rows=one.words,
            columns=one.words,
            has_numbers=True,
        )
        for name, one in (("A", first), ("B", second))
    ]
    difference = shown.difference
    for name, values, words in (
        ("Outputs of A", first.outputs[list(first.order)], shown.sorted_words),
        ("Outputs of B", second.outputs[list(second.order)], tuple(second.words[i] for i in second.order)),
        ("B − A", np.full((1, 1), np.nan) if difference is None else difference, shown.sorted_words),
    ):
        is_missing = name == "B − A" and difference is None
        maps.append(
            CellMap(
                title=name,
                note="other words" if is_missing else "sorted by word",
                values=_at_least_one(values),
                kind="signed",
                limit=limit,
                rows=() if is_missing else words,
                row_title="word",
                column_title="dimension",
                legend=("nothing to compare",),
            )
        )
    return tuple(maps)


def _at_least_one(values: Numbers) -> Numbers:
    """At least one cell, as a map needs; an empty one is forbidden."""
    return values if values.size else np.full((1, 1), np.nan)


class OrderBlindness(Lab[OrderChoice, Order]):
    name = "Order blindness"
    group = "Positions"
    order = 1
    shows = "Without positions a sentence is a set of words: the same outputs in any order"
    source = "Vaswani et al. 2017, section 3.5"
    search = ("permutation equivariance", "permutation invariance", "bag of words", "word order", "set")
    help = """Without positions a sentence is a set: the same words in two orders give the same outputs,
    reordered. The numbers show the largest difference. Switch positions on, and the outputs differ.
    """

    example = OrderChoice()
    stretches = (4, 3)
    figure_mm = (220.0, 175.0)

    resolve = staticmethod(compare_orders)
    cells = staticmethod(order_cells)
