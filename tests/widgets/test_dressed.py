"""How the theme of a window reaches what paints in it: as Qt's own event, wherever the widget lies."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from attnscope.figures import DARK, LIGHT, PROJECTOR, Palette
from attnscope.widgets import Dressed, apply_theme, theme_of

pytestmark = pytest.mark.qt


class Noting(Dressed):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.themes: list[Palette] = []

    def dress(self) -> None:
        self.themes.append(self.theme)


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    QVBoxLayout(made)
    yield made
    apply_theme(made, LIGHT)  # menus, tooltips and the size of type are the whole program's


@pytest.mark.parametrize("is_shown", [True, False])
def test_that_a_widget_deep_in_a_window_is_dressed_in_every_theme(window: QWidget, is_shown: bool) -> None:
    part = QWidget()
    widget = Noting(part)
    window.layout().addWidget(part)
    window.setVisible(is_shown)
    for theme in (DARK, PROJECTOR, LIGHT, DARK):
        apply_theme(window, theme)
        assert widget.theme == widget.themes[-1] == theme


def test_that_one_that_comes_later_is_dressed_as_the_rest(window: QWidget) -> None:
    apply_theme(window, DARK)
    widget = Noting()
    assert widget.theme == LIGHT
    window.layout().addWidget(widget)
    assert widget.themes[-1] == DARK


def test_that_a_window_above_another_is_dressed_with_it(window: QWidget) -> None:
    own = QWidget(window, Qt.WindowType.Window)
    widget = Noting(own)
    apply_theme(window, DARK)
    assert theme_of(own) == widget.themes[-1] == DARK
