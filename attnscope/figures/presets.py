"""Sizes that figures are often asked for: the columns of a journal, and a slide.

Columns are 85, 114 and 174 mm wide, which suits the author guides of most journals; a slide is 16:9.
"""

from dataclasses import dataclass
from typing import Literal

from attnscope.figures.spec import PAGE_MM, PAGE_PT, FigureSpec

PresetName = Literal["single", "one-and-half", "double", "slide"]
_TOLERANCE_MM = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A size in millimetres and points, under a name for the command line and one for people.

    A slide `is_whole`: its height belongs to it. The height of a column is up to what stands in it.
    """

    name: PresetName
    title: str
    width_mm: float
    height_mm: float
    font_pt: float
    is_whole: bool = False


PRESETS: tuple[Preset, ...] = (
    Preset(name="single", title="single column", width_mm=85.0, height_mm=90.0, font_pt=7.0),
    Preset(name="one-and-half", title="1.5 columns", width_mm=114.0, height_mm=105.0, font_pt=7.5),
    Preset(name="double", title="double column", width_mm=PAGE_MM[0], height_mm=PAGE_MM[1], font_pt=PAGE_PT),
    Preset(name="slide", title="slide 16:9", width_mm=338.7, height_mm=190.5, font_pt=14.0, is_whole=True),
)


def preset_named(name: str) -> Preset | None:
    """The preset of that name; None for any other, such as `custom`."""
    return next((preset for preset in PRESETS if preset.name == name), None)


def preset_of(spec: FigureSpec) -> Preset | None:
    """The preset whose width and type the figure has; None when the size is its own."""
    for preset in PRESETS:
        is_wide = abs(spec.width_mm - preset.width_mm) < _TOLERANCE_MM
        is_high = not preset.is_whole or abs(spec.height_mm - preset.height_mm) < _TOLERANCE_MM
        if is_wide and is_high and abs(spec.font_pt - preset.font_pt) < 0.01:
            return preset
    return None
