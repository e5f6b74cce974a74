"""A long map from its tiles: coarse ones below, finer ones above, hatched where the mask forbids.

A tile becomes an image of one pixel for each of its blocks, once; painting only places it. Blocks are at
least one device pixel wide, so that placing without smoothing never drops one.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPen, QPixmap

from attnscope.figures.colours import Palette, ink_on, lut
from attnscope.figures.map_painting import (
    BAR_WIDTH_PX,
    MARGIN_PX,
    TITLE_PX,
    ColourBar,
    paint_colour_bar,
    weight_text,
    weight_ticks,
)
from attnscope.figures.raster import FIRST_COLOUR, code_colours
from attnscope.figures.style import LARGE_PX, SMALL_PX, MapStyle, font, text_width, type_px
from attnscope.figures.token_axis import AxisLabels, Span, axis_names, column_turn, paint_columns, paint_rows
from attnscope.records.sites import Gates, gate_note
from attnscope.records.tiles import MapTile
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.map_tiles import MapWindow, Mark, ruler_marks, widest_text, window_on

TICK_PX = 5.0
PIECE_STEP_PX = 10.6
"""Tokens are labelled with their pieces when they are at least this far apart."""
_PIECE_ROOM_PX = 62.0
_COLUMN_ROOM_PX = 52.0
_GAP_PX = 18.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLayout:
    """The rectangles of one long map; pieces are next to the cells, numbers outside of them."""

    cells: QRectF
    bar: QRectF
    title: QRectF
    corner: QRectF
    piece_room: float
    column_room: float

    def local(self, position: QPointF) -> tuple[float, float]:
        """A position relative to the cells' corner."""
        return position.x() - self.cells.left(), position.y() - self.cells.top()


def tile_layout(rect: QRectF, n_queries: int, n_keys: int, *, has_pieces: bool = True) -> TileLayout:
    """Lay a long map out in `rect`; the cells take all the remaining room.

    `has_pieces` False leaves no room for pieces, for a figure that shows none.
    """
    inner = rect.adjusted(MARGIN_PX, MARGIN_PX, -MARGIN_PX, -MARGIN_PX)
    number_room = text_width(widest_text(max(n_queries, n_keys))) + TICK_PX + 6
    piece_room, column_room = type_px(_PIECE_ROOM_PX), type_px(_COLUMN_ROOM_PX)
    if not has_pieces:
        piece_room, column_room = type_px(10), 0.0
    left = inner.left() + number_room + piece_room
    top = inner.top() + TITLE_PX + type_px(14) + TICK_PX + column_room
    right = inner.right() - BAR_WIDTH_PX - _GAP_PX
    cells = QRectF(
        round(left), round(top), max(24.0, round(right - left)), max(24.0, round(inner.bottom() - top))
    )
    side = min(left - inner.left() - type_px(46), top - inner.top() - TITLE_PX - type_px(19))
    return TileLayout(
        cells=cells,
        bar=QRectF(cells.right() + _GAP_PX, cells.top(), BAR_WIDTH_PX, cells.height()),
        title=QRectF(inner.left(), inner.top(), inner.width(), TITLE_PX),
        corner=QRectF(round(inner.left()), round(inner.top() + TITLE_PX), round(side), round(side)),
        piece_room=piece_room,
        column_room=column_room,
    )


_HATCH_PX = 7
_VALUE_STEP_PX = 58.0


class TileImages:
    """The images of tiles, each made once for a style, a palette and a largest weight."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[MapTile, Hashable, QImage]] = {}
        self._hatches: dict[str, QBrush] = {}

    def image(self, tile: MapTile, style: MapStyle, palette: Palette, head_peak: float) -> QImage:
        key = (style.colour_map, style.scale, palette, head_peak if style.scale == "head" else 0.0)
        found = self._images.get(id(tile))
        if found is not None and found[0] is tile and found[1] == key:
            return found[2]
        image = tile_image(tile, style, palette, head_peak)
        self._images[id(tile)] = (tile, key, image)
        return image

    def hatch(self, palette: Palette) -> QBrush:
        """The hatching of cells that are not allowed."""
        if palette.hatch not in self._hatches:
            self._hatches[palette.hatch] = _hatch_brush(palette)
        return self._hatches[palette.hatch]

    def keep_only(self, tiles: tuple[MapTile, ...]) -> None:
        """Forget the images of all other tiles."""
        wanted = {id(tile) for tile in tiles}
        self._images = {key: value for key, value in self._images.items() if key in wanted}


def tile_image(tile: MapTile, style: MapStyle, palette: Palette, head_peak: float) -> QImage:
    """One pixel for each block of a tile, transparent where nothing is allowed."""
    words = code_colours(style.colour_map, palette)
    levels = tile.levels
    if style.scale == "row":
        peaks = tile.row_peaks
        if peaks is None:
            peaks = (levels.max(axis=1, initial=1).astype(np.float32) - 1) / 254 * tile.peak
        factor = (tile.peak / np.maximum(peaks, 1e-30) / 254 * 255).astype(np.float32)[:, None]
        shares = np.clip((levels.astype(np.float32) - 1) * factor, 0, 255)
        pixels = words[FIRST_COLOUR + np.rint(shares).astype(np.uint16)]
        pixels[levels == 0] = 0
    else:
        top = 1.0 if style.scale == "fixed" else max(head_peak, 1e-30)
        shares = np.clip((np.arange(256, dtype=np.float64) - 1) / 254 * tile.peak / top, 0, 1)
        table = words[FIRST_COLOUR + np.rint(shares * 255).astype(np.int64)]
        table[0] = 0
        pixels = table[levels]
    pixels = np.ascontiguousarray(pixels, dtype=np.uint32)
    height, width = pixels.shape
    image = QImage(pixels.data, width, height, width * 4, QImage.Format.Format_ARGB32_Premultiplied)
    return image.copy()


def paint_tiles(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    tiles: tuple[MapTile, ...],
    images: TileImages,
    *,
    style: MapStyle,
    palette: Palette,
    head_peak: float,
) -> None:
    """Draw tiles into the cells' rectangle, in the order given, and a frame around the map."""
    painter.save()
    painter.setClipRect(layout.cells)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    whole = part_rect(layout, window, (0, window.n_queries), (0, window.n_keys)) & layout.cells
    painter.fillRect(whole, QColor(palette.grid))
    for tile in tiles:
        rows = max(tile.rows[0], window.rows[0]), min(tile.rows[1], window.rows[1])
        cols = max(tile.cols[0], window.cols[0]), min(tile.cols[1], window.cols[1])
        if rows[0] >= rows[1] or cols[0] >= cols[1]:
            continue
        image = images.image(tile, style, palette, head_peak)
        source = _source_rect(tile, rows, cols)
        target = part_rect(
            layout,
            window,
            _cells_of(source.top(), source.bottom(), tile.b, tile.rows),
            _cells_of(source.left(), source.right(), tile.b, tile.cols),
        )
        painter.fillRect(target & layout.cells, images.hatch(palette))
        painter.drawImage(target, image, source)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.setClipping(False)
    painter.drawRect(whole.adjusted(-0.5, -0.5, 0.5, 0.5))
    painter.restore()


def paint_cell_values(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    tile: MapTile,
    *,
    style: MapStyle,
    head_peak: float,
) -> None:
    """Write each weight into its cell if cells are large enough and the tile holds exact weights."""
    weights, (step_x, step_y) = tile.weights, window.step
    if weights is None or step_x < type_px(_VALUE_STEP_PX) or step_y < type_px(18):
        return
    is_dark = ink_on(lut(style.colour_map))
    painter.save()
    painter.setClipRect(layout.cells)
    painter.setFont(font(SMALL_PX))
    for query in range(max(window.rows[0], tile.rows[0]), min(window.rows[1], tile.rows[1])):
        row = weights[query - tile.rows[0]]
        top = {"fixed": 1.0, "head": head_peak}.get(style.scale, float(np.nanmax(row, initial=0.0)))
        for key in range(max(window.cols[0], tile.cols[0]), min(window.cols[1], tile.cols[1])):
            weight = float(row[key - tile.cols[0]])
            if not np.isfinite(weight):
                continue
            code = round(255 * min(1.0, weight / max(top, 1e-30)))
            painter.setPen(QColor("#000000" if is_dark[code] else "#ffffff"))
            box = part_rect(layout, window, (query, query + 1), (key, key + 1))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, weight_text(weight))
    painter.restore()


def part_rect(
    layout: TileLayout, window: MapWindow, rows: tuple[float, float], cols: tuple[float, float]
) -> QRectF:
    """Rectangle of some rows and columns; may be partly outside the cells' rectangle."""
    left, top = window.place(rows[0], cols[0])
    right, bottom = window.place(rows[1], cols[1])
    corner = layout.cells.topLeft()
    return QRectF(QPointF(left, top) + corner, QPointF(right, bottom) + corner)


def paint_small_map(
    painter: QPainter,
    box: QRectF,
    window: MapWindow,
    overview: MapTile | None,
    images: TileImages,
    *,
    style: MapStyle,
    palette: Palette,
    head_peak: float,
) -> None:
    """Draw the whole map small, with a frame around the visible part."""
    if overview is None:
        return
    area = small_map_rect(box, window)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, True)
    painter.fillRect(area, QColor(palette.not_allowed))
    painter.drawImage(area, images.image(overview, style, palette, head_peak))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawRect(area)
    if not window.is_whole:
        x, y = area.width() / window.n_keys, area.height() / window.n_queries
        (top, bottom), (left, right) = window.rows, window.cols
        seen = QRectF(area.left() + left * x, area.top() + top * y, (right - left) * x, (bottom - top) * y)
        if min(seen.width(), seen.height()) < 5.0:
            middle = seen.center()
            seen = QRectF(middle.x() - 2.5, middle.y() - 2.5, 5.0, 5.0)
        painter.setPen(QPen(QColor(palette.background), 3.0))
        painter.drawRect(seen)
        painter.setPen(QPen(QColor(palette.accent), 1.5))
        painter.drawRect(seen)
    painter.restore()


def small_map_rect(box: QRectF, window: MapWindow) -> QRectF:
    """The part of `box` that the small map takes, with the map's own shape."""
    scale = min(box.width() / max(1, window.n_keys), box.height() / max(1, window.n_queries))
    width, height = max(8.0, window.n_keys * scale), max(8.0, window.n_queries * scale)
    return QRectF(box.left(), box.top(), min(width, box.width()), min(height, box.height()))


def paint_tile_title(painter: QPainter, layout: TileLayout, label: str, words: str, palette: Palette) -> None:
    """Write the head's name and the visible part in one line above the map."""
    baseline = layout.title.top() + 17
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(layout.title.left(), baseline), label)
    left = layout.title.left() + text_width(label, LARGE_PX, is_bold=True) + 10
    painter.setFont(font(13))
    painter.setPen(QColor(palette.muted))
    room = layout.title.right() - left
    words = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, int(room))
    painter.drawText(QPointF(left, baseline), words)


def paint_tile_bar(
    painter: QPainter,
    layout: TileLayout,
    style: MapStyle,
    palette: Palette,
    head_peak: float,
    *,
    masked: bool,
) -> None:
    """Draw the colour bar of a long map."""
    ticks, note = weight_ticks(style.scale, head_peak)
    paint_colour_bar(
        painter,
        layout.bar,
        ColourBar(
            colour_map=style.colour_map, title="weight", ticks=ticks, note=note, has_not_allowed=masked
        ),
        palette,
    )


def _source_rect(tile: MapTile, rows: tuple[int, int], cols: tuple[int, int]) -> QRectF:
    """The blocks of a tile touched by some rows and columns, in the image's pixels."""
    top, left = (rows[0] - tile.rows[0]) // tile.b, (cols[0] - tile.cols[0]) // tile.b
    bottom = -(-(rows[1] - tile.rows[0]) // tile.b)
    right = -(-(cols[1] - tile.cols[0]) // tile.b)
    return QRectF(left, top, right - left, bottom - top)


def _cells_of(first: float, last: float, b: int, part: tuple[int, int]) -> tuple[float, float]:
    """Cells covered by blocks of the map; the last is drawn in full though it may stand for fewer cells."""
    return part[0] + first * b, part[0] + last * b


def _hatch_brush(palette: Palette) -> QBrush:
    n = _HATCH_PX
    picture = QPixmap(n, n)
    picture.fill(QColor(palette.not_allowed))
    with QPainter(picture) as painter:
        painter.setPen(QColor(palette.hatch))
        for i in range(n):
            painter.drawPoint(i, n - 1 - i)
    return QBrush(picture)


Lit = tuple[int | None, int | None]


def paint_rulers(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    queries: tuple[Token, ...],
    keys: tuple[Token, ...],
    *,
    palette: Palette,
    lit: Lit = (None, None),
) -> None:
    """Draw both rulers; `lit` is the query and the key whose pieces are marked."""
    painter.save()
    painter.setFont(font(SMALL_PX))
    _paint_query_ruler(painter, layout, window, queries, palette, lit[0])
    _paint_key_ruler(painter, layout, window, keys, palette, lit[1])
    painter.restore()


def _paint_query_ruler(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    tokens: tuple[Token, ...],
    palette: Palette,
    lit: int | None,
) -> None:
    cells, step, start = layout.cells, window.step[1], window.offset_px[1]
    length = min(cells.height() - start, (window.n_queries - window.y) * step)
    has_pieces = step >= type_px(PIECE_STEP_PX)
    right = cells.left() - 2 - (layout.piece_room if has_pieces else 0.0)
    painter.setPen(QPen(QColor(palette.muted), 1.0))
    low = layout.corner.bottom() + 4
    for mark in ruler_marks(
        first=window.y, step_px=step, length_px=length, n=window.n_queries, room_px=type_px(40)
    ):
        y = cells.top() + start + mark.place_px
        painter.setPen(QPen(QColor(palette.muted if mark.is_major else palette.line), 1.0))
        painter.drawLine(QPointF(right - _tick_px(mark), y), QPointF(right, y))
        if mark.is_major and y > low - type_px(4):
            width = text_width(mark.text)
            painter.setPen(QColor(palette.muted))
            painter.drawText(QPointF(right - TICK_PX - 3 - width, y + type_px(4)), mark.text)
    if has_pieces:
        span = _span(cells.top() + start, window.y, step, cells.top(), cells.bottom(), len(tokens))
        labels = AxisLabels(tokens=tokens, span=span, width=layout.piece_room - 12, highlight=lit)
        paint_rows(painter, labels, cells.left() - 5, palette)


def _paint_key_ruler(
    painter: QPainter,
    layout: TileLayout,
    window: MapWindow,
    tokens: tuple[Token, ...],
    palette: Palette,
    lit: int | None,
) -> None:
    cells, step, start = layout.cells, window.step[0], window.offset_px[0]
    length = min(cells.width() - start, (window.n_keys - window.x) * step)
    has_pieces = step >= type_px(PIECE_STEP_PX)
    bottom = cells.top() - 2 - (layout.column_room if has_pieces else 0.0)
    room = text_width(widest_text(window.n_keys)) + 16
    for mark in ruler_marks(first=window.x, step_px=step, length_px=length, n=window.n_keys, room_px=room):
        x = cells.left() + start + mark.place_px
        painter.setPen(QPen(QColor(palette.muted if mark.is_major else palette.line), 1.0))
        painter.drawLine(QPointF(x, bottom - _tick_px(mark)), QPointF(x, bottom))
        if mark.is_major:
            width = text_width(mark.text)
            painter.setPen(QColor(palette.muted))
            left = max(cells.left() - 8, min(x - width / 2, cells.right() - width))
            painter.drawText(QPointF(left, bottom - TICK_PX - 3), mark.text)
    if has_pieces:
        span = _span(cells.left() + start, window.x, step, cells.left(), cells.right(), len(tokens))
        shown = tuple(tokens[i] for i in span.visible())
        turn = column_turn(shown, step)
        painter.save()
        painter.setClipRect(
            QRectF(cells.left(), bottom, cells.width() + layout.column_room, cells.top() - bottom)
        )
        width = layout.column_room - 8 if turn == 90 else layout.column_room * 1.2
        labels = AxisLabels(tokens=tokens, span=span, width=width, highlight=lit)
        paint_columns(painter, labels, cells.top() - 5, turn, palette)
        painter.restore()


def paint_ruler_names(
    painter: QPainter, layout: TileLayout, window: MapWindow, names: tuple[str, str], palette: Palette
) -> None:
    """Name both axes at their origins."""
    key_name, query_name = names
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    has_pieces = window.step[0] >= type_px(PIECE_STEP_PX)
    bottom = layout.cells.top() - 2 - (layout.column_room if has_pieces else 0.0)
    right = layout.cells.left() - 12
    painter.drawText(QPointF(right - text_width(key_name), bottom - TICK_PX - 3), key_name)
    left = right - text_width(query_name) if has_pieces else layout.corner.left()
    painter.drawText(QPointF(left, layout.cells.top() - 6), query_name)


def _tick_px(mark: Mark) -> float:
    return TICK_PX if mark.is_major else TICK_PX / 2


def _span(begin: float, first: float, step: float, low: float, high: float, n: int) -> Span:
    return Span(origin=begin - first * step, step=step, low=low, high=high, n=n)


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
    """Draw the part of a long map in its tile, as large as fits into `rect`."""
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
    """Layout: room for pieces only if there are any, the bar beside the map."""
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
    """The window for exactly the tile's rows and columns in the cells' rectangle."""
    return window_on(
        n_queries=len(part.queries),
        n_keys=len(part.keys),
        rows=part.tile.rows,
        cols=part.tile.cols,
        width_px=cells.width(),
        height_px=cells.height(),
    )


def part_size(part: MapPart) -> str:
    """The size of the whole map, and the part shown."""
    whole = f"{len(part.queries):,} × {len(part.keys):,}"
    (top, bottom), (left, right) = part.tile.rows, part.tile.cols
    if (top, left, bottom, right) == (0, 0, len(part.queries), len(part.keys)):
        return whole
    return f"queries {top:,}–{bottom - 1:,}, keys {left:,}–{right - 1:,} of {whole}"
