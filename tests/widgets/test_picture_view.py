"""Attention on a picture: what is asked for, which patch is where, which colour a weight has."""

import dataclasses
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hf_folders import make, save_folder, save_picture
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot
from session_samples import Desk, info, states_of

from attnscope import Caption, Figure
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.figures import LIGHT, MapStyle, lut, render, suggested_name
from attnscope.figures.views import (
    VIEWS,
    HeadFigure,
    PictureFigure,
    PictureLayout,
    PicturePart,
    overlaid,
    paint_picture,
    patch_peak,
    patch_words,
    picture_layout,
)
from attnscope.models.huggingface import Preparation, prepared_pixels, seen_pixels
from attnscope.records import HeadMap, HeadRef, Picture, PictureShown, ShowPicture, Token
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.session import scripts_now
from attnscope.widgets.explore import HeadPanel

pytestmark = pytest.mark.qt
PIXELS = (np.arange(12)[:, None, None] * 20 + np.arange(18)[None, :, None] + np.arange(3)).astype(np.uint8)
PICTURE = Picture(text="one two three", pixels=PIXELS, n_rows=1, n_columns=3, n_first=1)
NAMES = ("[CLS]", "0,0", "0,1", "0,2")
TOKENS = tuple(Token(id=i, piece=name, is_special=i == 0) for i, name in enumerate(NAMES))
WEIGHTS = np.array([[0.7, 0.1, 0.2, 0.0], [0.13, 0.6, 0.2, 0.07], [0.25] * 4, [np.nan] * 4], dtype=np.float32)
MAP = HeadMap(head=HeadRef(stack="encoder", layer=0, head=1), queries=TOKENS, keys=TOKENS, weights=WEIGHTS)


@pytest.fixture
def desk() -> Desk:
    return Desk().open(dataclasses.replace(info("encoder"), reads="picture"))


@pytest.fixture
def shown(qtbot: QtBot, desk: Desk) -> tuple[HeadPanel, Any, list[ShowPicture], ViewState]:
    desk.session.texts.set_text("one two three")  # and </s>: four tokens, as the picture has
    desk.answer()
    asked: list[ShowPicture] = []
    states, view = states_of(desk.session, worker=asked.append), ViewState()  # type: ignore[arg-type]
    panel, state = HeadPanel(states, view), states.picturing
    qtbot.addWidget(panel)
    panel.resize(620, 420)
    panel.show()
    assert panel.heading.is_picture_shown  # nobody asked for it
    assert state.note == "Reading the picture…"
    state.handle(PictureShown(number=asked[-1].number, picture=PICTURE))
    return panel, state, asked, view


def test_that_a_click_and_arrows_choose_the_query(qtbot: QtBot, shown: tuple) -> None:  # type: ignore[type-arg]
    panel, state, asked, view = shown
    picture = panel.picture
    layout = picture.layout_now()
    assert (len(asked), asked[0].text, state.query) == (1, "one two three", 0)
    qtbot.mouseClick(picture, Qt.MouseButton.LeftButton, pos=layout.patch("query", 3).center().toPoint())
    assert state.query == 3
    seen = []
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home):
        qtbot.keyClick(picture, key)
        seen.append(state.query)
    assert seen == [2, 0, 1, 0]
    qtbot.mouseMove(picture, layout.patch("key", 2).center().toPoint())
    qtbot.waitUntil(lambda: (view.highlight.query, view.highlight.key) == (0, 2))
    assert panel.picture.figure() == PicturePart(picture=PICTURE, query=0)


def test_that_only_models_of_pictures_have_the_view(shown: tuple, qtbot: QtBot) -> None:  # type: ignore[type-arg]
    panel, state, _asked, view = shown
    assert panel.heading.picture_button.isVisible()
    text = Desk().open(info("encoder"))
    other = HeadPanel(states_of(text.session), view)
    qtbot.addWidget(other)
    other.show()
    assert not other.heading.picture_button.isVisible()
    assert other.heading.heatmap_button.isChecked()
    assert state.shown is not None


def test_that_every_patch_is_hit_where_it_lies() -> None:
    for rect in (QRectF(0, 0, 620, 300), QRectF(0, 0, 300, 620)):
        layout = picture_layout(rect, PICTURE, NAMES[:1])
        assert rect.contains(layout.query)
        assert rect.contains(layout.keys)
        for side in ("query", "key"):
            for token in (1, 2, 3):
                assert layout.hit(layout.patch(side, token).center()) == (side, token)
        assert layout.hit(layout.chips[0].center()) == ("query", 0)
        assert layout.query.width() / layout.query.height() == pytest.approx(18 / 12)


def test_that_colours_are_those_of_the_weights_of_patches_alone() -> None:
    pixels = overlaid(PICTURE, WEIGHTS[1], (18, 12), "viridis")
    for column, weight in enumerate((0.6, 0.2, 0.07)):
        colour = lut("viridis")[round(weight / 0.6 * 255)].astype(float)
        for y, x in ((0, 6 * column), (11, 6 * column + 5)):
            light = PIXELS[y, x].astype(float) @ (0.299, 0.587, 0.114)
            grey = 64 + light / 255 * (192 - 64)
            np.testing.assert_allclose(pixels[y, x], 0.62 * colour + 0.38 * grey, atol=0.51)
    without = overlaid(PICTURE, WEIGHTS[3], (18, 12), "viridis")
    assert (without == without[:, :, :1]).all()  # grey where there is no weight


def test_that_special_tokens_do_not_count_for_the_largest_weight_and_are_told_in_words() -> None:
    assert patch_peak(PICTURE, WEIGHTS[0]) == np.float32(0.2)
    assert patch_peak(PICTURE, WEIGHTS[3]) == 0.0
    pixels = overlaid(PICTURE, WEIGHTS[0], (18, 12), "viridis")
    brightest = 0.62 * lut("viridis")[255].astype(float) + 0.38 * 64
    assert (pixels[:, 6:12] >= brightest - 0.51).all()  # the patch of 0.2, whatever [CLS] has
    words = [patch_words(PICTURE, row) for row in WEIGHTS]
    assert words == [f"{share} of 1 on patches" for share in ("0.30", "0.87", "0.75", "0.00")]
    assert patch_words(dataclasses.replace(PICTURE, n_first=0), WEIGHTS[0]) == "of 1 over all patches"


def test_that_the_grey_of_a_pixel_is_how_light_it_looks() -> None:
    pixels = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], dtype=np.uint8)
    picture = dataclasses.replace(PICTURE, pixels=pixels)
    found = overlaid(picture, WEIGHTS[3], (3, 1), "viridis")[0]
    assert found[:, 0].tolist() == [round(64 + share * 128) for share in (0.299, 0.587, 0.114)]


WIDE = Picture(
    text="x.png",
    pixels=np.broadcast_to(np.array([200, 100, 50], dtype=np.uint8), (12, 12, 3)).copy(),
    n_rows=2,
    n_columns=2,
    n_first=2,
)
"""Two special tokens and four patches, of one colour."""
ROWS = np.arange(1.0, 37.0, dtype=np.float32).reshape(6, 6)
ROWS /= ROWS.sum(axis=1, keepdims=True)
WIDE_TOKENS = tuple(
    Token(id=i, piece=name, is_special=i < 2)
    for i, name in enumerate(("[CLS]", "[DIST]", "0,0", "0,1", "1,0", "1,1"))
)
WIDE_MAP = dataclasses.replace(MAP, queries=WIDE_TOKENS, keys=WIDE_TOKENS, weights=ROWS)


def drawn(query: int, **choices: object) -> tuple[QImage, PictureLayout]:
    image = QImage(620, 420, QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.background))
    with QPainter(image) as painter:
        layout = paint_picture(
            painter,
            QRectF(10, 20, 600, 390),
            WIDE,
            WIDE_MAP,
            query,
            style=MapStyle(),
            palette=LIGHT,
            **choices,  # type: ignore[arg-type]
        )
    return image, layout


def is_framed(image: QImage, patch: QRectF) -> bool:
    """Whether blue lines run along the left and the lower edge of a patch; nothing else there is blue."""
    x, y = round(patch.center().x()) + 7, round(patch.center().y()) + 7
    left = [image.pixelColor(round(patch.left()) + by, y) for by in (-2, -1, 0, 1)]
    below = [image.pixelColor(x, round(patch.bottom()) + by) for by in (-2, -1, 0, 1)]
    return all(any(one.blue() - one.red() > 70 for one in near) for near in (left, below))


def changed(a: QImage, b: QImage) -> QRectF:
    """Where two images differ."""
    first, second = (np.frombuffer(one.constBits(), np.uint32).reshape(one.height(), -1) for one in (a, b))
    rows, columns = np.nonzero(first != second)
    return QRectF(QPointF(columns.min(), rows.min()), QPointF(columns.max(), rows.max()))


def test_that_the_picture_keeps_its_colours_and_its_query_is_framed_on_both_sides(qapp: object) -> None:
    image, layout = drawn(4)
    for token in (2, 3, 4, 5):
        middle = layout.patch("query", token).center().toPoint()
        assert image.pixelColor(middle).getRgb()[:3] == (200, 100, 50)
        for side in ("query", "key"):
            assert is_framed(image, layout.patch(side, token)) == (token == 4), (side, token)
    pointed, _ = drawn(4, pointed=("key", 3))
    patch = layout.patch("key", 3)
    assert patch.adjusted(-3, -3, 3, 3).contains(changed(pointed, image))
    assert changed(pointed, image).adjusted(-3, -3, 3, 3).contains(patch)
    special, _ = drawn(1)
    for i, chip in enumerate(layout.chips):
        place = QPointF(chip.left() + 3.0, chip.center().y()).toPoint()
        assert special.pixelColor(place) == QColor(LIGHT.accent if i == 1 else LIGHT.raised)
        assert image.pixelColor(place) == QColor(LIGHT.raised)


def test_that_the_words_are_of_the_row_of_the_query(qapp: object) -> None:
    part = PicturePart(picture=WIDE, query=1)
    svg = render(PictureFigure(maps=(WIDE_MAP,), picture=part, width_mm=200, height_mm=120), "svg").decode()
    assert f"{float(ROWS[1, 2:].sum()):.2f} of 1 on patches" in svg
    assert f"{float(ROWS[1, 2:].max()):.3g}" in svg
    for i, name in enumerate(("[CLS]", "[DIST]")):
        assert f"{name} {ROWS[1, i]:.3g}" in svg
    with pytest.raises(ValueError, match="4 tokens"):
        paint_picture(QPainter(), QRectF(), PICTURE, WIDE_MAP, 1, style=MapStyle(), palette=LIGHT)
    with pytest.raises(ValueError, match="query 6 for 6 tokens"):
        paint_picture(QPainter(), QRectF(), WIDE, WIDE_MAP, 6, style=MapStyle(), palette=LIGHT)


def test_that_patches_and_chips_are_hit_wherever_the_picture_lies() -> None:
    layout = picture_layout(QRectF(300, 7, 620, 300), WIDE, ("[CLS]", "[DIST]"))
    for side, whole in (("query", layout.query), ("key", layout.keys)):
        for token in (2, 3, 4, 5):
            assert layout.hit(layout.patch(side, token).center()) == (side, token)
        assert layout.hit(whole.bottomRight()) == (side, 5)
    for token in (0, 1):
        assert layout.hit(layout.chips[token].center()) == ("query", token)
        assert layout.hit(layout.key_chips[token].center()) == ("key", token)
    assert layout.hit(QPointF(301, 8)) is None


def test_that_a_figure_holds_the_row_of_its_query(qapp: object) -> None:
    part = PicturePart(picture=PICTURE, query=1)
    spec = PictureFigure(maps=(MAP,), picture=part, caption=Caption(model="m"), height_mm=90, dpi=60)
    lines = render(spec, "csv").decode().splitlines()
    assert lines[1:] == [
        f'"encoder","0","1","1","0,0","{j}","{NAMES[j]}","{WEIGHTS[1, j]:.9g}"' for j in range(4)
    ]
    assert np.load(io.BytesIO(render(spec, "npz")))["encoder_L0H1_query_1"].tolist() == WEIGHTS[1].tolist()
    assert b"patch 0,0" in render(spec, "svg")
    assert suggested_name(spec) == "m-picture-encoder-l0h1.svg"


def test_that_what_the_model_sees_is_prepared_pixels_taken_back() -> None:
    how = Preparation(height=12, width=18, filter=0, mean=(0.1, 0.5, 0.9), deviation=(0.2, 0.5, 1.0))
    assert (seen_pixels(prepared_pixels(PIXELS, how), how) == PIXELS).all()


def test_that_the_command_line_lays_a_head_over_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_folder(tmp_path / "vit", *make("vit"))
    picture = save_picture(tmp_path / "p.png", height=9, width=9)
    out = tmp_path / "on.csv"
    asked = ["figure", str(folder), "--text", picture, "--view", "picture", "--layer", "1", "--head", "2"]
    assert main([*asked, "--query", "1,0", "-o", str(out)]) == 0
    rows = out.read_text().splitlines()
    assert [row.split('","')[3] for row in rows[1:]] == ["3"] * 5  # one special token, 2 × 2 patches
    assert main(["figure", str(folder), "-f", picture, "-o", str(out)]) == 2
    assert f"path with --text: --text {picture}" in capsys.readouterr().err
    assert main(["figure", str(folder), "-f", "gone.png", "-o", str(out)]) == 2
    assert "UTF-8" not in capsys.readouterr().err.partition("Expected")[2].partition(".")[2]
    drawn = ["figure", str(folder), "--view", "positions", "-o", str(tmp_path / "p.svg")]
    assert main(drawn) == 0


def test_that_scripts_draw_the_picture_that_is_shown(
    shown: tuple,  # type: ignore[type-arg]
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _panel, state, _asked, view = shown
    state.choose_query(2)
    scripts = scripts_now(desk.session, view)
    assert scripts is not None
    assert "--view picture" in scripts.command
    assert "--query 2" in scripts.command
    drawn = Figure(HeadFigure(maps=(MAP,))).on_picture(PICTURE, 2)
    assert drawn.spec.picture == PicturePart(picture=PICTURE, query=2)
    made = SimpleNamespace(
        load=lambda source: SimpleNamespace(trace=lambda text: text),
        picture=lambda model, text: PICTURE,
        figure=lambda trace, view, head: Figure(VIEWS[view](maps=(MAP,))),
    )
    monkeypatch.setitem(sys.modules, "attnscope", made)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        Figure, "save", lambda self, path: Path(path).write_text(str(self.spec.picture.query))
    )
    exec(compile(scripts.python, "script", "exec"), {})
    assert Path("figure.svg").read_text() == "2"


@pytest.mark.parametrize("wrong", [{"query": 4}, {"query": -1}])
def test_that_a_token_that_is_not_there_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match="no token"):
        Figure(HeadFigure(maps=(MAP,))).on_picture(PICTURE, **wrong)
