"""The state behind the panel *Ask*: when it asks, what it takes, what it says."""

from dataclasses import dataclass
from typing import Any

import pytest
from questions_added import asking
from session_samples import Desk, gates_off, info, ref

from attnscope.fields import number
from attnscope.questions import Question
from attnscope.records import Answer, Answered, Ask, Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    depth: int = number(1, (1, 2, 3), title="depth", tip="How deep")


class Whole(Question):
    name, title = "whole", "Whole"
    options = Options()

    def answer(self, reading: object, options: object) -> Answer:
        raise NotImplementedError


class OfHead(Whole):
    name, title, is_of_head = "of-head", "Of a head", True


ANSWER = Answer(sentence="It is so.")


Made = tuple[Desk, Any, list[Ask]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    desk, asked = Desk().open(), list[Ask]()
    return desk, asking(monkeypatch, asked, desk, **{"whole": Whole(), "of-head": OfHead()}), asked


def answered(asked: list[Ask]) -> Answered:
    return Answered(number=asked[-1].number, question=asked[-1].question, answer=ANSWER)


def test_that_nobody_is_listened_to_while_nobody_looks(made: Made) -> None:
    desk, state, asked = made
    before = len(desk.session.changed.traced)
    state.watch(True)
    assert len(desk.session.changed.traced) == before + 1
    assert [(one.question, one.text, one.options) for one in asked] == [
        ("whole", desk.session.text, Options())
    ]
    state.watch(False)
    assert len(desk.session.changed.traced) == before
    desk.session.texts.set_text("another text")
    desk.answer()
    assert len(asked) == 1
    state.watch(True)
    assert asked[-1].text == "another text"


def test_that_the_newest_answer_alone_is_taken_and_the_old_one_stays_until_then(made: Made) -> None:
    desk, state, asked = made
    state.watch(True)
    assert state.is_busy
    state.handle(answered(asked))
    assert (state.answer, state.note, state.is_busy) == (ANSWER, "", False)
    late = answered(asked)
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    assert asked[-1].gates == gates_off(ref(0, 1))
    state.handle(late)
    assert state.is_busy
    assert state.answer is ANSWER


def test_that_another_question_forgets_the_answer_and_keeps_its_own_options(made: Made) -> None:
    _, state, asked = made
    state.watch(True)
    state.handle(answered(asked))
    state.set_option("depth", 3)
    assert asked[-1].options == Options(depth=3)
    state.choose("of-head")
    assert state.answer is None
    assert (asked[-1].question, asked[-1].options) == ("of-head", Options())
    state.choose("whole")
    assert state.options == Options(depth=3)
    n_asked = len(asked)
    for name, value in (("depth", 9), ("width", 1), ("depth", 3)):
        state.set_option(name, value)
    state.choose("nothing of the kind")
    assert len(asked) == n_asked


def test_that_a_question_about_a_head_follows_the_selection(made: Made) -> None:
    desk, state, asked = made
    desk.session.select_heads((ref(1, 0),))
    state.choose("of-head")
    state.watch(True)
    assert asked[-1].head == ref(1, 0)
    desk.session.select_heads((ref(0, 1),))
    assert asked[-1].head == ref(0, 1)
    state.choose("whole")
    assert asked[-1].head is None
    state.choose("of-head")
    desk.session.selection = ()
    assert state.note == "Select a head to ask about."


def test_that_a_refusal_is_said_and_another_model_forgets_it(made: Made) -> None:
    desk, state, asked = made
    state.watch(True)
    state.handle(Failed(number=asked[0].number, request="Ask", message="It has no stream."))
    assert (state.note, state.answer) == ("It has no stream.", None)
    desk.open(info(name="another"))
    assert state.note != "It has no stream."


def test_that_without_a_text_nothing_is_asked(made: Made) -> None:
    desk, state, asked = made
    desk.session.texts.set_text(" ")
    state.watch(True)
    assert asked == []
    assert state.note == "Enter a text to ask about."
    assert not state.is_busy


@pytest.mark.parametrize("is_watched", [True, False])
def test_that_being_told_twice_changes_nothing(is_watched: bool, made: Made) -> None:
    desk, state, _ = made
    before = len(desk.session.changed.model)
    for _ in range(2):
        state.watch(is_watched)
    assert len(desk.session.changed.model) == before + is_watched
