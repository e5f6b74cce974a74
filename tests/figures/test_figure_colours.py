import numpy as np
import pytest

from attnscope.errors import UserError
from attnscope.figures import COLOUR_MAPS, DARK, LIGHT, PROJECTOR, Palette, contrast, lightness, lut, lut_argb


@pytest.mark.parametrize("name", ["viridis", "cividis", "magma"])
def test_that_lightness_rises_all_along_a_map(name: str) -> None:
    steps = np.diff(lightness(lut(name)))
    assert steps.min() > -0.05, f"{name} darkens by {-steps.min():.3f}"  # 0.05: rounding to bytes


def test_that_greys_fall_all_along() -> None:
    assert np.diff(lightness(lut("greys"))).max() <= 0


def test_that_the_diverging_map_weighs_both_signs_alike() -> None:
    light = lightness(lut("diverging"))
    np.testing.assert_allclose(light, light[::-1], atol=3.0)  # the blue end leaves the screen's gamut
    assert light[127:129].min() == light.max() or light.argmax() in (126, 127, 128, 129)


def test_that_the_published_ends_of_viridis_are_kept() -> None:
    assert lut("viridis")[0].tolist() == [68, 1, 84]
    assert lut("viridis")[128].tolist() == [33, 145, 140]
    assert lut("viridis")[255].tolist() == [253, 231, 37]


@pytest.mark.parametrize("name", COLOUR_MAPS)
def test_that_maps_are_whole_and_cannot_be_changed(name: str) -> None:
    table = lut(name)
    assert table.shape == (256, 3)
    assert table.dtype == np.uint8
    assert not table.flags.writeable
    red, green, blue = (int(v) for v in table[200])
    assert int(lut_argb(name)[200]) == 0xFF000000 | red << 16 | green << 8 | blue


def test_that_an_unknown_map_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"'jet'.*viridis"):
        lut("jet")


@pytest.mark.parametrize("palette", [LIGHT, DARK, PROJECTOR], ids=["light", "dark", "projector"])
def test_that_text_can_be_read_on_every_ground(palette: Palette) -> None:
    for colour in (palette.text, palette.muted, palette.accent, palette.warning, palette.error):
        for ground in (palette.background, palette.panel, palette.raised):
            assert contrast(colour, ground) >= 4.5
    assert contrast(palette.accent_text, palette.accent) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK, PROJECTOR], ids=["light", "dark", "projector"])
def test_that_series_colours_differ_from_the_ground_and_each_other(palette: Palette) -> None:
    assert len(set(palette.series)) == len(palette.series)
    assert all(contrast(colour, palette.background) >= 3.0 for colour in palette.series)


@pytest.mark.parametrize("palette", [LIGHT, DARK, PROJECTOR], ids=["light", "dark", "projector"])
def test_that_missing_numbers_have_no_colour_of_a_map(palette: Palette) -> None:
    for name in ("viridis", "cividis", "magma"):
        table = lut(name).astype(int)
        for colour in (palette.not_allowed, palette.no_data):
            rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
            if colour == palette.not_allowed:
                assert np.abs(table[0] - rgb).sum() > 20
            assert (np.abs(table - rgb).sum(axis=1) > 0).all()
