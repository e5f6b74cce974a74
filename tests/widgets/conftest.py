"""The whole window around a made-up session."""

import pytest
from pytestqt.qtbot import QtBot
from session_samples import Desk, states_of

from attnscope.settings import Settings
from attnscope.widgets.window import MainWindow


@pytest.fixture
def desk() -> Desk:
    return Desk().open()


@pytest.fixture
def window(qtbot: QtBot, desk: Desk) -> MainWindow:
    made = MainWindow(states_of(desk.session), Settings(theme="light"))
    qtbot.addWidget(made)
    made.resize(1280, 800)
    made.show()
    made.activateWindow()
    return made
