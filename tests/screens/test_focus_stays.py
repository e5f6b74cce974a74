"""Whatever is pressed on any page, the keyboard is still there afterwards, or at what was opened."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QToolButton, QWidget
from pytestqt.qtbot import QtBot
from walk import PAGES

from attnscope.app import Program

pytestmark = [pytest.mark.qt, pytest.mark.slow]


def test_that_no_button_of_any_page_hands_the_keyboard_to_another_control(
    start: Callable[..., Program], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "")
    for ask in ("getOpenFileName", "getSaveFileName"):
        monkeypatch.setattr(QFileDialog, ask, lambda *_: ("", ""))
    monkeypatch.setattr("attnscope.widgets.training.run_panel.ask_new_folder", lambda *_: "")
    program = start("grammar")
    program.window.activateWindow()
    pressed: list[QAbstractButton] = []
    gone: list[str] = []
    for page in PAGES:
        while True:
            program.window.view.show_page(page)
            QApplication.processEvents()
            button = next(iter(offered(program, pressed)), None)
            if button is None:
                break
            pressed.append(button)
            name = button.text() or button.accessibleName()
            wait_until_at_rest(program, qtbot)
            button.setFocus()
            if not button.hasFocus():
                continue
            qtbot.keyClick(button, Qt.Key.Key_Space)
            qtbot.wait(20)
            wait_until_at_rest(program, qtbot)
            now = QApplication.focusWidget()
            if program.window.view.page == page and not stays(button, now, program.window):
                gone.append(f"{page}: {name!r} -> {type(now).__name__} {now.accessibleName()!r}")
            close_others(program.window)
    assert len(pressed) > 40
    assert not gone, "\n".join((*gone, f"open: {program.session.model}"))


def offered(program: Program, pressed: list[QAbstractButton]) -> list[QAbstractButton]:
    """The buttons that can be pressed and do not open a menu, without those that were."""
    return [
        button
        for button in program.window.pages.findChildren(QAbstractButton)
        if button.isVisible() and button.isEnabled() and button not in pressed
        if button.window() is program.window and not (isinstance(button, QToolButton) and button.menu())
    ]


def wait_until_at_rest(program: Program, qtbot: QtBot) -> None:
    """Until no model is being opened and no text traced: the pictures that gave way to that are back."""
    session = program.session
    qtbot.waitUntil(
        lambda: (
            session.opening.busy is None and session.traced is not None and not session.tracing.is_waiting
        ),
        timeout=60_000,
    )


def stays(button: QAbstractButton, now: QWidget | None, window: QWidget) -> bool:
    return now is None or now is button or now.window() is not window or now.isAncestorOf(button)


def close_others(window: QWidget) -> None:
    for other in QApplication.topLevelWidgets():
        if other is not window and other.isVisible():
            other.close()
    window.activateWindow()
    QApplication.processEvents()
