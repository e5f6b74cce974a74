"""Tokenizers compared and vocabularies searched, against slow counts."""

import math
from collections import Counter

import numpy as np
import pytest
from references import compare_now

from attnscope.errors import LoadError, UserError
from attnscope.records import PIECE_KINDS, FindPieces
from attnscope.text import (
    SearchedVocabulary,
    Splitter,
    build_table,
    describe_piece,
    find_pieces,
    full_lines,
    parts_of,
    train_tokenizer,
)

LINES = [f"the {a} {b} the {a}" for a in ("cat", "dog", "bird", "fish") for b in ("sat", "ran", "slept")]
TEXT = "\n".join(LINES)


def table_of(kind="byte-bpe", size=300):
    splitter = Splitter(train_tokenizer(kind, LINES, vocab_size=size).entries)
    *_, searched = build_table(splitter, "x")
    assert isinstance(searched, SearchedVocabulary)
    return splitter, searched


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_that_the_numbers_are_those_of_a_slow_count(kind):
    (row,) = compare_now([kind], [60], TEXT, is_held_out=False)
    tokenizer = train_tokenizer(kind, LINES, vocab_size=60)
    ids = [id for line in LINES for id in tokenizer.encode(line).ids]
    counts = Counter(ids)
    entropy = -sum(n / len(ids) * math.log2(n / len(ids)) for n in counts.values())
    n_words = sum(len(line.split()) for line in LINES)
    assert (row.n_tokens, row.n_used) == (len(ids), len(counts))
    assert row.tokens_per_word == pytest.approx(len(ids) / n_words)
    assert row.tokens_per_character == pytest.approx(len(ids) / sum(map(len, LINES)))
    assert row.bits_per_token == pytest.approx(entropy)
    assert row.density == pytest.approx(len(ids) / len(counts))
    assert row.bits_per_character == pytest.approx(entropy * len(ids) / sum(map(len, LINES)))


def test_that_one_word_again_and_again_has_no_entropy_and_no_sign():
    (row,) = compare_now(["words"], [60], "moo moo moo", is_held_out=False)
    assert (row.n_tokens, row.n_used, row.density) == (3, 1, 3.0)
    assert (str(row.bits_per_token), str(row.bits_per_character)) == ("0.0", "0.0")


def test_that_words_never_trained_on_are_unknown_and_bytes_never_are():
    words, plain = compare_now(
        ["words", "byte-bpe"], [300], TEXT + "\nzebras yawn loudly beyond", sentence="zebra"
    )
    assert words.unknown_share > 0 == plain.unknown_share
    assert [token.piece for token in words.sentence] == ["<unk>"]


def test_that_an_impossible_size_is_a_row_with_its_reason():
    (row,) = compare_now(["byte-bpe"], [100], TEXT)
    assert "261" in row.refusal
    assert row.n_tokens == 0


def test_that_the_measured_part_is_the_last_fifth_and_never_empty():
    training, measured = parts_of(LINES, is_held_out=True)
    assert training + measured == LINES
    assert sum(map(len, measured)) == pytest.approx(0.2 * len(TEXT), rel=0.35)
    assert parts_of(["one two three four five"], is_held_out=True) == (["one two three four"], ["five"])
    assert parts_of(["a b c d e f g h i j"], is_held_out=True) == (["a b c d e f g h"], ["i j"])
    assert parts_of(["abcd"] * 10, is_held_out=True) == (["abcd"] * 8, ["abcd"] * 2)
    with pytest.raises(LoadError, match="no text"):
        parts_of([" "], is_held_out=True)
    assert full_lines("a\n\n" + "b " * 1500)[0] == "a"
    assert max(map(len, full_lines("b " * 3000))) <= 2000


def test_that_a_table_says_of_every_id_what_the_tokenizer_says():
    splitter, searched = table_of()
    table = searched.table
    assert len(table) == splitter.entries.size
    for id in range(0, len(table), 7):
        text = splitter.entries.reading(id).text
        if text is not None and table.piece_kind(id) in ("word start", "continuation"):
            assert table.piece(id) == text.replace(" ", "␣").replace("\n", "↵").replace("\r", "␍").replace(
                "\t", "⇥"
            )
            assert table.lengths[id] == len(text)
    assert table.piece_kind(0) == "special"
    assert {table.piece_kind(id) for id in range(len(table))} == set(PIECE_KINDS) - {"unused"}
    assert [table.piece(id) for id in np.argsort(table.alphabet)] == sorted(
        searched.pieces, key=lambda piece: piece[:24]
    )


def test_that_pieces_are_found_by_text_expression_kind_and_id_and_sorted():
    _, searched = table_of()
    table = searched.table

    def pieces(**wish):
        ids, note = find_pieces(searched, FindPieces(number=1, **wish))
        return [table.piece(int(id)) for id in ids], note

    found, _ = pieces(query=" the")
    assert found == ["␣the"]
    assert all(piece.endswith("t") for piece in pieces(query="t$", mode="regex")[0])
    assert pieces(query="5, 9999 x 6", mode="id")[1] == "no id: 9999, x"
    ranks = find_pieces(searched, FindPieces(number=1, sort="score"))[0]
    known = [table.scores[id] for id in ranks if table.scores[id] == table.scores[id]]
    assert known == sorted(known)
    assert np.isnan(table.scores[ranks[len(known) :]]).all()
    assert all(table.piece_kind(int(id)) == "byte" for id in
               find_pieces(searched, FindPieces(number=1, kinds=("byte",)))[0])  # fmt: skip


@pytest.mark.slow
def test_that_a_broken_or_endless_expression_is_refused_in_time():
    _, searched = table_of("words", 40)
    with pytest.raises(UserError, match="not understood"):
        find_pieces(searched, FindPieces(number=1, query="(", mode="regex"))
    slow = SearchedVocabulary(table=searched.table, pieces=("a" * 40 + "!",) * len(searched.table), folded=())
    with pytest.raises(UserError, match="takes too long"):
        find_pieces(slow, FindPieces(number=1, query="(a+)+$", mode="regex"))


def test_that_a_piece_names_its_bytes_and_characters():
    splitter, searched = table_of()
    id = searched.pieces.index("␣the")
    detail = describe_piece(splitter, id)
    assert (detail.data, detail.kind, detail.entry) == (b" the", "word start", "Ġthe")
    assert detail.characters[0] == (" ", "U+0020 space")
    assert detail.merges[-1].made == "␣the"
    with pytest.raises(UserError, match="no id 100000"):
        describe_piece(splitter, 100_000)
