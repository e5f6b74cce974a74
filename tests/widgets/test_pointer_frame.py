"""The frame around what a tour speaks of."""

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QLabel, QWidget
from shiboken6 import isValid

from attnscope.widgets.tours.learning import PointerFrame

pytestmark = pytest.mark.qt


@pytest.mark.parametrize("comes_home", [True, False])
@pytest.mark.parametrize("closes", [True, False])
def test_that_a_window_that_goes_does_not_take_the_frame_along(qtbot, closes, comes_home):
    home, other = QWidget(), QWidget()
    qtbot.addWidget(home)
    other.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    at_home, away = QLabel("here", home), QLabel("there", other)
    home.show()
    other.show()
    frame = PointerFrame(home)
    frame.point_at(away)
    assert frame.parentWidget() is other
    if comes_home:  # the panel goes back, and only its window goes
        away.setParent(home)
    other.close() if closes else other.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert isValid(frame)
    frame.point_at(at_home)
    assert frame.parentWidget() is home
    assert frame.isVisible()
