"""Set formulas: sizes from what stands above and below, lines that fit, the same shape in every theme."""

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from attnscope.figures import set_formula
from attnscope.widgets import FormulaLabel, column

pytestmark = pytest.mark.qt


def inked(text: str, colour: str, ground: str) -> np.ndarray:
    """Which pixels differ from the ground, [height, width]."""
    shown = set_formula((text,), 20)
    image = QImage(round(shown.width) + 20, round(shown.height) + 20, QImage.Format.Format_RGB32)
    image.fill(QColor(ground))
    with QPainter(image) as painter:
        shown.paint(painter, 10.0, 10.0, colour)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.width(), 4)
    return (pixels != pixels[0, 0]).any(axis=2)


def test_that_a_fraction_has_a_line_across_its_width_with_ink_above_and_below() -> None:
    ink = inked("q·k / d", "#000000", "#ffffff")
    line = int(ink.sum(axis=1).argmax())
    assert ink[line].sum() > 0.9 * np.ptp(np.flatnonzero(ink.any(axis=0)))
    assert ink[: line - 2].any()
    assert ink[line + 3 :].any()
    assert set_formula(("q·k / d",), 20).height > 1.6 * set_formula(("q·k",), 20).height


def test_that_nothing_is_painted_outside_the_box_and_every_theme_paints_the_same_shape() -> None:
    for text in ("softmax(Q Kᵀ / √d_head) V", "∂h_T/∂h_t = Π diag(1 − h²) W", "g = ‖∂loss/∂W₂‖", "p′"):
        ink = inked(text, "#111111", "#ffffff")
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        assert rows.min() >= 8, text
        assert columns.min() >= 8, text
        assert rows.max() < ink.shape[0] - 8, text
        assert columns.max() < ink.shape[1] - 8, text
        dark = inked(text, "#f0f0f0", "#101418")
        assert (dark == ink).mean() > 0.97, text


def test_that_lines_are_broken_at_spaces_to_the_room_there_is() -> None:
    text = "score(i, j) = −∞ where j > i; the row sums to 1.000"
    whole = set_formula((text,), 13)
    broken = set_formula((text,), 13, whole.width / 2)
    assert len(whole.lines) == 1
    assert len(broken.lines) in (2, 3)
    assert broken.width <= whole.width / 2
    assert broken.height > 1.8 * whole.height


def test_that_a_label_is_as_high_as_its_formulas_and_is_read_as_they_are_typed(qtbot: QtBot) -> None:
    label = FormulaLabel()
    qtbot.addWidget(label)
    label.set_formulas("w = softmax(s)", "ŷ(q) = Σ w v")
    one = label.heightForWidth(400)
    label.set_formulas("w = softmax(s)", "ŷ(q) = Σ w v / 2")
    assert label.heightForWidth(400) > one
    assert label.text() in label.accessibleName()
    label.resize(60, label.heightForWidth(60))
    label.show()
    qtbot.waitExposed(label)
    assert not label.grab().isNull()


def test_that_a_layout_gives_broken_formulas_all_their_lines(qtbot: QtBot) -> None:
    panel = QWidget()
    qtbot.addWidget(panel)
    label = FormulaLabel()
    label.set_formulas("window, global, random blocks", "not allowed: score −∞, weight 0")
    column(label, None, on=panel)
    panel.resize(120, 600)
    panel.show()
    assert label.sizeHint().height() < label.heightForWidth(label.width()) <= label.height()


@pytest.mark.parametrize("room", [60.0, 130.0, 200.0, 320.0])
def test_that_lines_fit_their_room_whole_and_end_before_a_sign(room: float) -> None:
    sums = "\u20680.269 + <0.001 + 0.003 + 0.611 + 0.116\u2069 = 1.000"
    for text in (sums, "MultiHead = Concat(head 0, …, head 3) · W^O", "weight(a → b) = 0.61"):
        shown = set_formula((text,), 20, room)
        assert all(left + box.width <= room + 1e-6 for left, _y, box in shown.lines), text
    terms = {len(set_formula((sums,), 20, float(wide)).lines) for wide in (60, 130, 320, 900)}
    assert max(terms) > 2
    assert min(terms) == 1


def test_that_a_factor_stays_on_the_line_of_its_product() -> None:
    whole = set_formula(("MultiHead = Concat(head 0, …, head 3) · W^O",), 20)
    product = set_formula(("= Concat(head 0, …, head 3) · W^O",), 20)
    broken = set_formula(("MultiHead = Concat(head 0, …, head 3) · W^O",), 20, whole.width - 5)
    assert len(broken.lines) == 2
    assert broken.lines[1][2].width == pytest.approx(product.width)
