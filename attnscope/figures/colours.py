"""Colours: the maps for weights, the palettes of the light and dark themes, the colours of lines.

Palettes hold `#rrggbb` strings, so that style sheets and painters take them alike. All text colours
reach a contrast of 4.5:1 on `background` and on `panel`.
"""

import base64
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import UserError

# The colour maps of other people, as 256 RGB bytes each, exactly as published.
#
# viridis and magma: S. van der Walt and N. Smith, 2015 (CC0). cividis: J. Nuñez, C. Anderton and
# R. Renslow, "Optimizing colormaps with consideration for color vision deficiency", PLoS ONE 2018.
# Base64 keeps them short; `lut` decodes them.


VIRIDIS = (
    "RAFURAJWRQRXRQVZRgdaRghcRgpdRgteRw1gRw5hRxBjRxFkRxNlSBRnSBZoSBdpSBhqSBpsSBttSBxuSB1vSB9wSCBxSCFzSCN0"
    "SCR1SCV2SCZ3SCh4SCl5Ryp6Ryx6Ry17Ry58Ry99RjB+RjJ+RjN/RjSARTWBRTeBRTiCRDmDRDqDRDuEQz2EQz6FQj+FQkCGQkGG"
    "QUKHQUSHQEWIQEaIP0eIP0iJPkmJPkqJPkyKPU2KPU6KPE+KPFCLO1GLO1KLOlOLOlSMOVWMOVaMOFiMOFmMN1qMN1uNNlyNNl2N"
    "NV6NNV+NNGCNNGGNM2KNM2ONMmSOMmWOMWaOMWeOMWiOMGmOMGqOL2uOL2yOLm2OLm6OLm+OLXCOLXGOLHGOLHKOLHOOK3SOK3WO"
    "KnaOKneOKniOKXmOKXqOKXuOKHyOKH2OJ36OJ3+OJ4COJoGOJoKOJoKOJYOOJYSOJYWOJIaOJIeOI4iOI4mOI4qNIouNIoyNIo2N"
    "IY6NIY+NIZCNIZGMIJKMIJKMIJOMH5SMH5WLH5aLH5eLH5iLH5mKH5qKHpuKHpyJHp2JH56JH5+IH6CIH6GIH6GHH6KHIKOGIKSG"
    "IaWFIaaFIqeFIqiEI6mDJKqDJauCJayCJq2BJ62BKK6AKa9/KrB/LLF+LbJ9LrN8L7R8MbV7MrZ6NLZ5Nbd5N7h4OLl3Orp2O7t1"
    "Pbx0P7xzQL1yQr5xRL9wRsBvSMFuSsFtTMJsTsNrUMRqUsVpVMVoVsZnWMdlWshkXMhjXsliYMpgY8tfZcteZ8xcac1bbM1abs5Y"
    "cM9Xc9BWddBUd9FTetFRfNJQf9NOgdNNhNRLhtVJidVIi9ZGjtZFkNdDk9dBldhAmNg+m9k8ndk7oNo5oto3pds2qNs0qtwyrdww"
    "sN0vst0ttd4ruN4put4ovd8mwN8lwt8jxeAhyOAgyuEfzeEd0OEc0uIb1eIa2OIZ2uMZ3eMY3+MY4uQY5eQZ5+QZ6uUa7OUb7+Uc"
    "8eUd9OYe9uYg+OYh++cj/ecl"
)
CIVIDIS = (
    "ACBNACFOACJQACJSACNTACRVACVXACVYACZaACdcACdeAChgAClhACpjACplACtnACxpACxqAC1sAC5uAC5vAC9vAC9vADBvADBv"
    "ADFvADJvADNvADNvADRvADVuATZuBjZuCzduDzhuEjhtFTltGDptGjttHTttHzxtIT1tIz5sJD5sJj9sKEBsKkBsK0FsLUJsLkNs"
    "MENsMURrMkVrNEVrNUZrNkdrOEhrOUhrOklrO0prPUprPktrP0xrQE1rQU1rQk5rQ09rRE9rRlBrR1FrSFJrSVJrSlNrS1RsTFRs"
    "TVVsTlZsT1dsUFdsUVhsUllsU1lsVFpsVVttVlxtV1xtWF1tWV5tWV9tWl9tW2BuXGFuXWFuXmJuX2NuYGRvYWRvYmVvY2ZvZGZv"
    "ZGdwZWhwZmlwZ2lwaGpxaWtxamxxa2xxbG1ybG5ybW5ybm9zb3BzcHFzcXF0cnJ0cnN0c3R1dHR1dXV1dnZ2d3d2eHd3eHh3eXl3"
    "enp4e3p4fHt4fXx4fn14f314gH55gX95goB5g4B5hIF5hIJ5hYN5hoN5h4R5iIV5iYZ5iod5i4d5jIh5jYl5jop5j4p5kIt5kYx4"
    "ko14k454lI54lY94lpB4l5F4mJJ4mZJ4mpN3m5R3nJV3nZZ3npZ3n5d3oJh3oZl2opp2o5p2pJt2pZx2pp11qJ51qZ91qp91q6B0"
    "rKF0raJ0rqN0r6RzsKRzsaVzsqZys6dytKhytalxtqlxt6pxuKtwuaxwuq1wu65vvK9vvq9vv7BuwLFuwbJtwrNtw7RtxLVsxbVs"
    "xrZrx7dryLhqyblqy7ppzLtpzbxozrxoz71n0L5n0b9m0sBm08Fl1MJk1sNk18Rj2MVj2cVi2sZh28dh3Mhg3clf3spf4Mte4cxd"
    "4s1c485c5M9b5dBa5tFZ6NJZ6dNY6tNX69RW7NVV7dZU79dT8NhS8dlR8tpQ89tP9NxO9t1N995M+N9L+eBK+uFJ++JI/eNG/uRF"
    "/+VE/+ZC/+dC/+hD/+lE/+pG"
)
MAGMA = (
    "AAAEAQAFAQEGAQEIAgEJAgILAgINAwMPAwMSBAQUBQQWBgUYBgUaBwYcCAceCQcgCggiCwkkDAkmDQopDgsrEAstEQwvEg0xEw00"
    "FA42FQ44Fg87GA89GRA/GhBCHBBEHRFHHhFJIBFLIRFOIhFQJBJTJRJVJxJYKRFaKhFcLBFfLRFhLxFjMRFlMxBnNBBpNhBrOBBs"
    "OQ9uOw9wPQ9xPw9yQA90Qg91RA92RRB3RxB4SRB4ShB5TBF6ThF7TxJ7URJ8UhN8VBN9VhR9VxV+WRV+WhZ+XBZ/XRd/Xxh/YBiA"
    "YhmAZBqAZRqAZxuAaByBahyBax2BbR2Bbh6BcB+Bch+BcyCBdSGBdiGBeCKBeSKCeyOCfCOCfiSCgCWCgSWBgyaBhCaBhieBiCeB"
    "iSiBiymBjCmBjiqBkCqBkSuBkyuAlCyAliyAmC2AmS2Amy5/nC5/ni9/oC9/oTB+ozB+pTF+pjF9qDJ9qjN9qzN8rTR8rjR7sDV7"
    "sjV7szZ6tTZ6tzd5uDd5ujh4vDl4vTl3vzp3wDp2wjt1xDx1xTx0xz1zyD5zyj5yzD9xzUBxz0Bw0EFv0kJv00Nu1URt1kVs2EVs"
    "2UZr20dq3Ehp3klo30po4Exn4k1m405l5E9k5VBk51Jj6FNi6VRi6lZh61dg7Fhg7Vpf7lte711e8F9e8WBd8mJd8mRc82Vc9Gdc"
    "9Glc9Wtc9mxc9m5c93Bc93Jc+HRc+HZc+Xhd+Xld+Xtd+n1e+n9e+oFf+4Nf+4Vg+4dh/Ilh/Ipi/Ixj/I5k/JBl/ZJm/ZRn/ZZo"
    "/Zhp/Zpq/Ztr/p1s/p9t/qFu/qNv/qVx/qdy/qlz/qp0/qx2/q53/rB4/rJ6/rR7/rZ8/rd+/rl//ruB/r2C/r+E/sGF/sKH/sSI"
    "/saK/siM/sqN/syP/s2Q/s+S/tGU/tOV/tWX/teZ/tia/dqc/dye/d6g/eCh/eKj/eOl/eWn/eep/emq/eus/Oyu/O6w/PCy/PK0"
    "/PS2/Pa4/Pe5/Pm7/Pu9/P2/"
)


ColourMap = Literal["viridis", "cividis", "magma", "greys", "diverging"]
COLOUR_MAPS: tuple[ColourMap, ...] = ("viridis", "cividis", "magma", "greys", "diverging")


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """The colours of one theme; `series` are distinguishable by colour-blind readers.

    `not_allowed` and `hatch` paint cells that the mask forbids, `no_data` cells that hold no number.
    `focus` frames what has the keyboard, where the frame of everything else is a `line`.
    `type_factor` is how large type is on the screen, 1 at a desk.
    """

    is_dark: bool
    background: str
    panel: str
    raised: str
    text: str
    muted: str
    accent: str
    accent_text: str
    focus: str
    warning: str
    error: str
    line: str
    grid: str
    not_allowed: str
    hatch: str
    no_data: str
    series: tuple[str, ...]
    type_factor: float = 1.0


LIGHT = Palette(
    is_dark=False,
    background="#ffffff",
    panel="#f5f6f8",
    raised="#ffffff",
    text="#1b1f24",
    muted="#59616b",
    accent="#1a5fd0",
    accent_text="#ffffff",
    focus="#1a5fd0",
    warning="#8a5a00",
    error="#c02626",
    line="#cfd4da",
    grid="#e6e9ed",
    not_allowed="#f3f4f6",
    hatch="#d9dde2",
    no_data="#a9afb7",
    series=("#0068af", "#d55e00", "#009d71", "#b25890", "#b18139", "#2c91cd", "#882255", "#676b21"),
)
DARK = Palette(
    is_dark=True,
    background="#16181c",
    panel="#1d2025",
    raised="#262a31",
    text="#e6e8eb",
    muted="#9ba3ae",
    accent="#6ea8ff",
    accent_text="#0d1420",
    focus="#6ea8ff",
    warning="#e0a83a",
    error="#ff7b72",
    line="#3a4049",
    grid="#2a2e35",
    not_allowed="#1f2227",
    hatch="#31363e",
    no_data="#646b75",
    series=("#3c9fe6", "#e7833d", "#40d7a5", "#e392c6", "#e0b83f", "#9fd4f5", "#d4709f", "#bbbf5c"),
)

PROJECTOR = Palette(
    is_dark=False,
    background="#ffffff",
    panel="#f1f3f5",
    raised="#ffffff",
    text="#000000",
    muted="#2f363d",
    accent="#0040a8",
    accent_text="#ffffff",
    focus="#000000",
    warning="#6b3f00",
    error="#a00000",
    line="#868e96",
    grid="#d0d5da",
    not_allowed="#e9ecef",
    hatch="#b5bcc3",
    no_data="#7d858d",
    series=("#004a98", "#ce460c", "#0e7d5b", "#92246d", "#89642b", "#1479bd", "#6a0f40", "#4d5000"),
    type_factor=1.35,
)
"""For a lecture hall: black on white, large type, lines that survive a weak lamp."""


def palette(is_dark: bool) -> Palette:
    """The palette of the dark or the light theme."""
    return DARK if is_dark else LIGHT


def series_colour(palette: Palette, index: int) -> str:
    """The colour of the line or curve `index`; past the last one, shades of the same hues."""
    colour = palette.series[index % len(palette.series)]
    turn = index // len(palette.series)
    if turn == 0:
        return colour
    other = palette.text if turn % 2 else palette.no_data
    share = 0.45 if turn < 3 else 0.65
    return _mixed(colour, other, share)


def ramp_colour(palette: Palette, share: float) -> str:
    """The colour for a number of heads, `share` 0…1: a hue that no map of weights uses."""
    return _mixed(palette.grid, palette.series[1], min(max(share, 0.0), 1.0))


def _mixed(first: str, second: str, share: float) -> str:
    parts = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in parts)


@cache
def lut(name: str) -> NDArray[np.uint8]:
    """The colour map `name` as [256, 3] RGB bytes, from 0 to 1 (`diverging`: −1 to 1); read-only."""
    match name:
        case "viridis":
            table = _decode(VIRIDIS)
        case "cividis":
            table = _decode(CIVIDIS)
        case "magma":
            table = _decode(MAGMA)
        case "greys":
            lightness = np.linspace(97.0, 8.0, 256)
            table = _rgb_from_lab(np.stack([lightness, 0 * lightness, 0 * lightness], axis=1))
        case "diverging":
            table = _diverging()
        case "diverging-dark":
            table = _diverging(centre=22.0, end=72.0)
        case _:
            raise UserError(
                f"There is no colour map '{name}'.",
                expected=", ".join(COLOUR_MAPS),
                action="Choose one of these.",
            )
    table.flags.writeable = False
    return table


def difference_map(palette: Palette) -> str:
    """The name of the colour map for signed differences in a theme: 0 is near the background."""
    return "diverging-dark" if palette.is_dark else "diverging"


@cache
def lut_argb(name: str) -> NDArray[np.uint32]:
    """The colour map as [256] opaque 0xAARRGGBB words, as QImage takes them; read-only."""
    table = lut(name).astype(np.uint32)
    weights = np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    words: NDArray[np.uint32] = (table @ weights + np.uint32(0xFF000000)).astype(np.uint32)
    words.flags.writeable = False
    return words


def argb(colour: str) -> int:
    """A `#rrggbb` colour as an opaque 0xAARRGGBB word."""
    return 0xFF000000 | int(colour[1:], 16)


def lightness(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """CIE L* (0…100) of sRGB bytes [n, 3], for the D65 white point."""
    linear = _linear_from_srgb(rgb / 255.0)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    cube = np.where(luminance > 216 / 24389, np.cbrt(luminance), (24389 / 27 * luminance + 16) / 116)
    return np.asarray(116 * cube - 16)


def ink_on(colours: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether black rather than white reads better on each colour [n, 3] of 0…255."""
    luminance = _linear_from_srgb(colours / 255.0) @ np.array([0.2126, 0.7152, 0.0722])
    dark: NDArray[np.bool_] = (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
    return dark


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two `#rrggbb` colours by WCAG 2.1, from 1 to 21."""
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (first, second)]) / 255.0
    luminance = sorted(_linear_from_srgb(rgb) @ np.array([0.2126, 0.7152, 0.0722]))
    return float((luminance[1] + 0.05) / (luminance[0] + 0.05))


def _decode(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(256, 3).copy()


def _diverging(centre: float = 96.0, end: float = 38.0) -> NDArray[np.uint8]:
    """Blue, near-white, orange-red: lightness symmetric about the centre, so that ±x weigh the same.

    `centre` and `end` are the lightness L* of 0 and of ±1; a dark centre is for dark surroundings.
    """
    t = np.linspace(-1.0, 1.0, 256)
    strength = np.abs(t)
    hue = np.radians(np.where(t < 0, 270.0, 45.0))
    chroma = 50.0 * np.sin(strength * np.pi / 2)
    light = centre + (end - centre) * strength**1.15
    return _rgb_from_lab(np.stack([light, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1))


def _rgb_from_lab(lab: NDArray[np.float64]) -> NDArray[np.uint8]:
    """SRGB bytes of CIE Lab colours (D65), clipped to what a screen shows."""
    fy = (lab[:, 0] + 16) / 116
    f = np.stack([fy + lab[:, 1] / 500, fy, fy - lab[:, 2] / 200], axis=1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * [0.95047, 1.0, 1.08883]
    matrix = np.array(
        [
            [3.2404542, -1.5371385, -0.4985314],
            [-0.969266, 1.8760108, 0.041556],
            [0.0556434, -0.2040259, 1.0572252],
        ]
    )
    linear = np.clip(xyz @ matrix.T, 0.0, 1.0)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    rgb: NDArray[np.uint8] = np.round(srgb * 255).astype(np.uint8)
    return rgb


def _linear_from_srgb(srgb: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
