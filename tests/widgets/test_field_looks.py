"""How fields stand in the window's own style: text where that of lists begins, buttons in the middle."""

import numpy as np
import pytest
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QLineEdit, QToolButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from attnscope.figures import palette
from attnscope.widgets import apply_theme, inset_text

pytestmark = pytest.mark.qt


@pytest.fixture
def form(qtbot: QtBot) -> QWidget:
    """A list, a number and a search field below each other; all begin with the same letter."""
    made = QWidget()
    layout = QVBoxLayout(made)
    combo, spin, search = QComboBox(), QDoubleSpinBox(), QLineEdit("H")
    combo.addItem("H")
    spin.setPrefix("H")
    inset_text(spin)
    search.setClearButtonEnabled(True)
    for field in (combo, spin, search):
        layout.addWidget(field)
    qtbot.addWidget(made)
    apply_theme(made, palette(False))
    made.resize(200, 160)
    with qtbot.waitExposed(made):
        made.show()
    return made


def first_ink_px(field: QWidget) -> int:
    """The first column inside the border with something dark."""
    image = field.grab().toImage().convertToFormat(field.grab().toImage().Format.Format_Grayscale8)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    is_ink = (rows[4:-4, 2 : image.width() - 30] < 120).any(axis=0)
    return 2 + int(np.flatnonzero(is_ink)[0])


def test_that_numbers_begin_where_the_words_of_lists_do(form: QWidget) -> None:
    combo, spin = form.findChild(QComboBox), form.findChild(QDoubleSpinBox)
    assert abs(first_ink_px(spin) - first_ink_px(combo)) <= 1


def test_that_the_button_that_clears_a_field_stands_in_its_middle(form: QWidget) -> None:
    field = next(edit for edit in form.findChildren(QLineEdit) if edit.parent() is form)
    button = field.findChild(QToolButton)
    assert abs(button.geometry().center().y() - field.rect().center().y()) <= 1
