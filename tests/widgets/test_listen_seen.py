"""What is out of sight is told of changes when it comes into sight."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QLabel, QMainWindow, QStackedWidget, QTabWidget
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


def test_what_was_kept_is_told_before_what_comes_after_the_window_is_hidden(
    qtbot: QtBot, stack: QStackedWidget
) -> None:
    source, told = _Source(), []
    listen_seen(stack.widget(1), source, told.append)
    with qtbot.waitExposed(stack):
        stack.show()
    source.listeners.tell("text")
    assert told == []
    stack.hide()
    source.listeners.tell("traced")
    assert told == ["text", "traced"]
    stack.show()
    stack.setCurrentIndex(1)
    assert told == ["text", "traced"]


def test_a_page_in_a_panel_of_its_own_is_told_when_it_is_in_sight_there(qtbot: QtBot) -> None:
    window, panel, pages = QMainWindow(), QDockWidget("panel"), QTabWidget()
    qtbot.addWidget(window)
    for name in ("one", "two"):
        pages.addTab(QLabel(name), name)
    panel.setWidget(pages)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, panel)
    source, told = _Source(), {0: [], 1: []}
    for k in told:
        listen_seen(pages.widget(k), source, told[k].append)
    with qtbot.waitExposed(window):
        window.show()
    panel.setFloating(True)
    window.showMinimized()  # the panel has a window of its own: it is still seen
    source.listeners.tell("text")
    assert told == {0: ["text"], 1: []}
    pages.setCurrentIndex(1)
    assert told == {0: ["text"], 1: ["text"]}


def test_what_fails_keeps_nothing_from_being_told_later(qtbot: QtBot, stack: QStackedWidget) -> None:
    source, told = _Source(), []

    def fails_once(name: str) -> None:
        told.append(name)
        if len(told) == 1:
            raise ValueError(name)

    listen_seen(stack.widget(1), source, fails_once)
    with qtbot.waitExposed(stack):
        stack.show()
    source.listeners.tell("text", "traced")
    stack.hide()
    with pytest.raises(ValueError, match="text"):
        source.listeners.tell("gates")
    source.listeners.tell("heads")
    assert told == ["text", "traced", "gates", "heads"]
