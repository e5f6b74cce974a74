"""Thumbnails of a comparison: each head's difference, and a stripe coloured by its mean |Δ|."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from attnscope.counting import number_text, percent
from attnscope.figures.colours import Palette, difference_map, lut_argb
from attnscope.figures.grid_painting import GridMarks, paint_off
from attnscope.figures.raster import ImageCache, code_colours, delta_codes, image_from_words
from attnscope.figures.style import SMALL_PX, font, text_width, type_px, value_text
from attnscope.records.maps import DifferenceGrid, pooled_difference
from attnscope.records.sites import HeadRef

STRIPE_PX = 5.0
_LABEL_PX, _GAP_PX, _MARGIN_PX, _SIDE_PX = 14.0, 8.0, 8.0, 30.0
_TIGHT_GAP_PX = 4.0
"""Between small maps without labels, which need the room themselves."""
_SPECK_PX, _LEAST_LABELLED_PX, _LARGEST_PX = 12.0, 26.0, 160.0
_SITES_ABREAST, _MANY_ABREAST = (2, 3, 4), (2, 3, 4, 6, 8, 12)
"""Layers side by side: told apart by the labels of heads, or where layers are many by a gap."""
_T = TypeVar("_T")
_LEAST_TOP = 1e-5
"""Differences of rounding do not fill a stripe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedHead:
    """One head: its place in the grid, and its numbers."""

    head: HeadRef
    grid: DifferenceGrid
    index: int

    @property
    def mean_abs(self) -> float:
        """The mean |Δ|, exact; NaN where no cell is shared."""
        return float(self.grid.mean_abs[self.index])

    @property
    def sentence(self) -> str:
        name = f"{self.head.stack} {self.head.label}"
        if np.isnan(self.mean_abs):
            return f"{name}: no cell in common"
        peak, moved = float(self.grid.peaks[self.index]), float(self.grid.moved[self.index])
        sizes = f"mean |Δ| {number_text(self.mean_abs, 3)} · largest {number_text(peak, 3)}"
        return f"{name}   {sizes} · a row moves {percent(moved, 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesLayout:
    """Positions of the thumbnails: `rows` of heads, each box `side` × `height` with label and stripe.

    `is_mixed`: heads of several stacks, whose labels begin with the letter of theirs and have room for it.
    After every `n_together` heads of a row is a wider gap; 0: after none.
    """

    area: QRectF
    rows: tuple[tuple[ChangedHead, ...], ...]
    names: tuple[str, ...]
    width: float
    height: float
    label_px: float
    is_mixed: bool = False
    n_together: int = 0

    @property
    def pitch(self) -> tuple[float, float]:
        """Distance from one thumbnail to the next, across and down."""
        wide = _longest_px(self.rows) if self.is_mixed and self.label_px else 0.0
        gap = _GAP_PX if self.label_px else _TIGHT_GAP_PX
        return max(self.width, wide) + gap, self.height + self.label_px + STRIPE_PX + gap

    def box(self, row: int, column: int) -> QRectF:
        """The rectangle of one thumbnail, on whole pixels."""
        across, down = self.pitch
        wider = column // self.n_together * _GAP_PX if self.n_together else 0.0
        left = round(self.area.left() + column * across + wider)
        top = round(self.area.top() + row * down + self.label_px)
        return QRectF(left, top, max(1, round(self.width)), max(1, round(self.height)))

    def places(self) -> list[tuple[int, int]]:
        """Every (row, column) in use."""
        return [(r, c) for r, row in enumerate(self.rows) for c in range(len(row))]

    def hit(self, position: QPointF) -> ChangedHead | None:
        """The head at a position, its label and stripe included."""
        for row, column in self.places():
            box = self.box(row, column).adjusted(0, -self.label_px, 0, STRIPE_PX + 2)
            if box.contains(position):
                return self.rows[row][column]
        return None

    def place(self, head: HeadRef | None) -> tuple[int, int] | None:
        """The (row, column) of a head."""
        return next(((r, c) for r, c in self.places() if self.rows[r][c].head == head), None)


def changed_heads(grids: tuple[DifferenceGrid, ...]) -> tuple[ChangedHead, ...]:
    """Every head of some sites, in their order."""
    return tuple(
        ChangedHead(head=head, grid=grid, index=k) for grid in grids for k, head in enumerate(grid.heads)
    )


def by_change(heads: tuple[ChangedHead, ...]) -> tuple[ChangedHead, ...]:
    """The heads with the largest mean |Δ| first; those without a number last."""
    return tuple(sorted(heads, key=lambda h: (np.isnan(h.mean_abs), -np.nan_to_num(h.mean_abs))))


def changes_layout(rect: QRectF, grids: tuple[DifferenceGrid, ...], *, is_sorted: bool) -> ChangesLayout:
    """Sites as rows, or the most changed heads first in the number of columns that gives the largest maps."""
    heads = changed_heads(grids)
    is_mixed = len({head.head.stack for head in heads}) > 1
    inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
    first = grids[0] if grids else None
    aspect = min(2.0, max(0.5, first.n_queries / first.n_keys)) if first and first.n_keys else 1.0
    if is_sorted:
        ordered = by_change(heads)
        found = (
            _laid_out(inner, _lines(ordered, n), (), aspect, is_mixed=is_mixed)
            for n in range(1, len(ordered) + 1)
        )
        return max(found, key=_legibility, default=_laid_out(inner, (), (), aspect))
    sites = tuple(tuple(h for h in heads if h.grid is grid) for grid in grids)
    names = tuple(_site_name(grid, is_mixed=is_mixed) for grid in grids)
    beside = QRectF(inner.adjusted(type_px(_SIDE_PX), 0, 0, 0))
    layouts = [_laid_out(beside, sites, names, aspect, is_mixed=is_mixed)]
    for n in () if is_mixed else _SITES_ABREAST:  # short layers side by side, told apart by their labels
        wide = _laid_out(inner, tuple(sum(line, ()) for line in _lines(sites, n)), (), aspect)
        layouts += [wide] if wide.label_px else []
    if layouts[0].width < _SPECK_PX:
        layouts += [_many_layers(inner, grids, sites, n, aspect, is_mixed=is_mixed) for n in _MANY_ABREAST]
    return max(layouts, key=_legibility)


def _many_layers(
    inner: QRectF,
    grids: tuple[DifferenceGrid, ...],
    sites: tuple[tuple[ChangedHead, ...], ...],
    n: int,
    aspect: float,
    *,
    is_mixed: bool,
) -> ChangesLayout:
    """At most `n` layers of a stack in a row, with a gap between them, the first and the last beside them."""
    starts = [
        k for k, grid in enumerate(grids) if not k or grid.heads[0].stack != grids[k - 1].heads[0].stack
    ]
    lines = [
        range(k, min(k + n, end))
        for start, end in pairwise((*starts, len(grids)))
        for k in range(start, end, n)
    ]
    names = tuple(
        f"{_site_name(grids[line[0]], is_mixed=is_mixed)}–{grids[line[-1]].heads[0].layer}" for line in lines
    )
    rows = tuple(sum((sites[k] for k in line), ()) for line in lines)
    beside = QRectF(inner.adjusted(max(map(text_width, names), default=0.0) + 8, 0, 0, 0))
    n_together = max(map(len, sites), default=0)
    return _laid_out(beside, rows, names, aspect, is_mixed=is_mixed, n_together=n_together)


def paint_changes(
    painter: QPainter,
    layout: ChangesLayout,
    grids: tuple[DifferenceGrid, ...],
    *,
    palette: Palette,
    colour_map: str = "viridis",
    end: float = 0.0,
    marks: GridMarks | None = None,
    cache: ImageCache | None = None,
) -> None:
    """Draw all heads; `end` is the |Δ| at the ends of the colours, 0: each head's largest.

    Of the marks the head under the cursor, the current one, and those that are off.
    """
    top = top_mean(grids)
    marks = marks or GridMarks()
    off = marks.gates.off()
    cache = cache or ImageCache()
    stripes = lut_argb(colour_map)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setFont(font(SMALL_PX))
    for row, column in layout.places():
        changed, box = layout.rows[row][column], layout.box(row, column)
        painter.drawImage(box, _image(changed, box, end, palette, cache))
        if changed.head in off:
            paint_off(painter, box, palette)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(palette.line), 1.0))
        painter.drawRect(box.adjusted(-1, -1, 0, 0))
        stripe = QRectF(box.left(), box.bottom() + 2, box.width(), STRIPE_PX - 1)
        if np.isnan(changed.mean_abs):
            painter.fillRect(stripe, QColor(palette.no_data))
        else:
            share = changed.mean_abs / top if top > 0 else 0.0
            painter.fillRect(stripe, QColor.fromRgb(int(stripes[round(255 * min(share, 1.0))])))
        _paint_frame(painter, box, changed.head, marks, palette)
        if layout.label_px:
            is_current = changed.head == marks.current
            _paint_label(painter, box, changed, palette, is_mixed=layout.is_mixed, is_current=is_current)
    painter.setPen(QColor(palette.muted))
    stride = math.ceil(type_px(SMALL_PX) / layout.pitch[1])
    for row, name in list(enumerate(layout.names))[::stride]:
        box = layout.box(row, 0)
        left = box.left() - 7 - text_width(name)
        place = QRectF(left, box.center().y() - type_px(8), box.left() - left - 6, type_px(16))
        painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
    painter.restore()


def top_mean(grids: tuple[DifferenceGrid, ...]) -> float:
    """The largest mean |Δ| of the heads shown: the end of the stripes' colours."""
    means = [h.mean_abs for h in changed_heads(grids) if not np.isnan(h.mean_abs)]
    top = max(means, default=0.0)
    return max(top, _LEAST_TOP) if top > 0 else top


def _legibility(layout: ChangesLayout) -> tuple[float, bool, float]:
    return _share_seen(layout), layout.label_px > 0, layout.width


def _share_seen(layout: ChangesLayout) -> float:
    """Visible share of a layout: 1 if all of it is in its area, as always with labels."""
    if layout.label_px:
        return 1.0
    n_columns, (across, down) = max(map(len, layout.rows), default=0), layout.pitch
    n_wider = (n_columns - 1) // layout.n_together if layout.n_together else 0
    wide, high = n_columns * across + n_wider * _GAP_PX, len(layout.rows) * down
    return min((layout.area.width() + 1) / max(wide, 1), 1.0) * min(
        (layout.area.height() + 1) / max(high, 1), 1.0
    )


def _lines(parts: tuple[_T, ...], n: int) -> tuple[tuple[_T, ...], ...]:
    return tuple(parts[i : i + n] for i in range(0, len(parts), n))


def _laid_out(
    inner: QRectF,
    rows: tuple[tuple[ChangedHead, ...], ...],
    names: tuple[str, ...],
    aspect: float,
    *,
    is_mixed: bool = False,
    n_together: int = 0,
) -> ChangesLayout:
    n_rows, n_columns = max(1, len(rows)), max(1, max((len(row) for row in rows), default=1))
    n_wider = (n_columns - 1) // n_together if n_together else 0
    across = (inner.width() - n_wider * _GAP_PX) / n_columns - _GAP_PX
    down = inner.height() / n_rows - _GAP_PX - STRIPE_PX
    label = type_px(_LABEL_PX)
    width = min(across, (down - label) / aspect, _LARGEST_PX)
    if width < type_px(_LEAST_LABELLED_PX) or (is_mixed and across < _longest_px(rows)):
        spare = _GAP_PX - _TIGHT_GAP_PX
        label, width = 0.0, min(across + spare, (down + spare) / aspect)
    width = max(3.0, width)
    return ChangesLayout(
        area=inner,
        rows=rows,
        names=names,
        width=width,
        height=width * aspect,
        label_px=label,
        is_mixed=is_mixed,
        n_together=n_together,
    )


def _label(head: HeadRef, *, is_mixed: bool) -> str:
    """A head's name, with the first letter of its stack if several are shown."""
    return f"{head.stack[0].upper()} {head.label}" if is_mixed else head.label


def _longest_px(rows: tuple[tuple[ChangedHead, ...], ...]) -> float:
    return max((text_width(_label(c.head, is_mixed=True)) for row in rows for c in row), default=0.0)


def _site_name(grid: DifferenceGrid, *, is_mixed: bool) -> str:
    head = grid.heads[0]
    return f"{head.stack[0].upper()} L{head.layer}" if is_mixed else f"L{head.layer}"


def _image(changed: ChangedHead, box: QRectF, end: float, palette: Palette, cache: ImageCache) -> QImage:
    """The thumbnail, pooled to its pixels if it has more cells."""
    peak = float(changed.grid.peaks[changed.index])
    key = (id(changed.grid), changed.index, box.width(), box.height(), end, palette)
    found = cache.image(changed.head, key)
    if found is not None:
        return found
    levels = changed.grid.levels[changed.index]
    delta = (levels.astype(np.float32) - 128) / np.float32(127) * np.float32(peak)
    delta[levels == 0] = np.nan
    delta = pooled_difference(delta, (int(box.height()), int(box.width())))
    codes = delta_codes(delta, max(end or peak, 1e-6))
    return cache.keep(
        changed.head, key, image_from_words(code_colours(difference_map(palette), palette)[codes])
    )


def _paint_frame(painter: QPainter, box: QRectF, head: HeadRef, marks: GridMarks, palette: Palette) -> None:
    if head not in (marks.current, marks.hovered):
        return
    is_current = head == marks.current
    pen = QPen(QColor(palette.accent if is_current else palette.text), 2.0 if is_current else 1.0)
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    painter.setPen(pen)
    painter.drawRect(box.adjusted(-2, -2, 1, 1))


def _short(value: float) -> str:
    if np.isnan(value):
        return ""
    return "0" if value == 0 else "<.01" if 0 < value < 0.005 else value_text(value)


def _paint_label(
    painter: QPainter,
    box: QRectF,
    changed: ChangedHead,
    palette: Palette,
    *,
    is_mixed: bool,
    is_current: bool,
) -> None:
    label = _label(changed.head, is_mixed=is_mixed)
    painter.setPen(QColor(palette.accent if is_current else palette.muted))
    painter.drawText(QPointF(box.left(), box.top() - 4), label)
    value = _short(changed.mean_abs)
    if text_width(label) + text_width(value) + 6 <= box.width():
        painter.drawText(QPointF(box.right() - text_width(value), box.top() - 4), value)
