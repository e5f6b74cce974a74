"""No text of any page, tab, lab or dialog is cut off or lies over another, in any theme at 1280×800.

While presenting (F11) none is smaller than 2.5 % of the window's height either.
"""

from collections.abc import Callable

import pyqtgraph as pg
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot
from text_room import shortfalls
from type_sizes import small_type
from walk import PAGES, SIZE, places

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]

THEMES = ("light", "dark", "projector")
SLACK_PX = 1
"""An index in a formula may be smaller by this."""


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


def test_that_type_that_is_too_small_is_found(qtbot: QtBot) -> None:
    window, label, plot = QWidget(), QLabel("a label"), pg.PlotWidget()
    qtbot.addWidget(window)
    layout = QVBoxLayout(window)
    for part in (label, plot, Painted()):
        layout.addWidget(part)
    window.setStyleSheet("* { font-size: 11px; }")
    window.resize(400, 300)
    window.show()
    plot.getAxis("left").setStyle(tickFont=label.font())
    found = [line.split(":")[0] for line in small_type(window, 12.0)]
    assert "QLabel 'a label'" in found
    assert "painted by test_text_room.py, paintEvent" in found
    assert "in a plot 'the numbers of an axis'" in found
    assert not list(small_type(window, 5.0))


class Painted(QWidget):
    """A widget that paints its text itself, at half its size."""

    def minimumSizeHint(self) -> QSize:
        return QSize(80, 40)

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.scale(0.5, 0.5)
            painter.setFont(self.font())
            painter.drawText(0, 20, "a text")


@pytest.mark.long
def test_that_no_text_is_cut_off_anywhere(start: Callable[..., Program], qtbot: QtBot) -> None:
    program = measured(start, qtbot)
    found: dict[str, str] = {}
    for theme in THEMES:
        program.window.view.set_theme(theme)
        for place, part in places(program, qtbot, theme):
            for line in settled_shortfalls(part, qtbot):
                found.setdefault(line, f"{theme}, {place}")
    assert not found, "\n".join(f"{place}: {line}" for line, place in found.items())


@pytest.mark.long
def test_that_while_presenting_no_text_is_cut_off_or_too_small_to_be_read_from_the_back_of_a_room(
    start: Callable[..., Program], qtbot: QtBot
) -> None:
    program = measured(start, qtbot)
    actions, view = program.window.actions_by_name, program.window.view
    actions["present"].trigger()
    least, found = 0.025 * SIZE[1] - SLACK_PX, dict[str, str]()
    for place, part in places(program, qtbot, "light"):
        for line in (*settled_shortfalls(part, qtbot), *small_type(part, least)):
            found.setdefault(line, f"light, {place}")
    for theme in THEMES[1:]:  # their type has the size of the light one's
        view.set_theme(theme)
        for page in PAGES:
            actions[f"page-{page}"].trigger()
            QApplication.processEvents()
            for line in small_type(program.window, least):
                found.setdefault(line, f"{theme}, {page}")
    assert view.is_presenting
    assert not found, "\n".join(f"{place}: {line}" for line, place in found.items())


def measured(start: Callable[..., Program], qtbot: QtBot) -> Program:
    """A program with the heads of its model measured."""
    program = start("grammar", width_px=SIZE[0], height_px=SIZE[1], theme="light")
    program.heads.run()
    qtbot.waitUntil(lambda: program.heads.phase != "running", timeout=60_000)
    return program


def settled_shortfalls(part: QWidget, qtbot: QtBot) -> list[str]:
    """What has too little room once a text that changed just now has its place."""
    QApplication.processEvents()
    for _ in range(40):
        if not (found := shortfalls(part)):
            return []
        qtbot.wait(50)
    return found
