"""Whether a page has room for what stands on it: the least width of a view, and weights in their cells."""

from PySide6.QtCore import QRectF

from attnscope.errors import UserError
from attnscope.figures.colour_bar import WIDTH_PX
from attnscope.figures.paint_figure import frame_heights
from attnscope.figures.spec import LAYOUT_DPI, MM_PER_INCH, FigureSpec
from attnscope.figures.style import paper_type, value_px

_BAR_PX = WIDTH_PX + 18.0


def least_width_mm(spec: FigureSpec) -> float:
    """The least width of a figure at its size of type; 0 for a view that takes any."""
    width = spec.least_px + (_BAR_PX if spec.has_colour_bar() else 0.0)
    return round(width * _mm_of_px(spec) + 0.05, 1) if spec.least_px else 0.0


def check_width(spec: FigureSpec) -> None:
    """Raise UserError when the figure is too narrow to be read."""
    least = least_width_mm(spec)
    if 0 < spec.width_mm < least:
        raise UserError(
            f"The figure is to be {spec.width_mm:g} mm wide, too narrow in {spec.font_pt:g} pt.",
            expected=f"at least {least:g} mm",
            action="Choose a wider page, smaller type, or leave out the colour bar.",
        )


def values_hint(spec: FigureSpec) -> str:
    """Why the weights that were asked for are not in their cells, and what to do; empty where they are."""
    if not spec.style.show_values:
        return ""
    if not spec.has_cells:
        return "values belong to the view head"
    whole = QRectF(0.0, 0.0, spec.width_px / spec.type_scale, spec.height_px / spec.type_scale)
    with paper_type(spec.style.font):
        cell_px = spec.cell_px(whole.adjusted(0.0, 0.0, 0.0, -sum(frame_heights(spec))))
        if cell_px is None or value_px(cell_px, spec.widest_value()):
            return ""
        wanted = next(px for px in range(5, 60) if value_px(px, spec.widest_value()))
    wide = spec.width_mm + (wanted - cell_px) * _mm_of_px(spec) * spec.n_across(whole)
    return (
        f"values do not fit: cells are {cell_px * _mm_of_px(spec):.1f} mm wide; "
        f"--width-mm {10 * -(-wide // 10):.0f} has room"
    )


def _mm_of_px(spec: FigureSpec) -> float:
    return spec.type_scale / LAYOUT_DPI * MM_PER_INCH
