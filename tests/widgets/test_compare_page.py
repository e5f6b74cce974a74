"""The Compare page: two sides chosen by hand, three maps with one cursor, all heads, states without maps."""

from dataclasses import replace

import pytest
from compare_fakes import CompareDesk
from PySide6.QtCore import QPoint, QPointF, Qt
from pytestqt.qtbot import QtBot
from session_samples import info, ref

from attnscope.figures import DARK, is_fitted
from attnscope.records import Failed
from attnscope.viewmodels import ViewState
from attnscope.widgets import apply_theme
from attnscope.widgets.compare.page import (
    ALIKE_BUT_OFF,
    ComparePage,
    alike_words,
    compare_handlers,
    empty_words,
    heads_off,
)

pytestmark = pytest.mark.qt


class Page:
    def __init__(self, qtbot: QtBot) -> None:
        self.desk = CompareDesk()
        self.desk.session.head_changes.toggle_gate(ref(0, 1))
        self.desk.desk.answer()
        self.state, self.view = self.desk.state, ViewState()
        self.widget = ComparePage(
            self.state, self.desk.session, self.view, offer_models=lambda: ("stories", "tiny")
        )
        qtbot.addWidget(self.widget)
        self.said: list[str] = []
        self.widget.hover_text.connect(self.said.append)
        self.widget.resize(1200, 700)
        self.widget.show()

    @property
    def is_shown(self) -> bool:
        return self.widget.maps.isVisible()


@pytest.fixture
def page(qtbot: QtBot) -> Page:
    return Page(qtbot)


def test_that_before_and_after_appear_when_the_page_is_opened(page: Page, qtbot: QtBot) -> None:
    assert not page.is_shown  # tracing
    page.desk.answer()
    assert page.is_shown
    assert page.widget.maps.shown is page.state.maps
    assert page.widget.maps.shown.names == ("A · untouched", "B · encoder L0H1 off")
    assert "same 4 tokens" in page.widget.aligned.full_text()
    assert not page.widget.grab().isNull()
    apply_theme(page.widget, DARK)
    assert not page.widget.grab().isNull()
    page.widget.hide()
    page.desk.session.head_changes.reset_gates()
    assert page.desk.asked == []


def test_that_a_head_that_is_off_is_told_with_what_its_like_maps_mean(page: Page) -> None:
    page.desk.answer()
    assert heads_off(page.state) == {ref(0, 1)}
    page.state.select(ref(0, 1))
    page.desk.answer()
    shown = page.state.maps
    assert shown is not None
    expected = ALIKE_BUT_OFF if shown.is_same else ""
    assert alike_words(page.state) == expected
    page.state.select(ref(0, 0))
    page.desk.answer()
    assert alike_words(page.state) == ""


def test_that_maps_too_long_to_be_compared_are_not_told_as_heads_that_are_missing(page: Page) -> None:
    page.desk.answer()
    answer = page.state.differences.query.answer
    heads = tuple(head for grid in answer.grids for head in grid.heads)
    page.state.differences.query.answer = replace(answer, grids=(), too_long=heads)
    title, about = empty_words(page.state)
    assert (title, "cell by cell" in about) == ("Too long to compare", True)
    page.state.differences.query.answer = replace(answer, grids=(), only_first=heads)
    assert empty_words(page.state)[0] == "No head in common"


def test_that_a_text_that_is_typed_is_compared_and_an_emptied_one_follows_explore(
    page: Page, qtbot: QtBot
) -> None:
    page.desk.answer()
    edit = page.widget.sides[1].text_edit
    assert edit.placeholderText() == "as in Explore: the cat sleeps"
    edit.setFocus()
    qtbot.keyClicks(edit, "a dog")
    page.desk.answer()
    assert page.state.sides["B"].shown.text == "a dog"
    edit.selectAll()
    qtbot.keyClick(edit, Qt.Key.Key_Backspace)
    page.desk.answer()
    assert page.state.sides["B"].shown.text == "the cat sleeps"


def test_that_one_cursor_and_one_zoom_hold_for_all_maps(page: Page, qtbot: QtBot) -> None:
    page.desk.answer()
    maps = page.widget.maps
    layout = maps.layout_now()
    for panel in layout.panels:
        qtbot.mouseMove(maps, panel.cell_rect(1, 2).center().toPoint())
        assert "Δ" in page.said[-1]
        assert "A 0.25" in page.said[-1]
    maps.zoom_at(QPointF(layout.cells[1].center()), 1.5)
    views = {tuple(panel.view.getRect()) for panel in maps.layout_now().panels}
    assert len(views) == 1
    assert maps.view.width() < 4
    qtbot.keyClick(maps, Qt.Key.Key_0)
    assert maps.view.width() == 4
    qtbot.keyClick(maps, Qt.Key.Key_Escape)
    qtbot.keyClick(maps, Qt.Key.Key_Right)
    qtbot.keyClick(maps, Qt.Key.Key_Down)
    assert page.widget.maps.accessibleDescription().startswith("query")


def test_that_heads_are_sorted_chosen_and_walked(page: Page, qtbot: QtBot) -> None:
    page.desk.answer()
    grid = page.widget.grid
    qtbot.mouseClick(page.widget.order_buttons["changed"], Qt.MouseButton.LeftButton)
    layout = grid.layout_now()
    assert layout.rows[0][0].mean_abs == 0.08
    place = layout.box(0, 0).center().toPoint()
    qtbot.mouseMove(grid, place)
    assert "mean |Δ| 0.08" in page.said[-1]
    qtbot.mouseClick(grid, Qt.MouseButton.LeftButton, pos=QPoint(place))
    page.desk.answer()
    assert page.state.head == page.desk.session.primary == layout.rows[0][0].head
    row, column = layout.place(page.state.head)
    qtbot.keyClick(grid, Qt.Key.Key_Right)
    page.desk.answer()
    assert page.state.head == layout.rows[row][column + 1].head
    assert page.widget.maps.shown.head == page.state.head


def test_that_models_and_changes_are_chosen_from_menus(page: Page) -> None:
    page.desk.answer()
    side = page.widget.sides[0]
    side.model_button.menu().aboutToShow.emit()
    names = [action.text() for action in side.model_button.menu().actions() if action.text()]
    assert names == ["The open model (tiny)", "stories", "tiny", "Model or checkpoint folder…"]
    page.state.choosing.keep("B")
    side.changes_button.menu().aboutToShow.emit()
    actions = {action.text(): action for action in side.changes_button.menu().actions() if action.text()}
    assert list(actions) == ["Untouched", "As now in Explore", "Kept: encoder L0H1 off"]
    actions["Kept: encoder L0H1 off"].trigger()
    page.desk.answer()
    assert side.changes_button.text().startswith("encoder L0H1 off")


def test_that_a_failure_stands_where_the_maps_were_and_goes_again(page: Page) -> None:
    page.desk.answer()
    page.state.choosing.choose_model("B", "nowhere")
    number = page.desk.traces()[0].number
    page.state.handle(Failed(number=number, request="TraceText", message="There is no model 'nowhere'."))
    page.desk.asked.clear()
    assert not page.is_shown
    assert "There is no model" in page.widget.card.accessibleName()
    page.state.choosing.choose_model("B", None)
    page.desk.answer()
    assert page.is_shown


def test_that_the_actions_keep_swap_and_make_a_figure(page: Page) -> None:
    page.desk.answer()
    handlers = compare_handlers(page.state, page.desk.session, page.view)
    handlers["swap-sides"]()
    assert page.state.sides["A"].view == "compare A"  # not on this page: nothing happens
    handlers["page-compare"]()
    handlers["swap-sides"]()
    assert page.state.sides["A"].view == "compare B"
    page.desk.answer()
    handlers["keep-b"]()
    assert "Kept as B" in page.desk.session.notices.shown.message
    page.desk.answer()
    made = page.widget.figure_spec()
    assert made.view == "difference"
    assert made.compared is page.state.maps
    assert is_fitted(made)
    assert made.caption.note.startswith("Tokens aligned: same")


def test_that_a_second_text_is_called_what_its_model_says_that_it_is(qtbot: QtBot) -> None:
    desk = CompareDesk({"other": replace(info("encoder-decoder", "other"), writes="sorted row")})
    page = ComparePage(desk.state, desk.session, ViewState(), offer_models=lambda: ("other",))
    qtbot.addWidget(page)
    panel = page.output
    desk.open()
    assert panel.kind.text() == "translation"
    desk.state.choosing.choose_model("B", "other")
    desk.answer()
    assert panel.kind.text() == "translation | sorted row"
