"""A part of a long map as a figure: its tile, rulers, colour bar, and in words what one pixel stands for."""

from dataclasses import dataclass, replace

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_rulers import paint_ruler_names, paint_rulers
from attnscope.figures.paint_tiles import (
    TileImages,
    paint_cell_values,
    paint_tile_bar,
    paint_tile_title,
    paint_tiles,
)
from attnscope.figures.style import MapStyle
from attnscope.figures.tile_layout import PIECE_STEP_PX, TileLayout, tile_layout
from attnscope.figures.token_axis import axis_names
from attnscope.records.sites import Gates, gate_note
from attnscope.records.tiles import MapTile
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.map_window import MapWindow, window_on


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """A part of a map too long to be held whole: its tile, and the tokens of the whole map."""

    tile: MapTile
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]

    @property
    def is_whole(self) -> bool:
        return self.tile.rows == (0, len(self.queries)) and self.tile.cols == (0, len(self.keys))


def paint_map_part(
    painter: QPainter, rect: QRectF, part: MapPart, *, style: MapStyle, palette: Palette, gates: Gates
) -> None:
    """Draw the part of a long map that its tile holds, as large as it fits into `rect`."""
    tile = part.tile
    layout, window = part_layout(rect, part)
    painter.save()
    images = TileImages()
    paint_tiles(
        painter, layout, window, (tile,), images, style=style, palette=palette, head_peak=tile.head_peak
    )
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    paint_cell_values(painter, layout, window, tile, style=style, head_peak=tile.head_peak)
    paint_rulers(painter, layout, window, part.queries, part.keys, palette=palette)
    paint_ruler_names(painter, layout, window, axis_names(part.queries, style), palette)
    gated = gate_note(gates.value(tile.head))
    words = f"{tile.head.stack}{gated} · {part_size(part)} · {tile.sentence}"
    paint_tile_title(painter, layout, tile.head.label, words, palette)
    has_masked = bool((tile.levels == 0).any())
    paint_tile_bar(painter, layout, style, palette, tile.head_peak, masked=has_masked)
    painter.restore()


def part_layout(rect: QRectF, part: MapPart) -> tuple[TileLayout, MapWindow]:
    """Where everything lies: room for pieces only where there are some, the bar beside the map."""
    n_queries, n_keys = len(part.queries), len(part.keys)
    layout = tile_layout(rect, n_queries, n_keys)
    window = part_window(part, layout.cells)
    if min(window.step) < PIECE_STEP_PX:
        layout = tile_layout(rect, n_queries, n_keys, has_pieces=False)
        window = part_window(part, layout.cells)
    cells = QRectF(layout.cells.left(), layout.cells.top(), window.width_px, window.height_px)
    spare = layout.cells.width() - cells.width()
    return replace(layout, cells=cells, bar=layout.bar.translated(-spare, 0)), window


def part_window(part: MapPart, cells: QRectF) -> MapWindow:
    """The window that shows just the tile's rows and columns in the cells' rectangle."""
    return window_on(
        n_queries=len(part.queries),
        n_keys=len(part.keys),
        rows=part.tile.rows,
        cols=part.tile.cols,
        width_px=cells.width(),
        height_px=cells.height(),
    )


def part_size(part: MapPart) -> str:
    """The size of the whole map, and which part of it is shown."""
    whole = f"{len(part.queries):,} × {len(part.keys):,}"
    (top, bottom), (left, right) = part.tile.rows, part.tile.cols
    if (top, left, bottom, right) == (0, 0, len(part.queries), len(part.keys)):
        return whole
    return f"queries {top:,}–{bottom - 1:,}, keys {left:,}–{right - 1:,} of {whole}"
