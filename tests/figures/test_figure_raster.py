import numpy as np
import pytest
from figure_samples import ramp_weights, site_grid
from PySide6.QtCore import QRectF

from attnscope.figures import (
    FIRST_COLOUR,
    LIGHT,
    NO_DATA,
    NOT_ALLOWED,
    argb,
    cells_image,
    code_colours,
    codes_from_grid,
    codes_from_weights,
    lut,
    lut_argb,
    map_codes,
    resample,
)

NAN = float("nan")


def test_that_a_weight_takes_the_nearest_of_256_colours() -> None:
    codes = codes_from_weights(np.array([[0.0, 0.5, 1.0]], dtype=np.float32), "fixed")
    assert codes.tolist() == [[2, 2 + 128, 257]]


def test_that_scales_stretch_to_the_head_or_the_row() -> None:
    weights = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32)
    assert codes_from_weights(weights, "head").max() == 257
    assert codes_from_weights(weights, "row").max(axis=1).tolist() == [257, 257]
    assert codes_from_weights(weights, "fixed").max() == 2 + round(0.4 * 255)


def test_that_masked_and_missing_cells_are_told_apart() -> None:
    weights = np.array([[NAN, 0.0], [NAN, NAN], [np.inf, 1.0]], dtype=np.float32)
    codes = codes_from_weights(weights, "fixed")
    assert codes[0].tolist() == [NOT_ALLOWED, FIRST_COLOUR]
    assert codes[1].tolist() == [NO_DATA, NO_DATA]
    assert codes[2].tolist() == [NO_DATA, 257]


@pytest.mark.parametrize("scale", ["fixed", "head", "row"])
def test_f49_that_maps_without_spread_have_sound_levels(scale: str) -> None:
    for value in (NAN, np.inf, -np.inf, 0.0, 0.25, 2.0, -1.0):
        weights = np.full((3, 3), value, dtype=np.float32)
        codes = codes_from_weights(weights, scale)  # type: ignore[arg-type]
        assert codes.max() <= 257
        coded = map_codes(weights, scale)  # type: ignore[arg-type]
        assert np.isfinite(coded.peak)


def test_that_thumbnails_have_the_codes_of_their_weights() -> None:
    grid = site_grid()
    weights = (grid.levels.astype(np.float32) - 1) / 254 * grid.peaks[:, None, None]
    weights[grid.levels == 0] = NAN
    for scale in ("fixed", "head"):
        expected = np.stack(
            [
                codes_from_weights(w / (p if scale == "head" else 1), "fixed").astype(int)
                for w, p in zip(weights, grid.peaks, strict=True)
            ]
        )
        found = codes_from_grid(grid, scale).astype(int)  # type: ignore[arg-type]
        assert np.abs(found - expected).max() <= 1, np.abs(found - expected).max()  # rounding at .5
        assert ((found == 0) == (expected == 0)).all()


def test_that_a_shared_pixel_shows_the_largest_cell() -> None:
    codes = np.zeros((1, 97), dtype=np.uint16)
    codes[0, 41] = 200
    for n_px in (1, 7, 50, 96, 97, 300):
        assert resample(codes, (0, 97), n_px, axis=1).max() == 200
        assert resample(codes, (0, 97), n_px, axis=1).shape == (1, n_px)


def test_that_pooling_equals_a_loop_over_pixels() -> None:
    codes = (np.arange(60, dtype=np.uint16) * 37 % 101).reshape(1, 60)
    found = resample(codes, (10.0, 50.0), 16, axis=1)[0]
    edges = 10 + np.arange(17) * 40 / 16
    for pixel in range(16):
        first = int(edges[pixel])
        last = int(edges[pixel + 1]) if pixel < 15 else 50
        assert found[pixel] == codes[0, first:last].max()


def test_that_each_cell_is_one_flat_colour() -> None:
    weights = ramp_weights(4, 5)
    codes = codes_from_weights(weights, "fixed")
    image = cells_image(codes, QRectF(0, 0, 5, 4), (50, 40), code_colours("viridis", LIGHT))
    for row in range(4):
        for column in range(5):
            expected = int(lut_argb("viridis")[codes[row, column] - FIRST_COLOUR])
            for dx, dy in ((0, 0), (9, 9), (5, 5)):
                assert image.pixel(column * 10 + dx, row * 10 + dy) == expected


def test_that_masked_cells_are_ground_with_a_hatch() -> None:
    codes = np.full((2, 2), NOT_ALLOWED, dtype=np.uint16)
    image = cells_image(
        codes, QRectF(0, 0, 2, 2), (40, 40), code_colours("viridis", LIGHT), hatch=LIGHT.hatch
    )
    colours = {image.pixel(x, y) for x in range(40) for y in range(40)}
    assert colours == {argb(LIGHT.not_allowed), argb(LIGHT.hatch)}
    zero = 0xFF000000 | int.from_bytes(lut("viridis")[0].tobytes(), "big")
    assert zero not in colours
