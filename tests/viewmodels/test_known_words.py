"""Words offered to somebody who types: how a begun one goes on, and those nearest to an unknown one."""

import itertools
from dataclasses import replace
from functools import cache

import pytest
from session_samples import Desk, info

from attnscope.records import Sample, Tokens
from attnscope.viewmodels.session import (
    begun_word,
    completions,
    edit_distance,
    is_foreign,
    nearest_words,
    stage_of,
    text_notes,
    words_told,
)

WORDS = ("cake", "cakes", "cat", "cats", "dog", "l'", "sleeps", "the", ".", "white", "write", "wrote", "été")


@cache
def slow_distance(a: str, b: str) -> int:
    """The definition of Damerau 1964 read from the ends of both words."""
    if not a or not b:
        return len(a) + len(b)
    ways = [
        slow_distance(a[:-1], b) + 1,
        slow_distance(a, b[:-1]) + 1,
        slow_distance(a[:-1], b[:-1]) + (a[-1] != b[-1]),
    ]
    if len(a) > 1 and len(b) > 1 and a[-1] == b[-2] and a[-2] == b[-1]:
        ways.append(slow_distance(a[:-2], b[:-2]) + 1)
    return min(ways)


def test_that_the_distance_is_that_of_its_definition() -> None:
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("ab", repeat=n)]
    for a, b in itertools.product([*texts, "abcab", "cba"], repeat=2):
        assert edit_distance(a, b) == slow_distance(a, b), (a, b)
    assert edit_distance("teh", "the") == 1


@pytest.mark.parametrize(
    ("text", "at", "begun"),
    [
        ("the ca", 6, "ca"),
        ("the ca sleeps", 6, "ca"),
        ("the cat", 5, ""),
        ("the cat ", 8, ""),
        ("l'ét", 4, "ét"),
        ("(ca", 3, "ca"),
        ("ca.", 3, ""),
        ("", 0, ""),
        ("x" * 30_000, 30_000, "x" * 30_000),
    ],
)
def test_that_a_word_is_begun_before_the_cursor_and_not_within_another(
    text: str, at: int, begun: str
) -> None:
    assert begun_word(text, at) == begun


def test_that_words_go_on_from_two_letters_whatever_their_case() -> None:
    assert completions(WORDS, "ca") == ["cake", "cakes", "cat", "cats"]
    assert completions(WORDS, "CAT") == ["cats"]
    assert completions(WORDS, "ÉT") == ["été"]
    assert completions(WORDS, "c") == []
    assert completions(WORDS, "sleeps") == []
    assert len(completions([f"ca{n}" for n in range(100)], "ca")) == 8


def test_that_the_nearest_words_come_first_and_signs_are_never_offered() -> None:
    assert nearest_words(WORDS, "whyte") == ["white", "write", "wrote"]
    assert nearest_words(WORDS, "Teh")[0] == "the"
    assert nearest_words(WORDS, "dogg")[0] == "dog"
    assert nearest_words((".", "?"), "x") == []
    assert len(nearest_words(WORDS, "y" * 100_000)) == 3


def test_that_a_text_is_foreign_to_a_model_that_knows_less_than_half_of_its_words():
    words = ("the", "kite", "is", "old", ".")
    assert is_foreign("The bridge near my house is closed.", words)
    assert not is_foreign("The kite is blue.", words)
    assert not is_foreign("My grandmother has bicycles.", ())
    assert not is_foreign("...", words)


def test_that_a_model_that_hardly_knows_a_text_opens_on_its_sample_and_undo_brings_the_text_back():
    desk = Desk().open()
    session = desk.session
    session.texts.set_text("My grandmother has three green bicycles.")
    desk.answer()
    few = replace(info("encoder", "few"), words=(("kite", "old"), ()), samples=(Sample(text="kite old"),))
    desk.open(few)
    assert session.text == "kite old"
    assert session.notices.shown.message.startswith("few knows 2 words, few of them in your text")
    desk.answer()
    session.undo()
    desk.answer()
    assert session.text == "My grandmother has three green bicycles."
    desk.open()
    session.texts.set_text("an old kite")
    desk.answer()
    desk.open(few)
    assert session.text == "an old kite"


def test_that_the_note_of_unknown_words_says_how_many_the_model_knows():
    tokens = Tokens(text="a b", tokens=(), n_unknown=2)
    assert text_notes(tokens, n_words=34) == "2 unknown: the model knows 34 words"
    assert text_notes(tokens) == "2 unknown"
    assert words_told((".", "old", "kite"), 1) == "The model knows 3 words: old, …"


def test_that_an_empty_text_of_a_model_of_few_words_names_some_of_them():
    many = tuple(f"word{k}" for k in range(20))
    for words, told in ((("kite", "old"), "kite, old. Every head"), (many, "word11, … Every head")):
        desk = Desk().open(replace(info("encoder", "few"), words=(words, ())))
        desk.session.texts.set_text("")
        assert told in stage_of(desk.session).hint
