"""What cannot be done now says why: in its tip, in the status bar, in the command palette."""

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QStatusTipEvent
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from session_samples import Desk, ref, states_of

from attnscope.settings import Settings
from attnscope.widgets import ACTIONS
from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def window(qtbot: QtBot, desk: Desk) -> MainWindow:
    made = MainWindow(states_of(desk.session), Settings(theme="light"))
    qtbot.addWidget(made)
    made.show()
    return made


def test_that_every_greyed_action_says_why_and_its_own_tip_comes_back(window: MainWindow, desk: Desk) -> None:
    actions = window.actions_by_name
    own = {spec.name: spec.tip or spec.text.rstrip("…") for spec in ACTIONS}
    greyed = {name for name, action in actions.items() if not action.isEnabled() and action.isVisible()}
    assert greyed >= {"toggle-heads", "reset", "save-model", "undo", "redo", "custom-mask", "next-view"}
    for name in greyed:
        assert own[name] not in actions[name].toolTip(), name
        assert actions[name].toolTip() == actions[name].statusTip(), name
    assert actions["reset"].toolTip() == "Open a model first"
    desk.open()
    assert actions["reset"].toolTip() == "Every head is fully on"
    desk.session.head_changes.toggle_gate(ref(0, 0))
    assert actions["reset"].toolTip() == "Every head fully on (Ctrl+R)"
    assert actions["undo"].toolTip() == "Undo: switch off L0H0 (encoder) (Ctrl+Z)"
    window.pages.show_lab("Masks as structure")
    assert actions["undo"].toolTip() == "Nothing to undo in Masks as structure"


def test_that_menus_palette_and_status_bar_show_the_reason(window: MainWindow) -> None:
    menus = [entry.menu() for entry in window.top_bar.menu_bar.actions()]
    assert all(isinstance(menu, QMenu) and menu.toolTipsVisible() for menu in menus)
    offers = {offer.item.key: offer.item for offer in window.workspace._offers()}
    assert offers["action:save-model"].detail == "Open a model first"
    tip = window.actions_by_name["save-model"].statusTip()
    QCoreApplication.sendEvent(window, QStatusTipEvent(tip))
    assert window.status_bar.cell.full_text() == "Open a model first"
    QCoreApplication.sendEvent(window, QStatusTipEvent(""))
    assert window.status_bar.cell.full_text() == ""
