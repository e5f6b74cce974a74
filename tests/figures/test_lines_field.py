"""A field kept from the last painting looks as one that is painted anew."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from attnscope.figures import DARK, LIGHT, Span, series_colour
from attnscope.figures.views import FieldCache, LinesField, StrongLines, head_shifts, paint_lines_field

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


def painted(
    field: LinesField, cache: FieldCache | None, factor: float = 1.0, *, is_rough: bool = False
) -> np.ndarray:
    image = QImage(round(260 * factor), round(200 * factor), QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.background))
    with QPainter(image) as painter:
        painter.scale(factor, factor)
        if cache is None:
            paint_lines_field(painter, field, is_quick=True)
        else:
            cache.paint(painter, field, is_rough=is_rough)
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


def test_that_very_many_lines_are_coarse_on_a_fine_screen_while_they_are_rough_and_sharp_afterwards() -> None:
    many, few = field_of(3000), field_of(300)
    cache = FieldCache()
    rough = painted(many, cache, 2.0, is_rough=True)
    assert (rough == painted(many, None).repeat(2, axis=0).repeat(2, axis=1)).mean() > 0.99
    sharp = painted(many, FieldCache(), 2.0)
    assert (painted(many, cache, 2.0) == sharp).all()
    assert share_apart(rough, sharp) > 0.05
    assert (painted(few, FieldCache(), 2.0, is_rough=True) == painted(few, FieldCache(), 2.0)).all()


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


def test_that_a_kept_field_is_painted_anew_for_whatever_else_is_seen() -> None:
    first = field_of(300, zoom=3.0, offset_px=100.0)
    other = field_of(290, zoom=3.0, offset_px=100.0)
    keys = replace(first.keys, origin=first.keys.origin - 11.0)
    for change in (
        {"palette": DARK},
        {"lines": other.lines},
        {"n_heads": 6},
        {"keys": keys},
        {"rect": RECT.adjusted(0.0, 0.0, -20.0, 0.0)},
    ):
        cache, changed = FieldCache(), replace(first, **change)
        before = painted(first, cache)
        after = painted(changed, cache)
        assert (after == painted(changed, FieldCache())).all(), change
        assert share_apart(before, after) > 0.02, change


HIGHLIGHTS = [
    ((7, None), None),
    ((None, 13), None),
    ((7, 7), None),
    ((21, 39), None),
    ((None, None), 1),
    ((None, 13), 0),
]


@pytest.mark.parametrize(("highlight", "only"), HIGHLIGHTS)
def test_that_a_highlight_leaves_the_lines_of_its_token_and_only_those_of_one_head(
    highlight: tuple[int | None, int | None], only: int | None
) -> None:
    field, (query, key) = field_of(400, zoom=1.0), highlight
    chosen = []
    for i, (head, a, b) in enumerate(
        zip(field.lines.heads, field.lines.queries, field.lines.keys, strict=True)
    ):
        if query is not None and query == key:
            is_meant = query in (a, b)
        else:
            is_meant = query in (None, a) and key in (None, b)
        if is_meant and only in (None, head):
            chosen.append(i)
    parts = {name: getattr(field.lines, name)[chosen] for name in ("heads", "queries", "keys", "weights")}
    alone = painted(replace(field, lines=replace(field.lines, **parts)), None)
    assert (painted(replace(field, highlight=highlight, only=only), None) == alone).all()
    assert chosen
    assert (alone != painted(field, None)).any()


def one_line(weight: float, step_px: float = 30.0) -> LinesField:
    """A level line of one head, from the third token to the third."""
    span = Span(origin=RECT.top(), step=step_px, low=RECT.top(), high=RECT.bottom(), n=5)
    ends, heads = np.array([2]), np.array([0])
    weights = np.array([weight], dtype=np.float32)
    lines = StrongLines(heads=heads, queries=ends, keys=ends, weights=weights, n_all=1, hidden=0.0)
    return LinesField(rect=RECT, queries=span, keys=span, lines=lines, palette=LIGHT, n_heads=1)


@pytest.mark.parametrize(("weight", "factor"), [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (0.5, 3.0)])
def test_that_a_wide_line_lies_about_its_middle_and_is_as_wide_as_its_weight(
    weight: float, factor: float
) -> None:
    column = painted(one_line(weight), None, factor)[:, round(130 * factor)]
    white, colour = QColor(LIGHT.background), QColor(series_colour(LIGHT, 0))
    strength = ((min(int(weight**0.5 * 12), 11) + 0.6) / 12) ** 1.3
    full = (0.08 + 0.87 * strength) * (white.green() - colour.green())
    inked = (white.green() - (column >> 8 & 255).astype(np.float64)) / full
    middle_px = ((np.arange(len(column)) + 0.5) * inked).sum() / inked.sum() / factor
    assert middle_px == pytest.approx(RECT.top() + 2.5 * 30.0, abs=0.51 / factor)
    wide_px = round((0.5 + 2.6 * strength) * factor)
    assert inked.sum() == pytest.approx(wide_px, abs=0.35 * wide_px)


def test_that_a_weight_of_one_is_drawn_as_one_just_under_it() -> None:
    assert (painted(one_line(1.0), None) == painted(one_line(0.999), None)).all()
    assert (painted(one_line(1.0), None) != painted(one_line(0.8), None)).any()
