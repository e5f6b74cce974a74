"""Every page shows something of the model when it is first turned to, without a button pressed."""

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.widgets import StateCard

pytestmark = [pytest.mark.qt, pytest.mark.slow]


def test_that_every_tab_of_heads_fills_by_itself(start: Callable[..., Program], qtbot: QtBot) -> None:
    program = start("stories")
    tabs = program.window.pages.heads_tabs
    assert program.heads.phase == "empty"  # nothing is measured that nobody looks at
    program.window.view.show_page("heads")
    qtbot.waitUntil(lambda: bool(program.heads.table.heads), timeout=30_000)
    tabs.tabs.tabs["Pruning"].click()
    qtbot.waitUntil(lambda: bool(program.states.curves.curves), timeout=30_000)
    tabs.tabs.tabs["Alike"].click()
    qtbot.waitUntil(lambda: program.states.alike.found is not None, timeout=30_000)
    tabs.tabs.tabs["Weights"].click()
    qtbot.waitUntil(lambda: program.states.weights.found is not None, timeout=30_000)


def test_that_every_page_has_content_once_the_worker_has_answered(
    start: Callable[..., Program], qtbot: QtBot
) -> None:
    program = start("stories")
    pages = program.window.pages

    def wait_for_content() -> None:
        page = pages.currentWidget()
        cards = page.findChildren(StateCard)
        qtbot.waitUntil(lambda: not any(card.isVisible() for card in cards), timeout=30_000)

    for name in ("explore", "compare", "positions", "train", "labs", "learn", "heads"):
        program.window.view.show_page(name)
        wait_for_content()
    for tab in ("Alike", "Pruning", "Weights"):
        pages.heads_tabs.tabs.tabs[tab].click()
        wait_for_content()
    assert program.training.watch.traced is not None
    assert len(program.training.run.curves.train_loss) > 0
    program.window.view.show_page("train")
    pages.training.lower_tabs.show_panel("Runs")
    qtbot.waitUntil(lambda: len(program.training.runs.table.rows) == 1, timeout=30_000)
