from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.figures import isolated, plain_piece, plain_text, short_path, shorten
from attnscope.viewmodels.training import trimmed_piece


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("cat", "cat"),
        ("", "∅"),
        ("  ", "␣␣"),
        (" cat", "␣cat"),
        ("\n", "↵"),
        ("a\tb", "a⇥b"),
        ("\x01", "‹U+0001›"),
        ("a\u202eb", "a‹U+202E›b"),
        ("\u200b", "‹U+200B›"),
        ("\ufffe", "‹U+FFFE›"),
        ("\ud800", "\ufffd"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\u200d", "‹U+200D›"),
        ("שלום", "שלום"),
        ("<script>&]]>", "<script>&]]>"),
    ],
)
def test_that_pieces_are_shown_as_people_can_read_them(piece: str, shown: str) -> None:
    assert plain_piece(piece) == shown


@pytest.mark.slow
@settings(deadline=None)
@given(st.text())
def test_that_every_piece_becomes_valid_xml_with_nothing_hidden(piece: str) -> None:
    shown = plain_piece(piece)
    assert shown
    root = ElementTree.Element("text")
    root.text = shown
    assert ElementTree.fromstring(ElementTree.tostring(root, "utf-8")).text == shown
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff\n\t\x00")


def test_that_long_pieces_lose_their_middle() -> None:
    assert shorten("abcdefghij", 5) == "ab…ij"
    assert len(plain_piece("x" * 1000)) == 28


def test_that_isolates_surround_and_keep_the_text() -> None:
    assert isolated("a") == "\u2068a\u2069"


def test_that_a_long_path_loses_its_first_folders_and_no_name_is_cut() -> None:
    path = "/home/anna/" + "deep/" * 12 + "reverse-bahdanau/checkpoints/600"
    assert short_path(path, 36) == "…/reverse-bahdanau/checkpoints/600"
    assert short_path("/a/b", 40) == "/a/b"
    snapshot = "/hub/models--someone--a-model/snapshots/" + "0123456789" * 4
    assert short_path(snapshot, 40) == "someone/a-model", "a model of the cache is called by its name"
    assert short_path(snapshot.replace("/", "\\"), 40) == "someone/a-model"
    assert short_path(snapshot[:-1], 200) == snapshot[:-1]
    assert short_path("/a/" + "x" * 50, 20) == shorten("x" * 50, 20)


def test_that_a_line_break_has_one_sign_in_texts_and_batches() -> None:
    assert {plain_text("\n"), plain_piece("\n"), trimmed_piece("\n")} == {"↵"}
