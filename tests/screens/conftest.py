"""A whole program, offscreen, with a real worker and a demo model."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.crash import CrashLog
from attnscope.settings import Settings, StartOptions

Start = Callable[..., Program]


@pytest.fixture
def start(qtbot: QtBot, tmp_path: Path) -> Iterator[Start]:
    """Start programs as a person would; each is closed, and its worker stopped, after the test."""
    programs: list[Program] = []

    def start_one(
        source: str, *, width_px: int = 1280, height_px: int = 800, theme: str = "light"
    ) -> Program:
        program = Program(
            settings=Settings(theme=theme),
            crash_log=CrashLog(tmp_path / "logs"),
            options=StartOptions(source=source),
            is_remembering=False,
        )
        programs.append(program)
        program.window.resize(width_px, height_px)
        program.show()
        program.window.resize(width_px, height_px)
        qtbot.waitUntil(lambda: program.session.traced is not None, timeout=60_000)
        return program

    yield start_one
    for program in programs:
        with contextlib.suppress(RuntimeError):
            program.close()
        qtbot.waitUntil(lambda p=program: not p.worker.isRunning(), timeout=10_000)
        program.window.deleteLater()
        program.deleteLater()
