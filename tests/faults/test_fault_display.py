"""F28, F29, F46–F52, F54, F56–F58: strange maps, strange tokens, impossible files."""

import csv
import io
import os
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import head_map, ramp_weights, spec, tokens
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from attnscope import Caption, figure
from attnscope.errors import SaveError, UserError
from attnscope.figures import MapStyle, export, safe_cell
from attnscope.records import Gates, HeadMap, HeadRef, Site, SiteGrid
from attnscope.widgets.explore import GridView, HeadView, LinesView
from attnscope.widgets.window import commands

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
NASTY: tuple[str, ...] = (
    "<script>",
    "&",
    "]]>",
    "\"'",
    "\x01",
    "\u202e",
    "\ud800",
    "\x00",
    "\ufffe",
    "",
    "שלום",
    "👩\u200d🚀",
    "\n",
)
HEAD = HeadRef(stack="decoder", layer=0, head=0)


def nasty_map() -> HeadMap:
    n = len(NASTY)
    return HeadMap(head=HEAD, queries=tokens(*NASTY), keys=tokens(*NASTY), weights=ramp_weights(n, n))


def map_of(weights: np.ndarray) -> HeadMap:
    n_queries, n_keys = weights.shape
    names = [tokens(*map(str, range(n))) for n in (n_queries, n_keys)]
    return HeadMap(head=HEAD, queries=names[0], keys=names[1], weights=weights)


@pytest.mark.parametrize("view", ["head", "lines"])
def test_f52_that_any_token_gives_valid_xml_and_stays_itself(view: str) -> None:
    shown = spec(view, maps=(nasty_map(),), title="<b>&]]>\x01", width_mm=200.0, height_mm=200.0)
    content = export.render(shown, "svg")
    root = ElementTree.fromstring(content)
    texts = ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]
    for word in ("<script>", "&", "]]>", "‹U+0001›", "‹U+202E›", "‹NUL›", "∅"):
        assert word in texts, word
    assert b"<script" not in content
    assert "\u202e" not in content.decode()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_f28_f29_that_no_token_breaks_a_figure(pieces: list[str]) -> None:
    shown = HeadMap(
        head=HEAD,
        queries=tokens(*pieces),
        keys=tokens(*pieces),
        weights=ramp_weights(len(pieces), len(pieces)),
    )
    ElementTree.fromstring(export.render(spec("head", maps=(shown,)), "svg"))
    export.render(spec("head", maps=(shown,)), "csv").decode()


def test_f29_that_captions_show_hidden_characters() -> None:
    shown = spec("head", caption=Caption(model="m\u202e", text="a\x00b\ud800", target="\u2028"))
    text = export.render(shown, "svg").decode()
    assert "‹U+202E›" in text
    assert "‹NUL›" in text
    assert "‹U+2028›" in text


@pytest.mark.parametrize("shape", [(2, 2, 2), (4,), ()])
def test_f48_that_arrays_of_another_rank_never_reach_a_painter(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="weights must have 2 axes"):
        HeadMap(head=HEAD, queries=(), keys=(), weights=np.zeros(shape))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_f48_that_empty_maps_are_shown_as_nothing(shape: tuple[int, int], qtbot: QtBot) -> None:
    shown = map_of(np.zeros(shape))
    for widget in (HeadView(), LinesView()):
        qtbot.addWidget(widget)
        widget.resize(400, 300)
        if isinstance(widget, HeadView):
            widget.set_map(shown)
        else:
            widget.set_maps((shown,))
        assert not widget.grab().isNull()
    for format in ("svg", "pdf", "png", "csv", "npz"):
        assert export.render(spec("head", maps=(shown,)), format)  # type: ignore[arg-type]


def test_f48_that_an_empty_site_is_shown_as_nothing(qtbot: QtBot) -> None:
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    view = GridView()
    qtbot.addWidget(view)
    for shape in ((2, 0, 0), (2, 0, 3), (2, 1, 1)):
        grid = SiteGrid(
            site=site, n_queries=shape[1], n_keys=shape[2], levels=np.zeros(shape), peaks=np.zeros(2)
        )
        view.set_grids((grid,))
        assert not view.grab().isNull()


@pytest.mark.parametrize("scale", ["fixed", "head", "row"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, 0.5, 3.0, -1.0])
def test_f49_that_constant_and_missing_maps_are_drawn(value: float, scale: str, qtbot: QtBot) -> None:
    view = HeadView()
    qtbot.addWidget(view)
    view.set_map(map_of(np.full((5, 5), value)))
    view.set_style(MapStyle(scale=scale))  # type: ignore[arg-type]
    assert not view.grab().isNull()


def test_f46_that_a_layer_without_heads_left_is_drawn(qtbot: QtBot) -> None:
    site = Site(stack="decoder", layer=0, n_heads=2, n_kv_heads=2)
    grid = SiteGrid(
        site=site, n_queries=2, n_keys=2, levels=np.ones((2, 2, 2)), peaks=np.array([np.nan, 0.0])
    )
    view = GridView()
    qtbot.addWidget(view)
    view.set_grids((grid,))
    view.set_gates(Gates.of(dict.fromkeys(site.heads, 0.0)))
    assert not view.grab().isNull()
    view.set_gates(Gates.of({HeadRef(stack="cross", layer=7, head=9): 0.5}))
    assert not view.grab().isNull()


def test_f50_that_a_large_map_is_drawn_without_losing_its_brightest_cell(qtbot: QtBot) -> None:
    weights = np.zeros((1500, 1500), dtype=np.float32)
    weights[777, 333] = 1.0
    view = HeadView()
    qtbot.addWidget(view)
    view.resize(400, 360)
    view.set_map(map_of(weights))
    picture = view.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    layout = view.layout_now()
    assert layout is not None
    box = layout.cell_rect(777, 333).center().toPoint()
    near = {picture.pixel(box.x() + i, box.y() + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    assert 0xFFFDE725 in near


def test_f51_that_a_figure_with_too_many_pixels_is_refused_before_it_is_made() -> None:
    with pytest.raises(UserError, match=r"pixels.*at most 100 million.*SVG or PDF"):
        export.render(spec("head", width_mm=1000.0, height_mm=1000.0, dpi=1200), "png")
    for changes in ({"width_mm": 1e6}, {"height_mm": 0.0}, {"width_mm": float("nan")}):
        with pytest.raises(UserError, match="mm"):
            export.render(spec("head", **changes), "svg")
    with pytest.raises(UserError, match="dots per inch"):
        export.render(spec("head", dpi=0), "png")


def test_that_a_figure_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to show"):
        export.render(spec("head", maps=()), "svg")
    with pytest.raises(UserError, match="no view 'pie'"):
        figure(SimpleNamespace(head_map=None, sites=()), "pie")  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["=1+1", "+1", "-1", "@x", "\tx", "\r"])
def test_f54_that_no_token_becomes_a_formula(token: str) -> None:
    assert safe_cell(token).startswith("'")
    weights = np.full((1, 1), 0.5)
    shown = HeadMap(head=HEAD, queries=tokens(token), keys=tokens('a"b'), weights=weights)
    content = export.render(spec("head", maps=(shown,)), "csv").decode()
    row = list(csv.reader(io.StringIO(content)))[1]
    assert row[4].startswith("'")
    assert row[6] == 'a"b'
    assert all(cell.startswith('"') for cell in content.splitlines()[1].split(",")[:3])


@pytest.mark.parametrize("name", ["../../etc", "CON", "x" * 300, "a/b", "é", "", "nul\0", "模型"])
def test_f56_that_suggested_names_are_safe_everywhere(name: str) -> None:
    suggested = export.suggested_name(spec("grid", caption=Caption(model=name)))
    assert len(suggested) <= 90
    assert suggested.endswith(".svg")
    assert set(suggested[:-4]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert suggested[0] not in "-."


def test_f57_that_a_missing_extension_is_added(tmp_path: Path) -> None:
    written = export.save(spec("head"), tmp_path / "figure")
    assert written == tmp_path / "figure.svg"
    assert written.is_file()


@pytest.mark.parametrize("name", ["figure.jpeg", "figure.exe", "figure.svg.zip"])
def test_f57_that_an_unknown_extension_is_refused_and_nothing_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a format.*\.svg, \.pdf, \.png"):
        export.save(spec("head"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_f57_that_a_vanished_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="gone"):
        export.save(spec("head"), tmp_path / "gone" / "figure.svg")


@pytest.mark.skipif(
    os.name == "posix" and os.geteuid() == 0, reason="root may write anywhere; run as a person"
)
def test_f57_that_a_closed_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SaveError):
        export.save(spec("head"), tmp_path / "figure.svg")


@pytest.mark.parametrize("name", ["", "a\0b.svg"])
def test_f57_that_a_path_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="not a file name"):
        export.save(spec("head"), name)


def test_f57_that_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure.svg"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", _fail)
    with pytest.raises(SaveError, match="No space left"):
        export.save(spec("head"), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["figure.svg"]


def _fail(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_f58_that_the_clipboard_never_holds_a_huge_image() -> None:
    huge = spec("head", width_mm=1000.0, height_mm=1000.0, dpi=1200)
    width, height = commands.capped(huge).size_in_dots
    assert width * height <= commands.MAX_CLIPBOARD_PIXELS
    small = spec("head")
    assert commands.capped(small) is small


def test_that_painting_survives_tiny_widgets(qtbot: QtBot) -> None:
    for widget in (GridView(), HeadView(), LinesView()):
        qtbot.addWidget(widget)
        widget.setMinimumSize(1, 1)
        if isinstance(widget, HeadView):
            widget.set_map(head_map(40, 40))
        elif isinstance(widget, LinesView):
            widget.set_maps((head_map(40, 40),))
        for size in ((1, 1), (20, 5), (60, 400)):
            widget.resize(*size)
            assert not widget.grab().isNull()
