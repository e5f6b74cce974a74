"""Token labels along the two axes of a map: turned and thinned to avoid overlap.

Queries label the rows (left), keys the columns (top). Pieces that continue a word and special tokens
are quieter; the highlighted token is marked and always shown. What the tokenizer has no piece for stands as
it is in the text, over a dashed line. A drawn shape stands for its name.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPolygonF

from attnscope.figures.colours import Palette
from attnscope.figures.style import SMALL_PX, MapStyle, Turn, drawn_piece, font, plain_text, type_key, type_px
from attnscope.records.maps import NO_TOKEN
from attnscope.records.tokens import UNKNOWN_PIECES, Token
from attnscope.shapes import outline

AXIS_LINE_PX = 13.0
PAD_PX = 5.0
_MAX_LABEL_PX = 132.0
_MIN_STEP_PX = 10.5
_CLEAR_PX = 4.0
"""Between two level labels."""
_LEAN_OUT_PX = 10.0
"""How much wider than its column the first or the last label may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Positions of one axis's tokens: token i from `origin + i·step` on; `low`…`high` is visible."""

    origin: float
    step: float
    low: float
    high: float
    n: int

    def centre(self, i: int) -> float:
        """The middle of token i."""
        return self.origin + (i + 0.5) * self.step

    def visible(self) -> range:
        """The tokens whose middle is visible."""
        if self.step <= 0:
            return range(0)
        first = math.ceil((self.low - self.origin) / self.step - 0.5 - 1e-6)
        last = math.floor((self.high - self.origin) / self.step - 0.5 + 1e-6)
        return range(max(0, first), min(self.n, last + 1))


def label_font(token: Token) -> QFont:
    """The font of a token's label: specials in italics."""
    return font(SMALL_PX, is_italic=token.is_special)


def label_width(token: Token) -> float:
    """The width of a token's label in pixels, at most the room an axis gives it."""
    return _label_width(token.label, token.is_special, type_key())


@lru_cache(maxsize=4096)
def _label_width(label: str, is_special: bool, _type: object) -> float:
    if outline(label) is not None:
        return type_px(AXIS_LINE_PX)
    metrics = QFontMetricsF(font(SMALL_PX, is_italic=is_special))
    return min(float(metrics.horizontalAdvance(drawn_piece(label))), type_px(_MAX_LABEL_PX))


def axis_names(queries: tuple[Token, ...], style: MapStyle) -> tuple[str, str]:
    """Names of columns and rows: `Key`, and `Query`, or `Written` for generated rows."""
    first = next((query for query in queries if query.id != NO_TOKEN), None)  # beside another text begin gaps
    own = "Written" if first is not None and first.read else "Query"
    return plain_text(style.key_name) or "Key", plain_text(style.query_name) or own


def widest(tokens: tuple[Token, ...]) -> float:
    """The width of the widest label; for over 400 tokens, estimated from the longest pieces."""
    return _widest(_Same(tokens), type_key())


class _Same:
    """Tokens as a cheap key: compared by identity, not by piece; kept alive by the key."""

    __slots__ = ("tokens",)

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens

    def __hash__(self) -> int:
        return id(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.tokens is self.tokens


@lru_cache(maxsize=32)
def _widest(same: _Same, _type: object) -> float:
    """`widest`, cached by text and size of type: every repaint asks for it."""
    tokens = same.tokens
    shown = tokens if len(tokens) <= 400 else sorted(tokens, key=lambda t: -len(t.label))[:60]
    return max((label_width(token) for token in shown), default=0.0)


def side_by_side(tokens: tuple[Token, ...]) -> float:
    """The smallest step at which level labels clear their neighbours."""
    return _side_by_side(_Same(tokens), type_key())


@lru_cache(maxsize=32)
def _side_by_side(same: _Same, _type: object) -> float:
    tokens = same.tokens
    if len(tokens) > 400:
        return widest(tokens) + _CLEAR_PX
    widths = [label_width(token) for token in tokens]
    apart = max(((one + other) / 2 for one, other in pairwise(widths)), default=0.0)
    ends = max((*widths[:1], *widths[-1:]), default=0.0) - _LEAN_OUT_PX
    return max(apart + _CLEAR_PX, ends)


def column_turn(tokens: tuple[Token, ...], step: float) -> Turn:
    """Angle of column labels: 0 while no two touch, 45° while lines do not, else 90°."""
    if side_by_side(tokens) <= step:
        return 0
    return 45 if step >= type_px(AXIS_LINE_PX) * math.sqrt(2) else 90


def column_height(width: float, turn: Turn) -> float:
    """The height of column labels whose widest is `width`."""
    if turn == 0:
        return type_px(AXIS_LINE_PX) + PAD_PX
    if turn == 90:
        return width + PAD_PX
    return (width + type_px(AXIS_LINE_PX) * 0.7) * math.sin(math.radians(45)) + PAD_PX


def stride_for(step: float, every: int = 0) -> int:
    """Step between labelled tokens that keeps lines apart; `every` asks for a larger one."""
    return max(1, every, math.ceil(type_px(_MIN_STEP_PX) / max(step, 1e-6)))


def column_stride(step: float, turn: Turn, width: float, every: int = 0) -> int:
    """Step between labelled keys for labels of at most `width`, turned by `turn` degrees."""
    apart = {0: width + 8, 45: type_px(AXIS_LINE_PX) * math.sqrt(2), 90: 0.0}[turn]
    return max(stride_for(step, every), math.ceil(apart / max(step, 1e-6) - 1e-6))


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisLabels:
    """The labels of one axis, each up to `width` wide: of every n-th token, and of the highlighted one."""

    tokens: tuple[Token, ...]
    span: Span
    width: float
    highlight: int | None = None
    every: int = 0

    def shown(self) -> list[int]:
        """The labels to draw; the highlighted one comes last, and its neighbours make room for it."""
        visible, highlight, stride = (
            self.span.visible(),
            self.highlight,
            stride_for(self.span.step, self.every),
        )
        shown = [i for i in visible if i % stride == 0]
        if highlight is not None and highlight in visible:
            shown = [*(i for i in shown if abs(i - highlight) >= stride), highlight]
        return shown


def paint_rows(
    painter: QPainter, labels: AxisLabels, x: float, palette: Palette, *, is_left_aligned: bool = False
) -> None:
    """Draw labels right-aligned, ending at `x`; left-aligned, starting there, for keys beside lines."""
    left, height, span = x if is_left_aligned else x - labels.width, type_px(AXIS_LINE_PX), labels.span
    _paint_word_links(painter, labels, palette, x=x - 2.0 if is_left_aligned else x + 2.0)
    for i in labels.shown():
        box = QRectF(left, span.centre(i) - height / 2, labels.width, height)
        _paint_label(
            painter, labels.tokens[i], box, 0.0 if is_left_aligned else 1.0, palette, i == labels.highlight
        )


def paint_columns(painter: QPainter, labels: AxisLabels, bottom: float, turn: Turn, palette: Palette) -> None:
    """Draw labels ending just above y = `bottom`, turned by `turn` degrees."""
    tokens, span, stride = labels.tokens, labels.span, stride_for(labels.span.step, labels.every)
    height = type_px(AXIS_LINE_PX)
    shift = -height / 2 if turn == 90 else -height * 0.62
    _paint_word_links(painter, labels, palette, y=bottom + 2.0)
    for i in labels.shown():
        x, is_highlighted = span.centre(i), i == labels.highlight
        if turn == 0:
            room = max(span.step * stride, label_width(tokens[i]) if stride == 1 else 0.0)
            box = QRectF(x - room / 2, bottom - height, room, height)
            _paint_label(painter, tokens[i], box, 0.5, palette, is_highlighted)
            continue
        painter.save()
        painter.translate(QPointF(x, bottom))
        painter.rotate(-turn)
        box = QRectF(0.0, shift, labels.width, height)
        _paint_label(painter, tokens[i], box, 0.0, palette, is_highlighted)
        painter.restore()


def _paint_label(
    painter: QPainter, token: Token, box: QRectF, share: float, palette: Palette, is_highlighted: bool
) -> None:
    """Draw a label with `share` of its free room to the left of it."""
    fitted = _fitted(token.label, token.is_special, box.width(), type_key())
    width, corners = fitted.width if fitted.corners is None else box.height(), fitted.corners
    colour = palette.muted if token.is_special or token.joins_previous else palette.text
    left, middle = box.left() + share * (box.width() - width), box.center().y()
    if is_highlighted:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(palette.accent))
        painter.drawRoundedRect(QRectF(left - 3, box.top(), width + 6, box.height()), 2, 2)
        colour = palette.accent_text
    if corners is not None:
        x, radius = left + width / 2, box.height() / 2 - 1.0
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        painter.drawPolygon(QPolygonF([QPointF(x + radius * a, middle + radius * b) for a, b in corners]))
        return
    painter.setFont(fitted.font)
    painter.setPen(QColor(colour))
    painter.drawText(QPointF(left, middle + fitted.rise), fitted.text)
    if token.own:
        is_lost = token.piece in UNKNOWN_PIECES
        ink = (
            palette.error if is_lost else palette.muted
        )  # the model can write it all the same, by copying it
        painter.setPen(QPen(QColor(ink), 1.0, Qt.PenStyle.DashLine if is_lost else Qt.PenStyle.DotLine))
        under = middle + fitted.rise + 2
        painter.drawLine(QPointF(left, under), QPointF(left + width, under))


class _Fitted(NamedTuple):
    """A label cut to its room, its width, the offset of its baseline from its middle; a shape's corners."""

    text: str
    width: float
    rise: float
    font: QFont
    corners: tuple[tuple[float, float], ...] | None


@lru_cache(maxsize=4096)
def _fitted(piece: str, is_special: bool, room: float, _type: object) -> _Fitted:
    type_of = font(SMALL_PX, is_italic=is_special)
    metrics = QFontMetricsF(type_of)
    text = metrics.elidedText(drawn_piece(piece), Qt.TextElideMode.ElideMiddle, room + 1)
    width = min(float(metrics.horizontalAdvance(text)), room)
    return _Fitted(text, width, (metrics.ascent() - metrics.descent()) / 2, type_of, outline(piece))


def _paint_word_links(
    painter: QPainter, labels: AxisLabels, palette: Palette, *, x: float | None = None, y: float | None = None
) -> None:
    """A thin line beside the pieces of one word joins them."""
    span = labels.span
    if stride_for(span.step, labels.every) > 1:
        return
    painter.setPen(QPen(QColor(palette.muted), 1.0))
    for i in span.visible():
        if i == 0 or not labels.tokens[i].joins_previous:
            continue
        start, end = max(span.centre(i - 1), span.low), span.centre(i)
        if x is not None:
            painter.drawLine(QPointF(x, start), QPointF(x, end))
        elif y is not None:
            painter.drawLine(QPointF(start, y), QPointF(end, y))
