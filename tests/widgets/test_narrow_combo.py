"""A narrow combo box shows what it holds, or says that there is more."""

import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

from attnscope.widgets import narrow_combo

pytestmark = pytest.mark.qt


def _pixels(combo: QComboBox) -> np.ndarray:
    image = combo.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(image.constBits(), dtype=np.uint8).reshape(image.height(), -1, 4).copy()


@pytest.mark.parametrize("is_placeholder", [False, True])
def test_that_a_text_that_fits_is_drawn_and_a_long_one_ends_in_dots(
    qtbot: QtBot, is_placeholder: bool
) -> None:
    def drawn(text: str) -> np.ndarray:
        combo = narrow_combo("Recipe", 0)
        qtbot.addWidget(combo)
        if is_placeholder:
            combo.setPlaceholderText(text)
        else:
            combo.addItem(text)
        combo.resize(150, 28)
        return _pixels(combo)

    whole = "recipe of a run with a long name"
    kept = [whole[:n] + "…" for n in range(1, len(whole))]
    assert (drawn("recipe") != drawn("")).any()
    assert any((drawn(text) == drawn(whole)).all() for text in kept)
