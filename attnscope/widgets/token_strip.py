"""The tokens of one text as chips: joined where they continue a word, quiet where they are special."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, font, text_width
from attnscope.records.tokens import Token
from attnscope.viewmodels.view_state import NO_HIGHLIGHT, Highlight
from attnscope.widgets.labels import plain_tooltip

CHIP_PX, ROW_PX, GAP_PX, PAD_PX = 24, 28, 4, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Where one token stands; `joins_next` leaves no gap and no corner to the right."""

    token: Token
    text: str
    rect: QRectF
    joins_next: bool


def place_chips(tokens: Sequence[Token], width_px: float) -> tuple[tuple[Chip, ...], int]:
    """Every chip in rows no wider than `width_px`, and the number of rows (at least 1)."""
    chips: list[Chip] = []
    x, row = 0.0, 0
    for k, token in enumerate(tokens):
        text = plain_piece(token.piece)
        width = max(text_width(text, NORMAL_PX) + 2 * PAD_PX, 16.0)
        if x > 0 and not token.joins_previous:
            x += GAP_PX
        if x > 0 and x + width > width_px:
            x, row = 0.0, row + 1
        joins_next = k + 1 < len(tokens) and tokens[k + 1].joins_previous
        rect = QRectF(x, row * ROW_PX + (ROW_PX - CHIP_PX) / 2, width, CHIP_PX)
        chips.append(Chip(token=token, text=text, rect=rect, joins_next=joins_next))
        x += width
    return tuple(chips), row + 1


class TokenStrip(QWidget):
    """Shows tokens, tells which one the cursor or the keyboard is on; taller texts get more rows."""

    token_hovered = Signal(int)
    token_left = Signal()
    rows_changed = Signal(int)

    def __init__(self, name: str, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self._tokens: tuple[Token, ...] = ()
        self._chips: tuple[Chip, ...] = ()
        self._n_rows = 1
        self._lit = NO_HIGHLIGHT
        self._hovered: int | None = None
        self._is_stale = False
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(ROW_PX)

    def set_tokens(self, tokens: tuple[Token, ...]) -> None:
        """Show other tokens."""
        if tokens != self._tokens:
            self._tokens, self._hovered = tokens, None
            self.setAccessibleDescription(" ".join(token.piece for token in tokens[:100]))
            self._place()

    def set_lit(self, lit: Highlight) -> None:
        """Light one token as the query and one as the key."""
        if lit != self._lit:
            self._lit = lit
            self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the tokens while they are not those of the text."""
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            self.update()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self.update()

    def chips(self) -> tuple[Chip, ...]:
        """Where every token stands."""
        return self._chips

    def sizeHint(self) -> QSize:
        """As wide as it may be, as high as its rows."""
        return QSize(400, self._n_rows * ROW_PX)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Break the rows anew."""
        super().resizeEvent(event)
        self._place()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint every chip."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setClipRect(self.rect())
            if self._is_stale:
                painter.setOpacity(0.45)
            for k, chip in enumerate(self._chips):
                self._paint_chip(painter, k, chip)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Light the token under the cursor."""
        place = event.position()
        self._hover(next((k for k, c in enumerate(self._chips) if c.rect.contains(place)), None))

    def leaveEvent(self, event: QEvent) -> None:
        """The cursor is gone."""
        super().leaveEvent(event)
        self._hover(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The keyboard is elsewhere."""
        super().focusOutEvent(event)
        self._hover(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left, right, Home and End walk the tokens; Esc leaves them."""
        last = len(self._chips) - 1
        at = self._hovered if self._hovered is not None else -1
        places = {
            Qt.Key.Key_Right: min(at + 1, last),
            Qt.Key.Key_Left: max(at - 1, 0),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
            Qt.Key.Key_Escape: -1,
        }
        key = Qt.Key(event.key())
        if key not in places or last < 0:
            super().keyPressEvent(event)
            return
        self._hover(places[key] if places[key] >= 0 else None)

    def event(self, event: QEvent) -> bool:
        """Tooltips say a token's id and place."""
        if event.type() == QEvent.Type.ToolTip:
            text = self.tooltip_of(self._hovered) if self._hovered is not None else ""
            QToolTip.showText(event.globalPos(), plain_tooltip(text), self)  # type: ignore[attr-defined]
            return True
        return super().event(event)

    def tooltip_of(self, index: int) -> str:
        """What the tooltip of one token says, as plain text."""
        token = self._tokens[index]
        notes = ["special token"] if token.is_special else []
        notes += ["continues the word before"] if token.joins_previous else []
        first = f"{isolated(plain_piece(token.piece, max_characters=200))}   id {token.id}"
        return "\n".join([first, f"token {index} of {len(self._tokens)}", *notes])

    def _hover(self, index: int | None) -> None:
        if index != self._hovered:
            self._hovered = index
            if index is None:
                self.token_left.emit()
            else:
                self.token_hovered.emit(index)

    def _place(self) -> None:
        self._chips, n_rows = place_chips(self._tokens, max(self.width() - 2, 40))
        if n_rows != self._n_rows:
            self._n_rows = n_rows
            self.setFixedHeight(n_rows * ROW_PX)
            self.rows_changed.emit(n_rows)
        self.update()

    def _paint_chip(self, painter: QPainter, index: int, chip: Chip) -> None:
        palette = self._palette
        is_key, is_query = index == self._lit.key, index == self._lit.query
        shape = _outline(chip)
        if is_key:
            painter.fillPath(shape, QColor(palette.accent))
        elif not chip.token.is_special:
            painter.fillPath(shape, QColor(palette.raised if palette.is_dark else palette.panel))
        pen = QPen(QColor(palette.line), 1.0)
        if is_query:
            pen = QPen(QColor(palette.accent), 2.0)
        elif chip.token.is_special:
            pen.setStyle(Qt.PenStyle.DotLine)
        painter.setPen(pen)
        painter.drawPath(shape)
        ink = palette.accent_text if is_key else palette.muted if chip.token.is_special else palette.text
        painter.setPen(QColor(ink))
        painter.setFont(font(NORMAL_PX))
        painter.drawText(chip.rect, Qt.AlignmentFlag.AlignCenter, isolated(chip.text))


def _outline(chip: Chip) -> QPainterPath:
    rect = chip.rect.adjusted(0.5, 0.5, -0.5 if not chip.joins_next else 0.5, -0.5)
    path = QPainterPath()
    path.setFillRule(Qt.FillRule.WindingFill)
    path.addRoundedRect(rect, 4, 4)
    half = rect.width() / 2
    if chip.joins_next:
        path.addRect(rect.adjusted(half, 0, 0, 0))
    if chip.token.joins_previous:
        path.addRect(rect.adjusted(0, 0, -half, 0))
    return path.simplified()
