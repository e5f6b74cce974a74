"""The bar of colours beside a map: nothing of it lies over something else, whatever the size of type."""

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from attnscope.figures import LIGHT, ColourBar, paint_colour_bar, type_at

pytestmark = pytest.mark.qt


def painted(factor: float, *, tick: str, words: str) -> np.ndarray:
    image = QImage(300, 500, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    with QPainter(image) as painter, type_at(factor):
        paint_colour_bar(
            painter,
            QRectF(4, 4, 290, 490),
            ColourBar(
                colour_map="viridis",
                title="weight",
                ticks=((0.0, tick), (1.0, "1")),
                has_not_allowed=True,
                not_allowed_words=words,
            ),
            LIGHT,
        )
    return np.frombuffer(image.constBits(), np.uint32).reshape(500, 300).copy()


@pytest.mark.parametrize("factor", [1.0, 1.35, 1.82, 3.0])
def test_that_the_words_below_the_bar_stand_clear_of_its_lowest_number(qapp, factor: float) -> None:
    whole = painted(factor, tick="0", words="not allowed")
    number, words = (
        np.flatnonzero((whole != other).any(axis=1))
        for other in (
            painted(factor, tick="", words="not allowed"),
            painted(factor, tick="0", words=""),
        )
    )
    assert number.max() < words.min()
