"""Token-to-token lines: queries in the left column, keys in the right, a line for each weight.

Only the strongest lines are drawn, and the picture says how much weight it leaves out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.map_layout import MARGIN_PX
from attnscope.figures.paint_map import Highlight
from attnscope.figures.raster import is_vector
from attnscope.figures.style import SMALL_PX, font, text_width
from attnscope.figures.token_axis import LINE_PX, Span, paint_keys, paint_rows, widest
from attnscope.records.maps import HeadMap

MAX_LINES = 5_000
_N_BUCKETS = 12
_FAINTEST = 0.01
_MAX_SMOOTH = 2_500
_HEADER_PX = 44.0
_FOOTER_PX = 22.0
_MAX_ROW_PX = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
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
            return f"all {n_shown:,} lines"
        share = f"{self.hidden * 100:.1f} %" if self.hidden >= 0.001 else "under 0.1 %"
        return f"{n_shown:,} of {self.n_all:,} lines · {share} of the weight hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesLayout:
    """Where the two columns of tokens lie."""

    rect: QRectF
    queries: Span
    keys: Span
    left: float
    right: float
    label_width: float

    def hit(self, position: QPointF) -> Highlight:
        """The (query, None) or (None, key) whose label is under a position, else (None, None)."""
        for span, low, high, is_query in (
            (self.queries, self.left - self.label_width - 8, self.left, True),
            (self.keys, self.right, self.right + self.label_width + 8, False),
        ):
            i = int((position.y() - span.origin) // span.step) if span.step > 0 else -1
            if low <= position.x() <= high and 0 <= i < span.n:
                return (i, None) if is_query else (None, i)
        return (None, None)


def comparable(maps: tuple[HeadMap, ...]) -> tuple[HeadMap, ...]:
    """The maps that have the same tokens as the first: only those can share two columns."""
    return tuple(m for m in maps if (m.queries, m.keys) == (maps[0].queries, maps[0].keys))


def strong_lines(maps: tuple[HeadMap, ...], *, limit: int = MAX_LINES) -> StrongLines:
    """The `limit` strongest weights of all maps, without those too faint to be seen."""
    weights = np.stack([m.weights for m in maps]) if maps else np.zeros((0, 0, 0), dtype=np.float32)
    flat = np.where(np.isfinite(weights), weights, 0.0).ravel()
    total = float(flat.sum())
    n_all = int((flat > 0).sum())
    seen = np.flatnonzero(flat >= _FAINTEST)
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


def lines_layout(rect: QRectF, first: HeadMap) -> LinesLayout:
    """Lay out both columns in `rect`; rows are never further apart than reads well."""
    inner = rect.adjusted(MARGIN_PX, MARGIN_PX, -MARGIN_PX, -MARGIN_PX)
    room = QRectF(
        inner.left(), inner.top() + _HEADER_PX, inner.width(), inner.height() - _HEADER_PX - _FOOTER_PX
    )
    width = min(max(widest(first.queries), widest(first.keys), 40.0), inner.width() * 0.28)
    spread = min(inner.width(), 2 * width + 620.0)
    left = inner.center().x() - spread / 2 + width + 8
    right = inner.center().x() + spread / 2 - width - 8
    spans = []
    for n in (len(first.queries), len(first.keys)):
        step = min(_MAX_ROW_PX, room.height() / max(1, n))
        spans.append(Span(origin=room.top(), step=step, low=room.top(), high=room.bottom(), n=n))
    return LinesLayout(rect=inner, queries=spans[0], keys=spans[1], left=left, right=right, label_width=width)


def paint_lines(
    painter: QPainter,
    rect: QRectF,
    maps: tuple[HeadMap, ...],
    *,
    palette: Palette,
    highlight: Highlight = (None, None),
    lines: StrongLines | None = None,
) -> LinesLayout | None:
    """Draw the strongest lines of all maps that share the first one's tokens.

    `highlight` shows only the lines of one query or one key. `lines` saves choosing them again.
    """
    if not maps:
        return None
    shown = comparable(maps)
    lines = lines or strong_lines(shown)
    layout = lines_layout(rect, shown[0])
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    field = QRectF(layout.left, layout.rect.top(), layout.right - layout.left, layout.rect.height())
    painter.save()
    painter.setClipRect(field)  # without it translucent lines take a path ten times slower
    is_smooth = len(lines.weights) <= _MAX_SMOOTH or painter.deviceTransform().m11() != 1.0
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, is_smooth)
    _paint_all(painter, layout, lines, palette, highlight, n_heads=len(shown))
    painter.restore()
    paint_rows(
        painter, shown[0].queries, layout.queries, layout.left - 8, layout.label_width, palette, highlight[0]
    )
    paint_keys(
        painter, shown[0].keys, layout.keys, layout.right + 8, layout.label_width, palette, highlight[1]
    )
    _paint_words(painter, layout, shown, lines, palette, n_left_out=len(maps) - len(shown))
    painter.restore()
    return layout


def head_shifts(n_heads: int, thickness: float, row: float) -> NDArray[np.float64]:
    """How far down each head's lines are moved, so that heads that agree lie side by side.

    All of a token's lines stay in the middle four fifths of its row, however many heads there are.
    """
    apart = min(thickness + 1.0, 0.8 * row / max(1, n_heads))
    return (np.arange(n_heads, dtype=np.float64) - (n_heads - 1) / 2) * np.float64(apart)


def _paint_all(
    painter: QPainter,
    layout: LinesLayout,
    lines: StrongLines,
    palette: Palette,
    highlight: Highlight,
    *,
    n_heads: int,
) -> None:
    query, key = highlight
    is_shown = np.ones(len(lines.weights), dtype=bool)
    if query is not None:
        is_shown &= lines.queries == query
    if key is not None:
        is_shown &= lines.keys == key
    buckets = np.minimum((np.sqrt(lines.weights) * _N_BUCKETS).astype(int), _N_BUCKETS - 1)
    y_queries = layout.queries.origin + (lines.queries + 0.5) * layout.queries.step
    y_keys = layout.keys.origin + (lines.keys + 0.5) * layout.keys.step
    row = min(layout.queries.step, layout.keys.step)
    thickest = max(0.6, min(2.6, 0.16 * row))
    shifts = head_shifts(n_heads, thickest, row)
    for bucket in range(_N_BUCKETS):
        strength = ((bucket + 0.6) / _N_BUCKETS) ** 1.3
        for head in range(n_heads):
            chosen = np.flatnonzero(is_shown & (buckets == bucket) & (lines.heads == head))
            if not len(chosen):
                continue
            colour = QColor(palette.series[head % len(palette.series)])
            colour.setAlphaF(float(0.08 + 0.87 * strength))
            ends = np.stack([y_queries[chosen], y_keys[chosen]], axis=1) + shifts[head]
            _draw_lines(painter, layout, ends, colour, 0.5 + thickest * strength)


def _draw_lines(
    painter: QPainter, layout: LinesLayout, ends: NDArray[np.float64], colour: QColor, width: float
) -> None:
    """Draw lines across the field from y to y, `ends` [n, 2].

    On pixels a wide smooth line costs Qt's raster engine twenty times a hairline, so it is drawn as
    hairlines side by side, one device pixel apart.
    """
    scale = painter.deviceTransform().m11()
    n_hairlines = 1 if is_vector(painter) else max(1, round(width * scale))
    pen = QPen(colour, width if is_vector(painter) else 1.0)
    pen.setCosmetic(not is_vector(painter))
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    across = layout.right - layout.left
    apart = np.hypot(1.0, (ends[:, 1] - ends[:, 0]) / across) / scale
    for i in range(n_hairlines):
        moved = ends + ((i - (n_hairlines - 1) / 2) * apart)[:, None]
        painter.drawLines([QLineF(layout.left, a, layout.right, b) for a, b in moved.tolist()])


def _paint_words(
    painter: QPainter,
    layout: LinesLayout,
    maps: tuple[HeadMap, ...],
    lines: StrongLines,
    palette: Palette,
    *,
    n_left_out: int,
) -> None:
    top = layout.rect.top()
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    y = top + _HEADER_PX - LINE_PX - 6
    painter.drawText(QPointF(layout.left - 8 - text_width("query"), y + 10), "query")
    painter.drawText(QPointF(layout.right + 8, y + 10), "key")
    note = lines.sentence + (f" · {n_left_out} heads with other tokens not drawn" if n_left_out else "")
    last = max(s.origin + s.n * s.step for s in (layout.queries, layout.keys))
    footer = QRectF(layout.rect.left(), last + 6, layout.rect.width(), LINE_PX + 3)
    painter.drawText(footer, Qt.AlignmentFlag.AlignHCenter, note)
    _paint_names(painter, layout, maps, palette)


def _paint_names(painter: QPainter, layout: LinesLayout, maps: tuple[HeadMap, ...], palette: Palette) -> None:
    """The heads' names in their colours, above the lines they name."""
    stacks = {m.head.stack for m in maps}
    names = [m.head.label if len(stacks) == 1 else f"{m.head.stack} {m.head.label}" for m in maps]
    name_font = font(13, is_bold=True)
    metrics = QFontMetricsF(name_font)
    widths = [metrics.horizontalAdvance(name) + 34 for name in names]
    room = layout.right - layout.left
    n_shown = len(names)
    while n_shown > 1 and sum(widths[:n_shown]) > room - 40:
        n_shown -= 1
    x = (layout.left + layout.right - sum(widths[:n_shown])) / 2
    y = layout.rect.top() + 14
    painter.setFont(name_font)
    for i in range(n_shown):
        painter.setPen(QPen(QColor(palette.series[i % len(palette.series)]), 3.0))
        painter.drawLine(QPointF(x, y - 4.5), QPointF(x + 14, y - 4.5))
        painter.setPen(QColor(palette.text))
        painter.drawText(QPointF(x + 19, y), names[i])
        x += widths[i]
    if n_shown < len(names):
        painter.setPen(QColor(palette.muted))
        painter.drawText(QPointF(x, y), f"+{len(names) - n_shown}")
