"""Chips of tokens: where they stand, what they say, what lights them."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from session_samples import tokens

from attnscope.figures import DARK, drawn_piece
from attnscope.records import Token
from attnscope.viewmodels import Highlight
from attnscope.widgets import ANSWER_PX, ROW_PX, TokenStrip, apply_theme, place_chips
from attnscope.widgets.explore import MAX_ROWS, TokenScroll

pytestmark = pytest.mark.qt

BIDI = ("\u202eabc", "שלום", "e\u0301", "👩\u200d👧")
ODD = ("", " ", "<script>alert(1)</script>", "\x00", "\ud800", "a" * 5000, *BIDI)


def make(qtbot, pieces, **kwargs) -> TokenStrip:
    strip = TokenStrip("Tokens")
    qtbot.addWidget(strip)
    strip.resize(400, 28)
    strip.set_tokens(tuple(Token(id=k, piece=p, **kwargs) for k, p in enumerate(pieces)))
    strip.show()
    return strip


def test_that_a_continued_word_is_joined(qapp):
    pieces = (
        Token(id=1, piece="euro"),
        Token(id=2, piece="péenne", joins_previous=True),
        Token(id=3, piece="x"),
    )
    chips, n_rows = place_chips(pieces, 400)
    assert n_rows == 1
    assert chips[0].joins_next
    assert chips[1].rect.left() == chips[0].rect.right()
    assert chips[2].rect.left() > chips[1].rect.right()


def test_that_a_letter_no_font_has_is_told_by_its_code_point(qapp):
    pieces = "\U00018b00", "\U00018b01"
    chips, _n_rows = place_chips(tuple(Token(id=k, piece=piece) for k, piece in enumerate(pieces)), 400)
    assert [chip.text for chip in chips] == [drawn_piece(piece) for piece in pieces]
    assert chips[0].text in (pieces[0], "‹U+18B00›")


def test_that_long_texts_get_more_rows_and_chips_stay_inside(qapp):
    chips, n_rows = place_chips(tokens("word " * 40).tokens, 300)
    assert n_rows > 3
    assert all(chip.rect.right() <= 300 for chip in chips)
    assert chips[-1].rect.bottom() <= n_rows * ROW_PX


def test_that_a_long_text_scrolls_and_lit_tokens_come_into_view(qtbot):
    strip = TokenStrip("Tokens")
    scroll = TokenScroll(strip)
    qtbot.addWidget(scroll)
    scroll.resize(300, ROW_PX)
    scroll.show()
    strip.set_tokens(tokens("word " * 60).tokens)
    assert scroll.height() == MAX_ROWS * ROW_PX
    qtbot.waitUntil(lambda: scroll.verticalScrollBar().maximum() > 0)
    scroll.show_lit(Highlight(key=60))
    assert scroll.verticalScrollBar().value() == scroll.verticalScrollBar().maximum()


def test_that_answers_stand_under_their_tokens_in_higher_rows(qtbot):
    shown = tokens("word " * 30).tokens
    strip = TokenStrip("Tokens")
    qtbot.addWidget(strip)
    strip.resize(300, ROW_PX)
    strip.set_tokens(shown, "", {1: "a-label-wider-than-its-token", 2: "<b>NOUN</b>", 3: ""})
    chips = strip.chips()
    assert [chip.answer for chip in chips[:5]][:3] == ["", "a-label-wider-than-its-token", "<b>NOUN</b>"]
    plain, _ = place_chips(shown, 300)
    assert chips[1].rect.width() > plain[1].rect.width()
    assert chips[4].rect.width() == plain[4].rect.width()
    n_rows = len({chip.rect.top() for chip in chips})
    assert strip.height() == n_rows * (ROW_PX + ANSWER_PX)
    assert not strip.grab().isNull()
    strip.set_tokens(shown)
    assert not any(chip.answer for chip in strip.chips())
    assert strip.height() == len({chip.rect.top() for chip in strip.chips()}) * ROW_PX


def test_that_no_tokens_need_one_row(qapp):
    assert place_chips((), 300) == ((), 1)


def test_that_odd_pieces_are_drawn_with_visible_names(qtbot):
    """F28, F29, F31."""
    strip = make(qtbot, ODD)
    texts = [chip.text for chip in strip.chips()]
    assert texts[0] == "∅"
    assert "U+202E" in texts[6]
    assert all(text and len(text) < 60 for text in texts)
    assert not strip.grab().isNull()


def test_that_the_tooltip_says_id_and_place_as_plain_text(qtbot):
    strip = make(qtbot, ("<b>x</b>",), is_special=True, joins_previous=True)
    text = strip.tooltip_of(0)
    assert "<b>x</b>" in text
    assert "id 0" in text
    assert "special token" in text
    assert "continues" in text


def test_that_hovering_tells_each_token_once(qtbot):
    strip = make(qtbot, ("a", "b"))
    seen, left = [], []
    strip.token_hovered.connect(seen.append)
    strip.token_left.connect(lambda: left.append(True))
    second = strip.chips()[1].rect.center().toPoint()
    qtbot.mouseMove(strip, second)
    qtbot.mouseMove(strip, second + QPoint(1, 0))
    assert seen == [1]
    qtbot.mouseMove(strip, QPoint(390, 14))
    assert left == [True]


def test_that_keys_walk_the_tokens(qtbot):
    strip = make(qtbot, ("a", "b", "c"))
    seen = []
    strip.token_hovered.connect(seen.append)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_End, Qt.Key.Key_Right, Qt.Key.Key_Left):
        qtbot.keyClick(strip, key)
    assert seen == [0, 1, 2, 1]


def test_that_lit_and_stale_tokens_look_different(qtbot):
    strip = make(qtbot, ("a", "b"))
    plain = strip.grab().toImage()
    strip.set_lit(Highlight(query=0, key=1))
    lit = strip.grab().toImage()
    strip.set_lit(Highlight())
    strip.set_stale(True)
    assert lit != plain
    assert strip.grab().toImage() != plain
    apply_theme(strip, DARK)
    assert not strip.grab().isNull()


def test_that_lighting_a_token_paints_it_and_what_was_lit_before_and_no_others(qtbot, monkeypatch):
    strip = make(qtbot, ("one", "two", "three", "four", "five", "six"))
    qtbot.waitUntil(strip.windowHandle().isExposed)
    strip.set_lit(Highlight(query=0, key=None))
    QApplication.processEvents()
    painted = []
    paint_chip = TokenStrip._paint_chip
    monkeypatch.setattr(
        TokenStrip,
        "_paint_chip",
        lambda self, painter, index, *more: (painted.append(index), paint_chip(self, painter, index, *more)),
    )
    strip.set_lit(Highlight(query=5, key=None))
    QApplication.processEvents()
    assert {0, 5} <= set(painted) <= {0, 1, 4, 5}  # with neighbours that frames reach
    parts = strip.grab().toImage()
    strip.update()
    QApplication.processEvents()
    assert strip.grab().toImage() == parts


def test_that_an_unknown_piece_shows_what_was_typed_and_where_the_words_are(qtbot):
    strip = TokenStrip("Tokens")
    qtbot.addWidget(strip)
    unknown = Token(id=1, piece="<unk>", is_special=True, start=4, end=9)
    strip.set_vocabulary_words("the model knows 663 words and signs")
    strip.set_tokens((Token(id=7, piece="the", start=0, end=3), unknown), "the zebra")
    assert [chip.text for chip in strip.chips()] == ["the", "zebra"]
    assert "“zebra” is unknown: the model knows 663 words and signs" in strip.tooltip_of(1)
