"""Tokenizers of other people's models: the same ids as their own library, pieces that people can read."""

import json
import struct
from pathlib import Path

import pytest
from hf_folders import bert_tokenizer, byte_tokenizer, seq2seq_tokenizer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from attnscope.errors import LoadError
from attnscope.models.huggingface import HuggingFaceVocabulary, read_vocabulary, tokenizer_files

library = pytest.importorskip("transformers")

TEXTS = [
    "the animal didn't cross the street, because it was too tired.",
    "  two  spaces\nand a line — naïve 漢字 😀!",
    "the said <|endoftext|> not </s> [SEP] again",
    "",
]
MAKERS = {"bert": bert_tokenizer, "bytes": byte_tokenizer, "seq2seq": seq2seq_tokenizer}


@pytest.fixture
def bert() -> HuggingFaceVocabulary:
    return HuggingFaceVocabulary(bert_tokenizer())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", MAKERS)
def test_that_ids_are_those_of_the_library(kind: str, text: str) -> None:
    theirs = library.PreTrainedTokenizerFast(tokenizer_object=MAKERS[kind]())
    ours = HuggingFaceVocabulary(MAKERS[kind]()).encode(text, max_tokens=1000).tokens
    assert list(ours.ids) == theirs(text)["input_ids"]


def test_that_two_texts_are_joined_with_the_segments_of_the_library(bert: HuggingFaceVocabulary) -> None:
    made = library.PreTrainedTokenizerFast(tokenizer_object=bert_tokenizer())
    theirs = made("the animal", "go home", return_token_type_ids=True)
    pair = bert.encode_pair("the animal", "go home", max_tokens=20)
    assert list(pair.tokens.ids) == theirs["input_ids"]
    assert list(pair.segments) == theirs["token_type_ids"]
    second = pair.tokens.tokens[4]
    assert pair.tokens.text[second.start : second.end] == second.piece == "go"


def test_that_pieces_are_readable_and_stand_where_they_say(bert: HuggingFaceVocabulary) -> None:
    text = "The animals crossing"
    tokens = bert.encode(text, max_tokens=50).tokens.tokens
    assert [t.piece for t in tokens] == ["[CLS]", "the", "animal", "s", "cross", "ing", "[SEP]"]
    assert [t.is_special for t in tokens] == [True, *[False] * 5, True]
    assert [t.joins_previous for t in tokens][1:6] == [False, False, True, False, True]
    assert text[tokens[2].start : tokens[2].end] == "animal"
    pieces = HuggingFaceVocabulary(byte_tokenizer()).encode("the café", max_tokens=50).tokens.pieces
    assert pieces == ("the", "␣", "c", "a", "f", "é⟨1/2⟩", "é⟨2/2⟩")


@pytest.mark.parametrize("mask", ["[MASK]", "<mask>"])
def test_that_a_mask_is_read_however_it_is_spelled(bert: HuggingFaceVocabulary, mask: str) -> None:
    text = f"the {mask} said {mask} go"
    tokens = bert.encode(text, max_tokens=50).tokens.tokens
    assert [t.id == bert.mask_id for t in tokens] == [False, False, True, False, True, False, False]
    assert [text[t.start : t.end] for t in tokens[1:6]] == ["the", mask, "said", mask, "go"]


def test_that_a_long_text_is_cut_and_what_was_lost_is_counted(bert: HuggingFaceVocabulary) -> None:
    tokens = bert.encode("the " * 30 + "\ud800", max_tokens=10).tokens
    assert len(tokens) == 10
    assert (tokens.tokens[0].piece, tokens.tokens[-1].piece) == ("[CLS]", "[SEP]")
    assert tokens.n_dropped == 30 - 8
    assert tokens.n_replaced == 1
    assert bert.encode("漢 the", max_tokens=10).tokens.n_unknown == 1
    pair = bert.encode_pair("the " * 30, "go home", max_tokens=12)
    assert len(pair.tokens) == 12
    assert pair.tokens.pieces[-3:] == ("go", "home", "[SEP]")


def test_that_roles_come_from_the_models_own_files(tmp_path: Path) -> None:
    byte_tokenizer(specials=("<start>", "<stop>", "<hole>")).save(str(tmp_path / "tokenizer.json"))
    named = '{"bos_token": "<start>", "eos_token": {"content": "<stop>"}, "mask_token": "<hole>"}'
    (tmp_path / "tokenizer_config.json").write_text(named)
    vocabulary = read_vocabulary(tmp_path, library)
    assert (vocabulary.begin_id, vocabulary.end_id, vocabulary.mask_id) == (0, 1, 2)
    assert vocabulary.decode([0, *vocabulary.encode("the", max_tokens=9).tokens.ids, 1]) == "the"


def message(*fields: tuple[int, bytes | float]) -> bytes:
    """A protocol buffer of text and numbers, as sentencepiece writes its models."""
    parts = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts.append(bytes([number << 3 | 2, len(value)]) + value)
        else:
            parts.append(bytes([number << 3 | 5]) + struct.pack("<f", value))
    return b"".join(parts)


def save_marian(folder: Path) -> None:
    """Two languages that share the piece ▁a; the longer pieces are the likelier ones."""
    ids: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for name, entries in (("source", "▁a ▁the ▁ t h e s"), ("target", "▁a ▁la ▁ l s")):
        pieces = [(1, message((1, entry.encode()), (2, -1.0 - 1 / len(entry)))) for entry in entries.split()]
        (folder / f"{name}.spm").write_bytes(message(*pieces))
        for entry in entries.split():
            ids.setdefault(entry, len(ids))
    (folder / "vocab.json").write_text(json.dumps(ids | {"<pad>": len(ids)}), encoding="utf-8")


def test_that_two_sentencepiece_files_read_two_languages_into_the_same_ids(tmp_path: Path) -> None:
    save_marian(tmp_path)
    vocabulary = read_vocabulary(tmp_path, library)
    source = vocabulary.encode("the  thes a", max_tokens=20).tokens
    assert source.pieces == ("the", "the", "s", "a", "</s>")
    assert [source.text[t.start : t.end] for t in source.tokens] == ["the", "the", "s", "a", ""]
    target = vocabulary.encode("la the", max_tokens=20, suffix=(), is_target=True).tokens
    assert [t.piece for t in target.tokens] == ["la", "␣", "<unk>"]
    assert vocabulary.decode(source.ids) == "the thes a"


@pytest.mark.parametrize("cut", [3, 5, 17])
def test_that_a_damaged_sentencepiece_file_is_one_load_error(tmp_path: Path, cut: int) -> None:
    save_marian(tmp_path)
    path = tmp_path / "source.spm"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(LoadError) as caught:
        read_vocabulary(tmp_path, library)
    assert caught.value.kind == "tokenizer"


def test_that_an_older_vocabulary_file_is_read_without_a_tokenizer_json(tmp_path: Path) -> None:
    entries = sorted(bert_tokenizer().get_vocab().items(), key=lambda entry: entry[1])
    (tmp_path / "vocab.txt").write_text("\n".join(name for name, _ in entries), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    vocabulary = read_vocabulary(tmp_path, library)
    assert vocabulary.encode("The animals", max_tokens=9).tokens.pieces == (
        "[CLS]",
        "the",
        "animal",
        "s",
        "[SEP]",
    )


def save_words(folder: Path, n_pieces: int, first: str = "w") -> Path:
    """A tokenizer of so many whole words."""
    folder.mkdir(exist_ok=True)
    pieces = {"[UNK]": 0} | {f"{first}{n}": n for n in range(1, n_pieces)}
    Tokenizer(WordLevel(vocab=pieces, unk_token="[UNK]")).save(str(folder / "tokenizer.json"))
    return folder


def test_that_a_large_vocabulary_is_let_go_with_the_last_who_reads_it(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(save_words(tmp_path, tokenizer_files.MOST_KEPT + 1), library)
    entries, held = vocabulary.entries, vocabulary.entries.library
    del vocabulary
    assert held.get_vocab_size() == tokenizer_files.MOST_KEPT + 1
    del entries
    assert held.get_vocab_size() == 1


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each content that the library reads, with nothing kept from before."""
    shelf = tokenizer_files.TokenizerShelf()
    monkeypatch.setattr(tokenizer_files, "shelf", lambda: shelf)
    seen: list[int] = []
    read = tokenizer_files._read_content

    def noting(content: str) -> Tokenizer:
        seen.append(len(content))
        return read(content)

    monkeypatch.setattr(tokenizer_files, "_read_content", noting)
    return seen


def test_that_a_large_vocabulary_is_read_once_for_all_models_that_come_with_it(
    tmp_path: Path, readings: list[int]
) -> None:
    first = read_vocabulary(save_words(tmp_path / "one", 80_000), library)
    again = read_vocabulary(save_words(tmp_path / "two", 80_000), library)
    assert len(readings) == 1
    assert again.entries.library is first.entries.library
    del first
    assert again.encode("w7", max_tokens=9).tokens.ids == (7,)
    other = read_vocabulary(save_words(tmp_path / "other", 80_000, "v"), library)
    assert len(readings) == 2
    assert (other.id_of("w7"), other.id_of("v7")) == (None, 7)
    del again
    read_vocabulary(tmp_path / "two", library)
    assert len(readings) == 3


def test_that_roles_of_models_that_share_a_vocabulary_are_their_own(
    tmp_path: Path, readings: list[int]
) -> None:
    folders = [save_words(tmp_path / name, 30_000) for name in ("one", "two")]
    for folder, end in zip(folders, ("w1", "w2"), strict=True):
        (folder / "tokenizer_config.json").write_text(f'{{"eos_token": "{end}"}}')
    one, two = (read_vocabulary(folder, library) for folder in folders)
    assert len(readings) == 1
    assert (one.end_id, two.end_id) == (1, 2)
    assert [token.is_special for token in one.encode("w1", max_tokens=9).tokens.tokens] == [True]
    assert [token.is_special for token in two.encode("w1", max_tokens=9).tokens.tokens] == [False]


def test_that_the_last_large_vocabularies_are_there_for_the_next_opening(
    tmp_path: Path, readings: list[int]
) -> None:
    one, two, three = (save_words(tmp_path / first, 25_000, first) for first in "abc")
    held = read_vocabulary(one, library).entries.library
    read_vocabulary(two, library)
    read_vocabulary(one, library)  # now the last
    assert len(readings) == 2
    assert held.get_vocab_size() == 25_000
    read_vocabulary(three, library)  # there is room for two: the second goes
    read_vocabulary(one, library)
    read_vocabulary(three, library)
    assert len(readings) == 3
    read_vocabulary(two, library)
    assert len(readings) == 4


def test_that_small_vocabularies_and_broken_files_are_not_kept(tmp_path: Path, readings: list[int]) -> None:
    small = save_words(tmp_path / "small", 500)
    one, two = read_vocabulary(small, library), read_vocabulary(small, library)
    assert one.entries.library is not two.entries.library
    (small / "tokenizer.json").write_text("{}")
    for _ in range(2):
        with pytest.raises(LoadError, match="is not usable"):
            read_vocabulary(small, library)
    assert len(readings) == 4
