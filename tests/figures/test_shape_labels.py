"""A drawn shape stands at an axis in the place of its name."""

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from attnscope.figures import AXIS_LINE_PX, LIGHT, AxisLabels, Span, label_width, paint_rows
from attnscope.records import Token
from attnscope.shapes import outline

pytestmark = pytest.mark.qt


def test_that_the_pixels_inside_the_outline_are_inked_and_no_others(qapp: object) -> None:
    side = round(AXIS_LINE_PX)
    image = QImage(side, side, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    tokens = (Token(id=7, piece="triangle_03"),)
    with QPainter(image) as painter:
        span = Span(origin=0.0, step=AXIS_LINE_PX, low=0.0, high=AXIS_LINE_PX, n=1)
        labels = AxisLabels(tokens=tokens, span=span, width=100.0)
        paint_rows(painter, labels, 0.0, LIGHT, is_left_aligned=True)
    corners = outline("triangle_03")
    assert corners is not None
    assert label_width(tokens[0]) == AXIS_LINE_PX
    for x in range(side):
        for y in range(side):
            at = (
                (x + 0.5 - AXIS_LINE_PX / 2) / (AXIS_LINE_PX / 2 - 1),
                (y + 0.5 - AXIS_LINE_PX / 2) / (AXIS_LINE_PX / 2 - 1),
            )
            assert (image.pixelColor(x, y).lightness() < 128) == _is_inside(corners, *at)
    assert QRectF(image.rect()).width() == AXIS_LINE_PX


def _is_inside(corners: tuple[tuple[float, float], ...], x: float, y: float) -> bool:
    """Whether a point is inside a polygon: how often a ray to the right crosses its edges."""
    n = 0
    for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            n += 1
    return n % 2 == 1
