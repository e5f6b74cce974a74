"""Where the three maps of a comparison lie: A, B and B − A with cells of one size, so that all axes agree.

They stand in one row, or, where the cells come out larger, A and B above B − A.
"""

import dataclasses
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures import colour_bar
from attnscope.figures.map_layout import MapLayout, map_layout
from attnscope.figures.style import type_px
from attnscope.viewmodels.compare.difference import ComparedMaps

_BAR_GAP_PX = 14.0
_PANEL_GAP_PX = 14.0
_LEAST_GAIN = 1.15


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
        """The rectangles of the cells."""
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
    row, square = _in_a_row(rect, shown, view), _above_each_other(rect, shown, view)
    gain = _cell_px(square) / max(_cell_px(row), 1e-6)
    return square if gain > _LEAST_GAIN else row


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
