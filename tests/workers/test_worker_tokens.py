"""What the worker says of tokenizers: replays, comparisons that stream and stop, vocabularies, pieces."""

import numpy as np
import pytest
from worker_tools import ask, save_tiny

from attnscope.records import (
    CompareTokenizers,
    Failed,
    FindPieces,
    LoadModel,
    PiecesFound,
    PieceShown,
    ReplaySplits,
    ShowPiece,
    ShowVocabulary,
    SpellText,
    SplitsReplayed,
    StopWork,
    TextSpelled,
    TokenizersNews,
    VocabularyShown,
)
from attnscope.workers import Engine


@pytest.fixture
def engine(tmp_path):
    made = Engine(lambda error, where: pytest.fail(f"{where}: {error!r}"))
    ask(made, LoadModel(number=1, source=save_tiny(tmp_path / "m", "encoder")))
    return made


def test_that_a_replay_is_of_the_tokenizer_that_is_asked_for(engine):
    (model,) = ask(engine, ReplaySplits(number=2, text="the cat meows"))
    assert isinstance(model, SplitsReplayed)
    assert (model.replay.kind, model.replay.n_unknown, model.replay.is_proved) == ("lookup", 1, True)
    (typed,) = ask(engine, ReplaySplits(number=3, text="aa aa ab", source="text", vocab_size=60))
    assert typed.replay.rules[0].made in ("aa", "␣a")
    (sample,) = ask(engine, ReplaySplits(number=4, text="smarter", source="sample", vocab_size=800))
    assert [word.pieces for word in sample.replay.last] == [("smart", "er")]
    (failed,) = ask(engine, ReplaySplits(number=5, text="a", source="text", kind="byte-bpe", vocab_size=9))
    assert isinstance(failed, Failed)
    assert "261" in failed.message


def test_that_a_comparison_tells_each_row_and_ends(engine):
    kinds, sizes = ("words", "byte-bpe"), (30, 300)
    text = "the cat sat\n" * 20
    ask(engine, CompareTokenizers(number=7, text=text, kinds=kinds, sizes=sizes, sentence="the dog"))
    told = []
    while engine.is_training:
        told += list(engine.advance_training())
    assert all(isinstance(news, TokenizersNews) and news.number == 7 for news in told)
    last = told[-1]
    assert last.is_done
    assert [(row.kind, row.asked, bool(row.refusal)) for row in last.rows] == [
        ("words", 30, False), ("words", 300, False), ("byte-bpe", 30, True), ("byte-bpe", 300, False)
    ]  # fmt: skip
    counts = [len(news.rows) for news in told]
    assert counts == sorted(counts)
    assert set(counts) >= {1, 2, 4}


def test_that_a_stopped_comparison_tells_nothing_more(engine):
    ask(engine, CompareTokenizers(number=8))
    list(engine.advance_training())
    ask(engine, StopWork(work="CompareTokenizers", number=9))
    assert not engine.is_training
    assert list(engine.advance_training()) == []


def test_that_an_empty_file_is_told_and_ends_the_comparison(engine, tmp_path):
    (tmp_path / "empty.txt").write_text(" \n")
    ask(engine, CompareTokenizers(number=8, path=str(tmp_path / "empty.txt")))
    told = []
    while engine.is_training:
        told += list(engine.advance_training())
    assert isinstance(told[-1], Failed)
    assert "no text" in told[-1].message


def test_that_a_vocabulary_is_shown_searched_and_forgotten_with_its_model(engine, tmp_path):
    *_, shown = ask(engine, ShowVocabulary(number=10))
    assert isinstance(shown, VocabularyShown)
    pieces = [shown.table.piece(id) for id in range(len(shown.table))]
    assert {"the", "cat", "tapis"} <= set(pieces)
    *_, found = ask(engine, FindPieces(number=11, query="at", sort="piece"))
    assert isinstance(found, PiecesFound)
    assert [pieces[id] for id in found.ids] == ["cat", "chat", "mat", "sat"]
    ask(engine, LoadModel(number=12, source=save_tiny(tmp_path / "d", "decoder")))
    *_, again = ask(engine, ShowVocabulary(number=13))
    assert again.table.name == "tiny decoder"


def test_that_a_piece_has_the_neighbours_of_a_slow_search(engine):
    (shown,) = ask(engine, ShowPiece(number=14, id=7))
    assert isinstance(shown, PieceShown)
    weight = engine.desk.models.open.own.module.tokens.weight.detach().double().numpy()
    cosines = weight @ weight[7] / np.linalg.norm(weight, axis=1) / np.linalg.norm(weight[7])
    cosines[7] = -np.inf
    expected = np.argsort(-cosines)[:8]
    assert [id for id, _, _ in shown.detail.nearest] == expected.tolist()
    assert [c for _, _, c in shown.detail.nearest] == pytest.approx(cosines[expected], abs=1e-5)


def test_that_a_text_is_spelled_alone_with_its_unknown_words_counted(engine):
    (spelled,) = ask(engine, SpellText(number=15, text="the zebra sat"))
    assert isinstance(spelled, TextSpelled)
    assert (spelled.tokens.pieces, spelled.tokens.n_unknown) == (("the", "<unk>", "sat"), 1)
