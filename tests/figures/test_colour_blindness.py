"""What colour-blind people see: maps keep their order, lines stay apart, differences keep their sign.

Dichromats are simulated after Machado, Oliveira and Fernandes 2009 (severity 1, table 1), in linear light.
Colour differences are CIE 1976 ΔE*ab: about 2.3 is just noticed.
"""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from attnscope.figures import DARK, LIGHT, PROJECTOR, Palette, lut

SIGHTS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
PALETTES = {"light": LIGHT, "dark": DARK, "projector": PROJECTOR}
N_FIRST = 4
"""So many lines are told apart by colour alone; more carry their names beside them."""


def seen(rgb: NDArray[np.uint8], sight: str) -> NDArray[np.float64]:
    """CIE Lab (D65) of sRGB bytes [n, 3] as somebody of this sight sees them."""
    srgb = rgb / 255.0
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(SIGHTS[sight]).T, 0.0, 1.0)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    share = linear @ to_xyz.T / [0.9505, 1.0, 1.0890]
    f = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def colours(values: tuple[str, ...]) -> NDArray[np.uint8]:
    return np.array([[int(value[i : i + 2], 16) for i in (1, 3, 5)] for value in values], dtype=np.uint8)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", ["viridis", "cividis", "magma", "greys"])
def test_that_more_weight_is_lighter_or_darker_for_every_sight(name: str, sight: str) -> None:
    light = seen(lut(name), sight)[:, 0]
    steps = np.diff(light[::8]) * np.sign(light[-1] - light[0])
    assert (steps > 0).all()
    assert abs(light[-1] - light[0]) > 60


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", ["diverging", "diverging-dark"])
def test_that_a_difference_keeps_its_sign_for_every_sight(name: str, sight: str) -> None:
    lab = seen(lut(name), sight)
    below, above = lab[:128][::-1], lab[128:]
    apart = np.linalg.norm(below - above, axis=1)  # of −x and +x
    assert apart[-1] > 25
    assert apart[32] > 6  # already at a quarter of the scale
    for side in (below, above):
        assert (np.diff(np.abs(side[::8, 0] - side[0, 0])) > 0).all()


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", PALETTES)
def test_that_lines_stay_apart_for_every_sight(theme: str, sight: str) -> None:
    chosen: Palette = PALETTES[theme]
    lab = seen(colours(chosen.series), sight)
    for first, second in combinations(range(len(lab)), 2):
        least = 19 if second < N_FIRST else 10
        distance = float(np.linalg.norm(lab[first] - lab[second]))
        assert distance > least, f"{chosen.series[first]} and {chosen.series[second]}: {distance:.1f}"


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", PALETTES)
def test_that_errors_and_warnings_do_not_look_like_the_accent(theme: str, sight: str) -> None:
    chosen: Palette = PALETTES[theme]
    accent, warning, error, text = seen(
        colours((chosen.accent, chosen.warning, chosen.error, chosen.text)), sight
    )
    for other in (warning, error, text):
        assert np.linalg.norm(accent - other) > 14
