import math

import numpy as np
import pytest
from figure_samples import head_map, position_table, site_grid
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from attnscope.figures import (
    DARK,
    FIRST_COLOUR,
    LIGHT,
    GridMarks,
    ImageCache,
    MapStyle,
    Palette,
    codes_from_grid,
    codes_from_weights,
    log_ticks,
    lut_argb,
    nice_ticks,
    paint_grid,
    paint_head_map,
    thin,
    tick_text,
    value_text,
    weight_text,
    weight_ticks,
    widest_value,
)
from attnscope.figures.views import (
    head_shifts,
    paint_lines,
    paint_positions,
    short_limit,
    strong_lines,
    whole_ticks,
)
from attnscope.records import Gates, HeadMap, HeadRef

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
RECT = QRectF(0, 0, 600, 500)


def blank(palette: Palette = LIGHT, scale: int = 1) -> QImage:
    image = QImage(600 * scale, 500 * scale, QImage.Format.Format_RGB32)
    image.fill(QColor(palette.background))
    return image


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("scale", ["fixed", "head", "row"])
@pytest.mark.parametrize("zoom", [1, 2])
def test_that_a_cells_centre_has_the_colour_of_its_weight(palette: Palette, scale: str, zoom: int) -> None:
    shown, style = head_map(6, 7), MapStyle(scale=scale, colour_map="cividis")  # type: ignore[arg-type]
    image = blank(palette, zoom)
    with QPainter(image) as painter:
        painter.scale(zoom, zoom)
        layout = paint_head_map(painter, RECT, shown, style=style, palette=palette)
    codes = codes_from_weights(shown.weights, style.scale)
    for query in range(6):
        for key in range(7):
            centre = layout.cell_rect(query, key).center() * zoom
            expected = int(lut_argb("cividis")[codes[query, key] - FIRST_COLOUR])
            assert image.pixel(centre.toPoint()) == expected, (query, key)


def test_that_a_grid_paints_each_head_in_its_place() -> None:
    grids = (site_grid(0), site_grid(1))
    image = blank()
    with QPainter(image) as painter:
        layout = paint_grid(painter, RECT, grids, style=MapStyle(), palette=LIGHT)
    codes = codes_from_grid(grids[1], "fixed")
    box = layout.box(1, 2)
    for row in range(8):
        for column in range(row + 1):
            x = int(box.left() + (column + 0.5) / 8 * box.width())
            y = int(box.top() + (row + 0.5) / 8 * box.height())
            assert image.pixel(x, y) == int(lut_argb("viridis")[codes[2, row, column] - FIRST_COLOUR])


def test_that_a_head_that_is_off_looks_different_and_others_do_not() -> None:
    head = HeadRef(stack="decoder", layer=0, head=1)
    pictures = []
    for gates in (Gates(), Gates.of({head: 0.0}), Gates.of({head: 0.5})):
        image = blank()
        with QPainter(image) as painter:
            marks = GridMarks(gates=gates)
            layout = paint_grid(painter, RECT, (site_grid(),), style=MapStyle(), palette=LIGHT, marks=marks)
        pictures.append(image)
    boxes = [layout.box(0, i).toRect() for i in range(3)]
    whole, off, half = pictures
    assert whole.copy(boxes[1]) != off.copy(boxes[1])
    assert whole.copy(boxes[1]) != half.copy(boxes[1])
    for other in (0, 2):
        assert whole.copy(boxes[other]) == off.copy(boxes[other]) == half.copy(boxes[other])


def test_that_selected_heads_are_framed_in_the_accent() -> None:
    head = HeadRef(stack="decoder", layer=0, head=1)
    image = blank()
    with QPainter(image) as painter:
        marks = GridMarks(selection=(head,))
        layout = paint_grid(painter, RECT, (site_grid(),), style=MapStyle(), palette=LIGHT, marks=marks)
    box = layout.box(0, 1)
    assert QColor(image.pixel(int(box.left()) - 1, int(box.center().y()))) == QColor(LIGHT.accent)


def test_that_a_cached_picture_equals_a_fresh_one() -> None:
    cache = ImageCache()
    images = []
    for _ in range(2):
        image = blank()
        with QPainter(image) as painter:
            paint_head_map(painter, RECT, head_map(), style=MapStyle(), palette=LIGHT, cache=cache)
        images.append(image)
    assert images[0] == images[1]


def test_that_the_strongest_lines_are_kept_and_the_rest_is_told() -> None:
    rng_free = (np.arange(120 * 120) * 7919 % 9973 + 1).reshape(120, 120).astype(np.float64)
    weights = rng_free / rng_free.sum(axis=1, keepdims=True) * 60
    maps = (head_map(120, 120),)
    big = HeadMap(head=maps[0].head, queries=maps[0].queries, keys=maps[0].keys, weights=weights)
    lines = strong_lines((big,), limit=500)
    assert len(lines.weights) == 500
    assert lines.weights.min() >= np.sort(big.weights.ravel())[-500]
    expected = 1 - np.sort(big.weights.ravel())[-500:].sum() / big.weights.sum()
    assert lines.hidden == pytest.approx(expected, abs=1e-4)
    assert "500 of 14,400 lines" in lines.sentence
    assert f"{expected * 100:.1f} % of the weight hidden" in lines.sentence


def test_that_lines_too_faint_to_see_are_told_in_small_figures_too() -> None:
    first = head_map(5, 5)
    weights = np.full((5, 5), 1e-5, dtype=np.float32)
    np.fill_diagonal(weights, 1.0)
    sharp = HeadMap(head=first.head, queries=first.queries, keys=first.keys, weights=weights)
    assert strong_lines((sharp,)).sentence == "5 of 25 lines · under 0.1 % of the weight hidden"


@pytest.mark.parametrize("n_heads", [1, 2, 3, 16])
def test_that_heads_that_agree_lie_side_by_side_within_their_row(n_heads: int) -> None:
    shifts = head_shifts(n_heads, 2.6, 20.0)
    assert len(set(shifts)) == n_heads
    assert shifts.sum() == pytest.approx(0.0)
    assert np.abs(shifts).max() < 10.0
    if n_heads in (2, 3):
        assert np.diff(shifts) == pytest.approx(3.6)


def test_that_masked_cells_have_no_lines() -> None:
    lines = strong_lines((head_map(5, 5, is_causal=True),))
    assert (lines.keys <= lines.queries).all()
    assert lines.sentence == "all 15 lines"


def test_that_lines_name_heads_with_other_tokens() -> None:
    image = blank()
    with QPainter(image) as painter:
        assert paint_lines(painter, RECT, (head_map(4, 5), head_map(5, 5)), palette=LIGHT) is not None
        assert paint_lines(painter, RECT, (), palette=LIGHT) is None


def test_that_each_side_of_the_lines_can_be_pointed_at() -> None:
    image = blank()
    with QPainter(image) as painter:
        layout = paint_lines(painter, RECT, (head_map(4, 5),), palette=LIGHT)
    assert layout is not None
    assert layout.hit(QPointF(layout.left - 10, layout.queries.centre(2))) == (2, None)
    assert layout.hit(QPointF(layout.right + 10, layout.keys.centre(4))) == (None, 4)
    assert layout.hit(QPointF((layout.left + layout.right) / 2, layout.keys.centre(1))) == (None, None)


def test_that_positions_paint_one_and_several_tables() -> None:
    for n in (0, 1, 3):
        image = blank()
        with QPainter(image) as painter:
            paint_positions(painter, RECT, tuple(position_table(str(i)) for i in range(n)), palette=LIGHT)
        assert (image == blank()) is (n == 0)


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (0.9731234, "0.9731"),
        (0.04, "0.04000"),
        (0.0, "0"),
        (1.0, "1.000"),
        (0.00001234, "1.234·10⁻⁵"),
        (float("nan"), "not allowed by the mask"),
        (float("inf"), "no data"),
    ],
)
def test_that_weights_are_read_out_with_four_digits(weight: float, text: str) -> None:
    assert weight_text(weight) == text


def test_that_weights_in_cells_have_two_digits() -> None:
    texts = [value_text(value) for value in (0.0, 0.254, 0.996, 1.0, 10.25, -0.25, -1.0)]
    assert texts == [".00", ".25", "1", "1", "10.25", "−.25", "−1"]
    assert [widest_value(peak) for peak in (0.5, 1.0, 2.5, 12.0)] == [".88", ".88", "2.50", "12.00"]


def test_that_thinned_curves_keep_their_peaks() -> None:
    xs = np.arange(100_000.0)
    ys = np.zeros(100_000)
    ys[54_321], ys[77] = 9.0, -3.0
    few_xs, few_ys = thin(xs, ys, 500)
    assert len(few_xs) <= 1000
    assert few_ys.max() == 9.0
    assert few_ys.min() == -3.0
    assert (np.diff(few_xs) > 0).all()


def test_that_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0, 1, 5) == pytest.approx((0, 0.2, 0.4, 0.6, 0.8, 1.0))
    assert nice_ticks(3.0, 3.0, 4) == (3.0,)
    assert nice_ticks(1, 4, 6) == pytest.approx((1, 1.5, 2, 2.5, 3, 3.5, 4))
    assert nice_ticks(1, 4, 6, is_counted=True) == pytest.approx((1, 2, 3, 4))
    assert nice_ticks(0.2, 0.8, 3, is_counted=True) == nice_ticks(0.2, 0.8, 3)  # none is whole
    assert nice_ticks(float("nan"), 1, 4) == ()
    assert log_ticks(0.5, 2000) == pytest.approx((1, 10, 100, 1000))
    assert [tick_text(v) for v in (0, 0.25, 1e-4, 20_000, -1)] == ["0", "0.25", "10⁻⁴", "20k", "−1"]


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.5, 0.50004, ["0.50000", "0.50001", "0.50002", "0.50003", "0.50004"]),
        (0.9998, 1.0, ["0.99980", "0.99985", "0.99990", "0.99995", "1.00000"]),
        (0.05, 0.05002, ["0.050000", "0.050005", "0.050010", "0.050015", "0.050020"]),
        (5.74e-5, 5.76e-5, ["5.74·10⁻⁵", "5.745·10⁻⁵", "5.75·10⁻⁵", "5.755·10⁻⁵", "5.76·10⁻⁵"]),
        (-2.004e6, -2.0e6, ["−2.004·10⁶", "−2.003·10⁶", "−2.002·10⁶", "−2.001·10⁶", "−2·10⁶"]),
        (123_456, 123_460, ["123.456k", "123.457k", "123.458k", "123.459k", "123.46k"]),
        (99_999, 100_001, ["99.999k", "99.9995k", "100k", "100.0005k", "100.001k"]),
    ],
)
def test_that_ticks_close_together_are_told_apart(low, high, texts) -> None:
    ticks = nice_ticks(low, high, 4)
    assert [tick_text(v, ticks[1] - ticks[0]) for v in ticks] == texts


def test_that_ticks_of_a_short_logarithmic_axis_are_told_apart() -> None:
    ticks = log_ticks(5.738e-5, 5.757e-5)
    assert [tick_text(v) for v in ticks] == ["5.74·10⁻⁵", "5.745·10⁻⁵", "5.75·10⁻⁵", "5.755·10⁻⁵"]


def test_that_the_ends_of_colours_beyond_one_keep_three_digits() -> None:
    assert [text for _, text in weight_ticks("head", 144.0)[0]] == ["0", "72", "144"]
    assert [text for _, text in weight_ticks("head", 0.04321)[0]] == ["0", "0.022", "0.043"]
    assert [text for _, text in weight_ticks("fixed", 1.0, 5.0)[0]] == ["0", "1.25", "2.5", "3.75", "5"]
    assert [short_limit(value) for value in (0.123, 12.3, 99.7, 123.4)] == ["0.12", "12", "100", "123"]


@pytest.mark.parametrize("n_wanted", [1, 2, 5, 12, 13, 20, 40])
def test_that_ticks_reach_both_ends_of_an_axis_however_long_it_is(n_wanted: int) -> None:
    for low, high in ((0, 1000), (0.0, 1.0), (-3.7, 12.2), (999.0, 1001.5), (2e-7, 3e-6), (1, 820)):
        ticks = nice_ticks(low, high, n_wanted)
        step = ticks[1] - ticks[0]
        assert len(ticks) <= 13
        assert low - 1e-9 * step <= ticks[0] < low + step
        assert high - step < ticks[-1] <= high + 1e-9 * step
        mantissa = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
        assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6


def test_that_logarithmic_axes_have_powers_of_ten_or_what_lies_between() -> None:
    assert log_ticks(1e-12, 1e12) == pytest.approx([10.0**k for k in range(-12, 13, 3)])
    assert log_ticks(0.9, 1100) == pytest.approx((1, 10, 100, 1000))
    assert log_ticks(1.5, 60) == pytest.approx((2, 5, 10, 20, 50))
    assert log_ticks(0.3, 0.7) == pytest.approx((0.3, 0.4, 0.5, 0.6, 0.7))


def test_that_positions_are_named_by_whole_numbers_that_are_there() -> None:
    assert [whole_ticks(n, 5) for n in (1, 2, 3, 6)] == [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3, 4, 5)]
    assert whole_ticks(1000, 5) == (0, 200, 400, 600, 800)


def test_that_ticks_of_one_axis_are_written_alike() -> None:
    assert [tick_text(v, 5e-4) for v in nice_ticks(0, 1e-3, 2)] == ["0", "0.0005", "0.0010"]
    assert [tick_text(v, 5e-6) for v in nice_ticks(0, 1e-5, 2)] == ["0", "5·10⁻⁶", "10⁻⁵"]
