"""Sizes that figures are often asked for: the columns of a journal, and a slide.

Columns are 85, 114 and 174 mm wide, which suits the author guides of most journals; a slide is 16:9.
"""

from dataclasses import dataclass
from typing import Literal

from attnscope.figures.spec import FigureSpec

PresetName = Literal["single", "one-and-half", "double", "slide"]
_TOLERANCE_MM = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A size in millimetres and points, under a name for the command line and one for people."""

    name: PresetName
    title: str
    width_mm: float
    height_mm: float
    font_pt: float


PRESETS: tuple[Preset, ...] = (
    Preset(name="single", title="single column", width_mm=85.0, height_mm=90.0, font_pt=7.0),
    Preset(name="one-and-half", title="1.5 columns", width_mm=114.0, height_mm=105.0, font_pt=7.5),
    Preset(name="double", title="double column", width_mm=174.0, height_mm=130.0, font_pt=8.0),
    Preset(name="slide", title="slide 16:9", width_mm=338.7, height_mm=190.5, font_pt=14.0),
)


def preset_named(name: str) -> Preset | None:
    """The preset of that name; None for any other, such as `custom`."""
    return next((preset for preset in PRESETS if preset.name == name), None)


def preset_of(spec: FigureSpec) -> Preset | None:
    """The preset whose page and type the figure has; None when the size is its own."""
    for preset in PRESETS:
        sizes = ((spec.width_mm, preset.width_mm), (spec.height_mm, preset.height_mm))
        is_page = all(abs(found - wanted) < _TOLERANCE_MM for found, wanted in sizes)
        if is_page and abs(spec.font_pt - preset.font_pt) < 0.01:
            return preset
    return None
