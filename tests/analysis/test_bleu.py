"""BLEU against its definition, written out slowly."""

import math
from collections import Counter

import numpy as np
import pytest
from forked import start

from attnscope.analysis import bleu, bleu_of, count_ngrams, matched_ngrams
from attnscope.errors import UserError

WRITTEN = ("the cat sat on the mat today", "a dog runs fast on the road now", "we saw two men , both old")
RIGHT = ("the cat sat on a mat today", "a dog runs very fast on the road", "we saw two old men , both tired")


def slow_bleu(written: tuple[str, ...], right: tuple[str, ...]) -> float:
    matched, total = [0] * 4, [0] * 4
    for text, reference in zip(written, right, strict=True):
        for n in range(1, 5):
            grams = [
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (text.split(), reference.split())
            ]
            matched[n - 1] += sum(min(count, grams[1][gram]) for gram, count in grams[0].items())
            total[n - 1] += sum(grams[0].values())
    c, r = (sum(len(text.split()) for text in texts) for texts in (written, right))
    brevity = min(1.0, math.exp(1 - r / c))
    return 100 * brevity * math.exp(sum(math.log(m / t) for m, t in zip(matched, total, strict=True)) / 4)


@pytest.mark.parametrize("n", [1, 6, 30])
def test_that_perfect_texts_without_four_words_are_not_given_a_bleu_of_0(n: int) -> None:
    score = bleu(["oui", "je dors ."] * n, ["oui", "je dors ."] * n)
    assert np.isnan([score.value, score.low, score.high]).all()
    assert score.precisions[:3] == (100.0, 100.0, 100.0)
    assert math.isnan(score.precisions[3])


def test_that_texts_too_short_for_their_references_have_a_bleu_of_0() -> None:
    score = bleu(["oui", "je dors ."], ["oui", "je dors dans la rue ."])
    assert (score.value, score.precisions[3]) == (0.0, 0.0)
    assert bleu(["oui", "je dors bien ."], ["oui", "je dors bien ."]).value == pytest.approx(100.0)


def test_that_bleu_is_its_definition() -> None:
    score = bleu(WRITTEN, RIGHT)
    assert score.value == pytest.approx(slow_bleu(WRITTEN, RIGHT), rel=1e-9)
    assert np.isnan([score.low, score.high]).all()
    assert score.n_texts == 3
    wide, narrow = (bleu(WRITTEN * n, RIGHT * n) for n in (2, 9))
    assert 0 <= wide.low < narrow.low < score.value < narrow.high < wide.high <= 100
    assert [bleu(WRITTEN * 12, RIGHT * 12).low < score.value]
    assert "tok:13a" in score.signature
    assert "eff:no" in score.signature


def test_that_counts_of_texts_add_up_to_the_corpus() -> None:
    counts = np.stack([count_ngrams(*pair) for pair in zip(WRITTEN, RIGHT, strict=True)])
    assert float(bleu_of(counts.sum(axis=0))) == pytest.approx(slow_bleu(WRITTEN, RIGHT), rel=1e-9)
    both = bleu_of(np.stack([counts.sum(axis=0), np.zeros(10)]))
    assert np.isnan(both[1])


def test_that_the_same_text_scores_100_and_another_0() -> None:
    assert bleu(RIGHT, RIGHT).value == pytest.approx(100.0)
    assert bleu(("x y z v",), ("a b c d",)).value < 15.0  # smoothed: never exactly 0
    assert bleu(("",), ("a b c d",)).value == 0.0


def test_that_unequal_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="There is 1 text and 2 references"):
        bleu(("a",), ("a", "b"))


def test_that_without_the_library_it_is_said_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['sacrebleu'] = None\n"
        "from attnscope.analysis.metrics import bleu\nfrom attnscope.errors import UserError\n"
        "try: bleu(['a'], ['a'])\nexcept UserError as error: print(error)"
    )
    process, told = start(code)
    with told:
        assert 'pip install "sacrebleu' in told.read()
    process.join()


def _slow_matches(words: list[str], references: list[list[str]], n: int) -> list[bool]:
    """Each n-gram from the left; it is matched while a reference has it more often than it was matched."""
    found: list[bool] = []
    for i in range(len(words) - n + 1):
        gram = words[i : i + n]
        most = max(sum(other[k : k + n] == gram for k in range(len(other) - n + 1)) for other in references)
        used = sum(hit and words[k : k + n] == gram for k, hit in enumerate(found))
        found.append(used < most)
    return found


@pytest.mark.parametrize(
    ("hypothesis", "references"),
    [
        ("the the the the the the the", ["the cat is on the mat", "there is a cat on the mat"]),
        ("Le chat, s'il te plaît.", ["Le chat dort, s'il te plaît."]),
        ("a b a b a b", ["b a b a", "a b c"]),
        ("", ["a b"]),
        ("x", ["y"]),
    ],
)
def test_that_matched_n_grams_are_those_that_sacrebleu_counts(hypothesis: str, references: list[str]) -> None:
    words, matches = matched_ngrams(hypothesis, references)
    split = [list(matched_ngrams(one, ["x"])[0]) for one in references]
    assert len(matches) == 4
    for n, row in enumerate(matches, start=1):
        assert list(row) == _slow_matches(list(words), split, n)
    counts = count_ngrams(hypothesis, *references)
    assert [sum(row) for row in matches] == counts[:4].tolist()
    assert [len(row) for row in matches] == counts[4:8].tolist()


def test_that_the_words_of_a_score_make_its_brevity_and_that_an_interval_may_be_left_out() -> None:
    texts, right = ["a b c d e"] * 6, ["a b c d e f g"] * 6
    scored, quick = bleu(texts, right), bleu(texts, right, has_interval=False)
    assert (scored.n_words, scored.n_right_words) == (30, 42)
    assert scored.brevity == pytest.approx(math.exp(1 - 42 / 30))
    assert quick.value == scored.value
    assert math.isnan(quick.low)
