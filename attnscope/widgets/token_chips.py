"""The tokens of a text as chips: in a strip, as outputs of which one is chosen, in rows that wrap."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.style import (
    NORMAL_PX,
    SMALL_PX,
    drawn_piece,
    font,
    isolated,
    plain_piece,
    text_width,
    type_px,
)
from attnscope.records.tokens import UNKNOWN_PIECES, Token
from attnscope.viewmodels.view_state import NO_HIGHLIGHT, Highlight
from attnscope.widgets.labels import Telling
from attnscope.widgets.map_widget import paint_focus
from attnscope.widgets.theme import Dressed

CHIP_PX, ROW_PX, GAP_PX, PAD_PX = 24, 28, 4, 6
ANSWER_PX = 16
"""What a row is higher by where the model's answers stand under the tokens."""

NO_ANSWERS: Mapping[int, str] = MappingProxyType({})
MAX_CHIPS, N_AROUND = 600, 60
"""Longer texts are shown in part: so many tokens around the one that is lit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Position of one token; `joins_next` leaves no gap and no corner to the right.

    `answer` is what the model says of it, written below.
    """

    token: Token
    text: str
    rect: QRectF
    joins_next: bool
    answer: str = ""


def place_chips(
    tokens: Sequence[Token], width_px: float, typed: str = "", answers: Mapping[int, str] = NO_ANSWERS
) -> tuple[tuple[Chip, ...], int]:
    """Every chip in rows no wider than `width_px`, and the number of rows (at least 1).

    An unknown piece of the text `typed` shows what stands there; `answers` are what stands under tokens.
    """
    chips: list[Chip] = []
    x, row = 0.0, 0
    row_px = round(type_px(ROW_PX + (ANSWER_PX if answers else 0)))
    chip_px = round(type_px(CHIP_PX))
    top = (round(type_px(ROW_PX)) - chip_px) / 2
    for k, token in enumerate(tokens):
        text = drawn_piece(typed_letters(token, typed) or token.piece)
        width = max(text_width(text, NORMAL_PX) + 2 * PAD_PX, 16.0)
        answer = drawn_piece(answers[k]) if k in answers else ""
        if answer:
            width = max(width, text_width(answer, SMALL_PX) + GAP_PX)
        if x > 0 and not token.joins_previous:
            x += GAP_PX
        if x > 0 and x + width > width_px:
            x, row = 0.0, row + 1
        joins_next = k + 1 < len(tokens) and tokens[k + 1].joins_previous
        rect = QRectF(x, row * row_px + top, width, chip_px)
        chips.append(Chip(token=token, text=text, rect=rect, joins_next=joins_next, answer=answer))
        x += width
    return tuple(chips), row + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The tokens of a text that have chips: all of them, or of a long text some.

    `shown` is what the chips show, with what says that there are more; `first_index` the token of the first
    chip, one less where it says that there are some before.
    """

    tokens: tuple[Token, ...] = ()
    shown: tuple[Token, ...] = ()
    first_index: int = 0


def stretch_of(tokens: tuple[Token, ...], index: int = 0) -> Stretch:
    """The stretch of a text with the token `index` in its middle; of a short text all of it."""
    n = len(tokens)
    if n <= MAX_CHIPS:
        return Stretch(tokens=tokens, shown=tokens)
    start = max(0, min(index - N_AROUND // 2, n - N_AROUND))
    stop = start + N_AROUND
    before = (_more(start),) if start else ()
    after = (_more(n - stop),) if stop < n else ()
    return Stretch(
        tokens=tokens,
        shown=(*before, *tokens[start:stop], *after),
        first_index=start - 1 if start else 0,
    )


class TokenStrip(Telling, Dressed):
    """Shows tokens, reports the one under the cursor or the keyboard; taller texts get more rows."""

    token_hovered = Signal(int)
    token_left = Signal()
    token_clicked = Signal(int)
    rows_changed = Signal(int)
    menu_wanted = Signal(int, QPoint)
    """The context menu of a token, and where on the screen."""

    # Of a text with more than MAX_CHIPS tokens only some are shown: around the token that is lit.

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stretch = Stretch()
        self._text = self._vocabulary_words = ""
        self._chips: tuple[Chip, ...] = ()
        self._n_rows = 1
        self.row_px = round(type_px(ROW_PX))
        """The height of a row, which is higher with answers under its tokens."""
        self._answers: Mapping[int, str] = NO_ANSWERS
        self._lit = NO_HIGHLIGHT
        self._hovered = -1
        self._is_stale = False
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(round(type_px(ROW_PX)))

    def set_vocabulary_words(self, words: str) -> None:
        """Set the tooltip text about the vocabulary for unknown pieces."""
        self._vocabulary_words = words

    def set_tokens(
        self, tokens: tuple[Token, ...], text: str = "", answers: Mapping[int, str] = NO_ANSWERS
    ) -> None:
        """Set other tokens; unknown pieces show the user's own letters of `text`.

        `answers` are what the model says of some of them, by index.
        """
        if (tokens, text, answers) != (self._stretch.tokens, self._text, self._answers):
            if bool(answers) != bool(self._answers):
                self._n_rows = 0  # rows of another height
            self._answers = answers
            self._stretch, self._text, self._hovered = stretch_of(tokens), text, -1
            self.setAccessibleDescription(" ".join(token.piece for token in tokens[:100]))
            self.fit_room()

    def set_lit(self, lit: Highlight) -> None:
        """Highlight one token as the query and one as the key."""
        if lit != self._lit:
            before, self._lit = self._lit, lit
            self._follow(lit)
            for index in {before.query, before.key, lit.query, lit.key}:
                chip = self.chip_of(index) if index is not None else None
                if chip is not None:
                    self.update(_painted(chip))

    def set_stale(self, is_stale: bool) -> None:
        """Dim the tokens while they are not those of the text."""
        if is_stale != self._is_stale:
            self._is_stale = is_stale
            self.update()

    def dress(self) -> None:
        self._n_rows = 0  # rows of another height
        self.fit_room()

    def chips(self) -> tuple[Chip, ...]:
        """Chips of the visible tokens, and the one that says that there are more."""
        return self._chips

    def chip_of(self, index: int) -> Chip | None:
        """Chip of one token; None if it is hidden."""
        k = index - self._stretch.first_index
        return self._chips[k] if 0 <= k < len(self._chips) and self._chips[k].token.id >= 0 else None

    def sizeHint(self) -> QSize:
        """As wide as allowed, as high as its rows."""
        return QSize(400, self._n_rows * self.row_px)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Repaint visible chips that changed."""
        wanted = event.region()
        bounds = wanted.boundingRect().adjusted(-3, -3, 3, 3)
        first = bisect_left(self._chips, float(bounds.top()), key=lambda chip: chip.rect.bottom())
        palette = self.theme
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setClipRect(self.rect())
            painter.setFont(font(NORMAL_PX))
            if self._is_stale:
                painter.setOpacity(0.45)
            for k in range(first, len(self._chips)):
                chip = self._chips[k]
                if chip.rect.top() > bounds.bottom():
                    break
                if wanted.intersects(_painted(chip)):
                    index = k + self._stretch.first_index if self._chips[k].token.id >= 0 else -1
                    self._paint_chip(painter, index, chip, palette)
            if self.hasFocus():
                painter.setOpacity(1.0)
                paint_focus(painter, self.rect(), palette)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = event.position()
        k = next((k for k, chip in enumerate(self._chips) if chip.rect.contains(place)), None)
        self._hover(k + self._stretch.first_index if k is not None and self._chips[k].token.id >= 0 else -1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and self._hovered >= 0:
            self.token_clicked.emit(self._hovered)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Request the menu of the token under cursor or keyboard."""
        if 0 <= self._hovered < len(self._stretch.tokens):
            self.menu_wanted.emit(self._hovered, event.globalPos())

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(-1)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._hover(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left, right, Home and End walk the tokens, Return clicks on one; Esc leaves them."""
        last = len(self._stretch.tokens) - 1
        at = self._hovered
        places = {
            Qt.Key.Key_Right: min(at + 1, last),
            Qt.Key.Key_Left: max(at - 1, 0),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
            Qt.Key.Key_Escape: -1,
        }
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._hovered >= 0:
            self.token_clicked.emit(self._hovered)
            return
        if key not in places or last < 0:
            super().keyPressEvent(event)
            return
        self._hover(places[key])

    def tip_at(self, place: QPointF) -> str:
        return self.tooltip_of(self._hovered) if self._hovered >= 0 else ""

    def tooltip_of(self, index: int) -> str:
        """Tooltip of one token, as plain text."""
        token = self._stretch.tokens[index]
        notes = ["special token"] if token.is_special else []
        if is_unknown(token):
            own = plain_piece(typed_letters(token, self._text), max_characters=200)
            about = f": {self._vocabulary_words}" if self._vocabulary_words else ""
            notes = [f"“{own}” is unknown{about}" if own else "unknown: the tokenizer has no piece for this"]
        notes += ["continues the word before"] if token.joins_previous else []
        first = f"{isolated(plain_piece(token.piece, max_characters=200))}   id {token.id}"
        return "\n".join([first, f"token {index} of {len(self._stretch.tokens)}", *notes])

    def _hover(self, index: int) -> None:
        """Highlight a token; −1: none."""
        if index != self._hovered:
            self._hovered = index
            if index < 0:
                self.token_left.emit()
            else:
                self.token_hovered.emit(index)

    def _follow(self, lit: Highlight) -> None:
        """Of a long text, show the tokens around the highlighted one."""
        index = lit.query if lit.query is not None else lit.key
        if len(self._stretch.tokens) > MAX_CHIPS and index is not None and self.chip_of(index) is None:
            self._stretch = stretch_of(self._stretch.tokens, index)
            self.fit_room()

    def fit_room(self) -> None:
        first = self._stretch.first_index
        answers = {k - first: answer for k, answer in self._answers.items()} if first else self._answers
        self._chips, n_rows = place_chips(self._stretch.shown, max(self.width() - 2, 40), self._text, answers)
        if n_rows != self._n_rows:
            self._n_rows, self.row_px = n_rows, round(type_px(ROW_PX + (ANSWER_PX if answers else 0)))
            self.setFixedHeight(n_rows * self.row_px)
            self.rows_changed.emit(n_rows)
        self.update()

    def _paint_chip(self, painter: QPainter, index: int, chip: Chip, palette: Palette) -> None:
        is_key, is_query = index == self._lit.key, index == self._lit.query
        shape = chip_outline(chip)
        if is_key:
            painter.fillPath(shape, QColor(palette.accent))
        elif not chip.token.is_special:
            painter.fillPath(shape, QColor(palette.raised if palette.is_dark else palette.panel))
        pen = QPen(QColor(palette.line), 1.0)
        if is_query:
            pen = QPen(QColor(palette.accent), 2.0)
        elif is_unknown(chip.token):
            pen = QPen(QColor(palette.error), 1.5, Qt.PenStyle.DashLine)
        elif chip.token.is_special:
            pen.setStyle(Qt.PenStyle.DotLine)
        painter.setPen(pen)
        painter.drawPath(shape)
        ink = palette.accent_text if is_key else palette.muted if chip.token.is_special else palette.text
        painter.setPen(QColor(ink))
        painter.drawText(chip.rect, Qt.AlignmentFlag.AlignCenter, isolated(chip.text))
        if chip.answer:
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(palette.accent))
            below = QRectF(chip.rect.left(), chip.rect.bottom(), chip.rect.width(), type_px(ANSWER_PX))
            painter.drawText(below, Qt.AlignmentFlag.AlignCenter, isolated(chip.answer))
            painter.setFont(font(NORMAL_PX))


def is_unknown(token: Token) -> bool:
    """Whether a token stands for text for which the tokenizer has no piece."""
    return token.is_special and token.end > token.start and token.piece in UNKNOWN_PIECES


def typed_letters(token: Token, typed: str) -> str:
    """Letters typed for an unknown piece; empty for every other token."""
    return typed[token.start : token.end].strip() if is_unknown(token) else ""


def _more(n: int) -> Token:
    return Token(id=-1, piece=f"… {n:,} more", is_special=True)


def _painted(chip: Chip) -> QRect:
    """The pixels that a chip may cover, including its frame."""
    below = round(type_px(ANSWER_PX)) if chip.answer else 0
    return chip.rect.toAlignedRect().adjusted(-2, -2, 2, 2 + below)


def chip_outline(chip: Chip) -> QPainterPath:
    """The shape of a chip: round corners except where another chip joins it."""
    rect = chip.rect
    key = (rect.width(), rect.height(), chip.token.joins_previous, chip.joins_next)
    if key not in _OUTLINES:
        shape = QRectF(0.5, 0.5, rect.width() - (0 if chip.joins_next else 1), rect.height() - 1)
        path = QPainterPath()
        path.setFillRule(Qt.FillRule.WindingFill)
        path.addRoundedRect(shape, 4, 4)
        half = shape.width() / 2
        if chip.joins_next:
            path.addRect(shape.adjusted(half, 0, 0, 0))
        if chip.token.joins_previous:
            path.addRect(shape.adjusted(0, 0, -half, 0))
        if len(_OUTLINES) >= _N_OUTLINES:
            _OUTLINES.clear()
        _OUTLINES[key] = path.simplified()
    return _OUTLINES[key].translated(rect.topLeft())


_OUTLINES: dict[tuple[float, float, bool, bool], QPainterPath] = {}
"""Shapes of chips at the origin, kept from one text to the next."""
_N_OUTLINES = 2_000


class ChipRows(Telling, Dressed):
    """Tokens as chips in rows; a chip has the index of its token."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._tokens: tuple[Token, ...] = ()
        self._chips: tuple[Chip, ...] = ()
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.fit_room()

    def chips(self) -> tuple[Chip, ...]:
        """Chips of all tokens."""
        return self._chips

    def index_at(self, place: QPointF) -> int | None:
        return next((k for k, chip in enumerate(self._chips) if chip.rect.contains(place)), None)

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def fit_room(self) -> None:
        self._chips, n_rows = place_chips(self._tokens, max(self.width() - 2, 40))
        self.setFixedHeight(n_rows * round(type_px(ROW_PX)))
        self.update()


class OutputStrip(ChipRows):
    """A click or an arrow key chooses; taller texts get more rows."""

    chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__("Output token to explain")
        self._at = 0
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_tokens(self, tokens: tuple[Token, ...], at: int) -> None:
        """Show these tokens with one of them chosen."""
        is_same = tokens == self._tokens
        self._tokens, self._at = tokens, at
        if not is_same:
            self.fit_room()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, seen = self.theme, event.rect()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(NORMAL_PX))
            for k, chip in enumerate(self._chips):
                if not chip.rect.toAlignedRect().intersects(seen):
                    continue
                is_chosen = k == self._at
                painter.setPen(QColor(palette.accent if is_chosen else palette.line))
                painter.setBrush(QColor(palette.accent if is_chosen else palette.raised))
                painter.drawRoundedRect(chip.rect.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
                ink = palette.muted if chip.token.is_special else palette.text
                painter.setPen(QColor(palette.accent_text if is_chosen else ink))
                painter.drawText(chip.rect, Qt.AlignmentFlag.AlignCenter, isolated(chip.text))
            if self.hasFocus():
                paint_focus(painter, self.rect(), palette)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if (k := self.index_at(event.position())) is not None:
            self.chosen.emit(k)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._tokens) - 1
        places = {
            Qt.Key.Key_Right: min(self._at + 1, last),
            Qt.Key.Key_Left: max(self._at - 1, 0),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        if Qt.Key(event.key()) in places and last >= 0:
            self.chosen.emit(places[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def tip_at(self, place: QPointF) -> str:
        return "Explain the output of this token"


MAX_SHOWN = 1_500


class ChipFlow(ChipRows):
    """Shows tokens; as high as its rows. `hovered` carries the text of a chip, or none."""

    hovered = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._marked: frozenset[int] = frozenset()
        self._unknown: frozenset[int] = frozenset()
        self.setMouseTracking(True)

    def show_tokens(
        self, tokens: Sequence[Token], *, marked: frozenset[int] = frozenset(), unknown_id: int | None = None
    ) -> None:
        """Show other tokens; `marked` are highlighted, `unknown_id` is that of unknown ones."""
        self._tokens = tuple(tokens[:MAX_SHOWN])
        self._marked = marked
        self._unknown = frozenset(k for k, t in enumerate(self._tokens) if t.id == unknown_id and t.id >= 0)
        self.setAccessibleDescription(" ".join(token.piece for token in tokens[:100]))
        self.fit_room()

    def sentence_of(self, index: int) -> str:
        token = self._tokens[index]
        if token.id < 0:
            return f"{plain_piece(token.piece)}: yet to be split"
        unknown = ", unknown to the tokenizer" if index in self._unknown else ""
        return f"{isolated(plain_piece(token.piece, max_characters=80))}   id {token.id}{unknown}"

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        k = self.index_at(event.position())
        self.hovered.emit(self.sentence_of(k) if k is not None else "")

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit("")

    def tip_at(self, place: QPointF) -> str:
        k = self.index_at(place)
        return self.sentence_of(k) if k is not None else ""

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(NORMAL_PX))
            for k, chip in enumerate(self._chips):
                self._paint(painter, k, chip)

    def _paint(self, painter: QPainter, k: int, chip: Chip) -> None:
        palette, token = self.theme, chip.token
        shape = chip_outline(chip)
        is_unknown, is_marked = k in self._unknown, k in self._marked
        if is_marked:
            painter.fillPath(shape, QColor(palette.accent))
        elif token.id >= 0:
            painter.fillPath(shape, QColor(palette.raised if palette.is_dark else palette.panel))
        pen = QPen(QColor(palette.error if is_unknown else palette.line), 1.5 if is_unknown else 1.0)
        if is_unknown or token.id < 0:
            pen.setStyle(Qt.PenStyle.DashLine if is_unknown else Qt.PenStyle.DotLine)
        painter.setPen(pen)
        painter.drawPath(shape)
        ink = palette.accent_text if is_marked else palette.error if is_unknown else palette.text
        painter.setPen(QColor(palette.muted if token.id < 0 else ink))
        painter.drawText(chip.rect, Qt.AlignmentFlag.AlignCenter, isolated(chip.text))
