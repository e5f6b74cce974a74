"""Every page shows something of the model when it is first turned to, without a button pressed."""

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]


def test_that_every_tab_of_heads_fills_by_itself(start: Callable[..., Program], qtbot: QtBot) -> None:
    program = start("shakespeare")
    tabs = program.window.pages.heads_tabs
    assert program.heads.phase == "empty"  # nothing is measured that nobody looks at
    program.window.view.show_page("heads")
    qtbot.waitUntil(lambda: program.heads.table is not None, timeout=30_000)
    tabs.tabs.tabs["Pruning"].click()
    qtbot.waitUntil(lambda: bool(program.curves.curves), timeout=30_000)
    tabs.tabs.tabs["Alike"].click()
    qtbot.waitUntil(lambda: program.alike.plane is not None, timeout=30_000)
    tabs.tabs.tabs["Weights"].click()
    qtbot.waitUntil(lambda: program.weights.found is not None, timeout=30_000)
