"""How maps are drawn: the choices a person makes, and the type sizes everything shares."""

from dataclasses import dataclass
from typing import Literal

from PySide6.QtGui import QFont, QFontMetricsF

from attnscope.figures.colours import ColourMap

Scale = Literal["fixed", "head", "row"]
SCALES: tuple[Scale, ...] = ("fixed", "head", "row")
SMALL_PX, NORMAL_PX, LARGE_PX = 11, 13, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStyle:
    """How weights become colours: `fixed` 0…1, up to each `head`'s maximum, or up to each `row`'s.

    `show_values` writes the weight into cells that are large enough.
    """

    colour_map: ColourMap = "viridis"
    scale: Scale = "fixed"
    show_values: bool = False


def font(size_px: int = SMALL_PX, *, is_bold: bool = False, is_italic: bool = False) -> QFont:
    """The system's font at a size in pixels, digits of equal width, the same on screen and in files."""
    result = QFont()
    result.setPixelSize(size_px)
    result.setBold(is_bold)
    result.setItalic(is_italic)
    result.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    result.setFeature(QFont.Tag("tnum"), 1)
    return result


def text_width(text: str, size_px: int = SMALL_PX, *, is_bold: bool = False) -> float:
    """Width in pixels of one line of text."""
    return float(QFontMetricsF(font(size_px, is_bold=is_bold)).horizontalAdvance(text))
