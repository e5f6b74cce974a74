"""What memory the window takes without an engine, and whether a thousand actions leave any behind."""

import gc
import random
from collections.abc import Iterator
from typing import get_args

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from attnscope.app import Program
from attnscope.errors import UserError
from attnscope.viewmodels import Page
from bench.child import told_by
from bench.report import Measurement, NotRun, Row
from bench.resident import UNTOLD, resident_bytes
from bench.window import is_settled, open_program, turn_loop, wait_until

WINDOW_TARGET_MB, LEAK_TARGET_MB = 250.0, 40.0
N_ACTIONS, N_FIRST = 300, 100
"""What the first actions make lazily may stay; the target is for what comes after them."""
_SEED = 20_261_121
_TEXTS = ("the white cat sleeps", "a small dog sees the black birds", "we", "cats")


def measure_window_memory() -> Iterator[Row]:
    """Resident megabytes of a window whose worker was never started, in a process of its own."""
    seen = told_by("bench.bare_window", has_window=True)
    if seen["has_torch"]:
        raise UserError("The window imported torch before its first paint.")
    if not seen["rss"]:
        yield NotRun(name="memory of the window", reason=UNTOLD)
        return
    shared = f"{seen['pss'] / 1e6:.0f} MB with shared pages divided, {seen['uss'] / 1e6:.0f} MB its own"
    yield Measurement(
        name="memory of the window, no engine",
        value=seen["rss"] / 1e6,
        unit="MB",
        target=WINDOW_TARGET_MB,
        note=shared,
    )
    yield Measurement(
        name="memory of the window, every page shown",
        value=seen["rss_after_pages"] / 1e6,
        unit="MB",
        target=WINDOW_TARGET_MB,
    )


def measure_leak(n_actions: int = N_ACTIONS, n_first: int = N_FIRST) -> Iterator[Row]:
    """Resident megabytes more after all actions than after the first of them."""
    with open_program() as program:
        rng = random.Random(_SEED)
        seen = []
        for n in (n_first, n_actions - n_first):
            for _ in range(n):
                act(program, rng)
                QApplication.processEvents()
            _calm(program)
            seen.append(resident_bytes())
    if not seen[1]:
        yield NotRun(name="memory left behind", reason=UNTOLD)
        return
    yield Measurement(
        name=f"memory left behind by {n_actions - n_first} actions",
        value=(seen[1] - seen[0]) / 1e6,
        unit="MB",
        target=LEAK_TARGET_MB,
        note=f"after {n_first} others; {seen[1] / 1e6:.0f} MB in all",
    )


def act(program: Program, rng: random.Random) -> None:
    """One random thing a person does: choose heads, gate one, type, turn a page, undo, resize."""
    session, view = program.session, program.window.view
    heads = [head for site in (session.model.sites if session.model else ()) for head in site.heads]
    match rng.randrange(7):
        case 0:
            session.select_heads((rng.choice(heads),), additive=rng.random() < 0.5)
        case 1:
            session.head_changes.set_gate(rng.choice(heads), rng.choice((0.0, 0.25, 0.5, 1.0)))
            session.head_changes.end_drag()
        case 2:
            session.texts.set_text(rng.choice(_TEXTS))
        case 3:
            view.show_page(rng.choice(get_args(Page)))
        case 4:
            view.show_view(rng.choice(("heatmap", "lines", "inside")))
        case 5:
            (session.undo if rng.random() < 0.6 else session.redo)()
        case _:
            program.window.resize(rng.randint(1024, 1600), rng.randint(700, 1000))


def _calm(program: Program) -> None:
    """Wait until everything asked for is there, and what is to be deleted is gone."""
    wait_until(program, lambda: is_settled(program), "the last trace")
    turn_loop(0.5)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
