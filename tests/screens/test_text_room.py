"""No text of any page, tab, lab or dialog is cut off or lies over another, in any theme at 1280×800."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from text_room import shortfalls

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]

PAGES = ("explore", "compare", "heads", "positions", "train", "labs", "learn")
THEMES = ("light", "dark", "projector")
DIALOGS = ("export", "custom-mask", "remove-heads", "shortcuts")
SIZE = (1280, 800)


def test_that_what_is_cut_off_or_overlapped_is_found(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    label, button, whole = QLabel("a label", window), QPushButton("a button", window), QLabel("ok", window)
    label.setGeometry(0, 0, 12, 20)
    button.setGeometry(0, 40, 90, 30)
    whole.setGeometry(60, 40, 60, 30)
    window.resize(130, 100)
    window.show()
    found = shortfalls(window)
    assert [line.split(":")[0] for line in found if "needs" in line] == ["QLabel 'a label'"]
    assert any("overlap" in line and "'ok'" in line for line in found)
    assert len(found) == 2


def test_that_no_text_is_cut_off_anywhere(start: Callable[..., Program], qtbot: QtBot) -> None:
    program = start("english-french", width_px=SIZE[0], height_px=SIZE[1], theme="light")
    program.heads.run()
    qtbot.waitUntil(lambda: program.heads.phase != "running", timeout=60_000)
    found: dict[str, str] = {}
    for theme in THEMES:
        program.window.view.set_theme(theme)
        for place, part in places(program, qtbot, theme):
            QApplication.processEvents()
            if shortfalls(part):
                qtbot.wait(200)  # a text may have changed just now, and its place not yet
            for line in shortfalls(part):
                found.setdefault(line, f"{theme}, {place}")
    assert not found, "\n".join(f"{place}: {line}" for line, place in found.items())


def places(program: Program, qtbot: QtBot, theme: str) -> Iterator[tuple[str, QWidget]]:
    """Every page and tab, one after the other; dialogs where type differs, labs where it is largest."""
    window, actions = program.window, program.window.actions_by_name
    for page in PAGES:
        actions[f"page-{page}"].trigger()
        if page == "compare":
            qtbot.waitUntil(
                lambda: program.compare.is_shown and not program.compare.is_waiting, timeout=30_000
            )
        if page == "positions":
            for name in ("sinusoidal", "learned", "rotary", "model"):
                program.positions.choose(name, True)
            qtbot.waitUntil(lambda: len(program.positions.tables) >= 4, timeout=10_000)
        assert (window.width(), window.height()) == SIZE, f"{page} does not fit into the window"
        yield page, window
    actions["page-explore"].trigger()
    for view in ("lines", "inside", "heatmap"):
        window.view.show_view(view)
        yield f"explore, {view}", window
    tabs = {
        "explore": window.pages.explore.answers.tabs,
        "heads": window.pages.heads_tabs.tabs.tabs,
        "train": {**window.pages.training.upper_tabs.tabs, **window.pages.training.lower_tabs.tabs},
        "learn": window.learning.page.tabs.tabs,
    }
    for page, every in tabs.items():
        actions[f"page-{page}"].trigger()
        for name, tab in every.items():
            if not tab.isHidden():
                tab.click()
                yield f"{page}, {name}", window
        next(iter(every.values())).click()
    window.learning.start_tour("attention")
    yield "tour", window
    window.learning.tours.leave()
    if theme != "dark":  # its type is that of the light one
        yield from dialogs(program)
    if theme == "projector":
        actions["page-labs"].trigger()
        for entry in window.pages.labs.entries:
            window.pages.labs.show_lab(entry.name)
            yield f"lab {entry.name}", window


def dialogs(program: Program) -> Iterator[tuple[str, QWidget]]:
    window, actions = program.window, program.window.actions_by_name
    actions["page-explore"].trigger()
    actions["toggle-heads"].trigger()
    for name in DIALOGS:
        actions[name].trigger()
        QApplication.processEvents()
        opened = [top for top in QApplication.topLevelWidgets() if top.isVisible() and top is not window]
        assert opened, name
        for dialog in opened:
            yield name, dialog
            dialog.close()
    actions["toggle-heads"].trigger()
