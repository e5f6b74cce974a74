"""A field kept from the last painting looks as one that is painted anew."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from attnscope.figures.colours import LIGHT, series_colour
from attnscope.figures.lines_field import FieldCache, LinesField, StrongLines, head_shifts, paint_field
from attnscope.figures.token_axis import Span

N_TOKENS = 80
RECT = QRectF(30.4, 20.6, 200.3, 160.2)


def field_of(n_lines: int, *, zoom: float = 1.0, offset_px: float = 0.0) -> LinesField:
    step = RECT.height() / N_TOKENS * zoom
    span = Span(origin=RECT.top() - offset_px, step=step, low=RECT.top(), high=RECT.bottom(), n=N_TOKENS)
    i = np.arange(n_lines)
    lines = StrongLines(
        heads=i % 2,
        queries=(i * 7) % N_TOKENS,
        keys=(i * 13 + i // 5) % N_TOKENS,
        weights=np.sort((i * 37 % 101 / 101).astype(np.float32)),
        n_all=n_lines,
        hidden=0.0,
    )
    return LinesField(rect=RECT, queries=span, keys=span, lines=lines, palette=LIGHT, n_heads=2)


def painted(field: LinesField, cache: FieldCache | None, factor: float = 1.0) -> np.ndarray:
    image = QImage(round(260 * factor), round(200 * factor), QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.background))
    with QPainter(image) as painter:
        painter.scale(factor, factor)
        if cache is None:
            paint_field(painter, field, is_quick=True)
        else:
            cache.paint(painter, field)
    return np.frombuffer(image.constBits(), dtype=np.uint32).reshape(image.height(), -1).copy()


def share_apart(a: np.ndarray, b: np.ndarray) -> float:
    """Of the pixels, those that differ by more than blending rounds."""
    channels = [x.view(np.uint8).reshape(*x.shape, 4).astype(np.int16) for x in (a, b)]
    return float((np.abs(channels[0] - channels[1]).max(axis=2) > 8).mean())


@pytest.mark.parametrize("n_lines", [300, 3000])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_that_a_kept_field_moved_and_zoomed_is_that_painted_anew(n_lines: int, factor: float) -> None:
    cache, first = FieldCache(), field_of(n_lines, zoom=3.0, offset_px=100.0)
    moves = (100.0, 100.0, 141.0, 90.0, 90.37, 5.0, 300.0)
    for offset_px in moves:
        span = replace(first.queries, origin=RECT.top() - offset_px)
        field = replace(first, queries=span, keys=span)
        # A line cut at the edge of what is painted may have single pixels rounded otherwise.
        assert share_apart(painted(field, cache, factor), painted(field, None, factor)) < 0.01, offset_px
    wider = field_of(n_lines, zoom=4.0, offset_px=300.0)
    assert share_apart(painted(wider, cache, factor), painted(wider, None, factor)) < 0.01
    assert share_apart(painted(wider, cache, factor), painted(field_of(n_lines), cache, factor)) > 0.2


def test_that_many_lines_are_each_where_they_belong() -> None:
    """Over the limit of smoothing; the reference draws one line after the other."""
    field = field_of(2_600)
    row, lines = field.queries.step, field.lines
    thickest = max(0.6, min(2.6, 0.16 * row))
    shifts = head_shifts(2, thickest, row)
    image = QImage(260, 200, QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.background))
    with QPainter(image) as painter:
        painter.setClipRect(RECT)
        strengths = [min(int(weight**0.5 * 12), 11) for weight in lines.weights]
        for i in sorted(range(2_600), key=lambda i: (strengths[i], lines.heads[i])):
            strength = ((strengths[i] + 0.6) / 12) ** 1.3
            colour = QColor(series_colour(LIGHT, lines.heads[i]))
            colour.setAlphaF(0.08 + 0.87 * strength)
            pen = QPen(colour, 1.0)
            pen.setCosmetic(True)
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            ends = [
                RECT.top() + (place + 0.5) * row + shifts[lines.heads[i]]
                for place in (lines.queries[i], lines.keys[i])
            ]
            painter.drawLine(QLineF(RECT.left(), ends[0], RECT.right(), ends[1]))
    seen = np.frombuffer(image.constBits(), dtype=np.uint32).reshape(200, -1)
    assert round(0.5 + thickest) == 1  # hairlines
    assert share_apart(painted(field, None), seen) < 0.001
