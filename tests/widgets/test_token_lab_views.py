"""The token labs on the screen: replies shown, steps walked by mouse and keys, tables, copies, menus."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from session_samples import state_of, tokens
from token_lab_samples import replay_of_ab, table

from attnscope.figures import DARK, NORMAL_PX, text_width, type_at
from attnscope.labs import LABS
from attnscope.records import (
    FindPieces,
    PieceDetail,
    PieceShown,
    ShowPiece,
    SplitsReplayed,
    StopWork,
    TextSpelled,
    Token,
    TokenizerRow,
    TokenizersNews,
    Tokens,
    VocabularyShown,
)
from attnscope.widgets import apply_theme, is_unknown
from attnscope.widgets.explore import token_menu, word_text
from attnscope.widgets.labs import MergesView, TokenizersView, make_lab

pytestmark = pytest.mark.qt


def shown(qtbot, view):
    qtbot.addWidget(view)
    view.show()
    return view


def test_that_a_replay_is_walked_by_rows_buttons_and_keys(qtbot):
    posted = []
    state = state_of("labs.merges", posted.append)
    view = shown(qtbot, MergesView(state))
    state.handle(SplitsReplayed(number=posted[-1].number, replay=replay_of_ab()))
    assert view.place.text() == "step 1 of 2"
    view.forward.click()
    assert state.step == 2
    view.back.click()
    assert state.step == 1
    view.steps.selectRow(1)
    assert state.step == 2
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert state.step == 1
    assert "a + b → ab" in view.sentence.text()
    view.slider.setValue(0)
    assert state.step == 0
    spec = view.figure_spec()
    assert spec is not None
    assert spec.charts[0].series[0].ys.tolist() == [5, 3, 2]
    view.play.click()
    qtbot.waitUntil(lambda: state.step == 1, timeout=3000)
    view.play.click()
    apply_theme(view, DARK)


def test_that_choices_ask_for_other_replays(qtbot):
    posted = []
    state = state_of("labs.merges", posted.append)
    view = shown(qtbot, MergesView(state))
    qtbot.keyClicks(view.text, "x")
    assert posted[-1].text.endswith("x")
    place = view.kind.findText("byte-level BPE")
    view.kind.setCurrentIndex(place)
    view.kind.activated.emit(place)
    assert (posted[-1].kind, posted[-1].vocab_size) == ("byte-bpe", 800)
    view.pieces.setValue(0)
    assert posted[-1].vocab_size == 270


def test_that_rows_are_shown_as_they_come_and_a_run_can_be_stopped(qtbot):
    posted = []
    state = state_of("labs.tokenizers", posted.append)
    view = shown(qtbot, TokenizersView(state, ask_text=lambda _: "a pasted text"))
    assert view.figure_spec() is None
    view.start.click()  # what began when the lab was looked at
    assert posted[-1] == StopWork(number=posted[-1].number, work="CompareTokenizers")
    view.paste_button.click()
    view.kinds["unigram"].click()
    view.sizes.setText("50 90")
    view.start.click()
    request = posted[-1]
    assert (request.text, request.sizes) == ("a pasted text", (50, 90))
    assert "unigram" not in request.kinds
    row = TokenizerRow(
        kind="bpe", asked=50, vocab_size=50, n_tokens=9, tokens_per_word=1.5, density=3.0, n_used=3,
        sentence=tokens("the cat").tokens,
    )  # fmt: skip
    state.handle(TokenizersNews(number=request.number, rows=(row,), fraction=0.5, what="Training BPE"))
    assert view.start.text() == "Stop"
    assert view.progress.value() == 500
    assert view.table.model().rowCount() == 1
    view.chips_tab.click()
    assert view.figure_spec().charts[0].series[0].ys.tolist() == [1.5]
    view.start.click()
    assert posted[-1] == StopWork(number=posted[-1].number, work="CompareTokenizers")
    assert view.start.text() == "Train and compare"


def test_that_sizes_are_read_as_people_type_them(qtbot):
    posted = []
    state = state_of("labs.tokenizers", posted.append)
    view = shown(qtbot, TokenizersView(state))
    usual = posted[-1].sizes
    for typed, sizes in (("100, 50; 7 x 200 100 1000000", (50, 100, 200)), ("none", usual)):
        view.sizes.setText(typed)
        view.sizes.editingFinished.emit()
        assert view.sizes.text() == " ".join(map(str, sizes))
        state.start()
        assert posted[-1].sizes == sizes
    assert view.table.model().columnCount() == 11


def test_that_a_vocabulary_is_searched_looked_into_and_copied(qtbot):
    posted = []
    states = state_of("labs", posted.append)
    state, view = states.vocabulary, shown(qtbot, make_lab(LABS["Vocabulary"], states))
    state.handle(VocabularyShown(number=posted[-1].number, table=table()))
    assert view.table.model().rowCount() == 3
    view.table.selectRow(2)
    assert isinstance(posted[-1], ShowPiece)
    detail = PieceDetail(
        id=2, piece="bc", kind="continuation", entry="bc", data=b"bc", nearest=((1, "a", 0.5),)
    )
    state.handle(PieceShown(number=posted[-1].number, detail=detail))
    view.copy_button.click()
    assert QGuiApplication.clipboard().text().startswith("2\tbc\tcontinuation\t2")
    view.table.horizontalHeader().setSortIndicator(3, Qt.SortOrder.DescendingOrder)
    assert isinstance(posted[-1], FindPieces)
    assert (posted[-1].sort, posted[-1].is_descending) == ("length", True)
    qtbot.keyClicks(view.query, "b")
    qtbot.waitUntil(lambda: posted[-1].query == "b", timeout=2000)
    assert view.figure_spec() is not None


def test_that_pieces_and_ids_of_a_vocabulary_can_be_read_in_large_type(qtbot):
    """As while presenting at 1280×800."""
    posted = []
    states = state_of("labs", posted.append)
    state, view = states.vocabulary, shown(qtbot, make_lab(LABS["Vocabulary"], states))
    with type_at(1.82):
        view.resize(1280, 700)
        view.dress()
        assert view.table.columnWidth(1) > text_width("␣unbelievable", NORMAL_PX)
    tokens = tuple(Token(id=1000 + k, piece="x") for k in range(99))
    state.handle(VocabularyShown(number=posted[-1].number, table=table()))
    state.spell("x")
    state.handle(TextSpelled(number=posted[-1].number, tokens=Tokens(text="x", tokens=tokens)))
    view.resize(600, 700)
    assert "1030" not in view.spelled.text()
    assert "1030" in view.spelled.toolTip()


def test_that_the_menu_of_a_token_leads_to_the_merges_of_its_whole_word(qtbot):
    text = Tokens(
        text="so smarter x",
        tokens=(
            Token(id=1, piece="so", start=0, end=2),
            Token(id=2, piece="smart", start=3, end=8),
            Token(id=3, piece="er", joins_previous=True, start=8, end=10),
            Token(id=0, piece="<unk>", is_special=True, start=11, end=12),
            Token(id=9, piece="</s>", is_special=True),
        ),
    )
    assert [word_text(text, k) for k in range(5)] == ["so", "smarter", "smarter", "x", ""]
    assert [is_unknown(token) for token in text.tokens] == [False, False, False, True, False]
    wanted = []
    view = MergesView(state_of("labs.merges", [].append))
    qtbot.addWidget(view)
    menu = token_menu(text, 2, wanted.append, view)
    menu.actions()[0].trigger()
    assert wanted == ["smarter"]
    assert not token_menu(text, 4, wanted.append, view).actions()[0].isEnabled()
