"""Tokenizers of every kind: round trips, offsets, pieces, special tokens, files."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models, pre_tokenizers

from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.models import own_target
from attnscope.schemes.tokenizers import SPECIALS
from attnscope.text import Tokenizer, decode_begun, train_tokenizer

LINES = [
    "I went to the store. At the store, I bought fresh strawberries.",
    "What is it? The smarter one isn't the smartest, is it?",
    "l'homme n'est pas là ; l'été, la forêt et le cœur",
    "\tTabs and  double  spaces\nand two\n\nlines 123 + 45 = 168",
] * 5
SIZES = {"bpe": 200, "byte-bpe": 320, "wordpiece": 200, "unigram": 120, "words": 200, "characters": 100}
KINDS = tuple(SIZES)
_MADE: dict[str, Tokenizer] = {}


def made(kind: str) -> Tokenizer:
    if kind not in _MADE:
        _MADE[kind] = train_tokenizer(kind, LINES, vocab_size=SIZES[kind])
    return _MADE[kind]


any_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)
known_text = st.text(alphabet="abcehinorst .,I?\n", max_size=60)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", KINDS)
def test_that_special_tokens_have_the_ids_0_to_4(kind: str) -> None:
    tokenizer = made(kind)
    ids = (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.begin_id, tokenizer.end_id, tokenizer.mask_id)
    assert ids == (0, 1, 2, 3, 4)
    assert tuple(tokenizer.token(id).piece for id in ids) == SPECIALS
    assert all(tokenizer.token(id).is_special for id in ids)
    assert tokenizer.kind == kind
    assert 5 < tokenizer.vocab_size <= SIZES[kind]


@quick
@given(text=any_text)
def test_that_byte_level_bpe_gives_back_any_text_exactly(text: str) -> None:
    tokenizer = made("byte-bpe")
    if "<mask>" in text or "[MASK]" in text:
        return
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens.ids) == text
    assert tokens.n_unknown == tokens.n_replaced == tokens.n_dropped == tokens.n_cut == 0


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
@quick
@given(text=known_text)
def test_that_known_characters_come_back_but_for_a_space_at_the_start(kind: str, text: str) -> None:
    tokenizer = made(kind)
    decoded = tokenizer.decode(tokenizer.encode(text).ids)
    assert decoded == (text if kind == "characters" else text.removeprefix(" "))


@pytest.mark.parametrize("kind", ["words", "wordpiece"])
@quick
@given(text=known_text)
def test_that_the_words_come_back_in_order(kind: str, text: str) -> None:
    tokenizer = made(kind)
    tokens = tokenizer.encode(text)
    if tokens.n_unknown:
        return
    assert "".join(tokenizer.decode(tokens.ids).split()) == "".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@quick
@given(text=any_text)
def test_that_offsets_rise_and_stand_in_the_text(kind: str, text: str) -> None:
    tokens = made(kind).encode(text)
    previous = 0
    for token in tokens.tokens:
        assert 0 <= token.start <= token.end <= len(text)
        assert token.end >= previous
        previous = token.end


@pytest.mark.parametrize("kind", KINDS)
def test_that_the_text_at_the_offsets_is_the_piece(kind: str) -> None:
    text = "At the store, I bought the fresh one"
    for token in made(kind).encode(text).tokens:
        if not token.is_special and token.end > token.start:
            assert text[token.start : token.end] == token.piece.replace("␣", " ")


@pytest.mark.parametrize("kind", KINDS)
def test_that_joins_previous_says_where_the_spaces_are(kind: str) -> None:
    text = "At the store, I bought the fresh one"
    tokens = made(kind).encode(text).tokens
    if kind == "characters":
        assert all(token.joins_previous != (token.piece == "␣") for token in tokens[1:])
        return
    parts = (("" if token.joins_previous else " ") + token.piece.removeprefix("␣") for token in tokens)
    assert "".join(parts).strip() == text


@pytest.mark.parametrize("kind", KINDS)
def test_that_no_piece_shows_how_the_vocabulary_is_written(kind: str) -> None:
    tokenizer = made(kind)
    pieces = [tokenizer.token(id).piece for id in range(tokenizer.vocab_size)]
    pieces += tokenizer.encode("Ünïcödé € 😀 and\nsmarter").pieces
    assert all(piece for piece in pieces)
    for piece in pieces:
        assert not any(mark in piece for mark in ("Ġ", "Ċ", "▁", "##", "�", " ", "\n")), piece


def test_that_a_character_spread_over_tokens_is_named_in_each() -> None:
    tokens = made("byte-bpe").encode("€")
    assert tokens.pieces == ("€⟨1/3⟩", "€⟨2/3⟩", "€⟨3/3⟩")
    assert {(token.start, token.end) for token in tokens.tokens} == {(0, 1)}
    assert made("byte-bpe").token(tokens.ids[0]).piece == "⟨E2⟩"


def test_that_a_cut_character_shows_its_bytes() -> None:
    tokens = made("byte-bpe").encode("a€", max_tokens=3)
    assert tokens.pieces == ("a", "⟨E2⟩", "⟨82⟩")


def test_that_blanks_are_shown_as_signs() -> None:
    assert made("characters").encode("a \n\t").pieces == ("a", "␣", "↵", "⇥")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("literal", ["<mask>", "[MASK]"])
def test_that_a_typed_mask_becomes_the_mask_token(kind: str, literal: str) -> None:
    tokenizer = made(kind)
    text = f"At the {literal} I bought it"
    tokens = tokenizer.encode(text)
    assert [text[t.start : t.end] for t in tokens.tokens if t.id == tokenizer.mask_id] == [literal]
    assert tokenizer.encode_ids(text) == list(tokens.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_that_other_special_tokens_cannot_be_typed(kind: str) -> None:
    tokenizer = made(kind)
    ids = tokenizer.encode("<s> </s> <pad> a</s>").ids
    assert not {tokenizer.begin_id, tokenizer.end_id, tokenizer.pad_id} & set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_that_a_saved_tokenizer_reads_as_before(kind: str, tmp_path: Path) -> None:
    made(kind).save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    text = "<s> At the <mask>, the smarter\none isn't 😀"
    assert loaded.kind == kind
    assert loaded.vocab_size == made(kind).vocab_size
    assert loaded.encode(text) == made(kind).encode(text)
    ids = loaded.encode_ids(text)
    assert loaded.decode(ids) == made(kind).decode(ids)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])
def test_that_training_twice_gives_the_same_tokenizer(kind: str, tmp_path: Path) -> None:
    files = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        train_tokenizer(kind, iter(LINES), vocab_size=SIZES[kind]).save(folder)
        files.append((folder / "tokenizer.json").read_bytes())
    assert files[0] == files[1]


def test_that_unigram_learns_the_same_pieces_twice() -> None:
    first, second = (train_tokenizer("unigram", LINES, vocab_size=120) for _ in range(2))
    assert {first.token(id).piece for id in range(first.vocab_size)} == {
        second.token(id).piece for id in range(second.vocab_size)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_that_lines_encode_as_they_do_one_by_one(kind: str) -> None:
    tokenizer = made(kind)
    lines = [*LINES, "", "At the <mask>", "word " * 3000]
    assert list(tokenizer.encode_lines(lines)) == [tokenizer.encode_ids(line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_that_a_long_text_encodes_as_its_sentences_do(kind: str) -> None:
    tokenizer = made(kind)
    sentence = "At the store I bought fresh strawberries"
    n = 400  # over one chunk
    once = tokenizer.encode_ids(sentence)
    later = tokenizer.encode_ids(f"x {sentence}")[len(tokenizer.encode_ids("x")) :]
    assert tokenizer.encode_ids(" ".join([sentence] * n)) == once + later * (n - 1)


def test_that_words_without_capitals_in_training_read_capitals_as_small() -> None:
    tokenizer = train_tokenizer("words", ["the cat sees l' homme ."], vocab_size=20)
    tokens = tokenizer.encode("The CAT sees l'homme.")
    assert tokens.pieces == ("the", "cat", "sees", "l'", "homme", ".")
    assert tokens.n_unknown == 0
    assert tokenizer.decode(tokens.ids) == "the cat sees l'homme."


def test_that_unknown_words_are_counted() -> None:
    tokens = train_tokenizer("words", ["the cat"], vocab_size=20).encode("the dog and the cat")
    assert tokens.n_unknown == 2
    assert tokens.pieces == ("the", "<unk>", "<unk>", "the", "cat")
    assert (tokens.tokens[1].start, tokens.tokens[1].end) == (4, 7)


def test_that_begin_and_end_stand_around_and_count_towards_the_limit() -> None:
    tokens = made("words").encode("I bought the store", add_begin=True, add_end=True, max_tokens=4)
    assert tokens.pieces == ("<s>", "I", "bought", "</s>")
    assert tokens.n_dropped == 2


def test_that_smarter_falls_into_smart_and_er() -> None:
    lines = ["smart smart smart longer taller older colder"] * 20
    tokens = train_tokenizer("bpe", lines, vocab_size=28).encode("smarter")
    assert tokens.pieces == ("smart", "er")
    assert [token.joins_previous for token in tokens.tokens] == [False, True]


def test_that_an_id_beyond_the_vocabulary_says_so() -> None:
    assert made("words").token(50_300).piece == "⟨id 50300⟩"
    assert made("words").decode([50_300]) == ""


@pytest.mark.parametrize("size", [3, 0, -1, True, 2.5, 10**9])
def test_that_an_impossible_vocabulary_size_is_refused(size: int) -> None:
    with pytest.raises(RecipeError, match=r"expected|Expected.*whole number"):
        train_tokenizer("byte-bpe", LINES, vocab_size=size)


def test_that_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RecipeError, match="byte-bpe"):
        train_tokenizer("sentencepiece", LINES, vocab_size=300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["  \n"]])
def test_that_nothing_to_train_on_is_said(kind: str, texts: list[str]) -> None:
    with pytest.raises(LoadError):
        train_tokenizer(kind, texts, vocab_size=300)


def foreign(tmp_path: Path, library: LibraryTokenizer) -> Tokenizer:
    (tmp_path / "tokenizer.json").write_text(library.to_str(), encoding="utf-8")
    return Tokenizer.load(tmp_path)


def test_that_a_foreign_byte_level_tokenizer_reads_plainly(tmp_path: Path) -> None:
    entries = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {entry: id for id, entry in enumerate([*entries, "Ġa", "Ġab"])}
    library = LibraryTokenizer(models.BPE(vocab=vocabulary, merges=[("Ġ", "a"), ("Ġa", "b")]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.enable_truncation(2)
    library.add_special_tokens(["<|endoftext|>"])
    tokenizer = foreign(tmp_path, library)
    tokens = tokenizer.encode("c ab é<|endoftext|>")
    assert tokens.pieces[:4] == ("c", "ab", "␣", "é⟨1/2⟩")
    assert tokenizer.begin_id == tokenizer.end_id == 258
    assert 258 not in tokens.ids
    assert not tokenizer.has("mask")
    with pytest.raises(UserError, match="no mask token"):
        _ = tokenizer.mask_id
    assert tokenizer.encode("a <mask>").pieces[-1] == ">"


def test_that_a_foreign_vocabulary_with_byte_entries_shows_characters(tmp_path: Path) -> None:
    entries = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    vocabulary = {entry: id for id, entry in enumerate(entries)}
    library = LibraryTokenizer(
        models.BPE(vocab=vocabulary, merges=[("▁", "a")], unk_token="<unk>", byte_fallback=True)
    )
    library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer = foreign(tmp_path, library)
    tokens = tokenizer.encode("a é\n")
    assert tokens.pieces == ("a", "␣", "é⟨1/2⟩", "é⟨2/2⟩", "↵")
    assert [token.joins_previous for token in tokens.tokens] == [False, False, True, True, False]
    assert tokenizer.decode(tokens.ids) == "a é\n"


def test_that_a_foreign_bert_vocabulary_uses_its_own_special_tokens(tmp_path: Path) -> None:
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "smart", "##er", "the"]
    library = LibraryTokenizer(
        models.WordPiece(vocab={entry: id for id, entry in enumerate(entries)}, unk_token="[UNK]")
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    library.add_special_tokens(entries[:5])
    tokenizer = foreign(tmp_path, library)
    tokens = tokenizer.encode("the smarter <mask>", add_begin=True, add_end=True)
    assert tokens.pieces == ("[CLS]", "the", "smart", "er", "[MASK]", "[SEP]")
    assert [t.joins_previous for t in tokens.tokens] == [False, False, False, True, False, False]


def test_that_a_text_that_was_cut_within_a_character_ends_before_it() -> None:
    tokenizer = made("byte-bpe")
    ids = tokenizer.encode("it is ツ ツ").ids
    assert len(ids) > len(tokenizer.encode("it is ツ").ids) + 1  # the last character has several tokens
    for n_cut in range(len(ids)):
        text = decode_begun(tokenizer.decode, ids[: len(ids) - n_cut])
        assert "it is ツ ツ".startswith(text)
    broken = (*ids[-2:-1], *ids[-2:-1]) * 3  # no text at all: nothing of it is hidden
    assert decode_begun(tokenizer.decode, broken) == tokenizer.decode(broken)


def test_that_the_first_token_of_a_written_text_continues_no_word() -> None:
    tokenizer = made("wordpiece")
    id = next(id for id in range(tokenizer.vocab_size) if tokenizer.token(id).joins_previous)
    written = own_target(tokenizer, [id, id])
    assert written.ids == (tokenizer.begin_id, id, id)
    assert [token.joins_previous for token in written.tokens] == [False, False, True]
