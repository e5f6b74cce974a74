"""Typing with a small vocabulary: begun words are ended, unknown ones are replaced by known ones."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu
from session_samples import Desk, info, traced

from attnscope.records import ModelLoaded, Token, Tokens
from attnscope.viewmodels import ViewState
from attnscope.widgets.explore import TextBar

pytestmark = pytest.mark.qt
SOURCE = ("cake", "cat", "cats", "dog", "sleeps", "the", "white")
TARGET = ("chat", "chien", "le")


def make(qtbot, words=(SOURCE, TARGET)) -> tuple[TextBar, Desk]:
    desk = Desk()
    desk.session.handle(ModelLoaded(number=0, info=replace(info(), words=words)))
    bar = TextBar(desk.session, ViewState())
    qtbot.addWidget(bar)
    bar.resize(900, 140)
    bar.show()
    bar.text_edit.clear()
    return bar, desk


def offered(edit) -> list[str]:
    if not edit.words.list.isVisible():
        return []
    listed = edit.words.list.model()
    return [str(listed.index(row, 0).data()) for row in range(listed.rowCount())]


def test_that_each_field_offers_the_words_of_its_own_side(qtbot):
    bar, desk = make(qtbot)
    qtbot.keyClicks(bar.text_edit, "the c")
    assert offered(bar.text_edit) == []
    qtbot.keyClicks(bar.text_edit, "a")
    assert offered(bar.text_edit) == ["cake", "cat", "cats"]
    qtbot.keyClicks(bar.text_edit, "x")
    assert offered(bar.text_edit) == []
    assert desk.session.text == "the cax"
    qtbot.keyClicks(bar.target_edit, "ch")
    assert offered(bar.target_edit) == ["chat", "chien"]
    bar.target_edit.words.list.hide()


def test_that_tab_takes_the_first_and_the_arrows_another_which_return_takes(qtbot):
    bar, desk = make(qtbot)
    edit = bar.text_edit
    edit.setFocus()
    qtbot.keyClicks(edit, "the ca sleeps")
    edit.setCursorPosition(5)
    qtbot.keyClicks(edit, "a")
    edit.setCursorPosition(6)
    edit.del_()
    qtbot.keyClicks(edit, "t")
    assert offered(edit) == ["cats"]
    qtbot.keyClick(edit, Qt.Key.Key_Tab)
    assert (edit.text(), desk.session.text) == ("the cats sleeps",) * 2
    assert offered(edit) == []
    edit.undo()
    assert edit.text() == "the cat sleeps"
    edit.clear()
    qtbot.keyClicks(edit, "ca")
    for _ in range(2):
        qtbot.keyClick(edit.words.list, Qt.Key.Key_Down)
    with qtbot.assertNotEmitted(bar.left):
        qtbot.keyClick(edit.words.list, Qt.Key.Key_Return)
    assert desk.session.text == "cat"
    assert offered(edit) == []


def test_that_return_without_a_choice_leaves_the_text_as_typed_and_escape_closes_the_list_first(qtbot):
    bar, desk = make(qtbot)
    edit = bar.text_edit
    qtbot.keyClicks(edit, "cat")
    assert offered(edit) == ["cats"]
    with qtbot.assertNotEmitted(bar.left):
        qtbot.keyClick(edit, Qt.Key.Key_Escape)
    assert offered(edit) == []
    with qtbot.waitSignal(bar.left):
        qtbot.keyClick(edit, Qt.Key.Key_Escape)
    qtbot.keyClick(edit, Qt.Key.Key_Backspace)
    assert offered(edit) == ["cake", "cat", "cats"]
    with qtbot.waitSignal(bar.left):
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert (desk.session.text, offered(edit)) == ("ca", [])


def test_that_nothing_is_offered_where_words_are_many(qtbot):
    bar, _ = make(qtbot, words=((), ()))
    qtbot.keyClicks(bar.text_edit, "cat")
    assert offered(bar.text_edit) == []


def show_unknown(bar: TextBar, desk: Desk) -> None:
    """A trace of a text whose second and third words are unknown."""
    desk.session.texts.set_text("the whyte dogg")
    request = desk.posted[-1]
    known = Token(id=5, piece="the", start=0, end=3)
    unknown = [
        Token(id=1, piece="<unk>", is_special=True, start=start, end=end) for start, end in ((4, 9), (10, 14))
    ]
    end = Token(id=3, piece="</s>", is_special=True)
    source = Tokens(text="the whyte dogg", tokens=(known, *unknown, end), n_unknown=2)
    assert desk.session.model is not None
    desk.session.handle(replace(traced(request, desk.session.model), source=source))
    assert len(bar.source_strip.chips()) == 4


def open_menu(bar: TextBar) -> QMenu | None:
    return next((m for m in bar.source_strip.findChildren(QMenu) if m.isVisible()), None)


@pytest.mark.parametrize("has_mouse", [True, False])
def test_that_an_unknown_word_is_replaced_by_one_of_the_nearest(qtbot, has_mouse):
    bar, desk = make(qtbot)
    show_unknown(bar, desk)
    strip = bar.source_strip
    if has_mouse:
        place = strip.chips()[2].rect.center().toPoint()
        qtbot.mouseMove(strip, place)
        qtbot.mouseClick(strip, Qt.MouseButton.LeftButton, pos=place)
    else:
        strip.setFocus()
        for _ in range(3):
            qtbot.keyClick(strip, Qt.Key.Key_Right)
        qtbot.keyClick(strip, Qt.Key.Key_Return)
    menu = open_menu(bar)
    assert menu is not None
    labels = [action.text() for action in menu.actions()]
    assert labels[0] == "Write “dog” instead of “dogg”"
    assert sum(label.startswith("Write") for label in labels) == 3
    menu.actions()[0].trigger()
    menu.close()
    assert desk.session.text == "the whyte dog"
    desk.session.undo()
    assert desk.session.text == "the whyte dogg"


def test_that_a_known_word_opens_nothing_by_a_click_and_a_changed_text_is_not_written_over(qtbot):
    bar, desk = make(qtbot)
    show_unknown(bar, desk)
    bar.source_strip.token_clicked.emit(0)
    assert open_menu(bar) is None
    bar.source_strip.token_clicked.emit(1)
    menu = open_menu(bar)
    assert menu is not None
    desk.session.texts.set_text("another text")
    menu.actions()[0].trigger()
    menu.close()
    assert desk.session.text == "another text"


@pytest.mark.parametrize(
    ("kind", "noun"), [("words", "words and signs"), ("bytes", "bytes"), ("bpe", "pieces of words")]
)
def test_that_an_unknown_word_says_what_the_vocabulary_has(qtbot, kind, noun):
    bar, desk = make(qtbot)
    desk.session.handle(ModelLoaded(number=0, info=replace(info(), tokenizer=kind, vocab_size=261)))
    show_unknown(bar, desk)
    assert f"the model has 261 {noun};" in bar.source_strip.tooltip_of(1)
