"""The pictures of the README are made here, by the program itself (`--update-pictures` writes them)."""

from collections.abc import Callable

import pytest
from pictures import PICTURES, block_means, check_picture, lost_tiles
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from attnscope import paths
from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]

THRESHOLD = 5.0
"""Other fonts move labels a little; an empty map differs by far more than this."""


def test_that_the_explore_page_looks_as_in_the_readme(
    start: Callable[..., Program], qtbot: QtBot, is_updating_pictures: bool
) -> None:
    program = start("english-french")
    settle(program, qtbot)
    shown = program.window.grab()
    check_picture(shown, "explore.png", threshold=THRESHOLD, is_updating=is_updating_pictures)


def test_that_the_positions_page_looks_as_in_the_readme(
    start: Callable[..., Program], qtbot: QtBot, is_updating_pictures: bool
) -> None:
    program = start("grammar")
    program.window.actions_by_name["page-positions"].trigger()
    qtbot.waitUntil(lambda: len(program.states.positions.tables) >= 2, timeout=30_000)
    settle(program, qtbot)
    shown = program.window.grab()
    check_picture(shown, "positions.png", threshold=THRESHOLD, is_updating=is_updating_pictures)


@pytest.mark.long
def test_that_the_train_page_looks_as_in_the_readme(
    start: Callable[..., Program], qtbot: QtBot, is_updating_pictures: bool
) -> None:
    program = start("grammar")
    program.window.actions_by_name["page-train"].trigger()
    training = program.training
    training.open_recipe(str(paths.resources_folder() / "recipes" / "reverse.toml"))
    training.recipe.edit(training.recipe.text.replace("n_steps = 1500", "n_steps = 600"))
    training.start()
    qtbot.waitUntil(lambda: training.run.status.phase == "finished", timeout=400_000)
    qtbot.waitUntil(lambda: training.watch.traced is not None, timeout=10_000)
    settle(program, qtbot)
    shown = program.window.grab()
    check_picture(shown, "train.png", threshold=THRESHOLD, is_updating=is_updating_pictures)


@pytest.mark.parametrize(
    ("panel", "rect"),
    [
        ("head", (528, 280, 370, 370)),
        ("grid", (100, 220, 350, 420)),
        ("inspector", (1004, 40, 276, 285)),
        ("output", (1004, 330, 276, 440)),
        ("token strip", (120, 80, 880, 95)),
    ],
)
def test_that_a_picture_without_a_panel_would_be_noticed(panel: str, rect: tuple[int, int, int, int]) -> None:
    expected = QImage(str(PICTURES / "explore.png"))
    found = expected.copy()
    with QPainter(found) as painter:
        painter.fillRect(*rect, QColor("#f5f6f8"))
    is_far = abs(block_means(found) - block_means(expected)).mean() > THRESHOLD
    assert is_far or lost_tiles(found, expected), panel
    assert not lost_tiles(expected, expected)


def settle(program: Program, qtbot: QtBot) -> None:
    """Wait until the pictures are no longer stale and the timers of the curves have run once."""
    qtbot.waitUntil(
        lambda: not program.session.tracing.is_stale and not program.session.opening.busy, timeout=30_000
    )
    with qtbot.waitSignal(_once(program, 600), timeout=5_000):
        pass


def _once(program: Program, after_ms: int) -> object:
    from PySide6.QtCore import QTimer

    timer = QTimer(program, interval=after_ms, singleShot=True)
    timer.start()
    return timer.timeout
