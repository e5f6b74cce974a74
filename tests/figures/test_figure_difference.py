"""The difference as a picture and as numbers: one scale around 0, one layout for all three maps."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from figure_samples import compared_maps, head_map, spec, tokens
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from attnscope import figure
from attnscope.errors import UserError
from attnscope.figures import (
    DARK,
    FIRST_COLOUR,
    LIGHT,
    NO_DATA,
    NOT_ALLOWED,
    GridMarks,
    MapStyle,
    axis_names,
    by_change,
    caption_lines,
    changes_layout,
    difference_map,
    export,
    lightness,
    lut,
    paint_changes,
    text_width,
)
from attnscope.figures.views import GAP, difference_codes, difference_layout, paint_difference
from attnscope.records import NO_GATES, NO_TOKEN, DifferenceGrid, HeadMap, HeadRef, Site, Token, Tokens
from attnscope.viewmodels.compare import align_tokens, compare_maps

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]


def pair(first: list[list[float]], second: list[list[float]]) -> tuple[HeadMap, HeadMap]:
    names = tokens(*(f"t{k}" for k in range(len(first))))
    head = HeadRef(stack="encoder", layer=0, head=0)
    made = [
        HeadMap(head=head, queries=names, keys=names, weights=np.array(w, dtype=np.float32))
        for w in (first, second)
    ]
    return made[0], made[1]


def test_that_equal_differences_of_either_sign_weigh_the_same_and_zero_is_the_middle() -> None:
    first, second = pair([[0.5, 0.5], [1.0, 0.0]], [[0.25, 0.75], [1.0, 0.0]])
    aligned = align_tokens(first.queries, second.queries)
    shown = compare_maps(first, second, aligned, aligned)
    codes = difference_codes(shown, MapStyle()).delta
    assert codes[0].tolist() == [FIRST_COLOUR, FIRST_COLOUR + 255]
    assert abs(int(codes[1, 0]) - FIRST_COLOUR - 127.5) <= 0.5
    for palette in (LIGHT, DARK):
        light = lightness(lut(difference_map(palette)))
        np.testing.assert_allclose(light, light[::-1], atol=2.5)


def test_that_a_and_b_share_one_scale() -> None:
    first, second = pair([[0.5, 0.5], [0.2, 0.2]], [[0.25, 0.75], [0.4, 0.0]])
    aligned = align_tokens(first.queries, second.queries)
    shown = compare_maps(first, second, aligned, aligned)
    coded = difference_codes(shown, MapStyle(scale="head"))
    assert coded.top == 0.75
    assert coded.second[0, 1] == FIRST_COLOUR + 255
    assert coded.first[0, 1] == FIRST_COLOUR + round(255 * 0.5 / 0.75)
    by_row = difference_codes(shown, MapStyle(scale="row"))
    assert by_row.first[1].tolist() == [FIRST_COLOUR + 128, FIRST_COLOUR + 128]


def test_that_masked_one_sided_and_missing_cells_have_codes_of_their_own() -> None:
    codes = difference_codes(compared_maps(), MapStyle()).delta
    assert codes[0, 1] == NOT_ALLOWED
    assert codes[4, 4] == NO_DATA
    apart = difference_codes(compared_maps(3, 4), MapStyle()).delta  # “cat” against “dog sat”
    assert apart[2, 3] == apart[3, 2] == GAP
    assert apart[3, 4] == NOT_ALLOWED


@pytest.mark.parametrize("size", [(1200, 340), (420, 400)])
def test_that_all_three_maps_agree_on_every_cell(size: tuple[int, int]) -> None:
    shown = compared_maps()
    rect = QRectF(0, 0, *size)
    layout = difference_layout(rect, shown)
    first, second, delta = layout.cells
    assert first.size() == second.size() == delta.size()
    for panel in layout.panels:
        assert layout.hit(panel.cell_rect(2, 3).center()) == (2, 3)
        assert rect.contains(panel.cells)
    assert not first.intersects(second)
    assert not first.intersects(delta)
    assert layout.hit(QPointF(1, 1)) is None


def test_that_a_zoomed_picture_shows_the_same_part_of_each() -> None:
    layout = difference_layout(QRectF(0, 0, 1000, 300), compared_maps(), view=QRectF(1, 1, 2, 2))
    assert {panel.hit(panel.cells.topLeft()) for panel in layout.panels} == {(1, 1)}


def test_that_a_large_map_shows_its_largest_difference_of_either_sign() -> None:
    n = 600
    first, second = np.full((n, n), 0.5, dtype=np.float32), np.full((n, n), 0.5, dtype=np.float32)
    second[300, 300] = 0.0
    names = tokens(*(str(k) for k in range(n)))
    head = HeadRef(stack="encoder", layer=0, head=0)
    maps = [HeadMap(head=head, queries=names, keys=names, weights=w) for w in (first, second)]
    aligned = align_tokens(names, names)
    shown = compare_maps(maps[0], maps[1], aligned, aligned)
    image = QImage(700, 260, QImage.Format.Format_RGB32)
    with QPainter(image) as painter:
        layout = difference_layout(QRectF(0, 0, 700, 260), shown)
        paint_difference(painter, layout, shown, style=MapStyle(show_values=True), palette=LIGHT)
    cells = layout.cells[2].toRect()
    low = QColor(*lut("diverging")[0].tolist())
    pixels = {image.pixelColor(x, y).name() for x in range(cells.left(), cells.right() + 1)
              for y in range(cells.top(), cells.bottom() + 1)}  # fmt: skip
    assert low.name() in pixels


def test_that_a_difference_is_written_with_its_numbers() -> None:
    made = spec("difference")
    rows = list(csv.reader(io.StringIO(export.render(made, "csv").decode())))
    assert rows[0][-4:] == ["weight A", "weight B", "B - A", "allowed by"]
    assert len(rows) == 1 + made.compared.delta.size
    by_place = {(row[3], row[5]): row for row in rows[1:]}
    shared = by_place["1", "0"]
    assert float(shared[9]) == pytest.approx(float(shared[8]) - float(shared[7]), abs=1e-6)
    assert by_place["0", "1"][-1] == "neither"
    assert by_place["4", "0"][7:] == ["", by_place["4", "0"][8], "", "B"]
    arrays = np.load(io.BytesIO(export.render(made, "npz")))
    np.testing.assert_array_equal(arrays["decoder_L1H2_difference"], made.compared.delta)
    words = " ".join(caption_lines(made))
    assert "B − A to the largest difference" in words
    assert "B · other" in words


class Fake:
    """As much of a trace as a figure of a difference needs."""

    sites = (Site(stack="decoder", layer=1, n_heads=1, n_kv_heads=1),)
    gates = spec("grid").gates
    interventions = ()
    target = None

    def __init__(self, found: HeadMap, text: str = "") -> None:
        self.found, self.source = found, Tokens(text=text, tokens=found.keys)

    def head_map(self, head: HeadRef) -> HeadMap:
        return self.found


def test_that_two_traces_make_a_figure_and_one_does_not() -> None:
    head = ("decoder", 1, 0)
    made = figure(Fake(head_map(4, 4)), "difference", head=head, other=Fake(head_map(4, 5)), names=("A", "B"))
    assert made.spec.compared.delta.shape == (4, 5)
    assert made.render("svg").startswith(b"<?xml")
    with pytest.raises(UserError, match="two traces"):
        figure(Fake(head_map(4, 4)), "difference", head=head)


def test_that_sides_without_names_are_named_by_what_tells_them_apart() -> None:
    def names(first: Fake, second: Fake, **more: Any) -> tuple[str, str]:
        return figure(first, "difference", other=second, **more).spec.compared.names

    small = head_map(4, 4)
    cats, dogs, gated = Fake(small, "a cat"), Fake(small, "a dog"), Fake(small, "a cat")
    gated.gates = NO_GATES.with_value(small.head, 0.0)
    assert names(cats, dogs) == ("A · “a cat”", "B · “a dog”")
    assert names(cats, gated) == ("A · untouched", f"B · {small.head.stack} {small.head.label} off")
    assert names(cats, cats) == ("A", "B")
    assert names(cats, dogs, names=("one", "two")) == ("one", "two")


def grids(n_layers: int = 3, n_heads: int = 4) -> tuple[DifferenceGrid, ...]:
    rng = np.random.default_rng(1)
    return tuple(
        DifferenceGrid(
            heads=tuple(HeadRef(stack="encoder", layer=layer, head=h) for h in range(n_heads)),
            n_queries=5,
            n_keys=5,
            levels=rng.integers(0, 256, (n_heads, 5, 5), dtype=np.uint8),
            peaks=np.full(n_heads, 0.5),
            mean_abs=np.resize([0.1, np.nan, 0.3, 0.2], n_heads) + layer,
            moved=np.full(n_heads, 0.1),
        )
        for layer in range(n_layers)
    )


def test_that_rows_are_called_after_what_they_write_though_the_first_is_of_the_other_side_alone() -> None:
    written = tuple(replace(token, read="<s>") for token in tokens("le", "chat"))
    gap = Token(id=NO_TOKEN, piece="–", is_special=True)
    assert axis_names((gap, *written), MapStyle()) == ("Key", "Written")
    assert (
        axis_names((gap, *tokens("the", "cat")), MapStyle()) == axis_names((), MapStyle()) == ("Key", "Query")
    )


@pytest.mark.parametrize("is_sorted", [False, True])
def test_that_every_head_of_a_comparison_is_shown_once(is_sorted: bool) -> None:
    rect = QRectF(0, 0, 520, 240)
    layout = changes_layout(rect, grids(), is_sorted=is_sorted)
    heads = [changed.head for row in layout.rows for changed in row]
    assert len(set(heads)) == len(heads) == 12
    for row, column in layout.places():
        box = layout.box(row, column)
        assert rect.contains(box)
        assert layout.hit(box.center()).head == layout.rows[row][column].head
    image = QImage(520, 240, QImage.Format.Format_RGB32)
    with QPainter(image) as painter:
        paint_changes(painter, layout, grids(), palette=DARK, marks=GridMarks(current=heads[0]))


def test_that_all_of_many_layers_are_seen_and_named() -> None:
    """As of a model of 24 layers in the page Compare at 1280×800: ten of them were below its edge."""
    rect = QRectF(0, 0, 600, 200)
    layout = changes_layout(rect, grids(24, 16), is_sorted=False)
    assert sum(map(len, layout.rows)) == 24 * 16
    assert all(rect.contains(layout.box(*place)) for place in layout.places())
    assert (layout.names[0][:2], layout.names[-1][-3:]) == ("L0", "–23")
    first, last, other = (layout.box(0, column) for column in (0, 15, 16))
    assert other.left() - last.right() > layout.box(0, 1).left() - first.right() + 4


def test_that_the_most_changed_heads_come_first_and_those_without_number_last() -> None:
    first = by_change(tuple(c for row in changes_layout(QRectF(0, 0, 500, 200), grids(2),
                                                           is_sorted=False).rows for c in row))  # fmt: skip
    means = [changed.mean_abs for changed in first]
    assert means[:3] == [1.3, 1.2, 1.1]
    assert np.isnan(means[-2:]).all()
    assert "no cell in common" in first[-1].sentence


def test_that_labels_of_several_stacks_have_their_letter_and_do_not_touch() -> None:
    first, *_ = grids(1, 8)[:1]
    mixed = tuple(
        replace(first, heads=tuple(HeadRef(stack=stack, layer=1, head=h) for h in range(8)))  # type: ignore[arg-type]
        for stack in ("encoder", "decoder", "cross")
    )
    for is_sorted in (False, True):
        layout = changes_layout(QRectF(0, 0, 490, 200), mixed, is_sorted=is_sorted)
        assert layout.is_mixed
        assert layout.label_px > 0
        step = layout.box(0, 1).left() - layout.box(0, 0).left()
        assert step >= text_width("E L1H6") + 6
        assert layout.box(0, len(layout.rows[0]) - 1).right() <= 490


def test_that_a_head_that_is_off_is_dimmed_and_struck() -> None:
    pictures = []
    layout = changes_layout(QRectF(0, 0, 520, 240), grids(1), is_sorted=False)
    for off in (NO_GATES, NO_GATES.with_value(grids(1)[0].heads[1], 0.0)):
        image = QImage(520, 240, QImage.Format.Format_RGB32)
        image.fill(0)
        with QPainter(image) as painter:
            paint_changes(painter, layout, grids(1), palette=DARK, marks=GridMarks(gates=off))
        pictures.append([image.copy(layout.box(0, k).toRect()) for k in range(2)])
    assert pictures[0][0] == pictures[1][0]
    assert pictures[0][1] != pictures[1][1]


def test_that_both_bars_stand_where_a_fourth_map_would_and_leave_the_maps_its_width() -> None:
    rect = QRectF(0, 0, 480, 500)
    layout = difference_layout(rect, compared_maps())
    first, second, delta = layout.cells
    assert second.top() == first.top() < delta.top()
    for bar in (layout.weight_bar, layout.delta_bar):
        assert rect.contains(bar)
        assert bar.top() == delta.top()
        assert bar.left() > delta.right()
    assert layout.weight_bar.left() >= layout.delta_bar.right()
    assert second.right() > rect.right() - 60.0  # no column of bars beside it
