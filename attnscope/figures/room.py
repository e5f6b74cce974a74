"""Whether a page has room for what stands on it: the least width of a view, and weights in their cells."""

from collections.abc import Iterator

import numpy as np
from PySide6.QtCore import QRectF

from attnscope.errors import UserError
from attnscope.figures.colour_bar import WIDTH_PX
from attnscope.figures.difference_layout import difference_layout
from attnscope.figures.map_layout import map_layout
from attnscope.figures.paint_figure import frame_heights
from attnscope.figures.paint_lines import comparable, strong_lines
from attnscope.figures.paint_panels import panel_body, panel_places
from attnscope.figures.panels import shown_maps
from attnscope.figures.spec import LAYOUT_DPI, MM_PER_INCH, FigureSpec, View
from attnscope.figures.style import paper_type, value_px, widest_value
from attnscope.figures.token_axis import axis_names

_BAR_PX = WIDTH_PX + 18.0
_LEAST_PX: dict[View, float] = {
    "grid": 120.0,
    "head": 140.0,
    "lines": 170.0,
    "picture": 150.0,
    "panels": 190.0,
    "difference": 170.0,
    "positions": 250.0,
    "curves": 210.0,
}
"""The least width at which a view can be read, without its colour bar, in layout pixels."""
_BARRED: tuple[View, ...] = ("grid", "head", "picture", "panels", "difference")
_MANY_LINES = 400
_WIDEST_VALUE = "−.88"


def least_width_mm(spec: FigureSpec) -> float:
    """The least width of a figure at its size of type; 0 for a view that takes any."""
    has_bar = spec.view in _BARRED and (spec.style.has_bar or spec.view == "difference")
    width = _LEAST_PX.get(spec.view, 0.0) + (_BAR_PX if has_bar else 0.0)
    return round(width * _mm_of_px(spec) + 0.05, 1) if spec.view in _LEAST_PX else 0.0


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
    if spec.view not in ("head", "difference", "panels"):
        return "values belong to the view head"
    with paper_type(spec.style.font):
        cell_px = _cell_px(spec)
        if cell_px is None or value_px(cell_px, _sample(spec)):
            return ""
        wanted = next(px for px in range(5, 60) if value_px(px, _sample(spec)))
    wide = spec.width_mm + (wanted - cell_px) * _mm_of_px(spec) * _n_across(spec)
    return (
        f"values do not fit: cells are {cell_px * _mm_of_px(spec):.1f} mm wide; "
        f"--width-mm {10 * -(-wide // 10):.0f} has room"
    )


def lines_hint(spec: FigureSpec) -> str:
    """What to do where so many lines are drawn that none can be followed; empty otherwise."""
    if spec.view != "lines":
        return ""
    style = spec.style
    drawn = strong_lines(
        comparable(spec.maps), least_weight=style.least_weight, n_strongest=style.n_strongest
    )
    n = len(drawn.weights)
    return f"{n:,} lines, --n-strongest 2 draws fewer" if n > _MANY_LINES else ""


def _sample(spec: FigureSpec) -> str:
    peaks = (m.weights[np.isfinite(m.weights)].max(initial=0.0) for m in shown_maps(spec))
    return _WIDEST_VALUE if spec.view == "difference" else widest_value(max(peaks, default=0.0))


def _mm_of_px(spec: FigureSpec) -> float:
    return spec.type_scale / LAYOUT_DPI * MM_PER_INCH


def _cell_px(spec: FigureSpec) -> float | None:
    """The shorter side of a cell in layout pixels; None where weights are written otherwise, or nowhere."""
    scale = spec.type_scale
    body = QRectF(0.0, 0.0, spec.width_px / scale, spec.height_px / scale - sum(frame_heights(spec)))
    if spec.view == "difference" and spec.compared is not None:
        first = difference_layout(body, spec.compared).panels[0]
        return min(first.rows.step, first.columns.step)
    if spec.view == "panels":
        return min(_panel_cells(body, spec), default=None)
    if spec.view != "head" or not spec.maps:
        return None
    placed = map_layout(
        body,
        spec.maps[0].queries,
        spec.maps[0].keys,
        has_title=not spec.style.is_plain,
        has_bar=spec.style.has_bar,
        turn=spec.style.turn,
        names=axis_names(spec.maps[0].queries, spec.style),
    )
    return min(placed.rows.step, placed.columns.step)


def _panel_cells(body: QRectF, spec: FigureSpec) -> Iterator[float]:
    """The shorter side of a cell of each head's panel."""
    for panel, place in zip(spec.panels, panel_places(body, spec), strict=True):
        if panel.view == "head":
            placed = map_layout(
                panel_body(place, spec),
                panel.maps[0].queries,
                panel.maps[0].keys,
                has_title=False,
                has_bar=False,
                turn=spec.style.turn,
                is_compact=True,
                has_corner=True,
                names=axis_names(panel.maps[0].queries, spec.style),
            )
            yield min(placed.rows.step, placed.columns.step)


def _n_across(spec: FigureSpec) -> int:
    """How many cells share the width of the page."""
    if spec.compared is not None:
        return 2 * len(spec.compared.keys)
    most = max(len(head_map.keys) for head_map in shown_maps(spec))
    if spec.view == "panels":
        body = QRectF(0.0, 0.0, spec.width_px / spec.type_scale, spec.height_px / spec.type_scale)
        most *= len({place.left() for place in panel_places(body, spec)})
    return most
