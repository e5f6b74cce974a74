"""Random things a person may do: nothing breaks, nothing piles up, undo leads to the start.

A short walk for each of three seeds; RANDOM_ACTIONS=3000 in the environment makes them so long together.
"""

import gc
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QToolButton
from pytestqt.qtbot import QtBot
from shiboken6 import getAllValidWrappers
from walk import PAGES

from attnscope.app import Program
from attnscope.records import MakeUniform, RemoveEdge
from attnscope.viewmodels.session import Session

pytestmark = [pytest.mark.qt, pytest.mark.slow]

SEEDS = (20_261_121, 7, 1847)
_SHORT = 100
N_ACTIONS = max(_SHORT * len(SEEDS), int(os.environ.get("RANDOM_ACTIONS", "0"))) // len(SEEDS)
_N_PARTS = 4
_NOT_PRESSED = {
    # These ask for a file or a choice, and wait for the answer.
    *(
        "get-model",
        "open-model",
        "open-run",
        "save-model",
        "remove-heads",
        "open-text",
        "open-session",
        "save-session",
    ),
    *(
        "open-recording",
        "restore-session",
        "locate-model",
        "export",
        "shortcuts",
        "about",
        "palette",
        "show-as",
    ),
    *("quit", "reload-model", "several-runs", "undo", "redo"),
}
_NOT_CLICKED = ("Start", "×n", "Measure", "Run")  # minutes, each time
_MOST_MORE_OBJECTS = 30
"""QObjects are counted after each repetition; what is made at a first look, be it late, may stay."""
_MOST_MORE_BYTES = 40 * 2**20
TEXTS = (
    "the white cat sleeps",
    "a small dog sees the black birds",
    "we",
    "the european economic area",
    "cats",
)


@pytest.mark.parametrize("seed", SEEDS)
def test_that_random_actions_break_nothing_and_leave_nothing_behind(
    seed: int, start: Callable[..., Program], qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_file_dialogs(monkeypatch)
    program = start("grammar")
    warm_up(program, qtbot)
    moods = []
    for _ in range(_N_PARTS):
        rng = random.Random(seed)  # the same again: what is made at a first look was made
        for _ in range(N_ACTIONS // _N_PARTS):
            act(program, rng)
            QApplication.processEvents()
        calm(program, qtbot)
        moods.append(population())
    assert list((tmp_path / "logs").glob("*")) == []
    objects, n_bytes = zip(*moods, strict=True)
    grown = [(after - before).total() for before, after in pairwise(objects)]
    assert min(grown) <= _MOST_MORE_OBJECTS, f"the same walk leaves more behind each time: {grown}"
    more = [after - before for before, after in pairwise(n_bytes[1:])]
    # A long walk comes to some labs late, and to models: there the repetition counts that took least.
    taken = min(more) * len(more) if N_ACTIONS > _SHORT else sum(more)
    assert taken <= _MOST_MORE_BYTES, n_bytes


def test_that_undo_leads_back_to_the_start_whatever_was_done(
    start: Callable[..., Program], qtbot: QtBot
) -> None:
    program = start("grammar")
    session, rng = program.session, random.Random(7)
    calm(program, qtbot)
    before = setting(session)
    shown = session.traced
    assert shown is not None
    for _ in range(80):
        change_heads(session, rng)
        QApplication.processEvents()
    after, n_steps = setting(session), session.history.n_done
    assert n_steps > 20
    assert after != before
    for _ in range(n_steps):
        session.undo()
        QApplication.processEvents()
    assert setting(session) == before
    for _ in range(n_steps):
        session.redo()
    assert setting(session) == after
    session.go_to(0)
    calm(program, qtbot)
    assert setting(session) == before
    assert session.traced is not None
    assert session.traced.comparison.after == shown.comparison.after  # the same numbers, traced again


def close_file_dialogs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question for a file or folder is answered with none."""
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "")
    for ask in ("getOpenFileName", "getSaveFileName"):
        monkeypatch.setattr(QFileDialog, ask, lambda *_: ("", ""))
    for place in ("window.commands", "training.run_panel", "training.runs_panel"):
        monkeypatch.setattr(f"attnscope.widgets.{place}.ask_new_folder", lambda *_: "")


def warm_up(program: Program, qtbot: QtBot) -> None:
    """Turn to every page, so that what is made at the first look is not taken for a leak."""
    for page in PAGES:
        program.window.view.show_page(page)
        calm(program, qtbot)
    program.window.view.show_page("explore")


def press(program: Program, rng: random.Random) -> None:
    """Press a button of the page in front; what opens is closed."""
    buttons = [
        button
        for button in program.window.pages.findChildren(QAbstractButton)
        if button.isVisible() and button.isEnabled()
        if not (isinstance(button, QToolButton) and button.menu()) and button.text() not in _NOT_CLICKED
    ]
    if buttons:
        rng.choice(buttons).click()
    for other in QApplication.topLevelWidgets():
        if other is not program.window and other.isVisible():
            other.close()


def act(program: Program, rng: random.Random) -> None:
    """One random legal action, as a key, a menu or a click would ask for it."""
    draw = rng.random()
    session = program.session
    if draw < 0.2:
        press(program, rng)
    elif draw < 0.5:
        names = sorted(set(program.window.actions_by_name) - _NOT_PRESSED)
        action = program.window.actions_by_name[rng.choice(names)]
        if action.isEnabled():
            action.trigger()
    elif draw < 0.9:
        change_heads(session, rng)
    elif draw < 0.95:
        (session.undo if rng.random() < 0.6 else session.redo)()
    else:
        program.window.resize(rng.randint(1024, 1600), rng.randint(700, 1000))


def change_heads(session: Session, rng: random.Random) -> None:
    """One random change that undo takes back."""
    assert session.model is not None
    site = rng.choice(session.model.sites)
    head = rng.choice(site.heads)
    match rng.randrange(7):
        case 0:
            session.select_heads((head,))
        case 1:
            session.select_heads((head,), additive=True)
        case 2:
            session.head_changes.set_gate(head, rng.choice((0.0, 0.25, 0.5, 1.0)))
            session.head_changes.end_drag()
        case 3:
            session.texts.set_text(rng.choice(TEXTS))
        case 4:
            session.head_changes.intervene((MakeUniform(head=head),))
        case 5:
            edge = RemoveEdge(head=head, query=rng.randrange(3), key=rng.randrange(2))
            session.head_changes.intervene((*session.interventions, edge))
        case 6:
            session.select_stack(site.stack)


def setting(session: Session) -> tuple[object, ...]:
    return (
        session.gates,
        session.interventions,
        session.selection,
        session.aspect,
        session.text,
        session.target,
    )


def is_settled(session: Session) -> bool:
    """Whether nothing is on its way; a trace that was stopped leaves older maps, marked as such."""
    return not session.tracing.is_waiting and not session.tracing.is_writing and not session.opening.busy


def calm(program: Program, qtbot: QtBot) -> None:
    """Wait until everything asked for is there, and what is to be deleted is gone."""
    qtbot.waitUntil(lambda: is_settled(program.session), timeout=60_000)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        QApplication.processEvents()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()


def population() -> tuple[Counter[str], int]:
    """Live QObjects that Python knows by their class, windows counted in, and resident bytes.

    Not by `gc.get_objects`: it hands out tuples that the worker is filling just now, which then fails.
    """
    objects = Counter(type(one).__name__ for one in getAllValidWrappers() if isinstance(one, QObject))
    fields = (
        Path("/proc/self/statm").read_text(encoding="ascii").split() if Path("/proc/self").exists() else []
    )
    return objects, int(fields[1]) * 4096 if fields else 0
