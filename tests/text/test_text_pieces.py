"""How vocabulary entries are read as pieces."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from attnscope.schemes.tokenizers import byte_alphabet
from attnscope.text import Notation, read_entry, split_pieces


def test_that_the_byte_alphabet_is_the_library_s() -> None:
    letters = byte_alphabet()
    assert sorted(letters) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(letters.values()) == list(range(256))


@settings(deadline=None)
@given(st.text(max_size=12), st.lists(st.integers(0, 40), max_size=5))
def test_that_cutting_text_anywhere_loses_no_character(text: str, cuts: list[int]) -> None:
    text = text.encode("utf-8", "replace").decode()
    data = text.encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[a:b] for a, b in itertools.pairwise(edges)]
    pieces = split_pieces(parts)
    assert len(pieces) == len(parts)
    assert all(piece for piece in pieces)
    if len(parts) == 1 and text.strip() == text and text.isprintable():
        assert pieces == [text]


def test_that_bytes_of_no_character_are_written_in_hexadecimal() -> None:
    assert split_pieces([b"a\xff", b"\x80b"]) == ["a⟨FF⟩", "⟨80⟩b"]


def test_that_part_marks_and_word_ends_are_taken_off() -> None:
    assert read_entry("##er", Notation(part_prefix="##")).text == "er"
    assert read_entry("##", Notation(part_prefix="##")).text == "##"
    assert read_entry("low</w>", Notation(word_suffix="</w>")).text == "low"
