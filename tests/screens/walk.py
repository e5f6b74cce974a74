"""Every page, tab, lab and dialog of a program, one after the other."""

from collections.abc import Iterator

from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from attnscope.app import Program

PAGES = ("explore", "compare", "heads", "positions", "train", "labs", "learn")
DIALOGS = ("export", "custom-mask", "remove-heads", "shortcuts", "get-model")
SIZE = (1280, 800)


def places(program: Program, qtbot: QtBot, theme: str) -> Iterator[tuple[str, QWidget]]:
    """Every page and tab, one after the other; dialogs where type differs, labs where it is largest."""
    window, actions = program.window, program.window.actions_by_name
    for page in PAGES:
        actions[f"page-{page}"].trigger()
        if page == "compare":
            qtbot.waitUntil(
                lambda: program.states.compare.traces.is_shown and not program.states.compare.is_waiting,
                timeout=30_000,
            )
        if page == "heads":  # a model that is opened anew is measured when its heads are looked at
            qtbot.waitUntil(lambda: program.heads.phase != "running", timeout=60_000)
        if page == "positions":
            for name in ("sinusoidal", "learned", "rotary", "model"):
                program.states.positions.choose(name, True)
            qtbot.waitUntil(lambda: len(program.states.positions.tables) >= 4, timeout=10_000)
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
    qtbot.waitUntil(lambda: is_open(program, "english-french"), timeout=30_000)
    yield "tour", window
    window.learning.tours.leave()
    qtbot.waitUntil(lambda: is_open(program, "grammar"), timeout=30_000)
    if theme != "dark":  # its type is that of the light one
        yield from dialogs(program)
        actions["page-labs"].trigger()
        for entry in window.pages.labs.entries:
            window.pages.labs.show_lab(entry.name)
            yield f"lab {entry.name}", window


def is_open(program: Program, name: str) -> bool:
    """Whether a model is open and its text traced."""
    session = program.session
    if session.model is None or session.model.name != name:
        return False
    return not (session.tracing.is_stale or session.tracing.is_writing or session.opening.busy)


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
