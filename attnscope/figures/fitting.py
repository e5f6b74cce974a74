"""Pages that suit what stands on them: the column of a journal, and a height without a white rest.

Heights are worked out from the layouts that painting uses, in layout pixels at the type's size on paper.
"""

from dataclasses import replace

from PySide6.QtCore import QRectF

from attnscope.figures.colour_bar import WIDTH_PX
from attnscope.figures.difference_layout import natural_difference_height
from attnscope.figures.grid_layout import natural_grid_height
from attnscope.figures.map_layout import MARGIN_PX
from attnscope.figures.natural_heights import map_height
from attnscope.figures.paint_curves import natural_curves_height
from attnscope.figures.paint_figure import frame_heights
from attnscope.figures.paint_graph import natural_figure_height
from attnscope.figures.paint_lines import line_names, natural_lines_height
from attnscope.figures.paint_panels import panel_field, row_heights
from attnscope.figures.paint_positions import natural_positions_height
from attnscope.figures.picture_layout import natural_picture_height
from attnscope.figures.presets import PRESETS, Preset, preset_named
from attnscope.figures.spec import LAYOUT_DPI, MAX_MM, MIN_MM, MM_PER_INCH, PAGE_PT, FigureSpec, View
from attnscope.figures.special_tokens import as_drawn
from attnscope.figures.style import paper_type

FITTED: tuple[View, ...] = (
    "grid",
    "head",
    "lines",
    "picture",
    "graph",
    "panels",
    "difference",
    "positions",
    "curves",
)
"""The views whose height follows from their width."""
_MOST_TOKENS_IN_COLUMN = 16
_LEAST_BODY_PX = 120.0
_PANEL_PX = 180.0
"""The least width of a panel where there may be several in a row."""


def suiting_preset(spec: FigureSpec) -> Preset:
    """A single column for one map of a short text and for lines, two for all else."""
    tokens = max((max(len(m.queries), len(m.keys)) for m in spec.maps), default=0)
    is_short = spec.part is None and 0 < tokens <= _MOST_TOKENS_IN_COLUMN
    is_single = spec.view == "lines" or (spec.view == "head" and is_short)
    return next(preset for preset in PRESETS if preset.name == ("single" if is_single else "double"))


def sized(
    spec: FigureSpec,
    *,
    preset: str | None = None,
    width_mm: float | None = None,
    height_mm: float | None = None,
    font_pt: float | None = None,
) -> FigureSpec:
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
    return spec.view in FITTED and fitted(spec).height_mm == spec.height_mm


def fitted(spec: FigureSpec) -> FigureSpec:
    """`spec` as high as what it shows at its width; unchanged where a view takes any height."""
    width_px = spec.width_px / spec.type_scale
    if spec.view not in FITTED or spec.part is not None or not spec.font_pt > 0 or not width_px > 0:
        return spec
    drawn = as_drawn(spec)
    with paper_type(spec.style.font):
        above, below = frame_heights(drawn)
        body = max(_body_height(drawn, width_px), _LEAST_BODY_PX)
    height_mm = (above + body + below + 1.0) * spec.type_scale / LAYOUT_DPI * MM_PER_INCH
    return replace(spec, height_mm=min(max(round(height_mm, 1), MIN_MM), MAX_MM))


def _body_height(spec: FigureSpec, width: float) -> float:
    """What the view needs between title and caption, in layout pixels."""
    bar_px = WIDTH_PX + MARGIN_PX if spec.style.has_bar else 0.0
    match spec.view:
        case "head" if spec.maps:
            return map_height(spec, spec.maps[0], width)
        case "lines" if spec.maps:
            return natural_lines_height(spec.maps[0], width, names=line_names(spec.maps))
        case "grid" if spec.grids:
            return min(natural_grid_height(width - bar_px, spec.grids), width)
        case "picture" if spec.picture is not None:
            picture = spec.picture.picture
            return natural_picture_height(width, picture, has_bar=spec.style.has_bar)
        case "curves" if spec.charts:
            return natural_curves_height(width, len(spec.charts))
        case "positions" if spec.positions:
            return natural_positions_height(width, spec.positions)
        case "difference" if spec.compared is not None:
            return natural_difference_height(width, spec.compared)
        case "graph" if spec.graph is not None:
            return natural_figure_height(width, spec.graph)
        case "panels" if spec.panels:
            return _panels_height(spec, width)
        case _:
            return spec.height_px / spec.type_scale


def _panels_height(spec: FigureSpec, width: float) -> float:
    """All rows of panels, each as high as its highest panel."""
    field = panel_field(QRectF(0.0, 0.0, width, width), spec)
    columns = spec.columns or suiting_columns(len(spec.panels), field.width())
    return sum(row_heights(spec, field.width(), columns))


def suiting_columns(n_panels: int, width: float) -> int:
    """How many panels stand beside each other where none is asked for: as many as are wide enough.

    Rows are filled alike: four panels where three would fit stand two by two.
    """
    most = max(1, int(width // _PANEL_PX))
    n_rows = -(-n_panels // most)
    return -(-n_panels // n_rows)
