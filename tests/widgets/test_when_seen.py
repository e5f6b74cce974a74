"""What is out of sight reacts to changes when it comes into sight."""

import functools

import pytest
from psygnal import EmitLoopError, Signal, SignalGroup
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QLabel, QMainWindow, QStackedWidget, QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from attnscope.widgets import when, when_seen

pytestmark = pytest.mark.qt


class _Changes(SignalGroup):
    text = Signal()
    traced = Signal()
    gates = Signal()
    heads = Signal()

    def tell(self, *names: str) -> None:
        for name in names:
            self[name].emit()


def told_to(widget: QWidget, changed: _Changes) -> list[str]:
    """What a widget has reacted to, one reaction for each signal."""
    told: list[str] = []
    for name, signal in changed.signals.items():
        when_seen(widget, functools.partial(told.append, name), signal)
    return told


@pytest.fixture
def stack(qtbot: QtBot) -> QStackedWidget:
    stack = QStackedWidget()
    stack.addWidget(QLabel("one"))
    stack.addWidget(QLabel("two"))
    qtbot.addWidget(stack)
    return stack


def test_a_page_in_sight_reacts_at_once_and_a_hidden_one_once_when_it_is_shown(
    qtbot: QtBot, stack: QStackedWidget
) -> None:
    changed = _Changes()
    told = {k: told_to(stack.widget(k), changed) for k in range(2)}
    with qtbot.waitExposed(stack):
        stack.show()
    changed.tell("text", "traced", "text")
    assert told == {0: ["text", "traced", "text"], 1: []}
    stack.setCurrentIndex(1)
    assert told[1] == ["traced", "text"]
    stack.setCurrentIndex(0)
    stack.setCurrentIndex(1)
    assert told[1] == ["traced", "text"]


def test_one_reaction_to_several_signals_waits_as_one(qtbot: QtBot, stack: QStackedWidget) -> None:
    changed, n_reactions = _Changes(), []
    when_seen(stack.widget(1), lambda: n_reactions.append(1), changed.text, changed.traced)
    with qtbot.waitExposed(stack):
        stack.show()
    changed.tell("text", "traced", "gates")
    stack.setCurrentIndex(1)
    assert n_reactions == [1]


def test_in_a_window_that_is_not_shown_everything_is_reacted_to_at_once(stack: QStackedWidget) -> None:
    changed = _Changes()
    told = told_to(stack.widget(1), changed)
    changed.tell("text")
    assert told == ["text"]


@pytest.mark.parametrize("connect", [when, when_seen])
def test_a_widget_that_is_gone_does_not_react(qtbot: QtBot, stack: QStackedWidget, connect) -> None:
    changed, told = _Changes(), []
    page = stack.widget(1)
    connect(page, lambda: told.append("text"), changed.text)
    changed.tell("text")
    assert told == ["text"]
    stack.removeWidget(page)
    page.deleteLater()
    qtbot.wait(10)
    changed.tell("text")
    assert told == ["text"]


def test_what_was_kept_comes_before_what_comes_after_the_window_is_hidden(
    qtbot: QtBot, stack: QStackedWidget
) -> None:
    changed = _Changes()
    told = told_to(stack.widget(1), changed)
    with qtbot.waitExposed(stack):
        stack.show()
    changed.tell("text")
    assert told == []
    stack.hide()
    changed.tell("traced")
    assert told == ["text", "traced"]
    stack.show()
    stack.setCurrentIndex(1)
    assert told == ["text", "traced"]


def test_a_page_in_a_panel_of_its_own_reacts_when_it_is_in_sight_there(qtbot: QtBot) -> None:
    window, panel, pages = QMainWindow(), QDockWidget("panel"), QTabWidget()
    qtbot.addWidget(window)
    for name in ("one", "two"):
        pages.addTab(QLabel(name), name)
    panel.setWidget(pages)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, panel)
    changed = _Changes()
    told = {k: told_to(pages.widget(k), changed) for k in range(2)}
    with qtbot.waitExposed(window):
        window.show()
    panel.setFloating(True)
    window.showMinimized()  # the panel has a window of its own: it is still seen
    changed.tell("text")
    assert told == {0: ["text"], 1: []}
    pages.setCurrentIndex(1)
    assert told == {0: ["text"], 1: ["text"]}


def test_what_fails_keeps_nothing_from_being_reacted_to_later(qtbot: QtBot, stack: QStackedWidget) -> None:
    changed, told = _Changes(), []

    def fail_once(name: str) -> None:
        told.append(name)
        if len(told) == 1:
            raise ValueError(name)

    for name, signal in changed.signals.items():
        when_seen(stack.widget(1), functools.partial(fail_once, name), signal)
    with qtbot.waitExposed(stack):
        stack.show()
    changed.tell("text", "traced")
    stack.hide()
    with pytest.raises(EmitLoopError) as failed:  # psygnal's, with what was raised as its cause
        changed.tell("gates")
    assert isinstance(failed.value.__cause__, ValueError)
    assert str(failed.value.__cause__) == "text"
    changed.tell("heads")
    assert told == ["text", "traced", "gates", "heads"]
