"""Where the three maps of a comparison lie: A, B and B − A with cells of one size, so that all axes agree.

They stand in one row, or, where the cells come out larger, A and B above B − A, or one above the other.
"""

import dataclasses
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures import colour_bar
from attnscope.figures.map_layout import MARGIN_PX, MapLayout, cells_height, map_layout
from attnscope.figures.style import type_px
from attnscope.viewmodels.compare.difference import ComparedMaps

_BAR_GAP_PX = 14.0
_PANEL_GAP_PX = 14.0
_LEAST_GAIN = 1.15
_HIGHEST = 1.4
_GOOD_CELL_PX, _NARROW_PX, _LEAST_BAR_PX = 20.0, 520.0, 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLayout:
    """The maps of A, of B and of B − A, and the bars of the weights and of the differences.

    All three show the same part of the same axes. `title_ends` are the x where their titles must end.
    """

    panels: tuple[MapLayout, MapLayout, MapLayout]
    weight_bar: QRectF
    delta_bar: QRectF
    title_ends: tuple[float, float, float]

    @property
    def cells(self) -> tuple[QRectF, QRectF, QRectF]:
        first, second, delta = self.panels
        return first.cells, second.cells, delta.cells

    def panel_at(self, position: QPointF) -> MapLayout | None:
        """The map whose cells are under a position."""
        return next((panel for panel in self.panels if panel.cells.contains(position)), None)

    def hit(self, position: QPointF) -> tuple[int, int] | None:
        """The (query slot, key slot) under a position in any of the maps."""
        panel = self.panel_at(position)
        return panel.hit(position) if panel is not None else None


def difference_layout(rect: QRectF, shown: ComparedMaps, *, view: QRectF | None = None) -> DifferenceLayout:
    """Lay the three maps out in `rect`; `view` is the visible part in slots (x keys, y queries)."""
    best, *others = (arranged(rect, shown, view) for arranged in _ARRANGEMENTS)
    for other in others:
        if _cell_px(other) > _LEAST_GAIN * max(_cell_px(best), 1e-6):
            best = other
    return best


def natural_difference_height(width: float, shown: ComparedMaps) -> float:
    """How high the maps want to be at a width: cells that read well, one above the other in a column."""
    n_rows = 1
    for n_rows, arranged in enumerate(_ARRANGEMENTS, 1):
        high = _HIGHEST * width / (3, 2, 1)[n_rows - 1]
        found = arranged(QRectF(0.0, 0.0, width, high * n_rows), shown, None)
        if _cell_px(found) >= type_px(_GOOD_CELL_PX) or (n_rows == 2 and width >= _NARROW_PX):
            break
    first = found.panels[0]
    panel = first.cells.top() + max(cells_height(first), type_px(_LEAST_BAR_PX)) + MARGIN_PX
    return n_rows * panel


def _cell_px(layout: DifferenceLayout) -> float:
    """The shorter side of a cell."""
    return min(layout.panels[0].rows.step, layout.panels[0].columns.step)


def _in_a_row(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> DifferenceLayout:
    bar = type_px(colour_bar.WIDTH_PX) + _BAR_GAP_PX
    width = max((rect.width() - 2 * bar) / 3, 40.0)
    first = _panel(QRectF(rect.left(), rect.top(), width, rect.height()), shown, view)
    second = _moved(first, width, 0.0)
    delta = _moved(first, 2 * width + bar, 0.0)
    ends = (rect.left() + width, rect.left() + 2 * width + bar, rect.right())
    return _with_bars(first, second, delta, ends)


def _above_each_other(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> DifferenceLayout:
    bar = type_px(colour_bar.WIDTH_PX) + _BAR_GAP_PX
    width, height = max((rect.width() - bar) / 2, 40.0), rect.height() / 2
    first = _panel(QRectF(rect.left(), rect.top(), width, height), shown, view)
    ends = (rect.left() + width, rect.right(), rect.right())
    return _with_bars(first, _moved(first, width, 0.0), _moved(first, 0.0, height), ends)


def _in_a_column(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> DifferenceLayout:
    bar = type_px(colour_bar.WIDTH_PX) + _BAR_GAP_PX
    width, height = max(rect.width() - bar, 40.0), rect.height() / 3
    first = _panel(QRectF(rect.left(), rect.top(), width, height), shown, view)
    second, delta = _moved(first, 0.0, height), _moved(first, 0.0, 2 * height)
    return _with_bars(first, second, delta, (rect.right(), rect.right(), rect.right()))


_ARRANGEMENTS = (_in_a_row, _above_each_other, _in_a_column)


def _panel(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> MapLayout:
    """One map without a bar; turned labels may lean out of it, over the empty corner of what is beside."""
    wider = rect.adjusted(0, 0, type_px(colour_bar.WIDTH_PX) + _PANEL_GAP_PX, 0)
    return map_layout(wider, shown.queries, shown.keys, view=view)


def _with_bars(
    first: MapLayout, second: MapLayout, delta: MapLayout, ends: tuple[float, float, float]
) -> DifferenceLayout:
    width = type_px(colour_bar.WIDTH_PX)
    bars = [
        QRectF(panel.cells.right() + _BAR_GAP_PX, panel.cells.top(), width, max(panel.cells.height(), 120.0))
        for panel in (second, delta)
    ]
    return DifferenceLayout(
        panels=(first, second, delta), weight_bar=bars[0], delta_bar=bars[1], title_ends=ends
    )


def _moved(layout: MapLayout, x: float, y: float) -> MapLayout:
    x, y = round(x), round(y)
    return dataclasses.replace(
        layout,
        cells=layout.cells.translated(x, y),
        bar=layout.bar.translated(x, y),
        title=layout.title.translated(x, y),
    )
