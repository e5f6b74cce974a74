"""The states of the token labs: newest wins, steps are walked, rows are told, searches are asked."""

import numpy as np
from session_samples import state_of
from token_lab_samples import replay_of_ab, table

from attnscope.records import (
    CompareTokenizers,
    Failed,
    FindPieces,
    ModelLoaded,
    PiecesFound,
    ReplaySplits,
    ShowPiece,
    ShowVocabulary,
    SpellText,
    SplitsReplayed,
    StopWork,
    TokenizerRow,
    TokenizersNews,
    VocabularyShown,
)


def test_that_an_old_replay_is_dropped_and_the_newest_begins_with_its_first_merge():
    posted = []
    state = state_of("labs.merges", posted.append)
    state.set_text("nothing is asked before it is looked at")
    assert posted == []
    state.start()
    state.set_text("abc ab")
    assert [type(p) for p in posted] == [ReplaySplits, ReplaySplits]
    state.handle(SplitsReplayed(number=posted[0].number, replay=replay_of_ab()))
    assert state.replay.start == ()
    state.handle(SplitsReplayed(number=posted[1].number, replay=replay_of_ab()))
    assert (state.step, state.n_steps, state.counts()) == (1, 2, (5, 3, 2))
    assert state.sentence.startswith("9 pieces from 4 merges; “abc” is made by merge 3. Merge 0: a + b")


def test_that_steps_are_walked_within_their_ends_and_said():
    posted = []
    state = state_of("labs.merges", posted.append)
    state.start()
    state.handle(SplitsReplayed(number=posted[0].number, replay=replay_of_ab()))
    state.go_to(1)
    assert [token.piece for token in state.tokens] == ["ab", "c", "ab"]
    assert state.marked == {0, 2}
    assert "a + b → ab, in 2 positions, seen 9 times" in state.sentence
    state.go_to(-5)
    assert state.step == 0
    assert state.marked == frozenset()
    state.go_to(99)
    assert state.step == 2


def test_that_a_word_of_the_window_is_replayed_with_the_model_and_again_for_another_model():
    posted = []
    state = state_of("labs.merges", posted.append)
    state.show_word("smarter")
    assert (posted[-1].text, posted[-1].source) == ("smarter", "model")
    state.handle(ModelLoaded(number=1, info=None))
    assert len(posted) == 2
    state.handle(Failed(number=posted[-1].number, request="ReplaySplits", message="It has no tokenizer."))
    assert state.sentence == "It has no tokenizer."


def test_that_a_replay_that_failed_leaves_no_steps_of_the_one_before():
    posted = []
    state = state_of("labs.merges", posted.append)
    state.start()
    state.handle(SplitsReplayed(number=posted[0].number, replay=replay_of_ab()))
    state.set_source("model")
    assert state.n_steps == 2
    state.handle(Failed(number=posted[-1].number, request="ReplaySplits", message="It has no tokenizer."))
    assert (state.replay.start, state.n_steps, state.step, state.words.numbers) == ((), 0, 0, ())


def test_that_bytes_get_a_vocabulary_that_holds_them():
    state = state_of("labs.merges", [].append)
    state.set_size(60)
    state.set_kind("byte-bpe")
    assert state.wish.vocab_size == 270


def test_that_rows_come_one_by_one_and_equal_vocabularies_are_shown_once():
    posted = []
    state = state_of("labs.tokenizers", posted.append)
    state.choose(sizes=(100, 200))
    state.start()
    (request,) = posted
    assert isinstance(request, CompareTokenizers)
    full = TokenizerRow(
        kind="words", asked=100, vocab_size=60, n_tokens=10, tokens_per_word=1.0, density=2.0, n_used=30
    )
    again = TokenizerRow(
        kind="words", asked=200, vocab_size=60, n_tokens=10, tokens_per_word=1.0, density=2.0
    )
    none = TokenizerRow(kind="byte-bpe", asked=100, refusal="a whole number from 261")
    state.handle(
        TokenizersNews(number=request.number, rows=(full, again, none), fraction=0.5, what="Training")
    )
    assert state.is_working
    assert state.rows == (full, none)
    assert state.cells(full)[5] == "50 %"
    assert len(state.cells(none)) == len(state.cells(full)) == 11
    state.stop()
    assert posted[-1] == StopWork(number=posted[-1].number, work="CompareTokenizers")
    state.handle(TokenizersNews(number=request.number, is_done=True))
    assert state.rows == (full, none)


def test_that_another_model_ends_a_comparison_in_words():
    posted = []
    state = state_of("labs.tokenizers", posted.append)
    state.look()
    state.look()
    assert len(posted) == 1  # looked at first, the example is measured at once
    state.handle(ModelLoaded(number=5, info=None))
    assert not state.is_working
    assert "another model" in state.sentence


def test_that_a_vocabulary_is_asked_for_once_searched_and_asked_again_for_another_model():
    posted = []
    state = state_of("labs.vocabulary", posted.append)
    state.search("b")
    assert posted == []
    state.start()
    state.start()
    assert [type(p) for p in posted] == [ShowVocabulary]
    state.handle(VocabularyShown(number=posted[0].number, table=table()))
    assert state.table is not None
    assert [state.table.piece(k) for k in range(3)] == ["<s>", "a", "bc"]
    assert state.sentence == (
        "x has 3 pieces: 1 special, 1 begin a word, 1 continue one. The longest, “bc”, has 2 characters."
    )
    (find,) = (request for request in posted if isinstance(request, FindPieces))
    assert find.query == "b"
    state.handle(PiecesFound(number=find.number - 1, ids=np.array([0])))
    assert len(state.ids) == 3
    state.handle(PiecesFound(number=find.number, ids=np.array([2]), note="no id: x"))
    assert state.count_sentence == "1 of 3 pieces · no id: x"
    state.handle(ModelLoaded(number=1, info=None))
    assert state.table is None
    assert isinstance(posted[-1], ShowVocabulary)


def test_that_a_vocabulary_opens_on_a_spelled_example_and_on_its_longest_piece():
    posted = []
    state = state_of("labs.vocabulary", posted.append)
    state.start()
    state.handle(VocabularyShown(number=posted[0].number, table=table()))
    assert [r.text for r in posted if isinstance(r, SpellText)] == ["the cat is unbelievably naïve"]
    assert [r.id for r in posted if isinstance(r, ShowPiece)] == [2]  # bc
    state.spell("")
    state.handle(ModelLoaded(number=1, info=None))
    state.handle(VocabularyShown(number=posted[-1].number, table=table()))
    assert len([r for r in posted if isinstance(r, SpellText)]) == 1  # what was emptied stays empty
