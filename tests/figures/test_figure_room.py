"""Narrow pages, small cells, and what gives way: measured in the files themselves."""

import dataclasses
import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import head_map, site_grid, spec
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont, QFontInfo, QFontMetricsF, QImage, QPainter

from attnscope import Caption
from attnscope.errors import UserError
from attnscope.figures import (
    COLOUR_MAPS,
    LIGHT,
    Span,
    caption_lines,
    contrast,
    export,
    ink_on,
    least_width_mm,
    lut,
    sized,
    values_hint,
)
from attnscope.figures.views import LinesField, paint_lines_field, strong_lines
from attnscope.records import Chart, Series

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
_SVG = "{http://www.w3.org/2000/svg}"


def texts(shown):
    """Each text of the figure's SVG with its place and size in user units of the page."""
    root = ElementTree.fromstring(export.render(shown, "svg"))
    found = []
    for group in root.iter(f"{_SVG}g"):
        moved = re.match(r"matrix\(([^)]*)\)", group.get("transform", ""))
        if moved is None:
            continue
        a, _, _, d, e, f = map(float, moved[1].split(","))
        for text in group.findall(f"{_SVG}text"):
            x, y = a * float(text.get("x")) + e, d * float(text.get("y")) + f
            found.append((text.text or "", x, y, abs(d) * float(text.get("font-size"))))
    return found


def curves(n=4):
    ys = np.array([2.71, 3.4, 2.6, 3.1])
    series = (Series(name="norm", xs=np.arange(4.0), ys=ys),)
    chart = Chart(title="Norm", x_label="step", y_label="before clipping", series=series)
    return spec("curves", charts=(chart,) * n, caption=None)


@pytest.mark.parametrize("view", ["curves", "positions", "difference"])
def test_that_a_single_column_holds_every_word_inside_its_page(view):
    shown = sized(curves() if view == "curves" else spec(view, caption=None), preset="single")
    places = [(words, x / shown.width_px, y / shown.height_px) for words, x, y, _ in texts(shown)]
    assert len(places) > 10
    assert not [words for words, x, y in places if not (0 <= x < 1 and 0 < y < 1)]


def test_that_ticks_of_one_axis_never_touch():
    shown = sized(curves(), preset="single")
    numbers = [(x, y, size) for words, x, y, size in texts(shown) if re.fullmatch(r"\d\.\d", words)]
    columns = sorted((y, size) for x, y, size in numbers)
    assert len(columns) >= 8  # four charts, two ticks or more each
    for (upper, size), (lower, _) in itertools.pairwise(columns):
        assert lower - upper >= size


@pytest.mark.parametrize("view", ["curves", "positions", "difference", "head"])
def test_that_the_size_of_type_rules_the_whole_page(view):
    shown = curves(1) if view == "curves" else spec(view, caption=None)
    small, large = (sized(shown, width_mm=330.0, font_pt=pt) for pt in (7.0, 14.0))
    smallest = [min(size for *_, size in texts(one)) for one in (small, large)]
    assert smallest[1] == pytest.approx(2 * smallest[0], rel=0.02)


def test_that_a_figure_too_narrow_to_read_is_refused_with_the_least_width():
    shown = spec("head", caption=None, width_mm=30.0)
    least = least_width_mm(shown)
    with pytest.raises(UserError, match=re.escape(f"at least {least:g} mm")):
        export.render(shown, "png")
    assert export.render(dataclasses.replace(shown, width_mm=least), "png")


def valued(n, **changes):
    style = dataclasses.replace(spec("head").style, show_values=True)
    return sized(spec("head", maps=(head_map(n, n),), style=style, caption=None, **changes), width_mm=85.0)


def test_that_weights_shrink_to_their_cells_and_are_missed_aloud_where_they_cannot():
    shown = valued(9)
    digits = [size for words, _, _, size in texts(shown) if re.fullmatch(r"\.\d\d", words)]
    assert digits
    assert max(digits) < 11 * shown.type_scale
    assert not values_hint(shown)
    crowded = valued(30)
    hint = values_hint(crowded)
    assert re.match(r"values do not fit: cells are \d\.\d mm wide; --width-mm \d+ has room", hint)
    wide = sized(crowded, width_mm=float(re.search(r"--width-mm (\d+)", hint)[1]), font_pt=8.0)
    assert not values_hint(wide)
    grid = spec("grid", style=crowded.style)
    assert values_hint(grid) == "values belong to the view head"


@pytest.mark.parametrize("name", COLOUR_MAPS)
def test_that_digits_on_any_colour_have_a_contrast_of_four_and_a_half(name):
    table = lut(name)
    for rgb, is_dark in zip(table.astype(int).tolist(), ink_on(table).tolist(), strict=True):
        ink = "#000000" if is_dark else "#ffffff"
        assert contrast(ink, "#{:02x}{:02x}{:02x}".format(*rgb)) >= 4.5


def test_that_a_sloping_line_of_a_png_is_one_stroke_without_stripes():
    one = np.zeros((2, 2), np.float32)
    one[0, 1] = 0.9
    lines = strong_lines((dataclasses.replace(head_map(2, 2), weights=one),))
    span = Span(origin=0.0, step=25.0, low=0.0, high=50.0, n=2)
    image = QImage(1600, 400, QImage.Format.Format_RGB32)
    image.fill(QColor("#ffffff"))
    field = LinesField(
        rect=QRectF(0, 0, 200, 50), queries=span, keys=span, lines=lines, palette=LIGHT, n_heads=1
    )
    with QPainter(image) as painter:
        painter.scale(8, 8)
        paint_lines_field(painter, field, is_paper=True)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(400, 1600, 4)
    middle = [pixels[round(100 + x / 1600 * 200), x, :3].tolist() for x in range(100, 1500)]
    assert len({tuple(p) for p in middle}) == 1
    assert middle[0] != [255, 255, 255]


def test_that_a_thicket_of_lines_is_said_with_what_thins_it():
    rows = np.full((25, 25), 0.04, np.float32)
    many = spec("lines", maps=(dataclasses.replace(head_map(25, 25), weights=rows),))
    assert many.hint() == "625 lines, --n-strongest 2 draws fewer"
    few = dataclasses.replace(many, style=dataclasses.replace(many.style, n_strongest=2))
    assert not few.hint()


def test_that_the_self_check_gives_way_and_plain_leaves_the_heading_out():
    named = dataclasses.replace(head_map(8, 8), name="mean of all 12 heads of the layer")
    shown = sized(spec("head", maps=(named,), caption=None), preset="single")
    line = sorted((x, words) for words, x, _, _ in texts(shown) if "mean" in words or "✓" in words)
    assert len(line) == 1
    plain = dataclasses.replace(shown, style=dataclasses.replace(shown.style, is_plain=True))
    assert not [words for words, *_ in texts(plain) if "mean" in words]
    assert sized(plain, preset="single").height_mm < shown.height_mm


def test_that_a_grid_hatches_what_the_mask_forbids_and_its_caption_names_the_mask():
    grid = site_grid()
    levels = grid.levels.copy()
    levels[:] = np.maximum(levels, 1)
    levels[:, ~np.tri(*levels.shape[1:], dtype=bool)] = 0
    masked = dataclasses.replace(grid, levels=levels)
    shown = spec("grid", grids=(masked,), caption=Caption(text="a"), dpi=150)
    colours = np.unique(np.frombuffer(export.image(shown).constBits(), np.uint32) & 0xFFFFFF)
    assert int(LIGHT.hatch[1:], 16) in colours
    assert any("mask causal" in line for line in caption_lines(shown))


def test_that_a_unit_without_room_beside_its_title_stands_below_it_whole() -> None:
    unit = "nats per token, smoothed over 0.9 of the past"
    xs = np.arange(5.0)
    chart = Chart(
        title="Loss of every run", x_label="step", y_label=unit, series=(Series(name="all", xs=xs, ys=xs),)
    )
    placed = {}
    for width_mm in (85.0, 180.0):
        drawn = texts(spec("curves", charts=(chart,), width_mm=width_mm))
        (title,) = (y for text, _x, y, _size in drawn if text == "Loss of every run")
        (below,) = (y - title for text, _x, y, _size in drawn if text == unit)
        placed[width_mm] = below > 1.0
    assert placed == {85.0: True, 180.0: False}


@pytest.mark.parametrize("name", ["Written (French)", "Written by somebody at some length"])
def test_that_names_of_axes_stay_on_the_page_of_lines(name):
    style = dataclasses.replace(spec("lines").style, query_name=name, key_name="Key (English)")
    shown = spec("lines", maps=(head_map(4, 4),), style=style, caption=None, width_mm=85.0)
    places = {text: (x, size) for text, x, _, size in texts(shown)}
    (query,) = (text for text in places if text.startswith("Written"))
    (key,) = (text for text in places if text.startswith("Key"))
    assert places[query][0] >= 0
    face = QFont(QFontInfo(QFont()).family())
    face.setPixelSize(round(places[key][1] * shown.type_scale))
    ends = [places[text][0] + QFontMetricsF(face).horizontalAdvance(text) for text in (query, key)]
    assert ends[1] <= shown.width_px
    assert ends[0] < places[key][0]  # they do not meet


def test_that_the_colour_bar_of_a_grid_stands_beside_the_thumbnails():
    grids = tuple(site_grid(layer) for layer in range(4))
    shown = spec("grid", grids=grids, caption=None, width_mm=240.0, height_mm=120.0)
    places = {text: x for text, x, _, _ in texts(shown)}
    pitch = places["H2"] - places["H1"]
    assert places["H2"] + pitch / 2 < places["weight"] < places["H2"] + pitch  # not at the page's far edge
