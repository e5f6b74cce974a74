"""Tokens as chips in rows: joined within a word, marked where something was made, dashed where unknown."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip

from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, font, type_px
from attnscope.records.tokens import Token
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_strip import ROW_PX, Chip, chip_outline, place_chips

MAX_SHOWN = 1_500


class ChipFlow(Dressed):
    """Shows tokens; as high as its rows. `hovered` carries what a chip says, or nothing."""

    hovered = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._tokens: tuple[Token, ...] = ()
        self._marked: frozenset[int] = frozenset()
        self._unknown: frozenset[int] = frozenset()
        self._chips: tuple[Chip, ...] = ()
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._place()

    def show_tokens(
        self, tokens: Sequence[Token], *, marked: frozenset[int] = frozenset(), unknown_id: int | None = None
    ) -> None:
        """Show other tokens; `marked` are told apart, `unknown_id` is that of unknown ones."""
        self._tokens = tuple(tokens[:MAX_SHOWN])
        self._marked = marked
        self._unknown = frozenset(k for k, t in enumerate(self._tokens) if t.id == unknown_id and t.id >= 0)
        self.setAccessibleDescription(" ".join(token.piece for token in tokens[:100]))
        self._place()

    def dress(self) -> None:
        self._place()

    def sentence_of(self, index: int) -> str:
        """One chip in words."""
        token = self._tokens[index]
        if token.id < 0:
            return f"{plain_piece(token.piece)}: yet to be split"
        unknown = ", unknown to the tokenizer" if index in self._unknown else ""
        return f"{isolated(plain_piece(token.piece, max_characters=80))}   id {token.id}{unknown}"

    def sizeHint(self) -> QSize:
        return QSize(300, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        k = self._at(event)
        self.hovered.emit(self.sentence_of(k) if k is not None else "")

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit("")

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            place = event.pos()  # type: ignore[attr-defined]
            k = next((k for k, chip in enumerate(self._chips) if chip.rect.contains(place)), None)
            text = self.sentence_of(k) if k is not None else ""
            QToolTip.showText(event.globalPos(), plain_tooltip(text), self)  # type: ignore[attr-defined]
            return True
        return super().event(event)

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

    def _at(self, event: QMouseEvent) -> int | None:
        return next((k for k, chip in enumerate(self._chips) if chip.rect.contains(event.position())), None)

    def _place(self) -> None:
        self._chips, n_rows = place_chips(self._tokens, max(self.width() - 2, 40))
        self.setFixedHeight(n_rows * round(type_px(ROW_PX)))
        self.update()
