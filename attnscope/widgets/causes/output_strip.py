"""Output tokens as chips of which one is chosen."""

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip

from attnscope.figures.plain import isolated
from attnscope.figures.style import NORMAL_PX, font, type_px
from attnscope.records.tokens import Token
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.placeholders import paint_focus
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_strip import ROW_PX, Chip, place_chips


class OutputStrip(Dressed):
    """A click or an arrow key chooses; taller texts get more rows."""

    chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._tokens: tuple[Token, ...] = ()
        self._chips: tuple[Chip, ...] = ()
        self._n_rows, self._at = 1, 0
        self.setAccessibleName("Output token to explain")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def dress(self) -> None:
        self._place()

    def show_tokens(self, tokens: tuple[Token, ...], at: int) -> None:
        """Show these tokens with one of them chosen."""
        is_same = tokens == self._tokens
        self._tokens, self._at = tokens, at
        if not is_same:
            self._place()
        self.update()

    def chips(self) -> tuple[Chip, ...]:
        """Where every token stands."""
        return self._chips

    def sizeHint(self) -> QSize:
        """As high as its rows."""
        return QSize(200, self._n_rows * round(type_px(ROW_PX)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Break the rows anew."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._place()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the chips that can be seen."""
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
        """Choose the token under the cursor."""
        for k, chip in enumerate(self._chips):
            if chip.rect.contains(event.position()):
                self.chosen.emit(k)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left, right, Home and End walk the tokens."""
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

    def event(self, event: QEvent) -> bool:
        """Say what a click does."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tooltip("Explain the output of this token"), self)
            return True
        return super().event(event)

    def _place(self) -> None:
        self._chips, self._n_rows = place_chips(self._tokens, max(self.width() - 2, 40))
        self.setFixedHeight(self.sizeHint().height())
        self.update()
