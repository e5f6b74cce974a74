"""Links that are learned from pairs alone, against the formulas written out and against gold links."""

import math
from collections import defaultdict

import numpy as np
import pytest

from attnscope.text import align_texts
from attnscope.text import pairs as pairs_file
from attnscope.text.tasks import make_task

Pair = tuple[list[int], list[int]]


def _slow_beliefs(pairs: list[Pair]) -> list[dict[tuple[int, int], float]]:
    """P(target j comes from source i) of each pair: 4 rounds without the diagonal, 6 with it."""
    told = [word for _, target in pairs for word in target]
    table: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    beliefs: list[dict[tuple[int, int], float]] = []
    for step in range(10):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        beliefs = []
        for source, target in pairs:
            found = {}
            for j, word in enumerate(target):
                near = [
                    math.exp(-4.0 * abs((j + 0.5) / len(target) - (i + 0.5) / len(source)))
                    if step >= 4
                    else 1.0
                    for i in range(len(source))
                ]
                ways = [0.92 * near[i] / sum(near) * table[source[i], word] for i in range(len(source))]
                nowhere = 0.08 * told.count(word) / len(told)
                for i, way in enumerate(ways):
                    found[j, i] = way / (sum(ways) + nowhere)
                    counts[source[i], word] += found[j, i]
            beliefs.append(found)
        totals: dict[int, float] = defaultdict(float)
        for (given, _), count in counts.items():
            totals[given] += count
        table = defaultdict(float, {key: count / totals[key[0]] for key, count in counts.items()})
    return beliefs


def _ragged(n: int) -> list[Pair]:
    rng = np.random.default_rng(5)
    pairs = []
    for _ in range(n):
        source = rng.integers(3, 12, size=rng.integers(1, 7)).tolist()
        target = [20 + word for word in source if rng.random() < 0.8] or [20]
        pairs.append((source, rng.permutation(target).tolist()))
    return pairs


def test_that_links_are_where_both_directions_of_the_written_out_model_agree() -> None:
    pairs = _ragged(60)
    forward = _slow_beliefs(pairs)
    backward = _slow_beliefs([(target, source) for source, target in pairs])
    products = [
        {(j, i): belief * there[i, j] for (j, i), belief in here.items()}
        for here, there in zip(forward, backward, strict=True)
    ]
    assert all(abs(value - 0.2) > 1e-6 for found in products for value in found.values())
    expected = [sorted(link for link, value in found.items() if value >= 0.2) for found in products]
    links = align_texts([np.array(s) for s, _ in pairs], [np.array(t) for _, t in pairs])
    assert [list(map(tuple, some.tolist())) for some in links] == expected
    assert sum(map(len, expected)) > 100


def test_that_words_of_a_made_up_grammar_find_their_translations() -> None:
    examples = make_task("english-french").examples(1500, seed=3, held_out=False)
    numbers: dict[str, int] = {}
    texts = [
        [np.array([numbers.setdefault(side + word, len(numbers)) for word in text.split()]) for text in pair]
        for side, pair in (
            ("e", [example.source for example in examples]),
            ("f", [example.target or "" for example in examples]),
        )
    ]
    links = align_texts(*texts)
    n_right = n_found = n_gold = 0
    for example, found in zip(examples, links, strict=True):
        gold, ours = set(example.links), set(map(tuple, found.tolist()))
        n_right, n_found, n_gold = n_right + len(gold & ours), n_found + len(ours), n_gold + len(gold)
    error = 1 - 2 * n_right / (n_found + n_gold)
    assert error < 0.12


@pytest.mark.parametrize("n", [0, 1, 3])
def test_that_empty_texts_have_no_links(n: int) -> None:
    empty = np.empty(0, dtype=np.int64)
    sources, targets = [empty, np.array([7]), empty][:n], [np.array([5, 6]), empty, empty][:n]
    links = align_texts(sources, targets)
    assert [some.shape for some in links] == [(0, 2)] * n


def test_that_pairs_beyond_the_limit_have_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_file, "MOST_CELLS", 5)
    pairs = [np.array([4, 5]), np.array([4, 5]), np.array([4])]
    links = align_texts(pairs, pairs)
    assert [some.tolist() for some in links] == [[[0, 0], [1, 1]], [], []]
