"""Lecture stops in the window: kept and gone to by key, saved, stepped through while presenting."""

import dataclasses
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot
from session_samples import Desk, info, ref

from attnscope.widgets.window.main_window import MainWindow
from attnscope.widgets.window.stops_panel import StopLine

pytestmark = pytest.mark.qt


def press(window: MainWindow, name: str) -> None:
    window.actions_by_name[name].trigger()


def keep_three(window: MainWindow, desk: Desk) -> None:
    """A head as heatmap, another one off as lines, and a lab that was changed."""
    press(window, "keep-stop")
    desk.session.select_heads((ref(0, 1),))
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    press(window, "lines")
    press(window, "keep-stop")
    press(window, "page-labs")
    window.pages.labs.show_lab("Masks as structure")
    window.pages.labs.labs["Masks as structure"].rows["window"].field.setValue(6)
    press(window, "keep-stop")


def test_that_presenting_steps_through_what_was_kept(qtbot: QtBot, window: MainWindow, desk: Desk) -> None:
    assert not window.actions_by_name["next-stop"].isEnabled()
    keep_three(window, desk)
    lab = window.pages.labs.labs["Masks as structure"]
    lab.foot.reset_button.click()
    stops, session = window.workspace.files.stops, desk.session
    press(window, "stops")
    press(window, "present")
    assert not window.workspace.stops.isVisible()  # it is for who speaks
    qtbot.keyClick(window, Qt.Key.Key_PageUp)
    desk.answer()
    assert (stops.at, window.view.page, window.view.view) == (1, "explore", "lines")
    assert session.gates.off() == (ref(0, 1),)
    qtbot.keyClick(window, Qt.Key.Key_PageUp)
    desk.answer()
    assert (window.view.view, session.gates.off()) == ("heatmap", ())
    assert session.primary != ref(0, 1)
    session.undo()  # a stop is a step of the history
    assert session.gates.off() == (ref(0, 1),)
    stops.go(2)
    assert (window.view.page, lab.lab.choice.window) == ("labs", 6)
    press(window, "dismiss")
    qtbot.keyClick(window, Qt.Key.Key_PageUp)  # only while presenting
    assert stops.at == 2
    qtbot.keyClick(window, Qt.Key.Key_PageUp, Qt.KeyboardModifier.ControlModifier)
    assert stops.at == 1


def test_that_stops_are_saved_and_come_back_with_their_session(
    qtbot: QtBot, window: MainWindow, desk: Desk, tmp_path: Path
) -> None:
    keep_three(window, desk)
    files = window.workspace.files
    kept = files.stops.stops
    files.save_to(tmp_path / "talk.attnscope")
    files.stops.write(())
    files.open_path(str(tmp_path / "talk.attnscope"))
    desk.answer()
    qtbot.waitUntil(lambda: files.stops.stops == kept, timeout=2000)
    files.notes.write("say this")
    files.show(kept[0].saved, "elsewhere")  # what is gone to takes neither notes nor stops away
    desk.answer()
    assert (files.notes.text, files.stops.stops) == ("say this", kept)
    window.workspace.palette.open()
    assert "stop:2" in window.workspace.palette._offers
    window.workspace.palette.close()


def test_that_the_list_is_worked_on_by_keys_and_undone(qtbot: QtBot, window: MainWindow, desk: Desk) -> None:
    keep_three(window, desk)
    press(window, "stops")
    panel, stops = window.workspace.stops, window.workspace.files.stops
    names = [stop.name for stop in stops.stops]
    gates = desk.session.gates
    panel.list.setFocus()
    qtbot.keyClick(panel.list, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [stop.name for stop in stops.stops] == [names[0], names[2], names[1]]
    assert panel.list.currentRow() == 1
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert [stop.name for stop in stops.stops] == [names[0], names[1]]
    for _ in range(2):
        qtbot.keyClick(panel.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert [stop.name for stop in stops.stops] == names
    assert desk.session.gates == gates  # the list's own undo
    panel.list.item(0).setText("the first head")
    assert stops.stops[0].name == "the first head"
    panel.list.setCurrentRow(0)
    panel.down_button.click()
    assert stops.stops[1].name == "the first head"
    panel.remove_button.click()
    assert len(stops.stops) == 2
    press(window, "history")  # there is room for one
    assert panel.isHidden()


def test_that_a_stop_of_another_model_opens_it_and_keeps_notes_and_stops(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    """Leaving a tour goes the same way."""
    files, session, own = window.workspace.files, desk.session, desk.model
    session.set_text("the dog barks")
    desk.answer()
    press(window, "keep-stop")
    desk.open(dataclasses.replace(info("decoder", "other"), sha256="cd" * 32))
    files.notes.write("say this")
    kept = files.stops.stops
    desk.model = own
    files.stops.go(0)
    desk.answer()
    qtbot.waitUntil(lambda: not files.is_waiting, timeout=2000)
    desk.answer()
    assert (session.model, session.text, session.primary.stack) == (own, "the dog barks", "cross")
    assert (files.notes.text, files.stops.stops, files.stops.at) == ("say this", kept, 0)


def test_that_keys_go_on_with_the_stop_that_was_worked_on_not_the_shown_one(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    keep_three(window, desk)
    press(window, "stops")
    panel, stops = window.workspace.stops, window.workspace.files.stops
    assert stops.at == 2
    panel.list.setFocus()
    panel.list.setCurrentRow(0)
    qtbot.keyClick(panel.list, Qt.Key.Key_F2)
    field = panel.list.findChild(QLineEdit)
    field.setText("first")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: stops.stops[0].name == "first", timeout=2000)
    qtbot.wait(1)  # the field goes after that
    assert (stops.at, panel.list.currentRow()) == (2, 0)
    shown = stops.stops[2]
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert (stops.at, panel.list.currentRow()) == (1, 0)
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert (stops.stops, panel.list.currentRow()) == ((shown,), 0)
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert (stops.stops, panel.list.currentRow()) == ((), -1)


def test_that_the_line_names_a_stop_only_while_it_is_looked_at(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    keep_three(window, desk)
    stops, line = window.workspace.files.stops, window.findChild(StopLine)
    press(window, "present")
    stops.go(0)
    desk.answer()
    assert line.isVisible()
    assert line.full_text().startswith("stop 1 of 3")
    window.learning.toured.emit(True)
    assert not line.isVisible()
    window.learning.toured.emit(False)
    assert line.isVisible()
    press(window, "page-labs")
    assert not line.isVisible()
    stops.go(2)
    assert line.isVisible()
    window.pages.labs.show_lab("Order blindness")
    assert not line.isVisible()
    window.pages.labs.show_lab("Masks as structure")
    assert line.isVisible()
    stops.go(1)
    desk.answer()
    assert line.isVisible()
    desk.open(info(name="other"))
    assert not line.isVisible()


def test_that_presenting_gives_no_field_the_focus(qtbot: QtBot, window: MainWindow, desk: Desk) -> None:
    window.pages.show_lab("Order blindness")
    labs = window.pages.labs
    qtbot.waitUntil(window.isActiveWindow, timeout=2000)
    labs.list.setFocus()  # it is hidden while presenting
    press(window, "present")
    assert not isinstance(window.focusWidget(), QLineEdit)
    fields = labs.labs["Order blindness"].findChildren(QLineEdit)
    assert not any(field.hasSelectedText() for field in fields)
    press(window, "present")
    desk.session.dismiss_notice()
    fields[0].setFocus()
    press(window, "present")
    assert window.focusWidget() is fields[0]  # what is still seen keeps it
