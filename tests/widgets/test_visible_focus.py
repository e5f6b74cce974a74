"""One sees where the keyboard is: every stop of Tab looks otherwise while it has it."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot
from session_samples import Desk, states_of

from attnscope.settings import Settings
from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt

LEAST_CONTRAST = 3.0
"""Between a pixel with and without the focus (WCAG 2.2, 1.4.11 and 2.4.13)."""
LEAST_PIXELS = 20


def luminance(image: QImage) -> np.ndarray:
    """Relative luminance of each pixel (WCAG 2.2)."""
    shown = image.convertToFormat(QImage.Format.Format_RGB32)
    data = np.frombuffer(shown.constBits(), np.uint8).reshape(shown.height(), shown.bytesPerLine())
    rgb = data[:, : 4 * shown.width()].reshape(shown.height(), shown.width(), 4)[..., 2::-1] / 255.0
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def n_clear(with_focus: QImage, without: QImage) -> int:
    a, b = luminance(with_focus), luminance(without)
    ratio = (np.maximum(a, b) + 0.05) / (np.minimum(a, b) + 0.05)
    return int((ratio >= LEAST_CONTRAST).sum())


def changed(part: QWidget) -> int:
    """How many pixels of it and of what is around it change clearly when the keyboard comes."""
    window = part.window()
    place = part.rect().translated(part.mapTo(window, part.rect().topLeft())).adjusted(-3, -3, 3, 3)
    part.setFocus(Qt.FocusReason.TabFocusReason)
    assert part.hasFocus()
    with_focus = window.grab(place).toImage()
    part.clearFocus()
    return n_clear(with_focus, window.grab(place).toImage())


def stops(window: MainWindow) -> list[QWidget]:
    """What Tab comes to, in its order, from the first part of the page on."""
    found: list[QWidget] = []
    part = window.nextInFocusChain()
    while part is not window:
        takes = Qt.FocusPolicy(part.focusPolicy()) & Qt.FocusPolicy.TabFocus
        if (
            takes
            and part.focusProxy() is None
            and part.isVisible()
            and part.isEnabled()
            and not part.visibleRegion().isEmpty()
        ):
            found.append(part)
        part = part.nextInFocusChain()
    return found


def words_of(part: QWidget) -> str:
    text = part.text() if isinstance(part, QAbstractButton) else ""
    above = type(part.parentWidget()).__name__
    return f"{type(part).__name__} {part.accessibleName() or text} in {above}"


@pytest.mark.parametrize("theme", ["light", "dark", "projector"])
@pytest.mark.parametrize("page", ["explore", "compare", "heads", "positions", "train", "labs", "learn"])
def test_that_every_stop_of_tab_is_seen_to_have_the_keyboard(qtbot: QtBot, theme: str, page: str) -> None:
    window = MainWindow(states_of(Desk().open().session), Settings(theme=theme))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    window.activateWindow()
    window.actions_by_name[f"page-{page}"].trigger()
    QApplication.processEvents()
    seen = {words_of(part): changed(part) for part in stops(window)}
    assert seen
    assert {name: n for name, n in seen.items() if n < LEAST_PIXELS} == {}
