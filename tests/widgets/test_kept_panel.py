"""Kept views in the window: kept and gone to by key, saved, stepped through while presenting."""

import dataclasses
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit, QStackedWidget, QWidget
from pytestqt.qtbot import QtBot
from session_samples import Desk, info, ref

from attnscope.viewmodels.session import read_session
from attnscope.widgets.window import KeptLine, MainWindow, RightEdge

pytestmark = pytest.mark.qt


def press(window: MainWindow, name: str) -> None:
    window.actions_by_name[name].trigger()


def keep_three(window: MainWindow, desk: Desk) -> None:
    """A head as heatmap, another one off as lines, and a lab that was changed."""
    press(window, "keep-view")
    desk.session.select_heads((ref(0, 1),))
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    press(window, "lines")
    press(window, "keep-view")
    press(window, "page-labs")
    window.pages.labs.show_lab("Masks as structure")
    window.pages.labs.labs["Masks as structure"].rows["window"].field.setValue(6)
    press(window, "keep-view")


def test_that_presenting_steps_through_what_was_kept(qtbot: QtBot, window: MainWindow, desk: Desk) -> None:
    assert not window.actions_by_name["next-view"].isEnabled()
    keep_three(window, desk)
    lab = window.pages.labs.labs["Masks as structure"]
    lab.foot.reset_button.click()
    kept, session = window.workspace.files.kept, desk.session
    press(window, "kept-views")
    press(window, "present")
    assert not window.workspace.kept.isVisible()  # it is for who speaks
    qtbot.keyClick(window, Qt.Key.Key_PageUp)
    desk.answer()
    assert (kept.at, window.view.page, window.view.view) == (1, "explore", "lines")
    assert session.gates.off() == (ref(0, 1),)
    qtbot.keyClick(window, Qt.Key.Key_PageUp)
    desk.answer()
    assert (window.view.view, session.gates.off()) == ("picture", ())
    assert session.primary != ref(0, 1)
    session.undo()  # a view is a step of the history
    assert session.gates.off() == (ref(0, 1),)
    kept.go(2)
    assert (window.view.page, lab.lab.choice.window) == ("labs", 6)
    press(window, "dismiss")
    qtbot.keyClick(window, Qt.Key.Key_PageUp)  # only while presenting
    assert kept.at == 2
    qtbot.keyClick(window, Qt.Key.Key_PageUp, Qt.KeyboardModifier.ControlModifier)
    assert kept.at == 1


def test_that_views_are_saved_and_come_back_with_their_session(
    qtbot: QtBot, window: MainWindow, desk: Desk, tmp_path: Path
) -> None:
    keep_three(window, desk)
    files = window.workspace.files
    kept = files.kept.views
    files.save_to(tmp_path / "talk.attnscope")
    files.kept.write((), "")
    files.open_path(str(tmp_path / "talk.attnscope"))
    desk.answer()
    qtbot.waitUntil(lambda: files.kept.views == kept, timeout=2000)
    files.kept.write_notes("say this")
    files.show(kept[0].saved, "elsewhere")  # what is gone to takes neither notes nor views away
    desk.answer()
    assert (files.kept.notes, files.kept.views) == ("say this", kept)
    window.workspace.palette.open()
    assert "view:2" in window.workspace.palette._offers
    window.workspace.palette.close()


def test_that_who_goes_to_a_view_writes_notes_on_it(qtbot: QtBot, window: MainWindow, desk: Desk) -> None:
    keep_three(window, desk)
    panel, kept = window.workspace.kept, window.workspace.files.kept
    press(window, "kept-views")
    assert panel.of_view.isChecked()
    panel.notes.setPlainText("the third")
    kept.go(0)
    desk.answer()
    assert panel.notes.toPlainText() == ""
    panel.notes.setPlainText("the first")
    panel.of_session.click()
    panel.notes.setPlainText("the whole")
    kept.go(2)
    assert (panel.of_view.isChecked(), panel.notes.toPlainText()) == (True, "the third")
    assert [view.note for view in kept.views] == ["the first", "", "the third"]
    assert kept.notes == "the whole"


def test_that_the_kept_views_are_saved_as_a_handout_of_one_page_each(
    qtbot: QtBot, window: MainWindow, desk: Desk, tmp_path: Path
) -> None:
    assert not window.actions_by_name["handout"].isEnabled()
    keep_three(window, desk)
    kept, panel = window.workspace.files.kept, window.workspace.kept
    kept.write_note("what to say")
    window.view.show_page("explore")
    before = desk.session.setting
    shown: list[int | None] = []
    kept.changed.at.connect(lambda: shown.append(kept.at))
    path = tmp_path / "talk.pdf"

    def is_written() -> bool:
        desk.answer()
        return path.exists()

    window.handout.ask_file = lambda *_asked: str(path)
    panel.handout_button.click()
    qtbot.waitUntil(is_written, timeout=20_000)
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") == 3
    assert shown == [0, 1, 2]
    assert "The handout of 3 views is saved in" in desk.session.notices.shown.message
    desk.answer()
    assert (window.view.page, desk.session.setting) == ("explore", before)


def test_that_the_list_is_worked_on_by_keys_and_undone(qtbot: QtBot, window: MainWindow, desk: Desk) -> None:
    keep_three(window, desk)
    press(window, "kept-views")
    panel, kept = window.workspace.kept, window.workspace.files.kept
    names = [view.name for view in kept.views]
    gates = desk.session.gates
    panel.list.setFocus()
    qtbot.keyClick(panel.list, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [view.name for view in kept.views] == [names[0], names[2], names[1]]
    assert panel.list.currentRow() == 1
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert [view.name for view in kept.views] == [names[0], names[1]]
    for _ in range(2):
        qtbot.keyClick(panel.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert [view.name for view in kept.views] == names
    assert desk.session.gates == gates  # the list's own undo
    panel.list.item(0).setText("the first head")
    assert kept.views[0].name == "the first head"
    panel.list.setCurrentRow(0)
    panel.down_button.click()
    assert kept.views[1].name == "the first head"
    panel.remove_button.click()
    assert len(kept.views) == 2
    press(window, "history")  # there is room for one
    assert panel.isHidden()


def test_that_a_view_of_another_model_opens_it_and_keeps_notes_and_views(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    """Leaving a tour goes the same way."""
    files, session, own = window.workspace.files, desk.session, desk.model
    session.texts.set_text("the dog barks")
    desk.answer()
    press(window, "keep-view")
    desk.open(dataclasses.replace(info("decoder", "other"), sha256="cd" * 32))
    files.kept.write_notes("say this")
    kept = files.kept.views
    desk.model = own
    files.kept.go(0)
    desk.answer()
    qtbot.waitUntil(lambda: files.awaited.saved is None, timeout=2000)
    desk.answer()
    assert (session.model, session.text, session.primary.stack) == (own, "the dog barks", "cross")
    assert (files.kept.notes, files.kept.views, files.kept.at) == ("say this", kept, 0)


def test_that_keys_go_on_with_the_view_that_was_worked_on_not_the_shown_one(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    keep_three(window, desk)
    press(window, "kept-views")
    panel, kept = window.workspace.kept, window.workspace.files.kept
    assert kept.at == 2
    panel.list.setFocus()
    panel.list.setCurrentRow(0)
    qtbot.keyClick(panel.list, Qt.Key.Key_F2)
    field = panel.list.findChild(QLineEdit)
    field.setText("first")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: kept.views[0].name == "first", timeout=2000)
    qtbot.wait(1)  # the field goes after that
    assert (kept.at, panel.list.currentRow()) == (2, 0)
    shown = kept.views[2]
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert (kept.at, panel.list.currentRow()) == (1, 0)
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert (kept.views, panel.list.currentRow()) == ((shown,), 0)
    qtbot.keyClick(panel.list, Qt.Key.Key_Delete)
    assert (kept.views, panel.list.currentRow()) == ((), -1)


def test_that_the_line_names_a_view_only_while_it_is_looked_at(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    keep_three(window, desk)
    kept, line = window.workspace.files.kept, window.findChild(KeptLine)
    press(window, "present")
    kept.go(0)
    desk.answer()
    assert line.isVisible()
    assert line.full_text().startswith("view 1 of 3")
    window.learning.toured.emit(True)
    assert not line.isVisible()
    window.learning.toured.emit(False)
    assert line.isVisible()
    press(window, "page-labs")
    assert not line.isVisible()
    kept.go(2)
    assert line.isVisible()
    window.pages.labs.show_lab("Order blindness")
    assert not line.isVisible()
    window.pages.labs.show_lab("Masks as structure")
    assert line.isVisible()
    kept.go(1)
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
    desk.session.notices.dismiss()
    fields[0].setFocus()
    press(window, "present")
    assert window.focusWidget() is fields[0]  # what is still seen keeps it


def test_that_notes_are_typed_undone_saved_and_come_back(
    qtbot: QtBot, window: MainWindow, desk: Desk, tmp_path: Path
) -> None:
    files, panel = window.workspace.files, window.workspace.kept
    assert panel is not None
    assert panel.isHidden()
    window.actions_by_name["kept-views"].trigger()
    assert panel.isVisible()
    assert "saved with the session" in panel.notes.placeholderText()
    desk.session.head_changes.toggle_gate(ref(0, 0))
    gates = desk.session.gates
    qtbot.keyClicks(panel.notes, "head 0 is a switch, z")
    assert files.kept.notes == "head 0 is a switch, z"
    qtbot.keyClick(panel.notes, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert files.kept.notes == ""
    assert desk.session.gates == gates  # the editor's own undo
    panel.notes.setPlainText("look at <b>L0H0</b>\nagain")
    files.save_to(tmp_path / "talk.attnscope")
    assert read_session(tmp_path / "talk.attnscope").notes == "look at <b>L0H0</b>\nagain"
    panel.notes.clear()
    files.open_path(str(tmp_path / "talk.attnscope"))
    desk.answer()
    qtbot.waitUntil(lambda: panel.notes.toPlainText() == "look at <b>L0H0</b>\nagain", timeout=2000)
    window.actions_by_name["history"].trigger()  # there is room for one
    assert panel.isHidden()
    window.actions_by_name["kept-views"].trigger()
    window.actions_by_name["kept-views"].trigger()
    assert panel.isHidden()


def test_that_of_two_panels_at_one_edge_the_later_stays(qtbot: QtBot) -> None:
    over = QStackedWidget()
    qtbot.addWidget(over)
    over.addWidget(QWidget())
    over.resize(900, 600)
    panels = [QWidget(over), QWidget(over)]
    edges = [RightEdge(panel, over, width) for panel, width in zip(panels, (280, 360), strict=True)]
    over.show()
    for first, second in ((0, 1), (1, 0)):
        for panel in panels:
            panel.hide()
        panels[first].show()
        panels[second].show()
        for edge in edges:
            edge.place()
        over.resize(over.width() - 10, 600)
        assert [panel.isHidden() for panel in (panels[first], panels[second])] == [True, False]
        assert over.contentsMargins().right() == panels[second].width()


@pytest.mark.parametrize(("drawer", "name"), [("history", "history"), ("kept-views", "kept")])
def test_that_esc_closes_a_drawer_and_nothing_else(
    qtbot: QtBot, window: MainWindow, desk: Desk, drawer: str, name: str
) -> None:
    grid = window.pages.explore.grid_panel.grid
    grid.setFocus()
    press(window, "present")
    press(window, drawer)
    panel = getattr(window.workspace, name)
    assert panel.isVisible()
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert panel.isHidden()
    assert grid.hasFocus()
    assert window.view.is_presenting
    qtbot.keyClick(grid, Qt.Key.Key_Escape)
    assert not window.view.is_presenting


def test_that_esc_closes_the_notes_but_first_the_name_that_is_being_written(
    qtbot: QtBot, window: MainWindow, desk: Desk
) -> None:
    press(window, "keep-view")
    press(window, "kept-views")
    panel, kept = window.workspace.kept, window.workspace.files.kept
    name = kept.views[0].name
    panel.list.setCurrentRow(0)
    panel.rename_button.click()
    qtbot.keyClicks(QApplication.focusWidget(), "not this")
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert panel.isVisible()
    assert kept.views[0].name == name
    panel.notes.setFocus()
    qtbot.keyClick(panel.notes, Qt.Key.Key_Escape)
    assert panel.isHidden()
