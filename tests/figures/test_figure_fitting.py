"""Pages suit what stands on them: preset by view, panels in a row, no white below, axes named outside."""

import dataclasses
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import head_map, site_grid, spec, tokens
from PySide6.QtGui import QImage

from attnscope.errors import UserError
from attnscope.figures import (
    FigureSpec,
    column_turn,
    export,
    fitted,
    is_fitted,
    label_width,
    preset_of,
    sized,
    text_width,
)
from attnscope.figures.views import VIEWS, panels_figure, suiting_columns

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
_MOST_WHITE = 0.12


def three(**changes) -> FigureSpec:
    maps = tuple(head_map(7, 7, head=h) for h in range(3))
    return dataclasses.replace(panels_figure(spec("lines", maps=maps), maps), caption=None, **changes)


def white_below(shown: FigureSpec) -> float:
    """The share of the page under the last line that is not white."""
    picture = export.image(dataclasses.replace(shown, dpi=72)).convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(picture.constBits(), np.uint32).reshape(picture.height(), -1)
    used = np.flatnonzero((pixels & 0xFFFFFF != 0xFFFFFF).any(axis=1))
    return 1 - (int(used[-1]) + 1) / picture.height()


def texts_at(content: bytes) -> dict[str, list[tuple[float, float]]]:
    """Where each text of an SVG stands, without its own transform."""
    found: dict[str, list[tuple[float, float]]] = {}
    for element in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text"):
        place = float(element.get("x", "0")), float(element.get("y", "0"))
        found.setdefault("".join(element.itertext()).strip(), []).append(place)
    return found


@pytest.mark.parametrize("view", [name for name, kind in VIEWS.items() if kind.follows_width])
def test_that_a_fitted_page_ends_where_the_figure_does(view):
    shown = sized(dataclasses.replace(spec(view), caption=None))
    assert is_fitted(shown)
    assert white_below(shown) < _MOST_WHITE
    assert preset_of(shown) is not None


def test_that_a_short_text_takes_one_column_and_a_long_one_two():
    assert sized(spec("head")).width_mm == 85.0
    assert sized(spec("head", maps=(head_map(17, 17),))).width_mm == 174.0
    assert sized(spec("grid")).width_mm == 174.0
    slide = sized(spec("head"), preset="slide")
    assert (slide.width_mm, slide.height_mm) == (338.7, 190.5)
    own = sized(spec("head"), width_mm=120.0, height_mm=50.0)
    assert (own.width_mm, own.height_mm) == (120.0, 50.0)


def test_that_three_panels_stand_in_one_row_and_in_as_many_columns_as_asked():
    places = {}
    for columns in (0, 1, 2, 3):
        shown = sized(three(columns=columns), preset="double")
        found = texts_at(export.render(shown, "svg"))
        letters = [found[letter][0] for letter in "abc"]
        places[columns] = len({x for x, _ in letters}), len({y for _, y in letters})
        assert white_below(shown) < _MOST_WHITE
    assert places == {0: (3, 1), 1: (1, 3), 2: (2, 2), 3: (3, 1)}
    with pytest.raises(UserError, match="columns"):
        export.render(three(columns=9), "svg")


@pytest.mark.parametrize(("n", "width", "columns"), [(3, 580, 3), (4, 580, 2), (5, 580, 3), (2, 290, 1)])
def test_that_rows_are_filled_alike(n, width, columns):
    assert suiting_columns(n, width) == columns


def test_that_the_outer_panels_name_the_axes():
    found = texts_at(export.render(sized(three(columns=2), preset="double"), "svg"))
    words = {name: len(places) for name, places in found.items() if re.match("Key|Query", name)}
    assert words == {"Key": 2, "Query": 2}  # two in the upper row, two in the left column


def test_that_a_page_of_ones_own_height_stays():
    assert not is_fitted(spec("head", height_mm=300.0))
    assert fitted(spec("lab")).height_mm == spec("lab").height_mm


def test_that_key_labels_stay_level_until_neighbours_touch():
    middle = tokens("a", "extraordinary", "b")
    apart = max(label_width(middle[1]) + w for w in (label_width(middle[0]), label_width(middle[2]))) / 2
    assert column_turn(middle, apart + 4.01) == 0
    assert column_turn(middle, apart + 3.9) == 45


def test_that_panels_with_lines_and_grid_share_a_fitted_page():
    maps = tuple(head_map(7, 7, head=h) for h in range(3))
    shown = panels_figure(spec("lines", maps=maps), maps, has_lines=True, grids=(site_grid(),))
    assert white_below(sized(dataclasses.replace(shown, caption=None))) < _MOST_WHITE


def cells_drawn(shown: FigureSpec) -> tuple[float, float]:
    """Width and height of the cells of a map whose first weight alone is 1, in dots of the picture."""
    picture = export.image(dataclasses.replace(shown, dpi=200)).convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(picture.constBits(), np.uint32).reshape(picture.height(), -1) & 0xFFFFFF
    is_full = pixels == 0xFDE725  # the end of viridis; the colour bar lies to the right
    column = int(np.flatnonzero(is_full.any(axis=0))[0])
    rows = np.flatnonzero(is_full[:, column])
    return float(np.argmin(is_full[rows[0], column:])), float(len(rows))


@pytest.mark.parametrize("n", [9, 13, 29])
@pytest.mark.parametrize("font_pt", [7.0, 9.0])
def test_that_a_map_in_a_narrow_column_has_square_cells(n, font_pt):
    weights = np.zeros((n, n), np.float32)
    weights[0, 0] = 1
    weights[1:, 1] = 0.5
    shown = spec("head", maps=(dataclasses.replace(head_map(n, n), weights=weights),), caption=None)
    shown = sized(shown, width_mm=83.8, font_pt=font_pt)
    width, height = cells_drawn(shown)
    assert height == pytest.approx(width, abs=3)
    assert white_below(shown) < _MOST_WHITE


def test_that_a_map_of_few_queries_and_many_keys_still_fills_its_column():
    shown = sized(spec("head", maps=(head_map(4, 40),), caption=None), width_mm=83.8, font_pt=9.0)
    assert shown.height_mm > 40


def test_that_a_difference_in_a_narrow_column_fits_a_page():
    shown = sized(spec("difference", caption=None), width_mm=83.8, font_pt=9.0)
    assert 100 < shown.height_mm < 245
    assert white_below(shown) < _MOST_WHITE


def test_that_words_of_narrow_position_maps_stand_apart():
    narrow = sized(spec("positions", caption=None), width_mm=83.8, font_pt=9.0)
    wide = sized(spec("positions", caption=None), preset="double")
    below, beside = (texts_at(export.render(shown, "svg")) for shown in (narrow, wide))
    assert "cosine similarity" in below
    for found, is_below in ((below, True), (beside, False)):
        (_, position), (_, dimension) = places(found, "position")[0], places(found, "dimension")[0]
        assert (position < dimension) == is_below
    dimension_x = places(below, "dimension")[0][0]
    next_x = min(x for x, _ in places(below, "position") if x > dimension_x)
    assert next_x - dimension_x > text_width("dimension →")


def places(found: dict[str, list[tuple[float, float]]], word: str) -> list[tuple[float, float]]:
    """Where an axis has this name; a font without arrows parts names that stand in one line."""
    parts = [(part, at) for name, at in found.items() for part in name.split("   ")]
    return [place for part, at in parts if part.rstrip(" ↓→") == word for place in at]


def test_that_the_title_of_a_narrow_difference_ends_at_a_whole_part():
    shown = spec("difference", caption=None)
    for width_mm, told in ((174.0, True), (76.0, False)):
        found = texts_at(export.render(sized(shown, width_mm=width_mm, font_pt=9.0), "svg"))
        words = " ".join(found)
        assert ("of their weight" in words) == told
        assert "…" not in words.replace("A · one", "")
