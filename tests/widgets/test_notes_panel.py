"""The notes: written beside the page, saved with the session, with an undo of their own."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStackedWidget, QWidget
from pytestqt.qtbot import QtBot
from session_samples import Desk, ref

from attnscope.settings import Settings
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.session.file import read_session
from attnscope.viewmodels.session.notes import NotesState
from attnscope.viewmodels.session.reader import MAX_NOTES
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.window.main_window import MainWindow
from attnscope.widgets.window.right_edge import RightEdge

pytestmark = pytest.mark.qt


def open_window(qtbot: QtBot, desk: Desk) -> MainWindow:
    training = TrainingState(lambda request: None, Numbers())
    positions = PositionsState(lambda request: None, Numbers())
    window = MainWindow(desk.session, training, positions, Settings(theme="light"))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    return window


def test_that_notes_are_typed_undone_saved_and_come_back(qtbot: QtBot, tmp_path: Path) -> None:
    desk = Desk().open()
    window = open_window(qtbot, desk)
    files, panel = window.workspace.files, window.workspace.notes
    assert panel is not None
    assert panel.isHidden()
    window.actions_by_name["notes"].trigger()
    assert panel.isVisible()
    assert "saved in the session file" in panel.edit.placeholderText()
    desk.session.head_changes.toggle_gate(ref(0, 0))
    gates = desk.session.gates
    qtbot.keyClicks(panel.edit, "head 0 is a switch, z")
    assert files.notes.text == "head 0 is a switch, z"
    qtbot.keyClick(panel.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert files.notes.text == ""
    assert desk.session.gates == gates  # the editor's own undo
    panel.edit.setPlainText("look at <b>L0H0</b>\nagain")
    files.save_to(tmp_path / "talk.attnscope")
    assert read_session(tmp_path / "talk.attnscope").notes == "look at <b>L0H0</b>\nagain"
    panel.edit.clear()
    files.open_path(str(tmp_path / "talk.attnscope"))
    desk.answer()
    qtbot.waitUntil(lambda: panel.edit.toPlainText() == "look at <b>L0H0</b>\nagain", timeout=2000)
    window.actions_by_name["history"].trigger()  # there is room for one
    assert panel.isHidden()
    window.actions_by_name["notes"].trigger()
    window.actions_by_name["notes"].trigger()
    assert panel.isHidden()


def test_that_notes_stay_as_short_as_a_session_file_allows() -> None:
    notes = NotesState()
    told: list[str] = []
    notes.subscribe(told.append)
    notes.write("a\0" + "x" * (MAX_NOTES + 5))
    assert len(notes.text) == MAX_NOTES
    assert notes.n_left == 0
    notes.write(notes.text)
    assert told == ["notes"]


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
