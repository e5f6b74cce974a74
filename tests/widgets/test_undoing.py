"""Undo and redo of the window: the session's on its pages, the lab's own on the page Labs."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot
from session_samples import Desk, ref

from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt
_CONTROL = Qt.KeyboardModifier.ControlModifier


def test_that_on_labs_the_window_undoes_what_was_set_in_the_lab(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    undo, redo = window.actions_by_name["undo"], window.actions_by_name["redo"]
    desk.session.head_changes.toggle_gate(ref(0, 1))
    assert undo.text() == "Undo: switch off L0H1 (encoder)"
    window.pages.show_lab("Masks as structure")
    lab = window.pages.labs.labs["Masks as structure"]
    example, slider = lab.lab.choice, lab.rows["window"].field
    assert (undo.text(), undo.isEnabled(), redo.isEnabled()) == ("Undo", False, False)
    assert window.undoing.of_session.text() == "Undo: switch off L0H1 (encoder)"
    slider.setValue(4)
    slider.setValue(7)  # one drag
    lab.rows["also causal"].field.click()
    assert (undo.text(), undo.isEnabled()) == ("Undo in Masks as structure", True)
    for target in (slider, window.pages.labs.list):  # wherever the focus is
        target.setFocus()
        qtbot.keyClick(target, Qt.Key.Key_Z, _CONTROL)
    assert lab.lab.choice == example
    assert (undo.isEnabled(), redo.text()) == (False, "Redo in Masks as structure")
    redo.trigger()
    assert lab.lab.choice.window == 7
    window.pages.labs.show_lab("Order blindness")
    assert not undo.isEnabled()
    window.pages.labs.show_lab("Masks as structure")
    assert undo.isEnabled()
    window.view.show_page("explore")
    assert undo.text() == "Undo: switch off L0H1 (encoder)"
    assert desk.session.gates.off() == (ref(0, 1),)  # never touched from the lab
    undo.trigger()
    assert not desk.session.gates.off()


def test_that_a_text_field_of_a_lab_follows_and_leaves_the_keys_to_it(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.pages.show_lab("Order blindness")
    lab = window.pages.labs.labs["Order blindness"]
    example, field = lab.lab.choice, lab.findChild(QLineEdit)
    before = field.text()
    field.setFocus()
    qtbot.keyClicks(field, " zz")
    assert lab.lab.choice != example
    window.actions_by_name["undo"].trigger()
    assert (lab.lab.choice, field.text()) == (example, before)
    window.actions_by_name["redo"].trigger()
    assert field.hasFocus()
    qtbot.keyClick(field, Qt.Key.Key_Z, _CONTROL)
    assert (lab.lab.choice, field.text()) == (example, before)
