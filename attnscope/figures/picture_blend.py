"""Colours of cells laid over a picture in grey. Nothing is smoothed."""

import numpy as np
from numpy.typing import NDArray

COLOUR_SHARE = 0.62
"""How much of a pixel is the colour of its cell; the rest is the picture in grey."""
_DARKEST, _BRIGHTEST = 64.0, 192.0


def blended_pixels(
    pixels: NDArray[np.uint8],
    colours: NDArray[np.uint8],
    shares: NDArray[np.float64],
    size: tuple[int, int],
) -> NDArray[np.uint8]:
    """The picture [height, width, 3] under cells [n_rows, n_columns, 3], as uint8 of `size` (width, height).

    `shares` [n_rows, n_columns] from 0 (the picture's grey alone) to 1 (the cell's colour alone).
    """
    width, height = size
    rows = (np.arange(height) * colours.shape[0] // height)[:, None]
    columns = (np.arange(width) * colours.shape[1] // width)[None, :]
    light = sized_pixels(pixels, size) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    grey = (_DARKEST + light / 255 * (_BRIGHTEST - _DARKEST))[:, :, None]
    share = shares.astype(np.float32)[rows, columns][:, :, None]
    shown: NDArray[np.uint8] = np.rint(share * colours[rows, columns] + (1 - share) * grey).astype(np.uint8)
    return shown


def over_grey(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colours [n, 3] as they look over the middle grey of a picture: what a colour bar beside it shows."""
    grey = (_DARKEST + _BRIGHTEST) / 2
    shown: NDArray[np.uint8] = np.rint(COLOUR_SHARE * colours + (1 - COLOUR_SHARE) * grey).astype(np.uint8)
    return shown


def sized_pixels(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture at another size, each pixel that of the nearest one."""
    width, height = size
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    found: NDArray[np.uint8] = pixels[rows[:, None], columns[None, :]]
    return found


def pixel_words(pixels: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """0xFFRRGGBB of each pixel."""
    weights = np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    words: NDArray[np.uint32] = pixels.astype(np.uint32) @ weights + np.uint32(0xFF000000)
    return words
