"""The maps and charts of the labs: colours of cells, places on a logarithmic axis, numbers in tables."""

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import lab_cells, lab_charts, spec
from PySide6.QtCore import QBuffer, QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from attnscope.figures import (
    DARK,
    LIGHT,
    Palette,
    name_lines,
    names_high,
    off_points,
    paint_cells,
    paint_chart,
    paint_charts,
    parted,
    points_about,
    render,
    table_cells,
    text_width,
    type_at,
    words_apart,
)
from attnscope.figures.views import picture_places, row_sizes
from attnscope.labs import LABS
from attnscope.records import CellMap, Chart, Series, Token

LAB = LABS["Rank collapse"]

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
RECT = QRectF(0, 0, 300, 300)


def blank(palette: Palette) -> QImage:
    image = QImage(300, 300, QImage.Format.Format_RGB32)
    image.fill(QColor(palette.background))
    return image


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_that_kinds_have_the_colours_of_their_legend_and_the_forbidden_has_none(palette: Palette) -> None:
    image = blank(palette)
    with QPainter(image) as painter:
        layout = paint_cells(painter, RECT, lab_cells()[0], palette=palette)

    def colour(i: int, j: int) -> str:
        return image.pixelColor(layout.cell(i, j).center().toPoint()).name()

    assert (colour(0, 0), colour(0, 1), colour(1, 0)) == (*palette.series[:2], palette.series[1])
    assert colour(1, 1) in (palette.not_allowed, palette.hatch)
    assert layout.at(layout.cell(1, 0).center()) == (1, 0)
    assert layout.at(QPointF(0, 0)) is None


def test_that_the_title_of_the_rows_lies_within_the_map_s_room() -> None:
    shown = CellMap(title="", values=np.ones((4, 4)), rows=("a", "b", "c", "d"), row_title="query")
    image = blank(LIGHT)
    with QPainter(image) as painter:
        layout = paint_cells(painter, RECT.adjusted(40, 0, 0, 0), shown, palette=LIGHT)
    background = image.pixel(0, 0)
    rows = range(int(layout.cells.top()), int(layout.cells.bottom()))
    columns = {x for x in range(70) for y in rows if image.pixel(x, y) != background}
    assert min(columns) >= 40


def test_that_names_beside_rows_are_whole_and_numbers_stand_in_cells_where_there_is_room_to_spare() -> None:
    keys = tuple(Token(id=k, piece=piece) for k, piece in enumerate(("international", "white", "</s>")))
    table = table_cells(keys, {"rollout": np.array([0.25, 0.5, 0.125])}, 3, "as computed")
    written = ElementTree.fromstring(render(spec("lab", cells=(table,), charts=()), "svg")).itertext()
    said = {text.strip() for text in written}
    assert {"Rollout", "international (source 0)", "white (source 1)", "0.25", "0.50"} <= said
    narrow = CellMap(title="", values=np.ones((4, 12)), rows=("a very long name of a row",) * 4)
    image = blank(LIGHT)
    with QPainter(image) as painter:
        layout = paint_cells(painter, RECT, narrow, palette=LIGHT)
    assert layout.cells.width() > 180  # the cells come first


def test_that_a_low_map_in_large_type_says_all_it_is_called() -> None:
    """As the lab BLEU on a projector: two of its four rows have room for their names, and these are whole."""
    rows, columns = ("1 word", "2 words", "3 words", "4 words"), tuple(map(str, range(12)))
    shown = CellMap(title="A map", values=np.ones((4, 12)), rows=rows, columns=columns, row_title="n-gram of")
    long = "A title too long for so narrow a map"
    narrow = replace(shown, title=long, values=np.ones((4, 1)), columns=("0",))
    buffer, image = QBuffer(), blank(LIGHT).scaled(800, 190)
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    with type_at(1.86):
        with QPainter(generator) as painter:
            paint_cells(painter, QRectF(0, 0, 800, 190), shown, palette=LIGHT)
            paint_cells(painter, QRectF(0, 200, 130, 190), narrow, palette=LIGHT)
        with QPainter(image) as painter:
            paint_cells(painter, QRectF(0, 0, 800, 190), replace(shown, title=""), palette=LIGHT)
        length = text_width("N-gram of")
    said = {text.strip() for text in ElementTree.fromstring(buffer.data().data()).itertext()}
    assert {"1 word", "3 words", "N-gram of"} <= said
    assert any(text.startswith("A ti") and text.endswith("…") for text in said)
    assert long not in said
    ink = [y for y in range(190) if any(image.pixel(x, y) != image.pixel(0, 0) for x in range(20))]
    assert ink[-1] - ink[0] > length - 4, "the name of the rows is cut off"


def test_that_a_map_of_weights_says_what_its_colours_mean() -> None:
    shown = CellMap(title="", values=np.array([[0.0, 0.5]]), limit=0.5)
    image = blank(LIGHT)
    with QPainter(image) as painter:
        layout = paint_cells(painter, RECT, shown, palette=LIGHT)
    below = range(int(layout.cells.bottom()) + 4, 300)
    seen = {image.pixelColor(x, y).name() for x in range(300) for y in below}
    cells = {image.pixelColor(layout.cell(0, j).center().toPoint()).name() for j in (0, 1)}
    assert cells <= seen


def test_that_powers_of_ten_are_equally_far_apart_on_a_logarithmic_axis() -> None:
    (chart,) = lab_charts()
    image = blank(LIGHT)
    with QPainter(image) as painter:
        layout = paint_chart(painter, RECT, chart, palette=LIGHT)
    xs, _ = layout.place(np.array([1.0, 10.0, 100.0]), np.ones(3))
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1])
    assert layout.x_at(float(xs[1])) == pytest.approx(10.0)


def test_that_numbers_along_an_axis_do_not_touch() -> None:
    ticks = [(200.0, "200"), (400.0, "400"), (600.0, "600")]
    assert words_apart(ticks, 1.0) == ticks
    assert words_apart(ticks, 0.1) == [ticks[0], ticks[2]]
    assert words_apart(ticks, 0.001) == [ticks[0]]


def test_that_names_below_an_axis_stand_on_one_line_on_two_in_turn_or_upright() -> None:
    names = ("tokens", "L0", "L1", "L2", "L3", "norm", "head")
    wide = max((text_width(a) + text_width(b)) / 2 for a, b in pairwise(names)) + 6
    assert name_lines(names, wide + 0.1) == 1
    assert name_lines(names, wide - 0.1) == 2
    assert name_lines(names, 8.0) == 0
    assert names_high(names, 1) == 0.0
    assert 0.0 < names_high(names, 2) < names_high(names, 0) == max(map(text_width, names)) - 8
    assert name_lines((), 1.0) == name_lines(("alone",), 1.0) == 1


def test_that_words_that_would_lie_over_each_other_move_a_line_and_only_the_last_is_left_out() -> None:
    room, box = QRectF(0, 0, 100, 36), QRectF(10, 12, 30, 10)
    found = parted([box, box, box, box, QRectF(60, 12, 30, 10)], room)
    assert [None if one is None else one.top() for one in found] == [12, 22, 2, None, 12]
    shown = [one for one in found if one is not None]
    assert not any(a.intersects(b) for k, a in enumerate(shown) for b in shown[k + 1 :])
    assert parted([QRectF(10, 90, 30, 10)], room) == [QRectF(10, 90, 30, 10)], "what is alone stays"


def test_that_a_note_stands_beside_its_point_and_clear_of_the_line() -> None:
    place = QRectF(0, 0, 30, 20)
    assert off_points(place, [(15.0, 14.0)]).bottom() <= 14.0, "it stands above already"
    assert off_points(place, [(15.0, 3.0)]).top() >= 3.0
    assert off_points(place, [(12.0, 10.0)]).left() > 12.0
    assert off_points(place, [(60.0, 10.0)]) == place, "what lies over nothing stays"
    line = Series(name="a", xs=np.array([1.0, 3.0]), ys=np.array([0.0, 4.0]), has_points=True)
    lone = Series(name="b", xs=np.array([2.0]), ys=np.array([np.nan]), style="points")
    chart = Chart(title="", x_label="", y_label="", series=(line, lone))
    assert list(zip(*points_about(chart, 1.5), strict=True)) == [(1.0, 0.0), (3.0, 4.0), (1.5, 1.0)]
    assert not len(points_about(replace(chart, is_geometric=True), 1.5)[0])


def test_that_every_value_of_a_map_is_in_the_table_and_the_forbidden_are_empty() -> None:
    lines = render(spec("lab"), "csv").decode().splitlines()
    assert '"weights","a","d","1","",""' in lines
    assert '"weights","b","d","","",""' in lines
    assert '"Lab","points","10","10","d",""' in lines


def test_that_the_stream_of_a_collapse_keeps_its_numbers() -> None:
    shown = LAB.resolve(replace(LAB.example, n_layers=2, d_model=64, layer=1))
    stream, likeness = LAB.cells(shown)
    assert (stream.values == shown.stream[:, :32]).all()
    assert stream.limit == pytest.approx(np.abs(shown.stream[:, :32]).max())
    assert (likeness.values == shown.likeness).all()
    assert likeness.limit == 1.0


def test_that_panels_fill_rows_without_overlap_and_names_must_fit() -> None:
    assert [row_sizes(n) for n in (0, 1, 2, 3, 5, 6, 7)] == [
        (),
        (1,),
        (1, 1),
        (1, 2),
        (2, 3),
        (3, 3),
        (3, 3, 1),
    ]
    assert row_sizes(2, n_maps=2) == (2,)
    assert row_sizes(3, n_maps=2) == (2, 1)
    assert row_sizes(5, n_maps=3) == (3, 2)
    for n in range(1, 8):
        places = picture_places(RECT, n)
        assert len(places) == n
        assert not any(a.intersects(b) for k, a in enumerate(places) for b in places[k + 1 :])
    with pytest.raises(ValueError, match="names"):
        CellMap(title="", values=np.zeros((2, 2)), rows=("a",))


def test_that_plots_below_each_other_begin_and_end_below_each_other() -> None:
    xs = np.arange(5.0)
    named = Chart(
        title="named", series=(Series(name="a long name", xs=xs, ys=1000.0 * xs),), x_label="", y_label=""
    )
    bare = Chart(title="bare", series=(Series(name="", xs=xs, ys=xs),), x_label="", y_label="")
    wide, left, right = QRectF(0, 0, 300, 140), QRectF(0, 150, 140, 140), QRectF(160, 150, 140, 140)
    image = blank(LIGHT)
    with QPainter(image) as painter:
        alone = paint_chart(painter, left, bare, palette=LIGHT).plot
        top, low, beside = paint_charts(painter, (wide, left, right), (named, bare, bare), palette=LIGHT)
    assert top.plot.left() == low.plot.left() > alone.left()
    assert top.plot.right() == beside.plot.right()
    assert low.plot.right() == alone.right()
