"""One head: its map, or part of a map that is too long to be held whole, with gold word links over it:
squares for sure links, rings for possible ones.

Each mark is a bright line on a dark one, so that it can be seen on every colour of every colour map.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from attnscope.figures.colours import Palette
from attnscope.figures.map_painting import MARGIN_PX, MapLayout, cells_height, map_layout, paint_head_map
from attnscope.figures.spec import FigureRequest, Wanted, without_special_links
from attnscope.figures.style import widest_value
from attnscope.figures.tiles_painting import MapPart, TileLayout, paint_map_part, part_layout, part_rect
from attnscope.figures.token_axis import axis_names
from attnscope.figures.words_and_numbers import (
    MapsFigure,
    are_short,
    change_words,
    exact_number_text,
    heads_words,
    scale_words,
)
from attnscope.records.findings import GoldCell
from attnscope.records.maps import HeadMap
from attnscope.records.sites import gate_note
from attnscope.records.tiles import MapTile
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.map_tiles import MapWindow

_DARK, _BRIGHT = QColor("#10131a"), QColor("#ffffff")
_DARK_PX, _BRIGHT_PX = 3.6, 1.6
_INSET_PX = 2.5
_LEAST_PX = 5.0
"""Smaller cells get a mark of this size around their middle."""
_POINT_PX = 3.0
"""Cells that are smaller still get a point, sure or possible: marks would cover each other."""


def paint_gold(painter: QPainter, layout: MapLayout, cells: Sequence[GoldCell]) -> None:
    """Mark the links on the visible part of the map."""

    def place(cell: GoldCell) -> QRectF:
        first = layout.cell_rect(cell.rows[0], cell.cols[0])
        return first.united(layout.cell_rect(cell.rows[1] - 1, cell.cols[1] - 1))

    _paint_marks(painter, layout.cells, cells, place)


def paint_gold_on_tiles(
    painter: QPainter, layout: TileLayout, window: MapWindow, cells: Sequence[GoldCell]
) -> None:
    """Mark the links on the visible part of the long map."""

    def place(cell: GoldCell) -> QRectF:
        return part_rect(layout, window, cell.rows, cell.cols)

    _paint_marks(painter, layout.cells, cells, place)


def _paint_marks(
    painter: QPainter, seen: QRectF, cells: Sequence[GoldCell], place: Callable[[GoldCell], QRectF]
) -> None:
    painter.save()
    painter.setClipRect(seen.adjusted(-2, -2, 2, 2))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    points = QPolygonF()
    for cell in cells:
        whole = place(cell)
        mark = mark_in(whole)
        if not mark.intersects(seen):
            continue
        if max(whole.width(), whole.height()) < _POINT_PX:
            points.append(whole.center())
        else:
            paint_gold_mark(painter, mark, is_sure=cell.is_sure)
    for colour, width in ((_DARK, _DARK_PX), (_BRIGHT, _BRIGHT_PX)):
        painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawPoints(points)
    painter.restore()


def paint_gold_mark(painter: QPainter, place: QRectF, *, is_sure: bool) -> None:
    """Paint one mark: a square for a sure link, a ring for a possible one."""
    for colour, width in ((_DARK, _DARK_PX), (_BRIGHT, _BRIGHT_PX)):
        pen = QPen(colour, width)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        if is_sure:
            painter.drawRect(place)
        else:
            painter.drawEllipse(place)


def mark_in(whole: QRectF) -> QRectF:
    """Frame of a link's mark: just inside its cells."""
    if min(whole.width(), whole.height()) - 2 * _INSET_PX < _LEAST_PX:
        middle, half = whole.center(), _LEAST_PX / 2
        width, height = max(whole.width() / 2, half), max(whole.height() / 2, half)
        return QRectF(middle - QPointF(width, height), middle + QPointF(width, height))
    return whole.adjusted(_INSET_PX, _INSET_PX, -_INSET_PX, -_INSET_PX)


_HIGHEST = 1.4
"""The most that a map is high, for a width of 1."""
_LEAST_BAR_PX = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFigure(MapsFigure):
    """The first of `maps`, or the `part` of a long one; `gold` are word links marked on it."""

    view = "head"
    words = "one head"
    order = 2
    shows = "one head"
    least_px = 140.0
    choices = frozenset(
        {"colours", "scale", "values", "bar", "turn", "every", "plain", "badge", "special", "axes"}
    )
    has_cells = True
    tells_evenness = True
    reads_trace = True
    is_asked = True

    part: MapPart | None = None
    gold: tuple[GoldCell, ...] = ()

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "HeadFigure":
        part = wanted.long_part()
        return cls(part=part, **page) if part is not None else cls(maps=wanted.maps()[:1], **page)

    @property
    def is_empty(self) -> bool:
        return not (self.maps or self.part)

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        if self.part is not None:
            paint_map_part(painter, rect, self.part, style=self.style, palette=palette, gates=self.gates)
            paint_gold_on_tiles(painter, *part_layout(rect, self.part), self.gold)
            return
        placed = paint_head_map(
            painter,
            rect,
            self.maps[0],
            style=self.style,
            palette=palette,
            gate=self.gates.value(self.maps[0].head),
            has_title=not self.style.is_plain,
        )
        paint_gold(painter, placed, self.gold)

    def paint_panel(
        self, painter: QPainter, rect: QRectF, palette: Palette, named: tuple[bool, bool]
    ) -> None:
        """The map alone; `named` are the axes with names."""
        paint_head_map(
            painter,
            rect,
            self.maps[0],
            style=self.style,
            palette=palette,
            has_title=False,
            is_compact=True,
            named=named,
        )

    def natural_height(self, width: float) -> float | None:
        return self.map_height(width) if self.part is None else None

    def map_height(self, width: float, *, is_panel: bool = False) -> float:
        """Height of one map with its labels; a bar of its own is not cut."""
        has_bar = self.style.has_bar and not is_panel
        layout = self.placed(QRectF(0.0, 0.0, width, _HIGHEST * width), is_panel=is_panel, has_corner=True)
        least = layout.cells.top() + _LEAST_BAR_PX if has_bar else 0.0
        return max(layout.cells.top() + cells_height(layout), least) + MARGIN_PX

    def placed(self, body: QRectF, *, is_panel: bool, has_corner: bool | None = None) -> MapLayout:
        """Layout of the map's cells and labels."""
        head_map = self.maps[0]
        return map_layout(
            body,
            head_map.queries,
            head_map.keys,
            has_title=not is_panel and not self.style.is_plain,
            has_bar=self.style.has_bar and not is_panel,
            turn=self.style.turn,
            is_compact=is_panel,
            has_corner=has_corner,
            names=axis_names(head_map.queries, self.style),
        )

    def cell_px(self, body: QRectF) -> float | None:
        if not self.maps:
            return None
        placed = self.placed(body, is_panel=False)
        return min(placed.rows.step, placed.columns.step)

    def widest_value(self) -> str:
        return widest_of(self.maps[:1])

    def shown_words(self) -> list[str]:
        words = [_part_words(self.part)] if self.part is not None else heads_words(self.maps[:1])
        return [*words, scale_words(self), *change_words(self.gates, self.interventions)]

    def subject(self) -> str:
        """Short description for its panel, beside the panel's letter."""
        head_map = self.maps[0]
        words = "" if head_map.name else gate_note(self.gates.value(head_map.head))
        return f"{head_map.name or head_map.head.label} {head_map.head.stack}{words}"

    def titled_maps(self) -> Iterator[tuple[str, str, HeadMap]]:
        return (("a", "", head_map) for head_map in self.maps[:1])

    def without_special(self) -> Self:
        gold = without_special_links(self.maps[0], self.gold) if self.maps else self.gold
        return replace(MapsFigure.without_special(self), gold=gold)

    def word_links(self) -> tuple[GoldCell, ...]:
        return self.gold

    def suits_column(self) -> bool:
        return self.part is None and are_short(self.maps)

    def row_tokens(self) -> tuple[Token, ...]:
        return MapsFigure.row_tokens(self) if self.part is None else self.part.queries

    def name_parts(self) -> list[str]:
        if self.part is None:
            return MapsFigure.name_parts(self)
        return [self.part.tile.head.stack, self.part.tile.head.label]

    def rows(self) -> Iterator[Iterable[str]]:
        return MapsFigure.rows(self) if self.part is None else _part_rows(self.part)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        if self.part is None:
            return MapsFigure.arrays(self)
        tile = self.part.tile
        name = f"{tile.head.stack}_{tile.head.label}"
        place = np.array([tile.rows[0], tile.cols[0], tile.b])
        return {name: weights_of_tile(tile), f"{name}_first_query_key_side": place}

    def fits_together(self) -> bool:
        part = self.part
        if part is not None and not _is_whole(part):
            return False
        n_queries, n_keys = (
            (len(part.queries), len(part.keys)) if part is not None else self.maps[0].weights.shape
        )
        return all(
            0 <= g.rows[0] < g.rows[1] <= n_queries and 0 <= g.cols[0] < g.cols[1] <= n_keys
            for g in self.gold
        )

    def asked(self) -> FigureRequest | None:
        if self.part is not None and not self.part.is_whole:
            return None
        head = self.maps[0].head if self.part is None else self.part.tile.head
        return FigureRequest(heads=(head,), stack=head.stack, gold=self.gold)


def widest_of(maps: Iterable[HeadMap]) -> str:
    """The widest text of these maps' weights."""
    peaks = (m.weights[np.isfinite(m.weights)].max(initial=0.0) for m in maps)
    return widest_value(max(peaks, default=0.0))


def _part_words(part: MapPart) -> str:
    """A part of a long map: the head, its rows and columns, and what one pixel covers."""
    tile, (top, bottom), (left, right) = part.tile, part.tile.rows, part.tile.cols
    place = f"queries {top:,}–{bottom - 1:,} of {len(part.queries):,}, keys {left:,}–{right - 1:,}"
    return f"head {tile.head.stack} {tile.head.label}, {place} of {len(part.keys):,}, {tile.sentence}"


def _part_rows(part: MapPart) -> Iterator[Iterable[str]]:
    """One row for each block of a long map: its first cell, its side in cells, its value."""
    yield ("stack", "layer", "head", "first query", "first key", "cells a side", "weight")
    tile, weights = part.tile, weights_of_tile(part.tile)
    head = (tile.head.stack, str(tile.head.layer), str(tile.head.head))
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            place = (str(tile.rows[0] + i * tile.b), str(tile.cols[0] + j * tile.b), str(tile.b))
            yield (*head, *place, exact_number_text(weight))


def weights_of_tile(tile: MapTile) -> NDArray[np.float32]:
    """The weights of a tile: exact if it has them, else those behind its levels."""
    if tile.weights is not None:
        return tile.weights
    shares = (tile.levels.astype(np.float32) - 1) / np.float32(254)
    weights: NDArray[np.float32] = shares * np.float32(tile.peak)
    weights[tile.levels == 0] = np.nan
    return weights


def _is_whole(part: MapPart) -> bool:
    """Whether the part in a file is consistent."""
    tile = part.tile
    places = ((tile.rows, part.queries), (tile.cols, part.keys))
    are_there = all(0 <= first < end <= len(tokens) for (first, end), tokens in places)
    is_scaled = bool(np.isfinite((tile.peak, tile.head_peak)).all())
    has_weights = tile.weights is None or tile.weights.shape == tile.levels.shape
    return are_there and is_scaled and tile.b > 0 and has_weights
