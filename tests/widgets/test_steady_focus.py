"""The keyboard stays where a person put it: what greys out or hides hands it to nothing else."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from attnscope.widgets.window import SteadyFocus

pytestmark = pytest.mark.qt


class Desk:
    """Pause, Stop and a field in a box, and a field outside; what was pressed lies in `pressed`."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot, self.pressed = qtbot, []
        self.window, self.box = QWidget(), QWidget()
        qtbot.addWidget(self.window)
        self.pause, self.stop, self.field = QPushButton("Pause"), QPushButton("Stop"), QLineEdit("words")
        outer, inner = QVBoxLayout(self.window), QVBoxLayout(self.box)
        outer.addWidget(self.box)
        for part in (self.pause, self.stop, self.field):
            inner.addWidget(part)
        self.outside = QLineEdit("more")
        outer.addWidget(self.outside)
        self.stop.clicked.connect(lambda: self.pressed.append("stop"))
        self.pause.clicked.connect(lambda: self.pressed.append("pause"))
        self.steady = SteadyFocus(self.window)
        self.window.show()
        self.window.activateWindow()
        qtbot.waitUntil(self.window.isActiveWindow)

    def type(self, key: Qt.Key) -> None:
        self.qtbot.keyClick(QApplication.focusWidget() or self.window, key)


@pytest.fixture
def desk(qtbot: QtBot) -> Desk:
    return Desk(qtbot)


@pytest.mark.parametrize("leave", [lambda pause: pause.setEnabled(False), lambda pause: pause.hide()])
@pytest.mark.parametrize("key", [Qt.Key.Key_Space, Qt.Key.Key_Return])
def test_that_a_second_press_on_what_greyed_out_presses_nothing_else(desk, leave, key):
    desk.pause.setFocus()
    desk.pause.clicked.connect(lambda: leave(desk.pause))
    desk.type(Qt.Key.Key_Space)
    desk.type(key)
    assert desk.pressed == ["pause"]
    assert QApplication.focusWidget() is desk.box


def test_that_the_control_gets_the_keyboard_back_when_it_can_be_used_again(desk):
    desk.pause.setFocus()
    desk.pause.setEnabled(False)
    desk.pause.setEnabled(True)
    assert desk.pause.hasFocus()
    desk.pause.hide()
    desk.pause.show()
    assert desk.pause.hasFocus()


def test_that_a_person_who_has_gone_elsewhere_is_left_there(desk):
    desk.pause.setFocus()
    desk.pause.setEnabled(False)
    desk.field.setFocus()
    desk.pause.setEnabled(True)
    assert desk.field.hasFocus()


def test_that_tab_goes_on_beside_it(desk):
    desk.pause.setFocus()
    desk.pause.setEnabled(False)
    desk.type(Qt.Key.Key_Tab)
    assert desk.stop.hasFocus()


def test_that_a_field_is_not_marked_on_the_way(desk):
    desk.stop.setFocus()
    desk.stop.hide()
    assert not desk.field.hasSelectedText()


def test_that_hiding_what_is_around_it_goes_further_out(desk):
    desk.field.setFocus()
    desk.box.hide()
    assert QApplication.focusWidget() is desk.window
    assert not desk.outside.hasSelectedText()


def test_that_keys_of_the_window_still_work_where_a_field_was_hidden(desk):
    desk.field.setFocus()
    desk.field.hide()
    heard = []
    desk.box.keyPressEvent = lambda event: heard.append(event.key())
    desk.type(Qt.Key.Key_Space)
    assert heard == [Qt.Key.Key_Space]
    assert desk.pressed == []


def test_that_a_control_gets_the_keyboard_when_it_is_first_seen(desk):
    desk.pause.hide()
    desk.steady.give(desk.pause, desk.window)
    assert desk.window.focusWidget() is not desk.stop
    desk.pause.show()
    assert desk.pause.hasFocus()


def test_that_a_person_who_types_before_that_is_left_there(desk):
    desk.pause.hide()
    desk.steady.give(desk.pause, desk.window)
    desk.field.setFocus()
    desk.pause.show()
    assert desk.field.hasFocus()
