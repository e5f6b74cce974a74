"""Panels share one scale and one colour bar; presets, type and labels reach the page."""

import dataclasses
import io
import re
import string
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import head_map, site_grid, spec
from PySide6.QtCore import QRectF

from attnscope import Caption, Figure
from attnscope import panels as compose
from attnscope.errors import LoadError, UserError
from attnscope.figures import (
    BASE_PT,
    PRESETS,
    MapStyle,
    caption_lines,
    codes_from_grid,
    codes_from_weights,
    column_stride,
    common_peak,
    csv_bytes,
    export,
    figure_file_bytes,
    figure_from_bytes,
    lettered_maps,
    map_layout,
    npz_bytes,
    preset_of,
    shown_maps,
    sized,
    values_hint,
)
from attnscope.figures.views import (
    lines_are_named,
    on_common_scale,
    panel_rects,
    panels_figure,
    panels_of,
    widest_columns,
)
from attnscope.records import NO_GATES, Gates

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
SVG = "{http://www.w3.org/2000/svg}"


def texts(content: bytes) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(content).iter(f"{SVG}text")]


def panels(n: int = 2, **changes):
    base = spec("lines", width_mm=174.0, height_mm=130.0, **changes)
    return panels_figure(
        base, tuple(head_map(head=h) for h in range(n)), has_lines=True, grids=(site_grid(),)
    )


def test_that_panels_have_letters_and_one_colour_bar():
    content = export.render(panels(), "svg")
    shown = texts(content)
    assert [word for word in shown if re.fullmatch("[a-z]", word)] == ["a", "b", "c", "d"]
    assert shown.count("weight") == 1
    assert {"L1H0 decoder", "L1H1 decoder", "lines", "decoder, all heads"} <= set(shown)
    assert "a: L1H0 decoder" in " ".join(caption_lines(panels()))
    bare = export.render(dataclasses.replace(panels(), style=MapStyle(has_bar=False)), "svg")
    assert "weight" not in texts(bare)


def test_that_cells_are_shapes_and_text_is_text_in_both_vector_formats():
    content = export.render(panels(), "svg")
    root = ElementTree.fromstring(content)
    images = list(root.iter(f"{SVG}image"))
    assert len(images) == 1  # the colour bar
    assert len(list(root.iter(f"{SVG}rect"))) > 40
    assert content.count(b"image-rendering:pixelated") == len(images)
    assert {"q0", "k4", "Query", "Key", "weight"} <= set(texts(content))
    pdf = export.render(panels(), "pdf")
    assert b"/FontFile" in pdf
    assert b"/Type /Font" in pdf


def test_that_panels_are_coloured_on_one_scale():
    strong = dataclasses.replace(head_map(), weights=head_map().weights * 0.5)
    shown = panels_figure(
        spec("lines", style=MapStyle(scale="head")), (head_map(head=1), strong), grids=(site_grid(),)
    )
    peak = common_peak(shown)
    assert peak == 1.0  # the grid's largest
    for before, panel in zip(shown.panels, on_common_scale(shown), strict=True):
        assert panel.style.scale == "fixed"
        for one, other in zip(before.held_maps(), panel.held_maps(), strict=True):
            codes = codes_from_weights(other.weights, "fixed", other.full)
            np.testing.assert_array_equal(codes, codes_from_weights(one.weights, "fixed", peak))
    alone = panels_figure(spec("lines", style=MapStyle(scale="head")), (head_map(), strong))
    assert common_peak(alone) == pytest.approx(float(head_map().weights.max()))
    wide = panels_figure(spec("lines", style=MapStyle(scale="head")), (), grids=(site_grid(),))
    scaled = on_common_scale(wide)[0].grids[0]
    np.testing.assert_array_equal(codes_from_grid(scaled, "fixed"), codes_from_grid(site_grid(), "fixed"))


def test_that_a_page_holds_a_panel_for_each_letter_and_each_map_once():
    assert [m.head.head for m in shown_maps(panels(4))] == [0, 1, 2, 3]
    assert [word for word in texts(export.render(panels(10), "svg")) if re.fullmatch("[a-z]", word)] == list(
        string.ascii_lowercase[:12]
    )
    with pytest.raises(UserError, match="12, not 13"):
        panels(11)


def test_that_a_figure_file_may_hold_a_panel_for_every_letter():
    many = panels_figure(spec("lines"), tuple(head_map(head=k) for k in range(26)), most=26)
    kept = figure_from_bytes(figure_file_bytes(many))
    assert kept.letters == string.ascii_lowercase
    with pytest.raises(LoadError, match="do not fit together"):
        figure_from_bytes(figure_file_bytes(dataclasses.replace(many, panels=(*many.panels, many.panels[0]))))


def texts_of_two() -> tuple[Figure, ...]:
    """One head in two texts, the second with other tokens, and its lines in the second."""
    other = dataclasses.replace(head_map(3, 3), weights=head_map(3, 3).weights[::-1])
    about = Caption(model="tiny", text="to be"), Caption(model="tiny", text="or not")
    views = (("head", head_map(), about[0]), ("head", other, about[1]), ("lines", other, about[1]))
    return tuple(Figure(spec(view, maps=(m,), caption=said)) for view, m, said in views)


def test_that_panels_of_two_texts_are_told_apart_everywhere():
    page = compose(texts_of_two(), columns=3, caption=Caption(model="tiny")).spec
    assert [panel.title for panel in page.panels] == ["“to be”", "“or not”", "“or not”"]
    assert [(letter, title) for letter, title, _ in lettered_maps(page)] == [
        ("a", "“to be”"),
        ("b", "“or not”"),
    ]
    shown = texts(export.render(page, "svg"))
    assert {"“to be”", "L1H0 decoder", "lines"} <= set(shown)
    assert shown.count("“or not”") == 2
    assert "b: L1H0 decoder · “or not” · c: lines · “or not”" in " ".join(caption_lines(page))
    rows = csv_bytes(page).decode().splitlines()
    assert rows[0].startswith('"panel","stack"')
    assert len(rows) == 1 + 4 * 5 + 3 * 3
    arrays = np.load(io.BytesIO(npz_bytes(page)))
    assert arrays["b_decoder_L1H0"].shape == (3, 3)
    assert {"L1H0 decoder · “to be”", "L1H0 decoder · “or not”"} <= set(
        re.findall('"name":"([^"]*)"', render_text(page, "html"))
    )


def render_text(page, format: str) -> str:
    return export.render(page, format).decode().encode().decode("unicode-escape", "replace")


def test_that_own_titles_stand_in_the_place_of_what_differs():
    page = compose(texts_of_two(), titles=("cat", "", "x"))
    assert [panel.title for panel in page.spec.panels] == ["cat", "", "x"]
    with pytest.raises(UserError, match="1 title for 3"):
        compose(texts_of_two(), titles=("cat",))
    with pytest.raises(UserError, match="no figure"):
        compose(())
    with pytest.raises(UserError, match="Panel b cannot show the view 'curves'"):
        compose((*texts_of_two()[:1], Figure(spec("curves"))))


def test_that_lines_without_panels_of_their_heads_name_them():
    lines = Figure(spec("lines", maps=(head_map(), head_map(head=1))))
    alone = compose((lines,)).spec
    assert lines_are_named(alone, 0)
    assert {"L1H0", "L1H1"} <= set(texts(export.render(alone, "svg")))
    assert "a: lines of decoder L1H0, decoder L1H1" in " ".join(
        caption_lines(dataclasses.replace(alone, caption=Caption(model="m")))
    )
    heads = tuple(Figure(spec("head", maps=(head_map(head=h),))) for h in (0, 1))
    assert not lines_are_named(compose((*heads, lines)).spec, 2)


def test_that_the_width_that_has_room_for_values_has_it():
    page = dataclasses.replace(panels(6), style=MapStyle(show_values=True))
    narrow = dataclasses.replace(sized(page, width_mm=110.0), columns=3)
    hint = values_hint(narrow)
    assert "values do not fit" in hint
    width = float(re.search(r"--width-mm (\d+)", hint)[1])
    assert values_hint(sized(narrow, width_mm=width)) == ""


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, 2), (4, 2), (6, 3)])
def test_that_panels_lie_in_rows_without_overlap(n: int, columns: int):
    rect = QRectF(0, 0, 600, 420 if n > 2 else 300)
    assert widest_columns(rect, n) == columns
    rects = panel_rects(rect, n, columns, (2.0, 1.0)[: -(-n // columns)])
    assert rects[0].height() == pytest.approx(rect.height() * (1 if n <= columns else 2 / 3))
    assert len({r.left() for r in rects}) == columns
    assert not any(a.intersects(b) for i, a in enumerate(rects) for b in rects[:i])


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_that_a_preset_sets_page_and_type(preset):
    shown = spec("head", width_mm=preset.width_mm, height_mm=preset.height_mm, font_pt=preset.font_pt)
    assert preset_of(shown) is preset
    assert preset_of(dataclasses.replace(shown, width_mm=100.0)) is None
    content = export.render(shown, "svg").decode()
    scale = preset.font_pt / BASE_PT
    assert re.search(rf'transform="matrix\({scale:.4f}'[:-2], content)


def test_that_type_out_of_range_is_refused():
    with pytest.raises(UserError, match="200 pt"):
        export.render(spec("head", font_pt=200.0), "svg")


def test_that_labels_turn_and_thin_as_asked():
    one = head_map(12, 12)
    rect = QRectF(0, 0, 320, 300)
    for turn in (0, 45, 90):
        assert map_layout(rect, one.queries, one.keys, turn=turn).turn == turn
    drawn = texts(export.render(spec("head", maps=(one,), style=MapStyle(label_every=5)), "svg"))
    assert [w for w in drawn if re.fullmatch(r"q\d+", w)] == ["q0", "q5", "q10"]
    assert column_stride(10.0, 0, 32.0) == 4
    assert column_stride(100.0, 0, 32.0) == 1
    assert column_stride(10.0, 45, 32.0) == 2


def page_of(*parts, scale="fixed", gates=NO_GATES):
    """Heads as panels, and lines where a part is several heads; every part looks different before."""
    specs = [
        spec("lines" if len(maps) > 1 else "head", maps=maps, gates=gates, style=MapStyle(turn=90))
        for maps in parts
    ]  # fmt: skip
    return panels_of(specs, [""] * len(specs), spec("panels", style=MapStyle(scale=scale)))


def test_that_panels_say_what_the_gate_of_their_head_is():
    head = head_map()
    for gate, words in ((0.0, " · off"), (0.25, " · gate 0.25"), (1.0, "")):
        (panel,) = page_of((head,), gates=Gates.of({head.head: gate})).panels
        assert panel.subject() == f"{head.head.label} {head.head.stack}{words}"


def test_that_maps_of_one_head_with_other_weights_are_other_maps():
    other = dataclasses.replace(head_map(), weights=head_map().weights[:, ::-1].copy())
    assert len(shown_maps(page_of((head_map(),), (other,), (head_map(),)))) == 2


def test_that_lines_are_named_where_they_are_not_alone_or_their_heads_are_not_there():
    a, b = head_map(head=0), head_map(head=1)
    for parts, named in (
        (((a,), (b,), (a, b)), [False, False, False]),
        (((a,), (b,), (a, b), (b, a)), [False, False, True, True]),
        (((a,), (a, b)), [False, True]),
    ):
        page = page_of(*parts)
        assert [lines_are_named(page, i) for i in range(len(parts))] == named


@pytest.mark.parametrize("scale", ["fixed", "head", "row"])
def test_that_every_panel_takes_the_look_of_the_page_and_its_end_of_the_colours(scale):
    maps = tuple(dataclasses.replace(head_map(head=h), full=full) for h, full in ((0, 0.4), (1, 0.7)))
    page = page_of(*((m,) for m in maps), scale=scale)
    assert {panel.style.turn for panel in page.panels} == {None}
    peak = max(float(m.weights.max()) for m in maps) if scale == "head" else 0.7
    assert common_peak(page) == pytest.approx(peak)
    for panel in on_common_scale(page):
        assert panel.style.scale == ("row" if scale == "row" else "fixed")
        assert not panel.style.has_bar
        assert panel.maps[0].full == pytest.approx(peak)


def test_that_rows_that_are_called_otherwise_are_named_in_a_panel_of_their_own():
    plain, written = head_map(head=0), head_map(head=1)
    queries = tuple(dataclasses.replace(token, read=f"r{i}") for i, token in enumerate(written.queries))
    written = dataclasses.replace(written, queries=queries)
    for maps, n_written in (((plain, written), 1), ((written, plain), 1), ((written, written), 1)):
        shown = panels_figure(spec("lines", width_mm=174.0, height_mm=90.0), maps)
        words = texts(export.render(dataclasses.replace(shown, columns=2), "svg"))
        assert words.count("Written") == n_written
        assert words.count("Query") == (maps != (written, written))
