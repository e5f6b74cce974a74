"""Token-to-token lines: queries in the left column, keys in the right, a line for each weight.

Only the strongest lines are drawn, and the picture says how much weight it leaves out. Every head has a
colour of its own, named above the lines; one head alone can be asked for.
"""

import struct
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, QDataStream, QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPainterPath, QPen

from attnscope.counting import percent, plural
from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.map_painting import MARGIN_PX, Highlight
from attnscope.figures.raster import is_vector
from attnscope.figures.spec import FigureRequest, Wanted
from attnscope.figures.style import NORMAL_PX, SMALL_PX, MapStyle, font, text_width, type_px, wrapped
from attnscope.figures.token_axis import AXIS_LINE_PX, AxisLabels, Span, axis_names, paint_rows, widest
from attnscope.figures.words_and_numbers import MapsFigure, change_words, heads_words
from attnscope.records.maps import HeadMap
from attnscope.records.tokens import Token

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
        """What is shown and what is omitted, in words."""
        n_shown = len(self.weights)
        if n_shown == self.n_all:
            return f"all {plural(n_shown, 'line')}"
        share = percent(self.hidden, 1) if self.hidden >= 0.001 else "under 0.1 %"
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
        """Key of the picture, apart from the vertical scroll offset."""
        rect = self.rect
        place = (rect.left(), rect.top(), rect.width(), rect.height(), self.queries.step, self.keys.step)
        apart = self.queries.origin - self.keys.origin
        return (*place, apart, self.lines, self.palette, self.n_heads)


class FieldCache:
    """Cache of the field last painted."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._origin_px = 0.0
        self._picture = QImage()

    def paint(self, painter: QPainter, field: LinesField, *, is_rough: bool = False) -> None:
        """Draw the whole field, from the cache where possible; very many lines coarser if `is_rough`.

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
        """Shift the cached picture down by some of its own rows."""
        pixels = np.frombuffer(self._picture.bits(), dtype=np.uint32).reshape(self._picture.height(), -1)
        if n_rows > 0:
            pixels[n_rows:] = pixels[:-n_rows].copy()
        else:
            pixels[:n_rows] = pixels[-n_rows:].copy()

    def _paint_rows(self, field: LinesField, first: int, n: int) -> None:
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
    """Draw the lines of a field, or those visible `within` a part of it.

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
            if is_for_file:
                for line in _lines_across(field.rect, moved):
                    painter.drawLine(line)  # a PDF strokes many at once as one shape, not one on the other
            elif is_smooth:
                painter.drawLines(_lines_across(field.rect, moved))
            else:
                painter.drawPath(_path_across(field.rect, moved))
    painter.restore()


def head_shifts(n_heads: int, thickness: float, row: float) -> NDArray[np.float64]:
    """Vertical shift of each head's lines, so that heads that agree lie side by side.

    All of a token's lines stay in the middle four fifths of its row, however many heads there are.
    """
    apart = min(thickness + 1.0, 0.8 * row / max(1, n_heads))
    return (np.arange(n_heads, dtype=np.float64) - (n_heads - 1) / 2) * np.float64(apart)


def _alike(
    field: LinesField, seen: QRectF, shifts: NDArray[np.float64], thickest: float
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Strength, head and ends [n, 2] of visible lines, merged if they share both, weak ones first."""
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
    """Paint wide lines as hairlines one device pixel apart: a wide smooth line costs Qt twenty hairlines."""
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


MAX_LINES = 5_000
_FAINTEST = 0.01
_HEADER_PX = 26.0
_FOOTER_PX = 22.0
_FOOTNOTE = "99 of 99 lines · 9.9 % of the weight hidden"
_ROW_PX, _MAX_ROW_PX = 24.0, 52.0
MAX_ZOOM = 40.0
_NAME_ROW_PX, _DASH_PX, _GAP_PX = 20.0, 14.0, 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePlace:
    """Position of one name; `index` is the head's, or -1 for the count of names without room."""

    rect: QRectF
    name: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesLayout:
    """Positions of the two columns of tokens; `names` are the heads above them."""

    rect: QRectF
    room: QRectF
    queries: Span
    keys: Span
    left: float
    right: float
    label_width: float
    names: tuple[NamePlace, ...] = ()

    @property
    def height(self) -> float:
        """The height of the longer column, visible or not."""
        return max(self.queries.n * self.queries.step, self.keys.n * self.keys.step)

    def labels(self, tokens: tuple[Token, ...], span: Span, highlight: int | None, every: int) -> AxisLabels:
        """The labels of one of the two columns."""
        return AxisLabels(tokens=tokens, span=span, width=self.label_width, highlight=highlight, every=every)

    def hit_name(self, position: QPointF) -> int | None:
        """Index of the head whose name is under a position, from 0."""
        return next((place.index for place in self.names if place.rect.contains(position)), None)

    def hit(self, position: QPointF) -> Highlight:
        """The (query, None) or (None, key) whose label is under a position, else (None, None)."""
        for span, low, high, is_query in (
            (self.queries, self.left - self.label_width - 8, self.left, True),
            (self.keys, self.right, self.right + self.label_width + 8, False),
        ):
            i = int((position.y() - span.origin) // span.step) if span.step > 0 else -1
            is_within = span.low <= position.y() <= span.high
            if is_within and low <= position.x() <= high and 0 <= i < span.n:
                return (i, None) if is_query else (None, i)
        return (None, None)


def comparable(maps: tuple[HeadMap, ...]) -> tuple[HeadMap, ...]:
    """The maps with the same tokens as the first: only those can share two columns."""
    return tuple(m for m in maps if (m.queries, m.keys) == (maps[0].queries, maps[0].keys))


def strong_lines(
    maps: tuple[HeadMap, ...],
    *,
    limit: int = MAX_LINES,
    least_weight: float = 0.0,
    n_strongest: int = 0,
) -> StrongLines:
    """The `limit` strongest weights of all maps, without those too faint to see.

    None under `least_weight`; `n_strongest` keeps that many of each query of a head (0: all).
    """
    weights = np.stack([m.weights for m in maps]) if maps else np.zeros((0, 0, 0), dtype=np.float32)
    finite = np.where(np.isfinite(weights), weights, 0.0)
    flat = finite.ravel()
    total = float(flat.sum())
    n_all = int((flat > 0).sum())
    is_seen = flat >= max(_FAINTEST, least_weight)
    if 0 < n_strongest < weights.shape[2]:
        is_seen &= _strongest(finite, n_strongest).ravel()
    seen = np.flatnonzero(is_seen)
    if len(seen) > limit:
        seen = seen[np.argpartition(flat[seen], -limit)[-limit:]]
    seen = seen[np.argsort(flat[seen], kind="stable")]
    heads, queries, keys = np.unravel_index(seen, weights.shape) if flat.size else (seen, seen, seen)
    hidden = 1 - float(flat[seen].sum()) / total if total > 0 else 0.0
    return StrongLines(
        heads=heads,
        queries=queries,
        keys=keys,
        weights=flat[seen].astype(np.float32),
        n_all=n_all,
        hidden=max(0.0, hidden),
    )


def _strongest(weights: NDArray[np.float32], n: int) -> NDArray[np.bool_]:
    """Whether a weight is among the `n` largest of its row, [n_heads, n_queries, n_keys]."""
    best = np.argpartition(weights, -n, axis=2)[:, :, -n:]
    is_best = np.zeros(weights.shape, dtype=bool)
    np.put_along_axis(is_best, best, True, axis=2)
    return is_best


def lines_layout(
    rect: QRectF,
    first: HeadMap,
    *,
    names: tuple[str, ...] = (),
    zoom: float = 1.0,
    offset_px: float = 0.0,
) -> LinesLayout:
    """Lay out both columns in `rect`; the distance of rows is limited for readability.

    At `zoom` 1 all tokens fit; larger ones spread the rows, and `offset_px` moves them up.
    """
    inner = rect.adjusted(MARGIN_PX, MARGIN_PX, -MARGIN_PX, -MARGIN_PX)
    width = min(max(widest(first.queries), widest(first.keys), 40.0), inner.width() * 0.28)
    spread = min(inner.width(), 2 * width + 620.0)
    left = inner.center().x() - spread / 2 + width + 8
    right = inner.center().x() + spread / 2 - width - 8
    named = name_rows(names, QRectF(inner.left(), inner.top(), inner.width(), inner.height() / 3))
    header = type_px(_HEADER_PX) + (named[-1].rect.bottom() - inner.top() if named else 0.0)
    footer = _footer_px(inner.width())
    room = QRectF(inner.left(), inner.top() + header, inner.width(), inner.height() - header - footer)
    spans = []
    for n in (len(first.queries), len(first.keys)):
        step = min(type_px(_MAX_ROW_PX), room.height() / max(1, n)) * zoom
        origin = room.top() - offset_px
        spans.append(Span(origin=origin, step=step, low=room.top(), high=room.bottom(), n=n))
    return LinesLayout(
        rect=inner,
        room=room,
        queries=spans[0],
        keys=spans[1],
        left=left,
        right=right,
        label_width=width,
        names=named,
    )


def natural_lines_height(first: HeadMap, width: float, *, names: tuple[str, ...] = ()) -> float:
    """Preferred height of lines at a width: readable rows, at most 1.4 times as high as wide."""
    most = 1.4 * width
    layout = lines_layout(QRectF(0.0, 0.0, width, most), first, names=names)
    n_rows = max(layout.queries.n, layout.keys.n)
    return min(
        most, layout.room.top() + n_rows * type_px(_ROW_PX) + _footer_px(layout.rect.width()) + MARGIN_PX
    )


def _footer_px(width: float) -> float:
    """The room for the text below lines: two rows of words if one is not wide enough."""
    return type_px(_FOOTER_PX) + (0.0 if text_width(_FOOTNOTE) <= width else type_px(AXIS_LINE_PX))


def line_names(maps: tuple[HeadMap, ...]) -> tuple[str, ...]:
    """Name of each map above its lines."""
    stacks = {m.head.stack for m in maps}
    labels = [m.name or m.head.label for m in maps]
    if len(stacks) == 1:
        return tuple(labels)
    return tuple(f"{m.head.stack} {label}" for m, label in zip(maps, labels, strict=True))


def paint_lines(
    painter: QPainter,
    rect: QRectF,
    maps: tuple[HeadMap, ...],
    *,
    palette: Palette,
    highlight: Highlight = (None, None),
    style: MapStyle | None = None,
    only: int | None = None,
    zoom: float = 1.0,
    offset_px: float = 0.0,
    lines: StrongLines | None = None,
    has_names: bool = True,
    cache: FieldCache | None = None,
    is_rough: bool = False,
    is_paper: bool = False,
) -> LinesLayout | None:
    """Draw the strongest lines of all maps that share the first one's tokens.

    `highlight` shows only the lines of one query or one key (of a token on both sides when they are the
    same), `only` those of one head. `lines` saves choosing them again, and with `cache` what has not changed
    since the last painting is not drawn again, and in coarse pixels while `is_rough`; without `has_names` the
    heads are named elsewhere.
    `is_paper` is for files: each line one stroke.
    """
    if not maps:
        return None
    shown = comparable(maps)
    style = style or MapStyle()
    lines = lines or strong_lines(shown, least_weight=style.least_weight, n_strongest=style.n_strongest)
    names = line_names(shown) if has_names else ()
    layout = lines_layout(rect, shown[0], names=names, zoom=zoom, offset_px=offset_px)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    field = LinesField(
        rect=QRectF(layout.left, layout.room.top(), layout.right - layout.left, layout.room.height()),
        queries=layout.queries,
        keys=layout.keys,
        lines=lines,
        palette=palette,
        n_heads=len(shown),
        highlight=highlight,
        only=only,
    )
    if cache is not None and highlight == (None, None) and only is None:
        cache.paint(painter, field, is_rough=is_rough)
    else:
        paint_lines_field(painter, field, is_paper=is_paper)
    rows = layout.labels(shown[0].queries, layout.queries, highlight[0], style.label_every)
    paint_rows(painter, rows, layout.left - 8, palette)
    columns = layout.labels(shown[0].keys, layout.keys, highlight[1], style.label_every)
    paint_rows(painter, columns, layout.right + 8, palette, is_left_aligned=True)
    _paint_words(painter, layout, shown, lines, style, palette, n_left_out=len(maps) - len(shown))
    paint_names(painter, layout.names, palette, only=only)
    painter.restore()
    return layout


def _paint_words(
    painter: QPainter,
    layout: LinesLayout,
    maps: tuple[HeadMap, ...],
    lines: StrongLines,
    style: MapStyle,
    palette: Palette,
    *,
    n_left_out: int,
) -> None:
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    y = layout.room.top() - 6
    metrics, half = QFontMetricsF(font(SMALL_PX)), layout.rect.width() / 2 - 8
    names = axis_names(maps[0].queries, style)
    key_name, query_name = (metrics.elidedText(name, Qt.TextElideMode.ElideRight, half) for name in names)
    left = max(layout.left - 8 - text_width(query_name), layout.rect.left())
    painter.drawText(QPointF(left, y), query_name)
    right = min(layout.right + 8 + text_width(key_name), layout.rect.right())
    painter.drawText(QPointF(right - text_width(key_name), y), key_name)
    notes = [maps[0].note, lines.sentence, f"{plural(n_left_out, 'head')} with other tokens not drawn"]
    said = [text for text, is_said in zip(notes, (maps[0].note, True, n_left_out), strict=True) if is_said]
    last = max(s.origin + s.n * s.step for s in (layout.queries, layout.keys))
    bottom = min(last, layout.room.bottom()) + 6
    footer = QRectF(layout.rect.left(), bottom, layout.rect.width(), type_px(AXIS_LINE_PX) + 3)
    for k, line in enumerate(footnote(" · ".join(said), footer.width())):
        painter.drawText(footer.translated(0, k * type_px(AXIS_LINE_PX)), Qt.AlignmentFlag.AlignHCenter, line)


def footnote(words: str, width: float) -> tuple[str, ...]:
    """Text below the lines, on one line or two, broken at a dot or else at a space."""
    if text_width(words) <= width:
        return (words,)
    parts = words.split(" · ")
    halves = ((" · ".join(parts[:k]), " · ".join(parts[k:])) for k in range(len(parts) - 1, 0, -1))
    fitting = (pair for pair in halves if max(map(text_width, pair)) <= width)
    first, *rest = next(fitting, wrapped((words,), width))
    metrics = QFontMetricsF(font(SMALL_PX))
    last = metrics.elidedText(" ".join(rest), Qt.TextElideMode.ElideRight, width)
    return (first, last) if last else (first,)


def name_rows(names: tuple[str, ...], room: QRectF) -> tuple[NamePlace, ...]:
    """The names from left to right in centred rows; those that do not fit become `+n`."""
    metrics = QFontMetricsF(font(NORMAL_PX, is_bold=True))
    row_px, before = type_px(_NAME_ROW_PX), type_px(_DASH_PX) + 5
    n_rows = max(1, int(room.height() // row_px))
    rows: list[list[tuple[str, int, float]]] = [[]]
    for index, name in enumerate(names):
        width = before + metrics.horizontalAdvance(name) + _GAP_PX
        used = sum(entry[2] for entry in rows[-1])
        if rows[-1] and used + width > room.width():
            if len(rows) == n_rows:
                rows[-1][-1:] = [(f"+{len(names) - index + 1}", -1, rows[-1][-1][2])]
                break
            rows.append([])
        rows[-1].append((name, index, width))
    places = []
    for k, row in enumerate(rows):
        x = room.center().x() - (sum(entry[2] for entry in row) - _GAP_PX) / 2
        for name, index, width in row:
            rect = QRectF(x, room.top() + k * row_px, width - _GAP_PX, row_px)
            places.append(NamePlace(rect=rect, name=name, index=index))
            x += width
    return tuple(places)


def paint_names(
    painter: QPainter, places: tuple[NamePlace, ...], palette: Palette, *, only: int | None = None
) -> None:
    """Draw the names; with `only`, all but that head's are faint."""
    painter.setFont(font(NORMAL_PX, is_bold=True))
    for place in places:
        is_loud = place.index >= 0 and only in (None, place.index)
        left, middle = place.rect.left(), place.rect.center().y()
        if place.index >= 0:
            colour = QColor(series_colour(palette, place.index))
            colour.setAlphaF(1.0 if is_loud else 0.35)
            painter.setPen(QPen(colour, 3.0))
            painter.drawLine(QPointF(left, middle), QPointF(left + type_px(_DASH_PX), middle))
        painter.setPen(QColor(palette.text if is_loud else palette.muted))
        words = place.rect.adjusted(type_px(_DASH_PX) + 5 if place.index >= 0 else 0, 0, 8, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, place.name)


_MANY_LINES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesFigure(MapsFigure):
    """Queries on one side, keys on the other, a colour for each head."""

    view = "lines"
    words = "lines of the selected heads"
    order = 3
    least_px = 170.0
    choices = frozenset({"every", "special", "axes"})
    reads_trace = True
    is_asked = True

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "LinesFigure":
        return cls(maps=wanted.maps(), **page)

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        paint_lines(painter, rect, self.maps, palette=palette, style=self.style, is_paper=True)

    def paint_panel(self, painter: QPainter, rect: QRectF, palette: Palette, *, has_names: bool) -> None:
        """The lines with the names of their heads, unless other panels name them."""
        paint_lines(
            painter,
            rect,
            self.maps,
            palette=palette,
            style=self.style,
            has_names=has_names,
            is_paper=True,
        )

    def natural_height(self, width: float) -> float:
        return self.lines_height(width, has_names=True)

    def lines_height(self, width: float, *, has_names: bool) -> float:
        return natural_lines_height(self.maps[0], width, names=line_names(self.maps) if has_names else ())

    def shown_words(self) -> list[str]:
        return [*heads_words(self.maps), *change_words(self.gates, self.interventions)]

    def suits_column(self) -> bool:
        return True

    def hint(self) -> str:
        """Hint for when too many lines are drawn to follow any; empty otherwise."""
        style = self.style
        drawn = strong_lines(
            comparable(self.maps), least_weight=style.least_weight, n_strongest=style.n_strongest
        )
        n = len(drawn.weights)
        return f"{n:,} lines, --n-strongest 2 draws fewer" if n > _MANY_LINES else ""

    def asked(self) -> FigureRequest:
        heads = tuple(head_map.head for head_map in self.maps)
        return FigureRequest(heads=heads, stack=heads[0].stack)
