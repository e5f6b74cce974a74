"""Faults of the tokenizers library become one error; what ends a pass is none of them."""

import os
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from attnscope.errors import LoadError, Stopped
from attnscope.models.huggingface import HuggingFaceVocabulary
from attnscope.nn import stop_if_unwanted, stoppable
from attnscope.text import Splitter, Vocabulary, empty_library, library_errors, without_panic_words
from attnscope.text import Tokenizer as OwnTokenizer


class Panic(BaseException):
    """As the library's own, which cannot be imported."""


def test_that_a_panic_is_a_load_error_and_a_stop_stays_a_stop() -> None:
    with pytest.raises(LoadError, match="cannot be read: the table ends") as told:
        with library_errors("It cannot be read", action="Restore it."):
            raise Panic("the  table\nends")
    assert told.value.kind == "tokenizer"
    with stoppable(lambda: True), pytest.raises(Stopped):
        with library_errors("It cannot be read", action="Restore it."):
            stop_if_unwanted()


def test_that_only_the_words_of_a_panic_are_kept_back(capfd: pytest.CaptureFixture[str]) -> None:
    panic = b"\nthread '<unnamed>' (42) panicked at src/lib.rs:1:2:\nsomething\nnote: run with it\n"
    with without_panic_words():
        os.write(2, b"before\n" + panic + b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"


def test_that_the_words_of_a_second_panic_are_kept_back_too(capfd: pytest.CaptureFixture[str]) -> None:
    head = b"\nthread '<unnamed>' (42) panicked at src/lib.rs:1:2:\n"
    with without_panic_words():
        os.write(2, head + b"first\nnote: run with it\n" + head + b"second\nbetween\n" + head + b"third\n")
    assert capfd.readouterr().err == "between\n"


@pytest.fixture
def giving_up() -> Tokenizer:
    """A tokenizer whose rules do well until a text has many letters b."""
    library = Tokenizer(models.BPE(vocab={"b": 0, "c": 1}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.Split(Regex("(b+)+$"), "isolated")
    library.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex("(b+)+$"), "x")])
    return library


def test_that_a_rule_that_gives_up_after_opening_prints_nothing(
    giving_up: Tokenizer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    giving_up.save(str(tmp_path / "tokenizer.json"))
    own, text = OwnTokenizer.load(tmp_path), "b" * 40 + "c"
    entries = Vocabulary(giving_up)
    doors = (
        lambda: own.encode(text),
        lambda: own.encode_ids(text),
        lambda: HuggingFaceVocabulary(giving_up).encode(text, max_tokens=9),
        lambda: Splitter(entries).replay(text, "name"),
    )
    for door in doors:
        with pytest.raises(LoadError, match="retry-limit-in-match over"):
            door()
    assert capfd.readouterr().err == ""


def test_that_a_rule_that_gives_up_writing_prints_nothing(
    giving_up: Tokenizer, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LoadError, match="cannot write these tokens"):
        Vocabulary(giving_up).decode([0] * 40 + [1])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "model",
    [
        models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")]),
        models.WordPiece(vocab={"a": 0, "b": 1, "##b": 2}, unk_token="a"),
        models.WordLevel(vocab={"a": 0, "b": 1, "c": 2}, unk_token="a"),
        models.Unigram([("a", 0.0), ("b", -1.0), ("c", -2.0)], unk_id=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_that_every_kind_of_vocabulary_can_be_let_go(
    model: models.Model, capfd: pytest.CaptureFixture[str]
) -> None:
    library = Tokenizer(model)
    empty_library(library)
    assert [library.token_to_id(piece) for piece in "abc"] == [None] * 3
    assert library.get_vocab_size() <= 1
    assert capfd.readouterr() == ("", "")
