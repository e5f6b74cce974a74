"""Pages that suit what stands on them: the column of a journal, and a height without a white rest.

Heights are worked out from the layouts that painting uses, in layout pixels at the type's size on paper.
"""

from dataclasses import replace

from attnscope.figures.paint_figure import frame_heights
from attnscope.figures.presets import PRESETS, Preset, preset_named
from attnscope.figures.spec import LAYOUT_DPI, MAX_MM, MIN_MM, MM_PER_INCH, PAGE_PT, FigureSpec, FigureT
from attnscope.figures.special_tokens import as_drawn
from attnscope.figures.style import paper_type

_LEAST_BODY_PX = 120.0


def suiting_preset(spec: FigureSpec) -> Preset:
    """A single column for one map of a short text and for lines, two for all else."""
    name = "single" if spec.suits_column() else "double"
    return next(preset for preset in PRESETS if preset.name == name)


def sized(
    spec: FigureT,
    *,
    preset: str | None = None,
    width_mm: float | None = None,
    height_mm: float | None = None,
    font_pt: float | None = None,
) -> FigureT:
    """`spec` on a page of what is given; the rest as a preset has it, its own or the one that suits.

    Without a height the page ends where the figure does, except that of a slide.
    """
    named = preset_named(preset or "")
    page = named or suiting_preset(spec)
    type_pt = page.font_pt if named is not None or width_mm is None else PAGE_PT
    spec = replace(
        spec,
        width_mm=page.width_mm if width_mm is None else width_mm,
        height_mm=page.height_mm if height_mm is None else height_mm,
        font_pt=type_pt if font_pt is None else font_pt,
    )
    return spec if height_mm is not None or page.is_whole else fitted(spec)


def page_of(spec: FigureSpec) -> tuple[float, float, float]:
    """Width and height in millimetres and type in points."""
    return spec.width_mm, spec.height_mm, spec.font_pt


def is_fitted(spec: FigureSpec) -> bool:
    """Whether the page ends where the figure does."""
    return spec.follows_width and fitted(spec).height_mm == spec.height_mm


def fitted(spec: FigureT) -> FigureT:
    """`spec` as high as what it shows at its width; unchanged where a view takes any height."""
    width_px = spec.width_px / spec.type_scale
    if not spec.follows_width or spec.is_empty or not spec.font_pt > 0 or not width_px > 0:
        return spec
    drawn = as_drawn(spec)
    with paper_type(spec.style.font):
        above, below = frame_heights(drawn)
        natural = drawn.natural_height(width_px)
    if natural is None:
        return spec
    body = max(natural, _LEAST_BODY_PX)
    height_mm = (above + body + below + 1.0) * spec.type_scale / LAYOUT_DPI * MM_PER_INCH
    return replace(spec, height_mm=min(max(round(height_mm, 1), MIN_MM), MAX_MM))
