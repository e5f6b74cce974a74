"""Texts of an SVG that other programs read: families, directions, spaces between words (F28, F29)."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from figure_samples import head_map, spec, tokens
from PySide6.QtGui import QFont, QFontInfo, QFontMetricsF

from attnscope.figures import SMALL_PX, drawn_piece, font, is_right_to_left, mended_texts, render

pytestmark = pytest.mark.qt
PLAIN = '<text fill="#000" x="12" y="3" font-family="Noto Sans" font-size="20" font-weight="400">{}</text>'
WORDS = (
    "שלום",
    "العالم",
    "你好",
    "こんにちは",
    "e\u0301te\u0301",
    "👩\u200d👩\u200d👧",
    "a\u202eb",
    "</script>",
    "नमस्ते",
)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [("שלום", True), ("  العالم", True), ("(a) שלום", False), ("你好", False), ("12 —", False), ("", False)],
)
def test_that_the_first_letter_says_the_direction(text: str, is_so: bool) -> None:
    assert is_right_to_left(text) == is_so


def test_that_every_text_has_a_family_to_fall_back_to_and_keeps_its_own() -> None:
    rest = "Helvetica, Arial, 'Liberation Sans', sans-serif"
    assert f"font-family=\"'Noto Sans', {rest}\"" in mended_texts(PLAIN.format("a"))
    two = PLAIN.replace("Noto Sans", "Inter, 'Noto Sans', sans-serif").format("a")
    assert f"font-family=\"Inter, 'Noto Sans', {rest}\"" in mended_texts(two)
    serif = PLAIN.replace("Noto Sans", "Noto Serif").format("a")
    assert "font-family=\"'Noto Serif', Times, 'Times New Roman', serif\"" in mended_texts(serif)


def test_that_what_only_this_system_knows_is_no_name_of_a_font() -> None:
    family = QFontInfo(QFont("Sans Serif")).family()
    mended = mended_texts(PLAIN.replace("Noto Sans", "Sans Serif").format("a"))
    assert "Sans Serif" not in mended
    assert family in mended


def test_that_text_from_right_to_left_stands_at_its_left_edge_without_the_space_there() -> None:
    mended = mended_texts(PLAIN.format("שלום "))
    face = QFont("Noto Sans")
    face.setPixelSize(20)
    place = re.search(r' x="([^"]*)"', mended)
    assert place is not None
    assert float(place[1]) == pytest.approx(12 + QFontMetricsF(face).horizontalAdvance(" "), abs=0.01)
    assert ">שלום<" in mended
    assert "direction" not in mended_texts(PLAIN.format("abc "))
    assert ">abc <" in mended_texts(PLAIN.format("abc "))


@pytest.mark.parametrize(
    ("text", "is_told"),
    [("שלום", False), ("שלום עולם", False), ("שלום.", True), ("البيت ٢", True), ("(שלום", True)],
)
def test_that_the_direction_is_told_only_where_letters_do_not_tell_it(text: str, is_told: bool) -> None:
    """Programs such as Typst know no `direction`, and would put what has one left of its place."""
    told = 'direction="rtl" text-anchor="end"' in mended_texts(PLAIN.format(text))
    assert told == is_told


def test_that_every_script_is_text_in_the_figure_and_nothing_hidden_reaches_it() -> None:
    one = head_map(len(WORDS), len(WORDS))
    shown = spec(
        "head",
        maps=(type(one)(head=one.head, queries=tokens(*WORDS), keys=tokens(*WORDS), weights=one.weights),),
        width_mm=200.0,  # no label is cut, however wide the font
        height_mm=200.0,
    )
    root = ElementTree.fromstring(render(shown, "svg"))
    texts = ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]
    for word in (
        "שלום",
        "العالم",
        "你好",
        "こんにちは",
        "e\u0301te\u0301",
        "</script>",
        "नमस्ते",
        "a‹U+202E›b",
    ):
        assert sum(word in text for text in texts) >= 2, word  # as a query and as a key
    assert not any("\u202e" in text for text in texts)
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        assert element.get("font-family", "").endswith("sans-serif")
        assert element.get("direction") is None  # words of letters alone: every program knows their order


def test_that_emoji_stay_text(qapp) -> None:
    assert mended_texts(PLAIN.format("😀")).startswith("<text ")


def test_that_letters_no_font_has_are_told_apart_where_they_are_drawn(qapp) -> None:
    """Khitan letters: where no font has them, each would be the same box. An SVG keeps them as text."""
    one, other = "\U00018b00", "\U00018b01"
    figures = [
        spec("head", maps=(replace(head_map(1, 1), queries=tokens("a"), keys=tokens(letter)),))
        for letter in (one, other)
    ]
    assert render(figures[0], "png") != render(figures[1], "png")
    assert drawn_piece(one) in (one, "‹U+18B00›")
    assert drawn_piece(f"é{one}") in (f"é{one}", "é‹U+18B00›")
    assert drawn_piece("e\u0301👩\ufe0f") in ("e\u0301👩\ufe0f", "e\u0301‹U+1F469›\ufe0f")
    mark = "\U00011a01"  # a vowel sign of Zanabazar
    is_there = QFontMetricsF(font(SMALL_PX)).inFontUcs4(ord(mark))
    assert drawn_piece(f"{mark}(2/3)") == (f"{mark}(2/3)" if is_there else "‹U+11A01›(2/3)")
    assert one in render(figures[0], "svg").decode()
