"""Random words written twice."""

import numpy as np
import pytest
from references import repeated_random_ids

from attnscope.errors import RecipeError
from attnscope.text import train_tokenizer
from attnscope.training import word_ids

WORDS = tuple(range(10, 90))
TEXT = ["the quick brown fox jumps over the lazy dog and the other quick animals of the forest"] * 10


def test_that_each_row_is_different_words_written_twice() -> None:
    ids = repeated_random_ids(WORDS, n=50, n_tokens=40, seed=1)
    assert ids.shape == (50, 40)
    assert np.array_equal(ids[:, :20], ids[:, 20:])
    assert all(len(set(row[:20])) == 20 for row in ids.tolist())
    assert set(ids.ravel().tolist()) <= set(WORDS)


def test_that_the_begin_token_stands_before_the_first_word() -> None:
    ids = repeated_random_ids(WORDS, n=5, n_tokens=21, seed=1, begin_id=2)
    assert np.array_equal(ids[:, 0], np.full(5, 2))
    assert np.array_equal(ids[:, 1:11], ids[:, 11:])


def test_that_a_shorter_period_goes_on_until_the_row_is_full() -> None:
    for row in repeated_random_ids(WORDS, n=40, n_tokens=33, seed=2, min_period=4).tolist():
        period = row.index(row[0], 1)
        assert 4 <= period <= 16
        assert all(row[n] == row[n - period] for n in range(period, 33))


def test_that_held_out_rows_never_occur_in_training() -> None:
    few = WORDS[:6]
    training = {
        tuple(row)
        for seed in range(5)
        for row in repeated_random_ids(few, n=300, n_tokens=6, seed=seed).tolist()
    }
    held_out = {
        tuple(row)
        for seed in range(5)
        for row in repeated_random_ids(few, n=100, n_tokens=6, seed=seed, held_out=True).tolist()
    }
    assert len(training) > 80
    assert len(held_out) > 5
    assert not training & held_out


def test_that_a_seed_gives_the_same_rows_again() -> None:
    first = repeated_random_ids(WORDS, n=5, n_tokens=20, seed=3)
    assert np.array_equal(first, repeated_random_ids(WORDS, n=5, n_tokens=20, seed=3))
    assert not np.array_equal(first, repeated_random_ids(WORDS, n=5, n_tokens=20, seed=4))


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "words", "unigram", "wordpiece", "characters"])
def test_that_words_are_whole_words_where_there_are_any(kind: str) -> None:
    tokenizer = train_tokenizer(kind, TEXT, vocab_size=340 if kind == "byte-bpe" else 90)
    tokens = [tokenizer.token(id) for id in word_ids(tokenizer)]
    assert len(tokens) >= 8
    assert all(token.piece.isalpha() and not token.is_special for token in tokens)
    if kind not in ("characters", "unigram"):  # so small a unigram vocabulary has few whole words
        assert all(len(token.piece) > 1 and not token.joins_previous for token in tokens)


@pytest.mark.parametrize(("n_tokens", "min_period"), [(1, None), (400, None), (20, 11), (20, 0)])
def test_that_impossible_rows_are_refused(n_tokens: int, min_period: int | None) -> None:
    with pytest.raises(RecipeError, match="cannot repeat"):
        repeated_random_ids(WORDS, n=1, n_tokens=n_tokens, seed=0, min_period=min_period)
