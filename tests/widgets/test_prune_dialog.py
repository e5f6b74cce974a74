"""The dialog that removes heads: what it shows at each step, and what its buttons do."""

import dataclasses

import pytest
from pruning_samples import GATES, REPORT
from PySide6.QtWidgets import QWidget
from session_samples import Desk, ref, state_of

from attnscope.records import (
    Failed,
    ForgetPruned,
    LoadModel,
    PrunedSaved,
    PruningTried,
    SavePruned,
    TryPruning,
)
from attnscope.viewmodels import ViewState
from attnscope.widgets import PlainLabel
from attnscope.widgets.heads import PruneDialog
from attnscope.widgets.window import Commands

pytestmark = pytest.mark.qt


class Shown:
    """A dialog whose requests lie in `posted`."""

    def __init__(self, qtbot, folder="/small") -> None:
        self.posted: list = []
        self.state = state_of("pruning", self.posted.append)
        self.state.begin(GATES, "the cat", None)
        self.dialog = PruneDialog(
            self.state, name="tiny <b>", suggested="/x", choose_folder=lambda *_: folder
        )
        qtbot.addWidget(self.dialog)
        self.dialog.show()

    def answer(self, shapes=("small",), **changes) -> None:
        report = dataclasses.replace(REPORT, **changes)
        self.state.handle(PruningTried(number=self.posted[-1].number, report=report, shapes=shapes))

    def texts(self) -> list[str]:
        labels = self.dialog.findChildren(PlainLabel)
        return [label.text() for label in labels if label.isVisibleTo(self.dialog)]


def test_that_the_dialog_says_what_goes_while_the_proof_runs(qtbot):
    shown = Shown(qtbot)
    assert "Remove 4 heads from tiny <b>" in shown.texts()
    assert {"encoder L0", "H0, H1", "decoder L1", "H3"} <= set(shown.texts())
    assert shown.dialog.progress.isVisible()
    assert not shown.dialog.save_button.isEnabled()
    assert not shown.dialog.shapes["same"].isVisible()


def test_that_the_proof_and_the_gain_are_shown(qtbot):
    shown = Shown(qtbot)
    shown.answer()
    assert {"1,000", "800", "−20.0 %", "2.00 ms", "1.60 ms"} <= set(shown.texts())
    assert "no logit differs by more than 6.0·10⁻⁷" in shown.dialog.outcome.text()
    assert "Opens in AttnScope.\nA note with <b>tags</b>." in shown.texts()
    assert shown.dialog.save_button.isEnabled()
    assert not shown.dialog.progress.isVisible()


def test_that_saving_asks_for_a_folder_and_opens_it_when_wanted(qtbot):
    shown = Shown(qtbot)
    shown.answer()
    shown.dialog.save_button.click()
    assert shown.posted[-1] == SavePruned(
        number=shown.posted[-1].number, tried=shown.posted[0].number, folder="/small"
    )
    report = dataclasses.replace(REPORT, folder="/small")
    shown.state.handle(PrunedSaved(number=shown.posted[-1].number, report=report))
    assert shown.dialog.outcome.text() == "Saved in /small."
    with qtbot.waitSignal(shown.dialog.open_wanted) as wanted:
        shown.dialog.open_button.click()
    assert wanted.args == ["/small"]
    assert not shown.dialog.isVisible()
    assert isinstance(shown.posted[-1], ForgetPruned)


def test_that_a_failure_stays_in_the_dialog(qtbot):
    shown = Shown(qtbot, folder="")
    number = shown.posted[-1].number
    shown.state.handle(Failed(number=number, request="TryPruning", message="Nothing was saved: it differs."))
    assert shown.dialog.outcome.text() == "Nothing was saved: it differs."
    assert shown.dialog.outcome.property("role") == "error"
    assert not shown.dialog.table.isVisible()
    assert not shown.dialog.save_button.isEnabled()


def test_that_no_folder_saves_nothing_and_closing_lets_the_copy_go(qtbot):
    shown = Shown(qtbot, folder="")
    shown.answer()
    shown.dialog.save_button.click()
    assert len(shown.posted) == 1
    shown.dialog.close()
    assert [type(request) for request in shown.posted] == [TryPruning, ForgetPruned]


def test_that_a_shape_can_be_chosen_where_there_are_two(qtbot):
    shown = Shown(qtbot)
    shown.answer(shapes=("small", "same"))
    assert shown.dialog.shapes["small"].isChecked()
    shown.dialog.shapes["same"].click()
    assert shown.posted[-1].shape == "same"
    assert shown.dialog.progress.isVisible()


def test_that_the_menu_opens_the_dialog_only_with_heads_off(qtbot):
    parent, desk, posted = QWidget(), Desk().open(), []
    qtbot.addWidget(parent)
    commands = Commands(
        desk.session, ViewState(), parent, open_run=str, edit_text=lambda: None,
        choose_folder=lambda *_: "", pruning=state_of("pruning", posted.append),
    )  # fmt: skip
    commands.remove_heads()
    assert desk.session.notices.shown is not None
    assert "No head is off" in desk.session.notices.shown.message
    desk.session.head_changes.toggle_gate(ref(0, 1))
    commands.remove_heads()
    dialog = parent.findChild(PruneDialog)
    assert [type(request) for request in posted] == [TryPruning]
    desk.posted.clear()
    dialog.open_wanted.emit("/small")
    assert [type(request) for request in desk.posted] == [LoadModel]
    dialog.close()
