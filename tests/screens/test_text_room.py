"""No text of any page, tab, lab or dialog is cut off or lies over another, in any theme at 1280×800."""

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from text_room import shortfalls
from walk import SIZE, places

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]

THEMES = ("light", "dark", "projector")


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
    program = start("grammar", width_px=SIZE[0], height_px=SIZE[1], theme="light")
    program.heads.run()
    qtbot.waitUntil(lambda: program.heads.phase != "running", timeout=60_000)
    found: dict[str, str] = {}
    for theme in THEMES:
        program.window.view.set_theme(theme)
        for place, part in places(program, qtbot, theme):
            QApplication.processEvents()
            for _ in range(10):  # a text may have changed just now, and its place not yet
                if not shortfalls(part):
                    break
                qtbot.wait(200)
            for line in shortfalls(part):
                found.setdefault(line, f"{theme}, {place}")
    assert not found, "\n".join(f"{place}: {line}" for line, place in found.items())
