"""Token pairs of one of a head's products: two tokens, a bar and the value of each, one under the other."""

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, type_px
from attnscope.records.redundancy import TokenPair
from attnscope.records.tokens import Token
from attnscope.widgets.labels import plain_tooltip

_ROW_PX, _HEAD_PX, _NUMBER_PX, _ARROW_PX, _RIGHT_PX = 22, 22, 52, 18, 12
_TOKEN_SHARE = 0.3


class PairTable(QWidget):
    """One row a pair; `joint` stands between its tokens, `columns` over them."""

    def __init__(
        self, palette: Palette, columns: tuple[str, str], joint: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._palette, self._columns, self._joint = palette, columns, joint
        self._pairs: tuple[TokenPair, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._fit()

    def show_pairs(self, pairs: tuple[TokenPair, ...]) -> None:
        """Show other pairs, strongest first."""
        if pairs != self._pairs:
            self._pairs = pairs
            self.setAccessibleDescription("; ".join(self._words(pair) for pair in pairs))
            self._fit()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(280, self.height())

    def pair_at(self, y: float) -> TokenPair | None:
        """The pair at a height of the widget."""
        row = int((y - type_px(_HEAD_PX)) // type_px(_ROW_PX))
        return self._pairs[row] if 0 <= row < len(self._pairs) else None

    def event(self, event: QEvent) -> bool:
        """Tell about the pair under the cursor."""
        if isinstance(event, QHelpEvent):
            pair = self.pair_at(event.pos().y())
            if pair is not None:
                ids = f"tokens {pair.first.id} and {pair.second.id}"
                QToolTip.showText(event.globalPos(), plain_tooltip(f"{self._words(pair)}\n{ids}"), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        largest = max((abs(pair.value) for pair in self._pairs), default=1.0) or 1.0
        row = type_px(_ROW_PX)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self._palette.background))
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self._palette.muted))
            first, second, _bar, number = self._places(0.0)
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(first, middle, self._columns[0])
            painter.drawText(second, middle, self._columns[1])
            painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, "value")
            for k, pair in enumerate(self._pairs):
                self._paint_row(painter, type_px(_HEAD_PX) + k * row, pair, abs(pair.value) / largest)

    def _places(self, top: float) -> tuple[QRectF, QRectF, QRectF, QRectF]:
        """Where the tokens, the bar and the number of a row lie."""
        row, room, arrow = type_px(_ROW_PX), type_px(_NUMBER_PX), type_px(_ARROW_PX)
        right = self.width() - _RIGHT_PX
        token = min(_TOKEN_SHARE * right, type_px(150))
        second = token + arrow
        bar = second + token + 8
        return (
            QRectF(0, top, token, row),
            QRectF(second, top, token, row),
            QRectF(bar, top + row / 2 - 4, max(8.0, right - bar - room - 4), 8),
            QRectF(right - room, top, room, row),
        )

    def _paint_row(self, painter: QPainter, top: float, pair: TokenPair, share: float) -> None:
        palette, middle = self._palette, Qt.AlignmentFlag.AlignVCenter
        first, second, bar, number = self._places(top)
        painter.setFont(font(NORMAL_PX))
        for place, token in ((first, pair.first), (second, pair.second)):
            self._write(painter, place, token)
        painter.setPen(QColor(palette.muted))
        between = QRectF(first.right(), top, second.left() - first.right(), first.height())
        painter.drawText(between, Qt.AlignmentFlag.AlignCenter, self._joint)
        painter.fillRect(bar, QColor(palette.grid))
        bar.setWidth(bar.width() * share)
        painter.fillRect(bar, QColor(palette.accent if pair.value >= 0 else palette.muted))
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.text))
        painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, value_text(pair.value))

    def _write(self, painter: QPainter, place: QRectF, token: Token) -> None:
        painter.setPen(QColor(self._palette.muted if token.is_special else self._palette.text))
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(plain_piece(token.piece), Qt.TextElideMode.ElideMiddle, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, isolated(text))

    def _words(self, pair: TokenPair) -> str:
        names = (plain_piece(pair.first.piece), plain_piece(pair.second.piece))
        return f"“{names[0]}” {self._joint} “{names[1]}”: {value_text(pair.value)}"

    def _fit(self) -> None:
        self.setFixedHeight(round(type_px(_HEAD_PX) + len(self._pairs) * type_px(_ROW_PX)))
        self.update()


def value_text(value: float) -> str:
    """A value with two decimals, small ones with two digits."""
    text = f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"
    return text.replace("-", "−")
