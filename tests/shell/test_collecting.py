"""While there is a window, Python's garbage is collected on its thread alone."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.collector import OneThread, collect_all, collector_resting
from attnscope.crash import CrashLog
from attnscope.settings import Settings, StartOptions

pytestmark = pytest.mark.collector


class Circle(QObject):
    """An object of Qt that Python alone holds, and that is freed by the collector only."""

    heard = Signal()

    def __init__(self, button: QPushButton) -> None:
        super().__init__()
        self.itself = self
        button.clicked.connect(self.hear)

    def hear(self) -> None:
        self.heard.emit()


class Making:
    """Makes objects on a thread beside the window, as one that computes does, while it is entered."""

    def __enter__(self) -> "Making":
        self.is_done = False
        self.thread = threading.Thread(target=self._make)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_done = True
        self.thread.join()

    def _make(self) -> None:
        while not self.is_done:
            _ = [[] for _ in range(5_000)]


@pytest.fixture
def walks() -> Iterator[list[tuple[int, int]]]:
    """The walks of the collector from now on: the thread and the generation of each."""
    seen: list[tuple[int, int]] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            seen.append((threading.get_ident(), told["generation"]))

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


@pytest.fixture
def limits() -> Iterator[Callable[..., None]]:
    usual = gc.get_threshold()
    yield gc.set_threshold
    gc.set_threshold(*usual)


@pytest.fixture
def one() -> Iterator[OneThread]:
    made = OneThread()
    yield made
    made.end()


@pytest.fixture
def program(qtbot: QtBot, tmp_path: Path) -> Iterator[Program]:
    opened = Program(
        settings=Settings(device="cpu"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(source="grammar"),
        is_remembering=False,
    )
    yield opened
    opened.close()
    opened.window.deleteLater()
    opened.deleteLater()


@pytest.mark.qt
def test_that_a_program_frees_objects_of_qt_on_the_windows_thread_while_another_thread_makes_objects(
    program: Program, qtbot: QtBot
) -> None:
    where: list[int] = []
    button = QPushButton(program.window)
    with Making():
        for _ in range(20):
            circles = [Circle(button) for _ in range(10)]
            seen = [weakref.ref(circle, lambda _: where.append(threading.get_ident())) for circle in circles]
            del circles
            qtbot.waitUntil(lambda seen=seen: not any(one() for one in seen), timeout=10_000)
            button.click()
    assert set(where) == {threading.get_ident()}
    assert len(where) == 200


@pytest.mark.qt
def test_that_python_collects_as_before_when_the_program_has_ended(program: Program) -> None:
    assert not gc.isenabled()
    program.close()
    assert gc.isenabled()


@pytest.mark.qt
def test_that_python_collects_as_before_when_a_program_is_gone_that_was_never_closed(
    qtbot: QtBot, tmp_path: Path
) -> None:
    left = Program(settings=Settings(), crash_log=CrashLog(tmp_path), options=StartOptions())
    assert not gc.isenabled()
    left.window.deleteLater()
    left.deleteLater()
    qtbot.waitUntil(gc.isenabled)
    QApplication.processEvents()


def test_that_what_python_would_have_collected_is_collected_when_it_is_due(
    one: OneThread, walks: list[tuple[int, int]]
) -> None:
    one.collect_due()
    walks.clear()
    one.collect_due()
    assert walks == []
    kept = [[] for _ in range(gc.get_threshold()[0] + 100)]
    one.collect_due()
    one.collect_due()
    assert len(walks) == 1
    assert len(kept) > 100


def test_that_everything_is_collected_where_old_objects_pile_up_and_then_not_for_a_while(
    one: OneThread, walks: list[tuple[int, int]], limits: Callable[..., None]
) -> None:
    limits(10, 2, 2)
    kept: list[list[object]] = []
    for _ in range(60):
        kept.extend([] for _ in range(20))
        one.collect_due()
    generations = [generation for _, generation in walks]
    assert generations.count(2) == 1
    assert generations.count(1) > 5
    assert generations.count(0) > 20


def test_that_nothing_is_collected_where_python_was_told_to_collect_nothing(
    one: OneThread, walks: list[tuple[int, int]], limits: Callable[..., None]
) -> None:
    limits(0)
    kept = [[] for _ in range(5_000)]
    one.collect_due()
    assert walks == []
    assert len(kept) == 5_000


def test_that_a_thread_which_wants_everything_collected_has_it_done_by_the_one(
    one: OneThread, walks: list[tuple[int, int]]
) -> None:
    thread = threading.Thread(target=collect_all)
    thread.start()
    while thread.is_alive():
        one.collect_due()
    thread.join()
    assert (threading.get_ident(), 2) in walks
    assert {thread for thread, _ in walks} == {threading.get_ident()}


def test_that_a_thread_which_wants_everything_collected_waits_for_a_busy_window_only_so_long(
    one: OneThread,
) -> None:
    thread = threading.Thread(target=one.collect_all, args=(0.01,))
    thread.start()
    thread.join(5.0)
    assert not thread.is_alive()


def test_that_everything_is_collected_at_once_where_there_is_no_window() -> None:
    circle = Making()
    circle.itself = circle  # type: ignore[attr-defined]
    seen = weakref.ref(circle)
    del circle
    collect_all()
    assert seen() is None


def test_that_nothing_is_collected_while_the_collector_rests(
    one: OneThread, walks: list[tuple[int, int]]
) -> None:
    before = gc.get_freeze_count()
    with collector_resting():
        kept = [[] for _ in range(5_000)]
        one.collect_due()
    assert walks == []
    assert gc.get_freeze_count() > before + len(kept)
    assert not gc.isenabled()


def test_that_python_collects_again_when_the_last_of_two_windows_is_gone() -> None:
    first, second = OneThread(), OneThread()
    first.end()
    first.end()
    assert not gc.isenabled()
    assert OneThread.now() is second
    second.end()
    assert gc.isenabled()
    assert OneThread.now() is None
