"""F25-F32: broken tokenizers and impossible text."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import LoadError
from attnscope.text import MAX_CHARACTERS, Tokenizer, chunks, clean_text, train_tokenizer

LINES = ["the cat sat on the mat , and the dog did not sit ."] * 5
KINDS = {"bpe": 60, "byte-bpe": 300, "wordpiece": 80, "unigram": 40, "words": 60, "characters": 60}
WEIRD = [
    "\x00", "\x07\x1b[31m", "\u202eabc", "\u200b\u200d\ufeff", "👩\u200d👩\u200d👧", "e\u0301\u0323",
    "שלום عليكم", "\r\n\u2028\u2029", "\uffff\U0010ffff", "İıſßŒ", "a\u0300" * 500, "𐍈𝔘", "\u1160\u3164",
]  # fmt: skip


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(request.param, LINES, vocab_size=KINDS[request.param])


def broken(**changes: object) -> str:
    """A tokenizer file that is right but for the given components."""
    good = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"},
    }
    return json.dumps(good | changes)


def load_text(tmp_path: Path, content: str | bytes) -> Tokenizer:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / "tokenizer.json").write_bytes(data)
    return Tokenizer.load(tmp_path)


def wordlevel(vocabulary: dict[str, int], unknown: str = "<unk>") -> dict[str, object]:
    return {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown}


BROKEN = {
    "not JSON": "{",
    "empty": "",
    "a list": "[]",
    "nested 100,000 deep": "[" * 100_000,
    "not UTF-8": b"\xff\xfe{\x00",
    "unknown version": broken(version="9.0"),
    "unknown model": broken(model={"type": "Oracle", "vocab": {}}),
    "unknown pre-tokenizer": broken(pre_tokenizer={"type": "Oracle"}),
    "empty vocabulary": broken(model=wordlevel({})),
    "duplicate ids": broken(model=wordlevel({"<unk>": 0, "a": 1, "b": 1})),
    "huge id": broken(model=wordlevel({"<unk>": 0, "a": 2**32 - 1})),
    "negative id": broken(model=wordlevel({"<unk>": 0, "a": -1})),
    "unknown token missing": broken(model=wordlevel({"a": 0})),
    "unigram without pieces": broken(model={"type": "Unigram", "unk_id": 0, "vocab": []}),
    "unigram with a far unknown id": broken(model={"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]]}),
    "merge of unknown pieces": broken(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}),
    "broken regular expression": broken(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
    ),
    "normalizer with bad data": broken(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "wordpiece that cannot say unknown": broken(
        model={
            "type": "WordPiece",
            "vocab": {"a": 0},
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        }
    ),
    "byte fallback without bytes": broken(decoder={"type": "CTC", "pad_token": 3}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_that_a_broken_tokenizer_is_refused_in_words(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """F25, F27: whatever the library does with the file, a panic too, becomes a LoadError naming it."""
    with pytest.raises(LoadError) as caught:
        load_text(tmp_path, BROKEN[name])
    assert "tokenizer.json" in str(caught.value)
    assert caught.value.action
    assert capfd.readouterr().err == "", "no words of the library's panic"


def test_that_a_right_file_of_the_same_making_loads(tmp_path: Path) -> None:
    """F25: the files above are refused for what is broken in them, not for how the test makes them."""
    assert load_text(tmp_path, broken()).encode("a b").n_unknown == 1


def test_that_a_byte_order_mark_before_a_tokenizer_is_accepted(tmp_path: Path) -> None:
    """F27: editors put one there."""
    assert load_text(tmp_path, b"\xef\xbb\xbf" + broken().encode()).vocab_size == 2


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_that_a_damaged_file_is_refused_or_reads(data: st.DataObject, tmp_path_factory: object) -> None:
    """F25: flipped and cut bytes never end the program."""
    folder = tmp_path_factory.mktemp("damaged")  # type: ignore[attr-defined]
    train_tokenizer("bpe", LINES, vocab_size=60).save(folder)
    path = folder / "tokenizer.json"
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(32, 126))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        loaded = Tokenizer.load(folder)
    except LoadError:
        return
    loaded.decode(loaded.encode("the cat <mask>").ids)


def test_that_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    """F25: no file at all."""
    with pytest.raises(LoadError, match=r"tokenizer\.json") as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.kind == "missing"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_that_a_tokenizer_that_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """F25: reading a FIFO or a folder would hang or fail."""
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(LoadError, match="not a regular file"):
        Tokenizer.load(tmp_path)
    (tmp_path / "folder" / "tokenizer.json").mkdir(parents=True)
    with pytest.raises(LoadError, match="not a regular file"):
        Tokenizer.load(tmp_path / "folder")


def test_that_an_endless_regular_expression_ends_within_two_seconds(tmp_path: Path) -> None:
    """F26: refused when it is loaded, or its text is."""
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    started = time.process_time()
    try:
        loaded = load_text(tmp_path, broken(pre_tokenizer=pattern))
        with pytest.raises(LoadError, match="cannot read this text"):
            loaded.encode("a" * 60 + "!")
    except LoadError as error:
        assert "not usable" in str(error)  # noqa: PT017 -- either place is right
    assert time.process_time() - started < 2.0


def test_that_lone_surrogates_are_replaced_and_counted(tokenizer: Tokenizer) -> None:
    """F28: a lone surrogate becomes U+FFFD; offsets still fit the text as typed."""
    tokens = tokenizer.encode("the \ud800cat\udfff sat")
    assert tokens.n_replaced == 2
    assert tokens.text == "the �cat� sat"
    assert tokens.tokens[-1].end == len("the \ud800cat\udfff sat")
    assert list(tokenizer.encode_lines(["\ud800"])) == [tokenizer.encode_ids("�")]


@pytest.mark.parametrize("text", WEIRD, ids=[ascii(text)[:20] for text in WEIRD])
def test_that_invisible_and_strange_characters_encode(tokenizer: Tokenizer, text: str) -> None:
    """F29: NUL, controls, bidi overrides, joiners, combining marks, right-to-left, line separators."""
    tokens = tokenizer.encode(text)
    assert all(0 <= token.start <= token.end <= len(text) for token in tokens.tokens)
    if tokenizer.kind == "byte-bpe":
        assert tokenizer.decode(tokens.ids) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["word " * 60_000, "x" * 300_000, "é漢😀" * 90_000], ids=["words", "one", "bytes"]
)
def test_that_a_huge_paste_is_cut_and_counted(tokenizer: Tokenizer, text: str) -> None:
    """F30: at most 200,000 characters, in chunks; what was cut is counted."""
    tokens = tokenizer.encode(text, max_tokens=512)
    assert tokens.n_cut == len(text) - MAX_CHARACTERS
    assert len(tokens) <= 512
    assert tokens.n_dropped > 0 or tokens.n_unknown > 0  # one unknown word is one token


@settings(deadline=None)
@given(text=st.text(alphabet="ab \n", max_size=80), size=st.integers(2, 9))
def test_that_chunks_are_the_text(text: str, size: int) -> None:
    """F30: nothing is lost or doubled, no chunk is too long, and offsets are right."""
    parts = list(chunks(text, max_characters=size))
    assert "".join(part for _, part in parts) == text
    assert all(0 < len(part) <= size and text[at : at + len(part)] == part for at, part in parts)


@pytest.mark.parametrize("text", ["", " ", "\n", "   \t ", "<mask>", "[MASK]<mask>"])
def test_that_empty_and_blank_text_has_few_tokens_or_none(tokenizer: Tokenizer, text: str) -> None:
    """F31: no text, only blanks, only special tokens."""
    tokens = tokenizer.encode(text)
    assert len(tokens) == len(tokens.ids) == len(tokens.pieces)
    assert tokenizer.encode_ids(text) == list(tokens.ids)
    if text == "":
        assert len(tokens) == 0
        assert len(tokenizer.encode("", add_begin=True, add_end=True)) == 2
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_that_text_over_the_limit_is_cut_and_counted(tokenizer: Tokenizer, n: int) -> None:
    """F32: no more tokens than the model takes; begin and end always stand."""
    whole = tokenizer.encode("the cat sat on the mat")
    tokens = tokenizer.encode("the cat sat on the mat", add_begin=True, add_end=True, max_tokens=n)
    assert len(tokens) == max(n, 2) if n < len(whole) + 2 else len(whole) + 2
    assert tokens.n_dropped == len(whole) - (len(tokens) - 2)
    assert tokens.ids[0] == tokenizer.begin_id
    assert tokens.ids[-1] == tokenizer.end_id


def test_that_cleaning_leaves_good_text_alone() -> None:
    """F28: nothing is counted that did not happen."""
    clean = clean_text("é漢😀\n")
    assert (clean.text, clean.n_replaced, clean.n_cut) == ("é漢😀\n", 0, 0)
