"""The panel *Ask*: questions, options, the answer with its charts, maps and tables, and its figure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from questions_added import asking
from session_samples import Desk

from attnscope.fields import line, number, one_of, switch
from attnscope.questions import QUESTIONS, Question
from attnscope.records import Answer, Answered, Ask, CellMap, Chart, Failed, NumberTable, Series
from attnscope.widgets import ChoiceButton
from attnscope.widgets.explore import AskPanel, ask_offers
from attnscope.widgets.explore.ask_panel import _WalkedEdit
from attnscope.widgets.labs import TextTable

pytestmark = pytest.mark.qt


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    depth: int = number(1, (1, 2, 3), title="depth", tip="How deep")
    order: str = one_of("up", {"up": "upwards", "down": "downwards"}, title="order", tip="Which way")
    is_log: bool = switch(False, title="log", tip="A logarithmic axis")
    word: str = line("cat", title="word", tip="Which word")


class Deep(Question):
    name, title, words = "deep", "Deep", "how deep it goes"
    formula, source = "d = a,   e = b", "Verne 1870"
    search = ("abyss",)
    options = Options()

    def answer(self, reading: object, options: object) -> Answer:
        raise NotImplementedError


class Plain(Question):
    name, title, words = "plain", "Plain", "nothing much"

    def answer(self, reading: object, options: object) -> Answer:
        raise NotImplementedError


LINE = Series(name="depth", xs=np.arange(1.0, 4.0), ys=np.arange(3.0))
ANSWER = Answer(
    sentence="It goes 3 deep.",
    note="Mind the step.",
    charts=(
        Chart(
            title="Depth", x_label="token", y_label="m", series=(LINE,), x_names=tuple("cat dog owl".split())
        ),
    ),
    cells=(CellMap(title="Map", values=np.eye(2), rows=("a", "b"), columns=("c", "d")),),
    tables=(NumberTable(title="All", columns=("token", "depth"), rows=(("the", 1.0), ("cat", 2.5))),),
)


@pytest.fixture
def made(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> tuple[AskPanel, Any, list[Ask]]:
    asked: list[Ask] = []
    desk = Desk().open()
    state = asking(monkeypatch, asked, desk, deep=Deep(), plain=Plain())
    panel = AskPanel(desk.session, state)
    qtbot.addWidget(panel)
    panel.resize(280, 400)
    panel.show()
    return panel, state, asked


def tell(state: Any, asked: list[Ask], answer: Answer = ANSWER) -> None:
    state.handle(Answered(number=asked[-1].number, question=asked[-1].question, answer=answer))


def test_that_the_answer_is_shown_with_all_its_parts(made: tuple[AskPanel, Any, list[Ask]]) -> None:
    panel, state, asked = made
    assert panel.note.text() == "Working it out…"
    assert not panel.export_button.isEnabled()
    tell(state, asked)
    assert panel.sentence.text() == "It goes 3 deep."
    assert panel.note.text() == "Mind the step."
    view = panel.answer
    assert [len(part) for part in (view.cells, view.charts, view.tables)] == [1, 1, 1]
    told: list[str] = []
    panel.pointed.connect(told.append)
    view.cells[0].hovered.emit(1, 1)
    assert told[-1].endswith("b → key d  1")
    view.charts[0].plot.cursor_moved.emit(1.2)
    assert told[-1] == "Depth: token cat  ·  depth 0"
    tell(state, asked, Answer(sentence="Nothing."))
    assert panel.sentence.text() == "Nothing."
    assert not view.cells[0].isVisible()
    assert not view.charts[0].isVisible()
    assert view.tables == []


def test_that_two_maps_stand_beside_each_other_where_there_is_room_and_wide_ones_alone(
    qtbot: QtBot, made: tuple[AskPanel, Any, list[Ask]]
) -> None:
    panel, state, asked = made
    square, wide = (CellMap(title=t, values=np.eye(3), is_wide=t == "wide") for t in ("square", "wide"))
    tell(state, asked, Answer(sentence="Two.", cells=(square, square, wide)))
    first, second, third = panel.answer.cells
    qtbot.waitUntil(lambda: second.y() >= first.y() + first.height())
    panel.resize(900, 400)
    qtbot.waitUntil(lambda: second.y() == first.y() and second.x() >= first.x() + first.width())
    assert third.y() >= first.y() + first.height()
    assert third.width() > 1.8 * first.width()
    panel.resize(280, 400)
    qtbot.waitUntil(lambda: second.x() == first.x() and second.y() >= first.y() + first.height())


def test_that_options_are_asked_for_and_another_question_has_its_own(
    made: tuple[AskPanel, Any, list[Ask]],
) -> None:
    panel, state, asked = made
    depth, order, is_log, word = (part for _, part in panel.options._parts.values())
    assert isinstance(depth, ChoiceButton)
    depth.chosen.emit("3")
    order.chosen.emit("down")
    is_log.click()
    word.edit.setText("dog")
    word.edit.editingFinished.emit()
    assert asked[-1].options == Options(depth=3, order="down", is_log=True, word="dog")
    panel.questions.setCurrentIndex(1)
    panel.questions.activated.emit(1)
    assert asked[-1].question == "plain"
    assert panel.words.text() == "nothing much"
    assert panel.options._parts == {}
    state.handle(Failed(number=asked[-1].number, request="Ask", message="It has no such part."))
    assert panel.note.text() == "It has no such part."
    panel.choose("deep")
    assert len(panel.options._parts) == 4


def test_that_the_answer_is_a_figure_while_it_is_looked_at(
    made: tuple[AskPanel, Any, list[Ask]],
) -> None:
    panel, state, asked = made
    assert panel.figure_spec() is None
    tell(state, asked)
    spec = panel.figure_spec()
    assert spec is not None
    assert spec.view == "answer"
    assert spec.title == "Deep"
    assert spec.caption is not None
    assert spec.caption.note == "It goes 3 deep. Mind the step."
    assert (spec.charts, spec.cells, spec.tables) == (ANSWER.charts, ANSWER.cells, ANSWER.tables)
    panel.hide()
    assert panel.figure_spec() is None


def test_that_the_palette_offers_every_question(made: tuple[AskPanel, Any, list[Ask]]) -> None:
    _, state, _ = made
    shown: list[str] = []
    deep, plain = ask_offers(state, shown.append)
    assert (deep.item.title, deep.item.detail) == ("Ask: Deep", "how deep it goes (abyss)")
    plain.run()
    assert shown == ["plain"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_that_every_question_says_what_it_is(name: str) -> None:
    question = QUESTIONS[name]
    assert question.name == name
    assert question.title
    assert question.source
    assert question.needs != Question.needs
    assert question.words[0].islower()
    assert not question.words.endswith(".")


def test_that_formula_and_source_stand_with_the_answer(made: tuple[AskPanel, Any, list[Ask]]) -> None:
    panel, state, _asked = made
    assert panel.formula.text() == "d = a\ne = b"
    assert panel.source.text() == "Verne 1870"
    state.choose("plain")
    assert not panel.formula.isVisible()
    assert not panel.source.isVisible()


def test_that_columns_of_a_table_are_as_wide_as_what_stands_in_them(
    made: tuple[AskPanel, Any, list[Ask]],
) -> None:
    panel, state, asked = made
    columns, long = ("step", "cosine with what came in"), "norm of the feed-forward part"
    rows = ((long, 0.5), ("x" * 400, 1.0))
    tell(state, asked, Answer(sentence="", tables=(NumberTable(title="All", columns=columns, rows=rows),)))
    table = panel.answer.tables[0].findChildren(TextTable)[0]
    words, head = table.fontMetrics(), table.horizontalHeader().fontMetrics()
    assert words.horizontalAdvance(long) < table.columnWidth(0) < words.horizontalAdvance("x" * 400)
    assert head.horizontalAdvance(columns[1]) < table.columnWidth(1) < table.columnWidth(0) * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    floor: int = number(0, range(97), title="floor", tip="Which floor", is_walked=True)


class Tall(Question):
    name, title, words = "tall", "Tall", "floor by floor"
    options = Floors()

    def answer(self, reading: object, options: object) -> Answer:
        raise NotImplementedError


@pytest.fixture
def tall(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> tuple[AskPanel, Any, list[Ask]]:
    asked: list[Ask] = []
    desk = Desk().open()
    state = asking(monkeypatch, asked, desk, plain=Plain(), tall=Tall())
    panel = AskPanel(desk.session, state)
    qtbot.addWidget(panel)
    panel.show()
    panel.choose("tall", {"floor": 3})
    return panel, state, asked


def floor_of(panel: AskPanel) -> _WalkedEdit:
    return panel.options.findChildren(_WalkedEdit)[0]


def test_that_a_walked_option_goes_on_and_back_as_far_as_the_answer_says(
    qtbot: QtBot, tall: tuple[AskPanel, Any, list[Ask]]
) -> None:
    panel, state, asked = tall
    assert asked[-1].options == Floors(floor=3)
    floor = floor_of(panel)
    tell(state, asked, Answer(sentence="The third.", limits=(("floor", 4),)))
    floor.on.click()
    assert asked[-1].options == Floors(floor=4)
    tell(state, asked, Answer(sentence="The fourth.", limits=(("floor", 4),)))
    assert (floor.edit.text(), floor.on.isEnabled(), floor.back.isEnabled()) == ("4", False, True)
    qtbot.keyClick(floor.edit, Qt.Key.Key_Up)
    assert state.options == Floors(floor=4)
    for _ in range(4):
        qtbot.keyClick(floor.edit, Qt.Key.Key_Down)
    assert asked[-1].options == Floors(floor=0)
    assert not floor.back.isEnabled()
    floor.edit.setText("2")
    floor.edit.editingFinished.emit()
    assert asked[-1].options == Floors(floor=2)


def test_that_an_option_beyond_what_there_is_becomes_the_last_without_asking_again(
    tall: tuple[AskPanel, Any, list[Ask]],
) -> None:
    panel, state, asked = tall
    n = len(asked)
    tell(state, asked, Answer(sentence="The top.", limits=(("floor", 1),)))
    assert state.options == Floors(floor=1)
    assert len(asked) == n
    assert floor_of(panel).edit.text() == "1"


def test_that_a_walked_option_takes_no_words(tall: tuple[AskPanel, Any, list[Ask]], qtbot: QtBot) -> None:
    floor = floor_of(tall[0])
    floor.edit.clear()
    qtbot.keyClicks(floor.edit, "a7")
    assert floor.edit.text() == "7"


def test_that_a_refusal_offers_a_kept_run_that_can_be_asked(
    made: tuple[AskPanel, Any, list[Ask]], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, state, asked = made
    monkeypatch.setattr(Deep, "kept_run", "brackets-experts")
    assert not panel.kept_button.isVisibleTo(panel)
    state.handle(Failed(number=asked[-1].number, request="Ask", message="It has no depth."))
    assert panel.kept_button.isVisibleTo(panel)
    assert panel.kept_button.text() == "Open brackets-experts"
    panel.kept_button.click()
    assert panel._session.opening.busy is not None
    assert panel._session.opening.busy.source == "brackets-experts"
    panel.choose("plain")
    assert not panel.kept_button.isVisibleTo(panel)
