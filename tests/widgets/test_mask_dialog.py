"""The mask editor in the window: mouse, keys, presets, edge lists from files, errors, and its action."""

import pytest
from PySide6.QtCore import Qt
from session_samples import Desk, info, ref, states_of

from attnscope.figures import DARK
from attnscope.records import UseMask
from attnscope.settings import Settings
from attnscope.widgets import apply_theme, dialog_of
from attnscope.widgets.explore import MaskDialog
from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt


def made_dialog(qtbot, desk, path=""):
    dialog = MaskDialog(desk.session, choose_file=lambda *_: path)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def centre(dialog, row, column):
    return dialog.grid.cell_rect((row, column)).center().toPoint()


def test_that_the_editor_is_no_larger_than_the_window_on_a_projector(qtbot):
    desk = Desk().open()
    window = MainWindow(states_of(desk.session), Settings(theme="projector"))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    dialog = MaskDialog(desk.session, window)
    assert dialog.height() <= 800
    assert dialog.minimumSizeHint().height() <= 800


def test_that_a_drag_paints_every_cell_on_its_way_as_one_step(qtbot):
    desk = Desk().open()
    dialog = made_dialog(qtbot, desk)
    qtbot.mousePress(dialog.grid, Qt.MouseButton.LeftButton, pos=centre(dialog, 0, 0))
    qtbot.mouseMove(dialog.grid, centre(dialog, 0, 3))
    qtbot.mouseRelease(dialog.grid, Qt.MouseButton.LeftButton, pos=centre(dialog, 0, 3))
    (mask,) = desk.session.interventions
    assert isinstance(mask, UseMask)
    assert mask.cells[0].tolist() == [False] * 4
    assert mask.cells[1:].all()
    assert desk.session.history.labels[-1] == "mask: forbid 4 cells"
    assert "see" in dialog.blind.text()
    assert not dialog.blind.isHidden()
    dialog.undo_button.click()
    assert desk.session.interventions == ()
    assert dialog.blind.isHidden()


def test_that_keys_walk_and_change_cells(qtbot):
    desk = Desk().open()
    dialog = made_dialog(qtbot, desk)
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Space):
        qtbot.keyClick(dialog.grid, key)
    assert "query 1 “cat” → key 1 “cat”: not allowed" in dialog.pointed.text()
    qtbot.keyClick(dialog.grid, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert dialog.state.cells[1].tolist() == [True, False, False, True]


def test_that_presets_are_taken_marked_and_given_up(qtbot):
    desk = Desk().open()
    dialog = made_dialog(qtbot, desk)
    dialog.presets["itself"].click()
    assert dialog.state.cells.tolist() == [[i == j for j in range(4)] for i in range(4)]
    assert [name for name, button in dialog.presets.items() if button.isChecked()] == ["itself"]
    assert "4 of 16 cells allowed" in dialog.count.text()
    dialog.own_button.click()
    assert dialog.state.mask is None
    assert not dialog.own_button.isEnabled()


@pytest.mark.parametrize(
    ("graph", "keys"),
    [
        ("chain", ((0,), (0, 1), (1, 2), (2, 3))),
        ("ring", ((0, 3), (0, 1), (1, 2), (2, 3))),
        ("star", ((0,), (0, 1), (0, 2), (0, 3))),
        ("tree", ((0,), (0, 1), (0, 2), (1, 3))),
    ],
)
def test_that_an_example_graph_is_used_at_once_and_its_list_can_be_changed(qtbot, graph, keys):
    desk = Desk().open()
    dialog = made_dialog(qtbot, desk)
    dialog.use_graph(graph)
    assert [tuple(row.nonzero()[0].tolist()) for row in dialog.state.cells] == list(keys)
    assert dialog.count.text() == f"{sum(map(len, keys))} of 16 cells allowed · {graph}"
    dialog.edges.appendPlainText("0 2")
    dialog.use_button.click()
    assert dialog.state.cells[0, 2]
    assert dialog.count.text().endswith("· edge list")


def test_that_an_edge_list_comes_from_a_file_and_wrong_ones_are_told(qtbot, tmp_path):
    desk = Desk().open()
    path = tmp_path / "graph.txt"
    path.write_text("the cat\nsleeps -> cat\n", encoding="utf-8")
    dialog = made_dialog(qtbot, desk, str(path))
    desk.posted.clear()
    dialog.file_button.click()
    assert dialog.state.mask is None, "the file is read by the worker"
    desk.answer()
    assert dialog.edges.toPlainText().startswith("the cat")
    assert dialog.state.mask is not None
    assert dialog.state.mask.name == "of graph.txt"
    dialog.edges.setPlainText("0 77")
    dialog.use_button.click()
    assert "line 1: there is no token 77" in dialog.edges_error.text()
    path.unlink()
    dialog.file_button.click()
    desk.answer()
    assert "cannot be read" in dialog.edges_error.text()
    apply_theme(dialog, DARK)
    assert not dialog.grab().isNull()


def test_that_the_action_opens_one_editor_and_says_why_it_cannot(qtbot):
    desk = Desk()
    window = MainWindow(states_of(desk.session, worker=desk.posted.append), Settings())
    qtbot.addWidget(window)
    action = window.actions_by_name["custom-mask"]
    assert not action.isEnabled()
    assert action.toolTip() == "Open a model first."
    desk.open()
    assert action.isEnabled()
    action.trigger()
    first = dialog_of(window, MaskDialog)
    action.trigger()
    assert dialog_of(window, MaskDialog) is first is not None
    desk.open(info("pool"))
    assert not action.isEnabled()
    assert "no self-attention" in first.refusal.text()
    first.close()
    qtbot.waitUntil(lambda: dialog_of(window, MaskDialog) is None)


def test_that_the_editor_undoes_and_redoes_what_the_window_does(qtbot):
    desk = Desk().open()
    dialog = made_dialog(qtbot, desk)
    dialog.activateWindow()
    qtbot.waitUntil(dialog.isActiveWindow, timeout=2000)
    assert not dialog.undo_button.isEnabled()
    dialog.grid.setFocus()
    qtbot.keyClick(dialog.grid, Qt.Key.Key_Space)
    assert "mask: forbid query 0 → key 0" in dialog.undo_button.toolTip()
    qtbot.keyClick(dialog.grid, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert desk.session.interventions == ()
    assert (dialog.undo_button.isEnabled(), dialog.redo_button.isEnabled()) == (False, True)
    dialog.redo_button.click()
    assert not dialog.state.cells[0, 0]
    desk.session.head_changes.toggle_gate(ref(1, 1))
    assert desk.session.history.undo_label == "switch off L1H1 (encoder)"
    assert "switch off L1H1 (encoder)" in dialog.undo_button.toolTip()
    dialog.undo_button.click()
    assert not desk.session.gates.off()
    assert not dialog.state.cells[0, 0]


@pytest.mark.parametrize("chosen", [None, "decoder"])
def test_that_the_editor_shows_the_heads_that_its_mask_is_for_and_then_those_that_were_left(qtbot, chosen):
    desk = Desk().open()
    left = (ref(0, 0, "cross"), ref(1, 1, "cross"))
    desk.session.select_heads(left)
    desk.answer()
    window = MainWindow(states_of(desk.session, worker=desk.posted.append), Settings())
    qtbot.addWidget(window)
    window.actions_by_name["custom-mask"].trigger()
    dialog = dialog_of(window, MaskDialog)
    assert desk.session.stack == dialog.state.stack == "encoder"
    assert "encoder" in desk.session.notices.shown.message
    if chosen:
        desk.session.select_stack(chosen)
    dialog.close()
    qtbot.waitUntil(lambda: dialog_of(window, MaskDialog) is None)
    assert desk.session.selection == left if chosen is None else desk.session.stack == chosen
