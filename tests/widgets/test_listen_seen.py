"""What is out of sight is told of changes when it comes into sight."""

import pytest
from PySide6.QtWidgets import QLabel, QStackedWidget
from pytestqt.qtbot import QtBot

from attnscope.viewmodels.listeners import Listeners
from attnscope.widgets.labels import listen_seen

pytestmark = pytest.mark.qt


class _Source:
    def __init__(self) -> None:
        self.listeners = Listeners()

    def subscribe(self, callback):
        return self.listeners.add(callback)


@pytest.fixture
def stack(qtbot: QtBot) -> QStackedWidget:
    stack = QStackedWidget()
    stack.addWidget(QLabel("one"))
    stack.addWidget(QLabel("two"))
    qtbot.addWidget(stack)
    return stack


def test_a_page_in_sight_is_told_at_once_and_a_hidden_one_once_when_it_is_shown(
    qtbot: QtBot, stack: QStackedWidget
) -> None:
    source, told = _Source(), {0: [], 1: []}
    for k in told:
        listen_seen(stack.widget(k), source, told[k].append)
    with qtbot.waitExposed(stack):
        stack.show()
    source.listeners.tell("text", "traced", "text")
    assert told == {0: ["text", "traced", "text"], 1: []}
    stack.setCurrentIndex(1)
    assert told[1] == ["traced", "text"]
    stack.setCurrentIndex(0)
    stack.setCurrentIndex(1)
    assert told[1] == ["traced", "text"]


def test_in_a_window_that_is_not_shown_everything_is_told_at_once(stack: QStackedWidget) -> None:
    source, told = _Source(), []
    listen_seen(stack.widget(1), source, told.append)
    source.listeners.tell("text")
    assert told == ["text"]


def test_a_widget_that_is_gone_is_not_told(qtbot: QtBot, stack: QStackedWidget) -> None:
    source, told = _Source(), []
    page = stack.widget(1)
    listen_seen(page, source, told.append)
    stack.removeWidget(page)
    page.deleteLater()
    qtbot.wait(10)
    source.listeners.tell("text")
    assert told == []
