"""Replays against the library itself, and against slow versions of the algorithms."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.text import (
    BpeModel,
    Splitter,
    UnigramModel,
    best_splits,
    count_merges,
    how_made,
    longest_matches,
    replay_merges,
    train_tokenizer,
)

TEXTS = ["smart smarter smartest low lower lowest new newer newest wide wider", "a rabbit is smart, it's new"]
SIZES = {"bpe": 70, "byte-bpe": 300, "wordpiece": 70, "unigram": 50, "words": 40, "characters": 40}
_SPLITTERS = {
    kind: Splitter(train_tokenizer(kind, TEXTS, vocab_size=size).entries, TEXTS)
    for kind, size in SIZES.items()
}


@pytest.mark.parametrize("kind", SIZES)
@given(text=st.text(alphabet="smarter lownid'é😀▁\n,", max_size=30))
@settings(max_examples=40, deadline=None)
def test_that_a_replay_ends_with_the_library_s_own_ids(kind, text):
    assert _SPLITTERS[kind].replay(text, "x").is_proved


def test_that_merges_are_those_of_a_slow_version_that_looks_at_every_pair():
    model = _SPLITTERS["bpe"].bpe
    assert model is not None
    for word in ("▁smarter", "▁lowernew", "wides"):
        symbols = list(word)
        while True:
            ranked = [
                (model.ranks[p], k) for k, p in enumerate(itertools.pairwise(symbols)) if p in model.ranks
            ]
            if not ranked:
                break
            _, k = min(ranked)
            symbols[k : k + 2] = ["".join(symbols[k : k + 2])]
        *_, last = replay_merges(model, [word])
        assert list(last.words[0]) == symbols


def test_that_equal_pairs_of_all_words_are_one_step_and_its_places_are_told():
    model = BpeModel(
        ids={c: k for k, c in enumerate(("a", "b", "c", "ab", "abc"))}, ranks={("a", "b"): 0, ("ab", "c"): 1}
    )
    first, second = replay_merges(model, ["abab", "cabc"])
    assert (first.rank, first.words, first.places) == (
        0,
        (("ab", "ab"), ("c", "ab", "c")),
        ((0, 0), (0, 1), (1, 1)),
    )
    assert (second.rank, second.words) == (1, (("ab", "ab"), ("c", "abc")))


def test_that_the_frequency_of_a_rule_is_how_often_its_pair_stood_there():
    splitter = _SPLITTERS["bpe"]
    words = [word for text in TEXTS for word in splitter.words(text)]
    first = next(iter(splitter.bpe.ranks))
    slow = sum("".join(first) in word[k : k + 2] for word in words for k in range(len(word)))
    assert count_merges(splitter.bpe, words)[0] == slow > 1


def test_that_a_piece_is_made_from_its_letters():
    splitter = _SPLITTERS["bpe"]
    made = how_made(splitter.bpe, "▁smart")
    assert made[-1].words == (("▁smart",),)
    assert len(made[0].words[0]) == len("▁smart") - 1
    assert how_made(splitter.bpe, "<unk>") == []


def test_that_the_longest_entry_is_matched_and_the_tries_before_it_are_counted():
    ids = {"un": 0, "##able": 1, "##a": 2, "[UNK]": 3}
    found = list(longest_matches("unable", ids, prefix="##", unknown="[UNK]"))
    assert [(m.entry, m.n_tried) for m in found] == [("un", 4), ("##able", 0)]
    last = list(longest_matches("unx", ids, prefix="##", unknown="[UNK]"))[-1]
    assert (last.entry, last.start, last.end) == ("[UNK]", 0, 3)


def test_that_the_best_splits_are_those_of_a_search_through_all_of_them():
    scores = {piece: math.log((k + 1) / 40) for k, piece in enumerate(("a", "b", "ab", "ba", "aba", "bab"))}
    model = UnigramModel(scores=scores, ids={piece: k for k, piece in enumerate(scores)}, unknown=None)
    word = "ababab"
    every = []
    for cuts in itertools.product((0, 1), repeat=len(word) - 1):
        ends = [k + 1 for k, cut in enumerate(cuts) if cut] + [len(word)]
        pieces = tuple(word[a:b] for a, b in itertools.pairwise([0, *ends]))
        if all(piece in scores for piece in pieces):
            every.append((sum(scores[piece] for piece in pieces), pieces))
    expected = sorted((score for score, _ in every), reverse=True)[:4]
    found = best_splits(word, model, n_best=4)
    assert [score for score, _ in found] == pytest.approx(expected, abs=1e-12)
    assert all((pytest.approx(score), pieces) in every for score, pieces in found)
