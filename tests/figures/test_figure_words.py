"""Words around a picture: unknown letters on the axes, remarks in the caption, notes that are not cut."""

import dataclasses
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import head_map, position_table, spec, tokens
from long_fakes import HEAD, long_map
from PySide6.QtCore import QRectF

from attnscope.figures import (
    AXIS_LINE_PX,
    LIGHT,
    MapStyle,
    caption_lines,
    csv_bytes,
    export,
    sized,
    text_width,
    values_hint,
)
from attnscope.figures.views import footnote, lines_layout, natural_lines_height, panels_figure
from attnscope.records import HeadMap, StrongEdges, Token, own_letters
from attnscope.viewmodels.maps import condensed

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
SVG = "{http://www.w3.org/2000/svg}"


def words(spec) -> list[str]:
    root = ElementTree.fromstring(export.render(spec, "svg"))
    return ["".join(e.itertext()) for e in root.iter(f"{SVG}text")]


def even_map(largest: float) -> HeadMap:
    """Six keys, each with about a sixth of the weight; the first has `largest`."""
    rest = (1 - largest) / 5
    weights = np.full((6, 6), rest, np.float32)
    weights[:, 0] = largest
    names = tokens(*"abcdef")
    return HeadMap(head=head_map().head, queries=names, keys=names, weights=weights)


def test_that_unknown_letters_stand_on_the_axes_over_a_dashed_line():
    unknown = Token(id=1, piece="<unk>", is_special=True, start=4, end=9, own="whïte")
    shown = head_map(2, 2)
    one = spec("head", maps=(dataclasses.replace(shown, queries=(shown.queries[0], unknown)),))
    assert {"q0", "whïte"} <= set(words(one))
    assert "<unk>" not in words(one)
    assert "stroke-dasharray" in export.render(one, "svg").decode()
    assert "stroke-dasharray" not in export.render(spec("head", maps=(shown,)), "svg").decode()
    assert "Note: over a dashed line: unknown, read as <unk>" in caption_lines(one)
    assert '"<unk>"' in csv_bytes(one).decode()


def test_that_a_word_that_can_be_copied_stands_over_a_dotted_line_and_is_not_called_unknown():
    copied = Token(id=900, piece="Zorbel", start=4, end=10, own="Zorbel")
    shown = head_map(2, 2)
    one = spec("head", maps=(dataclasses.replace(shown, queries=(shown.queries[0], copied)),))
    drawn = export.render(one, "svg").decode()
    assert "stroke-dasharray" in drawn
    assert LIGHT.error not in drawn
    remark = next(line for line in caption_lines(one) if line.startswith("Note: "))
    assert remark == "Note: over a dotted line: outside the vocabulary but can be copied"


def test_that_sums_of_heads_are_written_whole_in_cells_that_have_room_for_them():
    names = tokens("a", "b", "c")
    weights = np.array([[10.25, 20.5, 1.0], [0.25, 100.06, 0.004], [1.25, np.nan, 3.0]], np.float32)
    one = HeadMap(head=head_map().head, queries=names, keys=names, weights=weights, full=144.0)
    shown = spec("head", maps=(one,), style=MapStyle(show_values=True), width_mm=120.0)
    drawn = [word for word in words(shown) if re.fullmatch(r"[\d.]*\.\d\d|1", word)]
    assert drawn[:7] == ["10.25", "20.50", "1", ".25", "100.06", "1.25", "3.00"]
    assert not values_hint(shown)
    narrow = dataclasses.replace(shown, width_mm=60.0)
    assert "values do not fit" in values_hint(narrow)
    single = dataclasses.replace(one, weights=np.minimum(weights, 1.0), full=1.0)
    assert not values_hint(dataclasses.replace(narrow, maps=(single,)))


def test_that_the_caption_tells_the_end_of_the_scale_of_a_sum():
    shown = spec("head", maps=(dataclasses.replace(head_map(2, 2), full=3.0),))
    assert "scale 0–3, viridis" in " ".join(caption_lines(shown))
    assert "scale 0–1, viridis" in " ".join(caption_lines(spec("head", maps=(head_map(2, 2),))))


def test_that_rough_thumbnails_are_called_rough():
    grids = spec("grid").grids
    rough = spec("grid", grids=(grids[0], dataclasses.replace(grids[1], is_sampled=True)))
    assert "rough: see single heads" in " ".join(caption_lines(rough))
    assert "rough" not in " ".join(caption_lines(spec("grid")))


def test_that_strong_edges_alone_say_nothing_of_the_mask():
    edges = StrongEdges(
        trace=7, heads=(HEAD,), head_indices=np.zeros(2, np.intp), queries=np.array([9, 20]),
        keys=np.array([4, 19]), weights=np.array([0.1, 0.4]), n_all=8_000, hidden=0.9,
    )  # fmt: skip
    (shown,) = condensed(edges, long_map())[0]
    said = " ".join(caption_lines(spec("lines", maps=(shown,))))
    assert "the 2 strongest of 8,000 weights, 90.0 % of the weight not shown" in said
    assert "mask" not in said
    assert "mask none" in " ".join(caption_lines(spec("lines", maps=(head_map(2, 2),))))


def test_that_only_an_unknown_piece_has_letters_of_its_own():
    assert own_letters("the whïte cat", "<unk>", 4, 9) == "whïte"
    assert own_letters("the whïte cat", "[UNK]", 3, 9) == "whïte"
    assert own_letters("the whïte cat", "the", 0, 3) == ""
    assert len(own_letters("x" * 900, "<unk>", 0, 900)) == 60


@pytest.mark.parametrize(("largest", "is_even"), [(0.2, True), (0.9, False)])
def test_that_a_caption_says_when_a_map_is_almost_even(largest: float, is_even: bool):
    one = spec("head", maps=(even_map(largest),))
    said = "Note: almost even: 0.2 at most over 6 keys"
    assert (said in caption_lines(one)) == is_even
    assert said not in caption_lines(dataclasses.replace(one, style=MapStyle(scale="head")))
    both = panels_figure(one, (even_map(largest), even_map(0.21)))
    assert (said in caption_lines(both)) == is_even


@pytest.mark.parametrize("width_mm", [85.0, 174.0])
def test_that_the_notes_of_encodings_stand_whole_below_them(width_mm: float):
    note = "The vector of equal parts and length 1, rotated by each position; 128 dimensions, base 10000."
    tables = (dataclasses.replace(position_table("rotary"), note=note), position_table("plain"))
    page = sized(spec("positions", positions=tables), width_mm=width_mm)
    shown = words(page)
    assert f"rotary: {note}" in " ".join(shown)
    assert not any("…" in word and "The vector" in word for word in shown)
    bare = sized(
        spec("positions", positions=(position_table("rotary"), position_table("plain"))), width_mm=width_mm
    )
    assert page.height_mm > bare.height_mm


def test_that_the_footnote_of_lines_is_broken_before_it_is_cut():
    said = "5 of 25 lines · under 0.1 % of the weight hidden"
    assert footnote(said, 400.0) == (said,)
    assert footnote(said, text_width(said) - 1) == ("5 of 25 lines", "under 0.1 % of the weight hidden")
    first, last = footnote(said, 150.0)
    assert re.sub(r"\s+", " ", f"{first} {last}") == said
    assert footnote(said, 60.0)[1].endswith("…")


@pytest.mark.parametrize("width", [170.0, 900.0])
def test_that_both_rows_of_a_footnote_are_on_the_page(width: float) -> None:
    shown = head_map()
    page = QRectF(0.0, 0.0, width, natural_lines_height(shown, width))
    layout = lines_layout(page, shown)
    rows = footnote("24 of 50 lines · 0.4 % of the weight hidden", layout.rect.width())
    assert len(rows) == (2 if width < 200 else 1)
    assert layout.room.bottom() + 6 + len(rows) * AXIS_LINE_PX <= layout.rect.bottom()
