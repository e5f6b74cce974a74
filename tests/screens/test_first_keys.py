"""The keys of the help do what it says from the first moment on, before anything is clicked."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]


def test_that_keys_are_the_grids_once_the_first_text_is_shown(
    start: Callable[..., Program], qtbot: QtBot
) -> None:
    program = start("grammar")
    program.window.activateWindow()
    session, grid = program.session, program.window.pages.explore.grid_panel.grid
    qtbot.waitUntil(grid.hasFocus)
    for key in (Qt.Key.Key_1, Qt.Key.Key_Space, Qt.Key.Key_L):
        qtbot.keyClick(QApplication.focusWidget(), key)
    assert session.stack == "encoder"
    assert session.gates.off() == (session.primary,)
    assert program.window.view.view == "lines"
