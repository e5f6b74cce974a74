"""Maps over a picture: colours where the numbers are, the picture's grey where they are not."""

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from attnscope.figures import (
    LIGHT,
    blended_pixels,
    difference_map,
    influence_cells,
    layout_cells,
    lut,
    paint_cells,
    reads_cells,
)
from attnscope.records import Attribution, CellMap, Picture, Token

PICTURE = Picture(text="p.png", pixels=np.full((8, 12, 3), 90, np.uint8), n_rows=2, n_columns=3, n_first=1)
CAT, DOG = Token(id=0, piece="cat"), Token(id=1, piece="dog")


def attribution(*reads: float) -> Attribution:
    return Attribution(
        contributions=(), position=0, token=CAT, answer=CAT, other=DOG, difference=0.0,
        reads=np.array(reads, np.float32),
    )  # fmt: skip


def painted(shown: CellMap) -> tuple[np.ndarray, QRectF]:
    image = QImage(300, 240, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    with QPainter(image) as painter:
        layout = paint_cells(painter, QRectF(0, 0, 300, 240), shown, palette=LIGHT)
    words = np.frombuffer(image.constBits(), np.uint8).reshape(240, 300, 4)[:, :, 2::-1]
    return words, layout.cells


def test_that_cells_are_mixed_with_the_grey_of_the_picture_by_their_share() -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[0] = 255
    colours = np.zeros((1, 2, 3), np.uint8)
    colours[0, 1] = (255, 0, 0)
    mixed = blended_pixels(pixels, colours, np.array([[0.0, 0.5]]), (4, 4))
    assert mixed[0, 0].tolist() == [192, 192, 192]
    assert mixed[3, 0].tolist() == [64, 64, 64]
    assert mixed[0, 3].tolist() == [224, 96, 96]


def test_that_the_patches_of_an_attribution_lie_where_they_are_on_the_picture(qapp: object) -> None:
    shown = reads_cells(attribution(9.0, 0.0, -1.0, 0.0, 0.0, 0.0, 2.0), PICTURE)
    assert shown.values.tolist() == [[0.0, -1.0, 0.0], [0.0, 0.0, 2.0]]
    assert (shown.limit, shown.note) == (2.0, "logits: +1 on patches, +9 elsewhere")
    pixels, cells = painted(shown)
    middles = [
        [
            pixels[
                int(cells.top() + (i + 0.5) * cells.height() / 2),
                int(cells.left() + (j + 0.5) * cells.width() / 3),
            ].astype(int)
            for j in range(3)
        ]
        for i in range(2)
    ]
    grey = middles[0][0]
    assert grey[0] == grey[1] == grey[2]
    low, high = lut(difference_map(LIGHT))[[64, 255]].astype(int)  # −1 and 2 of ±2
    share = 0.85 * 0.5**0.5
    np.testing.assert_allclose(middles[0][1], share * low + (1 - share) * grey, atol=1.5)
    np.testing.assert_allclose(middles[1][2], 0.85 * high + 0.15 * grey, atol=1.5)


def test_that_a_map_over_a_picture_has_no_names_and_its_whole_width(qapp: object) -> None:
    shown = influence_cells("rollout", np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1, np.nan]), PICTURE)
    assert shown.note == "0–0.1; 0.5 on patches, 0.5 elsewhere"
    cells = layout_cells(QRectF(0, 0, 300, 240), shown).cells
    assert cells.width() == pytest.approx(298)
    assert cells.height() == pytest.approx(2 * 298 / 3)
