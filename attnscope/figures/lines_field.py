"""The lines between the two columns of tokens: chosen, sorted, left out where they are out of sight, drawn.

A view in motion keeps what it painted last in a `FieldCache`: standing still costs one image, and moving up
or down costs the strip that came into sight.
"""

import struct
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QDataStream, QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath, QPen

from attnscope.counting import plural
from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.paint_map import Highlight
from attnscope.figures.raster import is_vector
from attnscope.figures.token_axis import Span

_N_BUCKETS = 12
_MAX_SMOOTH = 2_500
_SAME_PX = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StrongLines:
    """The strongest weights of several heads, weakest first: head index, query, key, weight [n].

    `n_all` counts all weights over 0; `hidden` is the share of the whole weight that is left out.
    """

    heads: NDArray[np.intp]
    queries: NDArray[np.intp]
    keys: NDArray[np.intp]
    weights: NDArray[np.float32]
    n_all: int
    hidden: float

    @property
    def sentence(self) -> str:
        """What is shown and what is not, in words."""
        n_shown = len(self.weights)
        if n_shown == self.n_all:
            return f"all {plural(n_shown, 'line')}"
        share = f"{self.hidden * 100:.1f} %" if self.hidden >= 0.001 else "under 0.1 %"
        return f"{n_shown:,} of {self.n_all:,} lines · {share} of the weight hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesField:
    """Lines across `rect` from the rows of `queries` to those of `keys`, each of `n_heads` in its colour.

    `highlight` leaves only the lines of one query or one key (of a token on both sides when they are the
    same), `only` those of one head.
    """

    rect: QRectF
    queries: Span
    keys: Span
    lines: StrongLines
    palette: Palette
    n_heads: int
    highlight: Highlight = (None, None)
    only: int | None = None

    def key(self) -> Hashable:
        """Changes with everything that is seen but how far up the rows have been moved."""
        rect = self.rect
        place = (rect.left(), rect.top(), rect.width(), rect.height(), self.queries.step, self.keys.step)
        apart = self.queries.origin - self.keys.origin
        return (*place, apart, self.lines, self.palette, self.n_heads)


class FieldCache:
    """The field as it was painted last."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._origin_px = 0.0
        self._picture = QImage()

    def paint(self, painter: QPainter, field: LinesField, *, is_rough: bool = False) -> None:
        """Draw the whole field, from memory as far as it is there; very many lines coarser if `is_rough`.

        On a fine screen that is a quarter of the pixels and half of the hairlines.
        """
        scale = painter.deviceTransform().m11()
        if is_rough and len(field.lines.weights) > _MAX_SMOOTH:
            scale = min(scale, 1.0)
        area = field.rect.toAlignedRect()
        moved_px = (field.queries.origin - self._origin_px) * scale
        n_rows = round(moved_px)
        if (field.key(), scale) != self._key:
            self._picture = QImage(area.size() * scale, QImage.Format.Format_RGB32)
            self._picture.setDevicePixelRatio(scale)
            self._paint_rows(field, 0, self._picture.height())
        elif abs(moved_px - n_rows) > _SAME_PX or abs(n_rows) >= self._picture.height():
            self._paint_rows(field, 0, self._picture.height())
        elif n_rows:
            self._move(n_rows)
            first = 0 if n_rows > 0 else self._picture.height() + n_rows
            self._paint_rows(field, first, abs(n_rows))
        self._key = field.key(), scale
        self._origin_px = field.queries.origin
        painter.drawImage(area.topLeft(), self._picture)

    def _move(self, n_rows: int) -> None:
        """Move what is there down by so many of the picture's own rows."""
        pixels = np.frombuffer(self._picture.bits(), dtype=np.uint32).reshape(self._picture.height(), -1)
        if n_rows > 0:
            pixels[n_rows:] = pixels[:-n_rows].copy()
        else:
            pixels[:n_rows] = pixels[-n_rows:].copy()

    def _paint_rows(self, field: LinesField, first: int, n: int) -> None:
        """Draw some of the picture's own rows."""
        scale = self._picture.devicePixelRatio()
        corner = field.rect.toAlignedRect().topLeft()
        rows = QRectF(0.0, first / scale, self._picture.width() / scale, n / scale).translated(corner)
        with QPainter(self._picture) as painter:
            painter.translate(-corner)
            painter.fillRect(rows, QColor(field.palette.background))
            paint_lines_field(painter, field, within=rows, is_quick=True)


def paint_lines_field(
    painter: QPainter,
    field: LinesField,
    *,
    within: QRectF | None = None,
    is_quick: bool = False,
    is_paper: bool = False,
) -> None:
    """Draw the lines of a field, or those that are seen `within` a part of it.

    Very many are not smoothed at a screen's own resolution, nor at any when it `is_quick` that counts. On
    paper (a file, of pixels too) each line is one stroke, however long that takes.
    """
    seen = field.rect if within is None else field.rect & within
    painter.save()
    painter.setClipRect(seen)  # without it translucent lines take a path ten times slower
    is_for_file, scale = is_paper or is_vector(painter), painter.deviceTransform().m11()
    is_smooth = len(field.lines.weights) <= _MAX_SMOOTH or is_for_file or (scale != 1.0 and not is_quick)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, is_smooth)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    row = min(field.queries.step, field.keys.step)
    thickest = max(0.6, min(2.6, 0.16 * row))
    shifts = head_shifts(field.n_heads, thickest, row)
    colours = [QColor(series_colour(field.palette, head)) for head in range(field.n_heads)]
    for bucket, head, ends in _alike(field, seen, shifts, thickest):
        strength = ((bucket + 0.6) / _N_BUCKETS) ** 1.3
        width = 0.5 + thickest * strength
        colours[head].setAlphaF(float(0.08 + 0.87 * strength))
        pen = QPen(colours[head], width if is_for_file else 1.0)
        pen.setCosmetic(not is_for_file)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(pen)
        n_hairlines = 1 if is_for_file else max(1, round(width * scale))
        for moved in _side_by_side(ends, n_hairlines, field.rect.width(), scale):
            if is_smooth:
                painter.drawLines(_lines_across(field.rect, moved))
            else:
                painter.drawPath(_path_across(field.rect, moved))
    painter.restore()


def head_shifts(n_heads: int, thickness: float, row: float) -> NDArray[np.float64]:
    """How far down each head's lines are moved, so that heads that agree lie side by side.

    All of a token's lines stay in the middle four fifths of its row, however many heads there are.
    """
    apart = min(thickness + 1.0, 0.8 * row / max(1, n_heads))
    return (np.arange(n_heads, dtype=np.float64) - (n_heads - 1) / 2) * np.float64(apart)


def _alike(
    field: LinesField, seen: QRectF, shifts: NDArray[np.float64], thickest: float
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Strength, head and ends [n, 2] of the lines in sight that share both, weak ones first."""
    lines, (query, key) = field.lines, field.highlight
    buckets = np.minimum((np.sqrt(lines.weights) * _N_BUCKETS).astype(np.intp), _N_BUCKETS - 1)
    y_queries = field.queries.origin + (lines.queries + 0.5) * field.queries.step + shifts[lines.heads]
    y_keys = field.keys.origin + (lines.keys + 0.5) * field.keys.step + shifts[lines.heads]
    spare = thickest + 2.0
    is_shown = np.minimum(y_queries, y_keys) <= seen.bottom() + spare
    is_shown &= np.maximum(y_queries, y_keys) >= seen.top() - spare
    if field.only is not None:
        is_shown &= lines.heads == field.only
    if query is not None and query == key:
        is_shown &= (lines.queries == query) | (lines.keys == key)  # a token, on both sides
    else:
        is_shown &= lines.queries == query if query is not None else True
        is_shown &= lines.keys == key if key is not None else True
    kinds = buckets * field.n_heads + lines.heads
    chosen = np.flatnonzero(is_shown)
    chosen = chosen[np.argsort(kinds[chosen], kind="stable")]
    ends = np.stack([y_queries[chosen], y_keys[chosen]], axis=1)
    edges = np.flatnonzero(np.diff(kinds[chosen], prepend=-1, append=-1))
    for start, end in pairwise(edges.tolist()):
        yield (*divmod(int(kinds[chosen[start]]), field.n_heads), ends[start:end])


def _side_by_side(
    ends: NDArray[np.float64], n_hairlines: int, width: float, scale: float
) -> Iterator[NDArray[np.float64]]:
    """Wide lines as hairlines one device pixel apart: a wide smooth one costs Qt twenty times a hairline."""
    if n_hairlines == 1:
        yield ends
        return
    apart = np.hypot(1.0, (ends[:, 1] - ends[:, 0]) / width) / scale
    for i in range(n_hairlines):
        yield ends + ((i - (n_hairlines - 1) / 2) * apart)[:, None]


def _lines_across(rect: QRectF, ends: NDArray[np.float64]) -> list[QLineF]:
    """Lines across `rect` from height to height, `ends` [n, 2]."""
    left, right = rect.left(), rect.right()
    return [QLineF(left, a, right, b) for a, b in ends.tolist()]


def _path_across(rect: QRectF, ends: NDArray[np.float64]) -> QPainterPath:
    """The same lines as one path, for hairlines: a path drawn smoothly would be blended as one shape.

    Read from bytes, in the form in which Qt writes paths (kind, x, y of each point): a third of the time
    that as many line objects take.
    """
    points = np.empty(ends.shape, dtype=[("kind", ">i4"), ("x", ">f8"), ("y", ">f8")])
    points["kind"] = (0, 1)  # move there, draw a line there
    points["x"] = (rect.left(), rect.right())
    points["y"] = ends
    last_move, fill_rule = points.size - 2, 0
    told = struct.pack(">i", points.size) + points.tobytes() + struct.pack(">ii", last_move, fill_rule)
    path = QPainterPath()
    QDataStream(QByteArray(told)) >> path
    return path
