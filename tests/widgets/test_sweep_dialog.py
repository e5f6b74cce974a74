"""The dialog of several runs: it says how much that is, refuses what is wrong, and closes when it began."""

import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from attnscope.viewmodels.session import Recents

sys.path.append(str(Path(__file__).parents[1] / "viewmodels"))
from test_sweeping import Desk

from attnscope.viewmodels.training import SweepWish
from attnscope.widgets import PlainLabel
from attnscope.widgets.training import RunPanel, SweepDialog, SweepLine

pytestmark = pytest.mark.qt


def test_that_the_dialog_counts_refuses_and_closes_when_the_runs_begin(qtbot: QtBot, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    line = SweepLine(desk.state)
    qtbot.addWidget(line)
    line.open_dialog()
    dialog = line.dialog
    assert dialog is not None
    assert [one for one in dialog.findChildren(QPushButton) if one.isDefault()] == [dialog.start_button]
    key, values = dialog.rows[0]
    key.setCurrentText("model.d_model")
    assert "names no values" in dialog.told.text()
    assert not dialog.start_button.isEnabled()
    values.setText("16,32")
    assert dialog.told.text().startswith("6 runs")
    assert dialog.start_button.isEnabled()
    dialog.out.setText(str(desk.out))
    with qtbot.waitSignal(line.begun):
        dialog.start_button.click()
        assert not dialog.start_button.isEnabled()
        assert dialog.isVisible()
        desk.run_begins("d_model=16,seed=0", "[1/6] d_model=16,seed=0: step 5 of 10, validation 1.0")
    assert line.dialog is None
    assert not line.stop_button.isHidden()
    assert "run 1 of 6" in line.words.text()
    desk.child.code = 0
    (desk.out / "sweep.json").write_text(
        '{"runs": [{"folder": "x", "name": "x", "best_loss": 1.0, "best_step": 5, "loss_unit": "nats",'
        ' "settings": {}}], "seeds": []}'
    )
    desk.state.tick()
    assert not line.best_button.isHidden()
    assert "Best of 1: x" in line.words.text()
    line.best_button.click()
    assert getattr(desk.posted[-1], "folder", "") == "x"


def test_that_the_dialog_stands_as_it_was_after_the_runs_were_stopped(qtbot: QtBot, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    wish = SweepWish(values=("model.d_model=16,32",), seeds="4,7", keep_best=2, after=30, out=str(desk.out))
    desk.state.start(wish)
    desk.state.stop()
    desk.child.code = 130
    desk.state.tick()
    dialog = SweepDialog(desk.state)
    qtbot.addWidget(dialog)
    assert dialog.wish == wish


def test_that_the_run_panel_tells_of_several_runs_while_none_is_shown(qtbot: QtBot, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    panel = RunPanel(desk.state.training, desk.state, Recents())
    qtbot.addWidget(panel)

    def told() -> str:
        return " ".join(label.text() for label in panel.findChildren(PlainLabel))

    assert "No run yet" in told()
    desk.state.start(SweepWish(values=("model.d_model=16,32",), seeds="4", out=str(desk.out)))
    desk.run_begins("d_model=16,seed=4", "[1/2] d_model=16,seed=4: step 5 of 10, validation 1.0")
    assert "Several runs in training" in told()
    assert "run 1 of 2" in told()
    desk.state.stop()
    desk.child.code = 130
    desk.state.tick()
    assert "No run yet" in told()
