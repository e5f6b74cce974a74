import base64
import csv
import dataclasses
import io
import itertools
import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_samples import head_map, site_grid, spec, tokens
from long_fakes import HEAD, long_map, tile_for
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFontDatabase, QGuiApplication, QImage

from attnscope import Figure, figure, from_arrays, load_figure
from attnscope.errors import UserError
from attnscope.figures import (
    LIGHT,
    FigureSpec,
    MapPart,
    MapStyle,
    as_drawn,
    caption_lines,
    code_colours,
    codes_from_weights,
    export,
    first_lines,
    lut,
    map_layout,
    mask_words,
)
from attnscope.figures.views import VIEWS, strong_lines, weights_of_grid, weights_of_tile
from attnscope.records import (
    NO_GATES,
    Chart,
    Gates,
    GoldCell,
    HeadMap,
    HeadRef,
    SelfCheck,
    Series,
    ShowTile,
    Site,
    SiteGrid,
    Token,
)
from attnscope.widgets.window import commands

pytestmark = [pytest.mark.qt, pytest.mark.usefixtures("qapp")]
SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"


def svg_texts(content: bytes) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(content).iter(f"{SVG}text")]


def svg_images(content: bytes) -> list[QImage]:
    found = []
    for element in ElementTree.fromstring(content).iter(f"{SVG}image"):
        data = element.get(f"{XLINK}href", "").split(",", 1)[1]
        found.append(QImage.fromData(base64.b64decode(data)))
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_that_every_view_renders_in_every_format(view: str) -> None:
    shown = spec(view)
    assert ElementTree.fromstring(export.render(shown, "svg")).tag == f"{SVG}svg"
    pdf = export.render(shown, "pdf")
    assert pdf.startswith(b"%PDF")
    assert b"FontFile2" in pdf or b"FontFile3" in pdf
    image = QImage.fromData(export.render(shown, "png"))
    assert (image.width(), image.height()) == shown.size_in_dots
    assert export.render(shown, "csv").count(b"\n") > 4
    with np.load(io.BytesIO(export.render(shown, "npz"))) as arrays:
        assert len(arrays.files) >= 1


def many_cells(n: int = 64) -> FigureSpec:
    return spec("head", maps=(head_map(n, n),), width_mm=170.0, height_mm=170.0)


def test_that_text_stays_text_and_many_cells_are_one_image() -> None:
    content = export.render(many_cells(), "svg")
    texts = svg_texts(content)
    for word in ("q0", "k4", "L1H0", "Key", "Query", "weight"):
        assert word in texts
    images = svg_images(content)
    assert len(images) == 2  # the cells, and the colour bar
    assert content.count(b"image-rendering:pixelated") == 2


def svg_rects(content: bytes) -> list[tuple[QRectF, str]]:
    """Each filled rectangle in layout pixels, in the order in which they are painted."""
    found = []
    for group in ElementTree.fromstring(content).iter(f"{SVG}g"):
        scale = float(group.get("transform", "matrix(1").removeprefix("matrix(").split(",")[0])
        for rect in group.findall(f"{SVG}rect"):
            x, y, width, height = (float(rect.get(name, "nan")) * scale for name in RECT)
            if group.get("fill") != "none":
                found.append((QRectF(x, y, width, height), group.get("fill", "")))
    return found


RECT = ("x", "y", "width", "height")


@pytest.mark.parametrize("is_causal", [False, True])
def test_that_the_cells_of_a_small_map_are_rectangles_of_the_exact_colours(is_causal: bool) -> None:
    """What is painted last at each point of a cell, its corners too, has its colour; nothing is bare."""
    shown = spec("head", maps=(head_map(5, 5, is_causal=is_causal),), caption=None)
    content, scale = export.render(shown, "svg"), shown.type_scale
    assert len(svg_images(content)) == 1  # the colour bar
    page = QRectF(0, 0, shown.width_px / scale, shown.height_px / scale)
    layout = map_layout(page, shown.maps[0].queries, shown.maps[0].keys)
    codes, rects = codes_from_weights(shown.maps[0].weights, "fixed"), svg_rects(content)
    words = code_colours("viridis", LIGHT)
    for query, key in itertools.product(range(5), range(5)):
        cell = layout.cell_rect(query, key)
        for across, down in itertools.product((0.02, 0.5, 0.98), repeat=2):
            point = QPointF(cell.left() + across * cell.width(), cell.top() + down * cell.height()) * scale
            colour = [fill for rect, fill in rects if rect.contains(point)][-1]
            assert colour == QColor.fromRgb(int(words[codes[query, key]])).name()
    n_lines = content.count(b"<polyline") + content.count(b"<line")
    assert (n_lines > 20) == is_causal  # the hatch of what is not allowed


def test_that_svg_cells_have_the_exact_colours() -> None:
    shown = many_cells()
    image = max(svg_images(export.render(shown, "svg")), key=lambda i: i.width())
    codes = codes_from_weights(shown.maps[0].weights, "fixed")
    width, height = image.width() // 64, image.height() // 64
    assert (image.width() % 64, image.height() % 64) == (0, 0)
    for query in range(64):
        for key in range(64):
            for x, y in ((0, 0), (width - 1, height - 1)):
                pixel = image.pixelColor(key * width + x, query * height + y)
                expected = lut("viridis")[codes[query, key] - 2].tolist()
                assert [pixel.red(), pixel.green(), pixel.blue()] == expected


def test_that_pdf_cells_are_lossless() -> None:
    pdf = export.render(many_cells(), "pdf")
    assert b"/DCTDecode" not in pdf
    streams = [s for s in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.S) if s[:1] == b"\x78"]
    colours = lut("viridis")[codes_from_weights(many_cells().maps[0].weights, "fixed") - 2].reshape(-1, 3)
    unpacked = [zlib.decompressobj().decompress(s) for s in streams]
    assert any(all(bytes(c) * 4 in data for c in colours) for data in unpacked)


def test_that_a_small_map_is_no_image_in_a_pdf_either() -> None:
    assert export.render(spec("head"), "pdf").count(b"/Subtype /Image") == 1  # the colour bar
    assert export.render(many_cells(), "pdf").count(b"/Subtype /Image") == 2


@pytest.mark.parametrize("width_mm", [85.0, 174.0, 113.7, 99.9])
def test_that_the_page_has_exactly_the_size_that_was_asked_for(width_mm: float) -> None:
    shown = spec("head", width_mm=width_mm, height_mm=70.3)
    root = ElementTree.fromstring(export.render(shown, "svg"))
    assert (root.get("width"), root.get("height")) == (f"{width_mm:g}mm", "70.3mm")
    boxes = re.findall(rb"(?:Media|Trim)Box \[([^\]]*)\]", export.render(shown, "pdf"))
    assert len(boxes) == 2
    for box in boxes:
        left, bottom, right, top = map(float, box.split())
        assert (right - left) / 72 * 25.4 == pytest.approx(width_mm, abs=0.002)
        assert (top - bottom) / 72 * 25.4 == pytest.approx(70.3, abs=0.002)


def test_that_spaces_of_a_pdf_are_copied_as_spaces() -> None:
    pdf = export.render(spec("head"), "pdf")
    names = re.findall(rb"\[((?:<[0-9A-F]{4}> ?)+)\]", pdf)
    found = {int(name, 16) for of_font in names for name in re.findall(rb"<(.{4})>", of_font)}
    assert ord("M") in found  # "Model: …"
    assert ord(" ") in found
    assert ord("\t") not in found


def test_that_every_line_of_a_pdf_lies_on_those_before_it() -> None:
    many = spec("lines", maps=(head_map(20, 20),), width_mm=120.0, height_mm=120.0)
    streams = re.findall(rb"stream\r?\n(.*?)endstream", export.render(many, "pdf"), re.S)
    unpacked = b"".join(zlib.decompressobj().decompress(s) for s in streams if s[:1] == b"\x78")
    n_lines = len(strong_lines(many.maps).weights)
    assert n_lines > 300
    assert len(re.findall(rb"\bf\n", unpacked)) >= n_lines  # translucent ones are told apart where they cross


def test_that_a_figure_tells_of_a_good_self_check_only_when_asked_and_of_a_bad_one_always() -> None:
    good = SelfCheck(row_sum_error=0.0, forbidden_weight=0.0, output_error=1e-7, is_evaluation_mode=True)
    bad = dataclasses.replace(good, row_sum_error=0.5)
    for check, has_badge, is_told in ((good, False, False), (good, True, True), (bad, False, True)):
        shown = spec(
            "head",
            maps=(dataclasses.replace(head_map(), check=check),),
            style=MapStyle(has_badge=has_badge),
            width_mm=170.0,
        )
        texts = " ".join(svg_texts(export.render(shown, "svg")))
        assert (check.badge[2:] in texts) == is_told


def test_that_axes_and_fonts_are_as_asked_and_a_font_that_there_is_not_is_refused() -> None:
    family = QFontDatabase.families()[0]
    style = MapStyle(key_name="Key (English)", query_name="Query (French)", font=family)
    shown = spec("head", style=style, width_mm=170.0)
    content = export.render(shown, "svg")
    assert {"Key (English)", "Query (French)"} <= set(svg_texts(content))
    named = set(re.findall(rb"font-family=\"([^\"]*)\"", content))
    assert named
    assert all(family.encode() in name for name in named)
    assert b'"Sans Serif' not in export.render(spec("head"), "svg")
    with pytest.raises(UserError, match="no font 'Nonesuch Sans'"):
        export.render(spec("head", style=MapStyle(font="Nonesuch Sans")), "svg")


def test_that_special_tokens_are_left_out_of_every_format_and_what_they_took_is_told() -> None:
    whole = dataclasses.replace(
        head_map(4, 5), queries=tokens("<s>", "a", "b", "</s>"), keys=tokens("<s>", "x", "y", "z", "</s>")
    )
    gold = (
        GoldCell(rows=(1, 2), cols=(2, 4), is_sure=True, words=("a", "y")),
        GoldCell(rows=(0, 1), cols=(1, 2), is_sure=True, words=("<s>", "x")),
    )
    shown = spec("head", maps=(whole,), style=MapStyle(has_special=False), gold=gold)
    drawn = as_drawn(shown)
    assert [t.piece for t in drawn.maps[0].queries] == ["a", "b"]
    np.testing.assert_array_equal(drawn.maps[0].weights, whole.weights[1:3, 1:4])
    share = 1 - float(whole.weights[1:3, 1:4].sum()) / 2
    assert f"take {100 * share:.0f} % of the weight" in drawn.maps[0].note
    assert drawn.gold == (dataclasses.replace(gold[0], rows=(0, 1), cols=(1, 3)),)
    assert as_drawn(drawn) == drawn
    assert export.render(shown, "csv").count(b"\n") == 1 + 6
    assert "</s>" not in svg_texts(export.render(shown, "svg"))
    alone = dataclasses.replace(whole, queries=tokens("<a>", "<b>", "<c>", "<d>"))
    assert len(as_drawn(spec("head", maps=(alone,), style=shown.style)).maps[0].queries) == 4


def test_that_a_figure_is_light_and_of_the_asked_size() -> None:
    shown = spec("head", width_mm=76.2, height_mm=25.4, dpi=200)
    image = export.image(shown)
    assert (image.width(), image.height()) == (600, 200)
    assert image.pixelColor(0, 0).name() == "#ffffff"
    root = ElementTree.fromstring(export.render(shown, "svg"))
    assert float(root.get("width", "").removesuffix("mm")) == pytest.approx(76.2, abs=0.3)


def test_that_the_png_has_the_weights_colours() -> None:
    shown = spec("head", dpi=192, caption=None)
    image = export.image(shown)
    rect = QRectF(0, 0, shown.width_px, shown.height_px)
    layout = map_layout(rect, shown.maps[0].queries, shown.maps[0].keys)
    codes = codes_from_weights(shown.maps[0].weights, "fixed")
    centre = layout.cell_rect(2, 3).center() * 2
    pixel = image.pixelColor(centre.toPoint())
    assert [pixel.red(), pixel.green(), pixel.blue()] == lut("viridis")[codes[2, 3] - 2].tolist()


def test_that_the_caption_carries_what_makes_the_picture() -> None:
    head = HeadRef(stack="decoder", layer=1, head=0)
    shown = spec("head", maps=(head_map(5, 5, is_causal=True),), gates=Gates.of({head: 0.0}))
    words = "\n".join(caption_lines(shown))
    for word in (
        "tiny",
        "0123456789ab",
        "to be",
        "decoder L1H0",
        "mask causal",
        "0–1",
        "viridis",
        "L1H0 off",
    ):
        assert word in words
    assert re.search(r"AttnScope \d+\.\d+", words)
    drawn = " ".join(svg_texts(export.render(shown, "svg")))
    assert "mask causal" in drawn
    assert caption_lines(spec("head", caption=None)) == ()


def test_that_masks_are_named_as_the_maps_show_them() -> None:
    causal, free = head_map(4, 4, is_causal=True), head_map(4, 4)
    assert mask_words((causal,)) == "causal"
    assert mask_words((free,)) == "none"
    assert mask_words((causal, free)) == "mixed"


def test_that_csv_holds_every_weight_and_leaves_masked_cells_empty() -> None:
    shown = spec("head", maps=(head_map(3, 3, is_causal=True),))
    rows = list(csv.reader(io.StringIO(export.render(shown, "csv").decode())))
    assert len(rows) == 10
    weights = np.array([float(r[-1]) if r[-1] else np.nan for r in rows[1:]]).reshape(3, 3)
    np.testing.assert_allclose(weights, shown.maps[0].weights, rtol=1e-7)


def test_that_what_is_counted_has_all_of_its_digits_in_a_table() -> None:
    xs, ys = np.array([1e3, 10_240_000_123.0, 1e18]), np.array([2.30258509, -np.inf, 1 / 3])
    chart = Chart(title="c", x_label="tokens", y_label="nats", series=(Series(name="s", xs=xs, ys=ys),))
    rows = list(csv.reader(io.StringIO(export.render(spec("curves", charts=(chart,)), "csv").decode())))
    assert [row[2:4] for row in rows[1:]] == [
        ["1000", "2.30258509"], ["10240000123", ""], ["1e+18", "0.333333333"],
    ]  # fmt: skip


def test_that_levels_are_written_as_the_weights_they_stand_for() -> None:
    request = ShowTile(number=1, model="", trace=7, head=HEAD, rows=(0, 32), cols=(0, 48), b=16, slot="view")
    tile = dataclasses.replace(tile_for(request), levels=np.array([[0, 1, 128], [255, 2, 0]], np.uint8))
    expected = [[np.nan, 0, 0.25], [0.5, 0.5 / 254, np.nan]]
    np.testing.assert_allclose(weights_of_tile(tile), expected, rtol=1e-6)
    part = MapPart(tile=tile, queries=long_map(40).queries, keys=long_map(50).keys)
    rows = list(csv.reader(io.StringIO(export.render(spec("head", maps=(), part=part), "csv").decode())))
    assert rows[3:5] == [
        ["decoder", "0", "1", "0", "32", "16", "0.25"], ["decoder", "0", "1", "16", "0", "16", "0.5"],
    ]  # fmt: skip
    grid = dataclasses.replace(
        site_grid(), levels=np.array([[[0, 255]], [[128, 1]]], np.uint8), peaks=np.array([0.5, 1.0]),
        n_queries=1, n_keys=2, site=Site(stack="encoder", layer=0, n_heads=2, n_kv_heads=2),
    )  # fmt: skip
    np.testing.assert_allclose(weights_of_grid(grid), [[[np.nan, 0.5]], [[0.5, 0]]], rtol=1e-6)


@pytest.mark.parametrize("hidden", ["nothing", "first"])
def test_that_the_numbers_of_a_grid_are_the_weights_themselves(hidden: str, tmp_path: Path) -> None:
    raw = np.random.default_rng(3).random((2, 3, 7, 7)) + 0.01
    raw[..., ~np.tri(7, dtype=bool)] = np.nan
    raw = (raw / np.nansum(raw, axis=3, keepdims=True)).astype(np.float32)
    made = figure(from_arrays(raw, list("abcdefg")), hidden=hidden)  # type: ignore[arg-type]
    shown = raw.copy()
    if hidden == "first":
        shown[..., 0] = np.nan
    rows = list(csv.DictReader(io.StringIO(made.render("csv").decode())))
    assert set(rows[0]) == {"stack", "layer", "head", "row", "column", "weight", "gate"}
    told = np.array([float(row["weight"] or "nan") for row in rows], dtype=np.float32)
    np.testing.assert_allclose(told, shown.ravel(), atol=1e-7, rtol=0)  # a float32 rounds
    with np.load(io.BytesIO(made.render("npz"))) as arrays:
        found = np.stack([arrays[name] for name in arrays.files])
        np.testing.assert_allclose(found, shown, atol=1e-7, rtol=0)
    again = load_figure(made.save(tmp_path / "grid.figure.json"))
    assert again.render("csv") == made.render("csv")


def test_that_a_grid_of_a_long_text_says_how_far_its_numbers_may_be_off() -> None:
    raw = np.random.default_rng(4).random((1, 2, 130, 130))
    raw = (raw / raw.sum(axis=3, keepdims=True)).astype(np.float32)
    rows = list(csv.DictReader(io.StringIO(figure(from_arrays(raw)).render("csv").decode())))
    assert len(rows) < raw.size  # each is the largest of several cells
    for head in range(2):
        of_head = [row for row in rows if row["head"] == str(head)]
        largest = max(float(row["weight"]) for row in of_head)
        assert largest == pytest.approx(float(raw[0, head].max()), rel=1e-6)
        assert float(of_head[0]["within"]) == pytest.approx(largest / 508, rel=0.05)


@pytest.mark.parametrize("format", ["csv", "npz"])
def test_that_a_look_before_saving_shows_the_first_lines(format: str) -> None:
    shown = spec("positions")
    found = first_lines(shown, format, 3)
    assert len(found) == 4
    assert found[3] == "…"
    if format == "csv":
        lines = export.render(shown, "csv").decode().splitlines()[:3]
        assert [line.replace(", ", ",") for line in found[:3]] == [line.replace('"', "") for line in lines]
        return
    with np.load(io.BytesIO(export.render(shown, "npz"))) as arrays:
        assert arrays["names"].tolist() == [table.name for table in shown.positions]
        assert [line.split()[0] for line in found[:3]] == list(arrays)[:3]


def test_that_npz_gives_the_weights_back() -> None:
    shown = spec("lines")
    with np.load(io.BytesIO(export.render(shown, "npz"))) as arrays:
        np.testing.assert_array_equal(arrays["decoder_L1H1"], shown.maps[1].weights)
        assert arrays["decoder_L1H1_keys"].tolist() == ["k0", "k1", "k2", "k3", "k4"]


def test_that_the_clipboard_gets_an_image_and_svg() -> None:
    commands.to_clipboard(spec("head"))
    held = QGuiApplication.clipboard().mimeData()
    assert held.hasImage()
    ElementTree.fromstring(bytes(held.data("image/svg+xml").data()))
    commands.release_clipboard()
    assert QGuiApplication.clipboard().image().isNull()
    QGuiApplication.clipboard().setText("of someone else")
    commands.release_clipboard()
    assert QGuiApplication.clipboard().text() == "of someone else"


class FakeTrace:
    target = None
    sites = (Site(stack="encoder", layer=0, n_heads=2, n_kv_heads=2),)
    gates = NO_GATES
    interventions = ()

    def tokens(self, site: Site) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return head_map(3, 3).queries, head_map(3, 3).keys

    def grid(self, site: Site, max_px: int = 96) -> SiteGrid:
        return SiteGrid(site=site, n_queries=2, n_keys=2, levels=np.full((2, 2, 2), 9), peaks=np.ones(2))

    def head_map(self, head: HeadRef) -> HeadMap:
        return head_map(3, 3, head=head.head)


@pytest.mark.parametrize("view", ["grid", "head", "lines"])
def test_that_a_trace_becomes_a_figure_on_disk(view: str, tmp_path: Path) -> None:
    made = figure(FakeTrace(), view, head=("encoder", 0, 1), title="A title")  # type: ignore[arg-type]
    assert isinstance(made, Figure)
    path = made.save(tmp_path / "figure.svg")
    assert "A title" in svg_texts(path.read_bytes())
    assert made._repr_svg_().startswith("<?xml")


def test_that_a_wide_map_shows_values_when_asked() -> None:
    shown = spec("head", style=MapStyle(show_values=True))
    assert any(re.fullmatch(r"\.\d\d", text) for text in svg_texts(export.render(shown, "svg")))


def test_that_a_series_of_unequal_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="2 x values for 3 y values"):
        Series(name="", xs=np.zeros(2), ys=np.zeros(3))


def test_that_names_of_files_tell_stacks_and_heads_apart() -> None:
    shown = [spec("head", maps=(head_map(head=h),)) for h in (0, 1)]
    assert [export.suggested_name(s) for s in shown] == [
        "tiny-head-decoder-l1h0.svg",
        "tiny-head-decoder-l1h1.svg",
    ]
    assert export.suggested_name(spec("grid"), "pdf") == "tiny-grid-decoder.pdf"
    assert export.suggested_name(spec("lines")) == "tiny-lines-decoder-l1h0-l1h1.svg"


def test_that_a_handout_has_a_page_for_each_view_and_goes_on_where_a_note_is_long(qapp) -> None:
    picture = QImage(400, 300, QImage.Format.Format_RGB32)
    picture.fill(0xFF336699)
    pages = [
        export.HandoutPage(name="a figure", shown=spec("head")),
        export.HandoutPage(name="a picture", shown=picture, note="one\n\ntwo"),
        export.HandoutPage(name="nothing", shown=None, note="It is not there."),
    ]
    content = export.handout_bytes(pages, "talk")
    assert content.count(b"/Type /Page\n") == 3
    assert b"/MediaBox [0 0 595" in content
    long = dataclasses.replace(pages[1], note="said at length " * 400)
    assert export.handout_bytes([*pages, long], "talk").count(b"/Type /Page\n") == 5
