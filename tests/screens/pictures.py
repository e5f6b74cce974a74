"""Comparing a rendered window with the picture that the README shows.

Fonts differ between machines, so pictures are compared as a reader sees them from afar: averaged over
blocks of 16 pixels. The threshold is the mean difference of these averages, in levels of 255. That alone
would miss a panel of text that is gone, so each tile of 80 pixels must also hold about as much ink.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QImage, QPixmap

CHECKOUT = Path(__file__).parents[2]
PICTURES = CHECKOUT / "packaging" / "pictures"
FAILURES = Path(__file__).parent / "failures"
BLOCK_PX = 16
TILE_PX = 80
LEAST_INK = 3.0
"""Mean distance from the tile's ground, in levels of 255, from which a tile counts as drawn on."""
INK_SHARE = 0.3


def block_means(image: QImage) -> NDArray[np.float64]:
    """Mean colour of each block, [rows, columns, 3]; what does not fill a block is left out."""
    image = image.convertToFormat(QImage.Format.Format_RGB888)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    pixels = pixels[:, : image.width() * 3].reshape(image.height(), image.width(), 3)
    rows, columns = image.height() // BLOCK_PX, image.width() // BLOCK_PX
    cut = pixels[: rows * BLOCK_PX, : columns * BLOCK_PX].astype(np.float64)
    return cut.reshape(rows, BLOCK_PX, columns, BLOCK_PX, 3).mean(axis=(1, 3))


def lost_tiles(found: QImage, expected: QImage) -> list[tuple[int, int]]:
    """Left and top of every tile that is drawn on in `expected` and all but empty in `found`."""
    ink, wanted = _ink(found), _ink(expected)
    rows, columns = np.nonzero((wanted >= LEAST_INK) & (ink < INK_SHARE * wanted))
    return [(int(c) * TILE_PX, int(r) * TILE_PX) for r, c in zip(rows, columns, strict=True)]


def _ink(image: QImage) -> NDArray[np.float64]:
    grey = image.convertToFormat(QImage.Format.Format_Grayscale8)
    pixels = np.frombuffer(grey.constBits(), np.uint8).reshape(grey.height(), grey.bytesPerLine())
    rows, columns = grey.height() // TILE_PX, grey.width() // TILE_PX
    cut = pixels[: rows * TILE_PX, : columns * TILE_PX].astype(np.float64)
    tiles = cut.reshape(rows, TILE_PX, columns, TILE_PX).swapaxes(1, 2).reshape(rows, columns, -1)
    ink: NDArray[np.float64] = np.abs(tiles - np.median(tiles, axis=2, keepdims=True)).mean(axis=2)
    return ink


def check_picture(shown: QPixmap, name: str, *, threshold: float, is_updating: bool) -> None:
    """Fail when `shown` differs from the committed picture; the three pictures are then kept."""
    path = PICTURES / name
    if is_updating:
        path.parent.mkdir(parents=True, exist_ok=True)
        assert shown.save(str(path))
    expected = QImage(str(path))
    found = shown.toImage()
    assert not expected.isNull(), f"{path} is missing: run pytest with --update-pictures and look at it"
    assert (found.width(), found.height()) == (expected.width(), expected.height())
    difference = np.abs(block_means(found) - block_means(expected))
    lost = lost_tiles(found, expected)
    if difference.mean() > threshold or lost:
        FAILURES.mkdir(exist_ok=True)
        found.save(str(FAILURES / f"found-{name}"))
        expected.save(str(FAILURES / f"expected-{name}"))
        scaled = np.ascontiguousarray(np.clip(difference * 4, 0, 255).astype(np.uint8))
        height, width = scaled.shape[:2]
        QImage(scaled.data, width, height, width * 3, QImage.Format.Format_RGB888).save(
            str(FAILURES / f"difference-{name}")
        )
    assert difference.mean() <= threshold, (
        f"{name} differs by {difference.mean():.2f} of 255 on average, at most {difference.max():.0f}; "
        f"pictures in {FAILURES}"
    )
    assert not lost, f"{name}: nothing is drawn in the tiles at {lost}; pictures in {FAILURES}"
