"""What one keystroke costs, from the key to the painted maps, in calls: these numbers may only fall.

Everything runs in this thread, one thing after the other, so that the numbers are the same each time.
They are upper limits: lower them with what they become.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from psygnal import SignalInstance
from PySide6.QtCore import QCoreApplication, QObject, Signal
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import attnscope
from attnscope.app import Program
from attnscope.crash import CrashLog, CrashWriter
from attnscope.records import Traced
from attnscope.settings import Settings, StartOptions
from attnscope.workers import BuildEngine, TileServer, Views

pytestmark = pytest.mark.qt

PACKAGE = str(Path(attnscope.__file__).parent)
LIMITS = {"calls": 4_000, "functions": 772, "files": 90, "listener calls": 80, "handlers": 1}


class Inline(QObject):
    """Stands where a thread does: keeps requests until the test has them served, in this thread."""

    replied = Signal(object)

    def __init__(self, serve: Callable[[Any], Iterator[object]], parent: QObject) -> None:
        super().__init__(parent)
        self.serve = serve
        self.requests: list[Any] = []

    def post(self, request: object) -> None:
        self.requests.append(request)

    def cancel(self, number: int) -> None:
        self.requests = [request for request in self.requests if request.number != number]

    def serve_all(self) -> None:
        while self.requests:
            for reply in self.serve(self.requests.pop(0)):
                if reply is not None:
                    self.replied.emit(reply)

    def stop(self) -> None: ...


def as_quick(reply: object) -> object:
    """Every trace takes the same milliseconds: where they become wider, the label beside them is resized."""
    return replace(reply, duration_ms=10.0) if isinstance(reply, Traced) else reply


class InlineWorker(Inline):
    def __init__(
        self, build_engine: BuildEngine, write_crash: CrashWriter, parent: QObject, *, paint_within_s: float
    ) -> None:
        assert paint_within_s > 0
        self.engine = build_engine(write_crash)
        super().__init__(lambda request: map(as_quick, self.engine.handle(request)), parent)

    def isRunning(self) -> bool:
        return False

    def start(self) -> None:
        self.replied.emit(self.engine.ready())

    def maps_painted(self) -> None: ...


def inline_tiles(views: Views, write_crash: CrashWriter, parent: QObject) -> Inline:
    return Inline(TileServer(views).start, parent)


class Counting:
    """Counts the calls of the package's own functions while it is entered."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.n_listener_calls = 0
        self.n_handlers = 0

    def __enter__(self) -> "Counting":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, called: object) -> None:
        signal = getattr(called, "__self__", None)
        if event == "c_call" and isinstance(signal, SignalInstance) and called.__name__ == "emit":
            self.n_listener_calls += len(signal)
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        self.calls[code] += 1
        self.n_handlers += code.co_name == "handle" and "reply" in code.co_varnames[: code.co_argcount]

    @property
    def found(self) -> dict[str, int]:
        return {
            "calls": self.calls.total(),
            "functions": len(self.calls),
            "files": len({code.co_filename for code in self.calls}),
            "listener calls": self.n_listener_calls,
            "handlers": self.n_handlers,
        }


@pytest.fixture
def program(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    monkeypatch.setattr("attnscope.app.WorkerThread", InlineWorker)
    monkeypatch.setattr("attnscope.app.tile_thread", inline_tiles)
    opened = Program(
        settings=Settings(device="cpu", theme="light"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(source="grammar"),
        is_remembering=False,
    )
    opened.window.resize(1280, 800)
    opened.show()
    qtbot.waitUntil(lambda: bool(opened.worker.requests))
    while opened.worker.requests or opened.tiles.requests:
        opened.worker.serve_all()
        opened.tiles.serve_all()
    opened.window.pages.explore.text_bar.text_edit.setFocus()  # where a person types
    settle(opened)
    yield opened
    opened.close()
    opened.window.deleteLater()
    opened.deleteLater()


def settle(program: Program) -> None:
    """Everything that waits is laid out and painted; timers are not looked at."""
    for _ in range(3):
        QCoreApplication.sendPostedEvents()
    program.window.repaint()


def type_key(program: Program, key: str) -> None:
    """A key in the text, and all that follows from it until the maps of the new text are painted."""
    QTest.keyClicks(program.window.pages.explore.text_bar.text_edit, key)
    request = program.worker.requests.pop()
    for reply in program.worker.serve(request):
        program.worker.replied.emit(reply)
        if isinstance(reply, Traced):
            break
    settle(program)
    assert program.session.traced.text == program.session.text
    assert not program.worker.requests
    assert not program.tiles.requests


def test_that_a_keystroke_costs_no_more_calls_than_before(program: Program) -> None:
    for key in "ab":
        type_key(program, key)
    with Counting() as counting:
        type_key(program, "c")
    found = counting.found
    dearest = [f"{n} {code.co_qualname}" for code, n in counting.calls.most_common(10)]
    assert all(found[name] <= limit for name, limit in LIMITS.items()), f"{found}, limits {LIMITS}; {dearest}"
