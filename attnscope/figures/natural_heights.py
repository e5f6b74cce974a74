"""How high a map, lines or a grid want to be at a width, in layout pixels: nothing cut, nothing white."""

from PySide6.QtCore import QRectF

from attnscope.figures.grid_layout import natural_grid_height
from attnscope.figures.map_layout import MARGIN_PX, cells_height, map_layout
from attnscope.figures.paint_lines import line_names, natural_lines_height
from attnscope.figures.spec import FigureSpec
from attnscope.figures.token_axis import axis_names
from attnscope.records.maps import HeadMap

_HIGHEST = 1.4
"""The most that a map is high, for a width of 1."""
_LEAST_BAR_PX = 100.0


def map_height(spec: FigureSpec, head_map: HeadMap, width: float, *, is_panel: bool = False) -> float:
    """One map with its labels; a bar of its own is not cut short."""
    has_bar = spec.style.has_bar and not is_panel
    layout = map_layout(
        QRectF(0.0, 0.0, width, _HIGHEST * width),
        head_map.queries,
        head_map.keys,
        has_title=not is_panel and not spec.style.is_plain,
        has_bar=has_bar,
        turn=spec.style.turn,
        is_compact=is_panel,
        has_corner=True,
        names=axis_names(head_map.queries, spec.style),
    )
    least = layout.cells.top() + _LEAST_BAR_PX if has_bar else 0.0
    return max(layout.cells.top() + cells_height(layout), least) + MARGIN_PX


def panel_height(panel: FigureSpec, width: float, *, has_names: bool = False) -> float:
    """What one panel shows below its letter; lines that are named there need more."""
    match panel.view:
        case "head":
            return map_height(panel, panel.maps[0], width, is_panel=True)
        case "lines":
            names = line_names(panel.maps) if has_names else ()
            return natural_lines_height(panel.maps[0], width, names=names)
        case _:
            return min(natural_grid_height(width, panel.grids), width)
