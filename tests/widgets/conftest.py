"""The whole window around a made-up session."""

import pytest
from pytestqt.qtbot import QtBot
from session_samples import Desk

from attnscope.settings import Settings
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.request_ids import RequestIds
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.window.main_window import MainWindow


@pytest.fixture
def desk() -> Desk:
    return Desk().open()


@pytest.fixture
def window(qtbot: QtBot, desk: Desk) -> MainWindow:
    training = TrainingState(lambda request: None, RequestIds())
    positions = PositionsState(lambda request: None, RequestIds())
    made = MainWindow(desk.session, training, positions, Settings(theme="light"))
    qtbot.addWidget(made)
    made.resize(1280, 800)
    made.show()
    made.activateWindow()
    return made
