"""Written tokens as chips, coloured by the probability that the model gave them."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip

from attnscope.counting import probability_text
from attnscope.figures.colours import contrast, lut
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, text_width, type_px
from attnscope.records.generation import WrittenToken
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_strip import Chip, place_chips

_ROW_PX = 28
_INKS = ("#ffffff", "#0d1420")


def probability_colour(name: str, probability: float) -> str:
    """The colour of a probability (0…1) in a colour map, as `#rrggbb`."""
    rgb = lut("viridis" if name == "diverging" else name)[round(255 * min(max(probability, 0.0), 1.0))]
    return "#" + "".join(f"{int(part):02x}" for part in rgb)


class WrittenStrip(Dressed):
    """Shows written tokens; click and arrow keys choose one, Esc none (−1)."""

    step_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._colour_map = "viridis"
        self._tokens: tuple[WrittenToken, ...] = ()
        self._chips: tuple[Chip, ...] = ()
        self._chosen: int | None = None
        self.setAccessibleName("Generated tokens")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._place()

    def show_tokens(self, tokens: tuple[WrittenToken, ...]) -> None:
        if tokens != self._tokens:
            self._tokens = tokens
            self.setAccessibleDescription(" ".join(token.token.piece for token in tokens[:100]))
            self._place()

    def show_chosen(self, step: int | None) -> None:
        """Mark the token that is looked at."""
        if step != self._chosen:
            self._chosen = step
            self.update()

    def set_colour_map(self, name: str) -> None:
        """Colour probabilities as maps colour weights."""
        self._colour_map = name
        self.update()

    def dress(self) -> None:
        self._place()

    def chips(self) -> tuple[Chip, ...]:
        """Where every token stands."""
        return self._chips

    def chip_rect(self, step: int) -> QRectF:
        """Where one token stands."""
        return self._chips[step].rect

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(NORMAL_PX))
            for step, chip in enumerate(self._chips):
                self._paint_chip(painter, step, chip)
            if self.hasFocus() and self._chosen is None and self._chips:
                painter.setPen(QPen(QColor(self.theme.accent), 1.0))
                painter.drawLine(QPointF(0, self.height() - 0.5), QPointF(self.width(), self.height() - 0.5))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self._step_at(event.position())
        if at is not None:
            self.step_chosen.emit(at)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._chips) - 1
        at = -1 if self._chosen is None else self._chosen
        places = {
            Qt.Key.Key_Right: min(at + 1, last),
            Qt.Key.Key_Left: max(at - 1, 0) if at >= 0 else last,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        key = Qt.Key(event.key())
        if key == Qt.Key.Key_Escape and self._chosen is not None:
            self.step_chosen.emit(-1)
        elif key in places and last >= 0:
            self.step_chosen.emit(places[key])
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            at = self._step_at(QPointF(event.pos()))  # type: ignore[attr-defined]
            text = "" if at is None else self.tooltip_of(at)
            QToolTip.showText(event.globalPos(), plain_tooltip(text), self)  # type: ignore[attr-defined]
            return True
        return super().event(event)

    def tooltip_of(self, step: int) -> str:
        """What the tooltip of one token says, as plain text."""
        token = self._tokens[step]
        drawn = "" if token.chance == 1.0 else f"\ndrawn with {probability_text(token.chance)}"
        return (
            f"{isolated(plain_piece(token.token.piece, max_characters=200))}   id {token.token.id}\n"
            f"generated token {step + 1} of {len(self._tokens)}\n"
            f"probability {probability_text(token.probability)}{drawn}"
        )

    def _step_at(self, place: QPointF) -> int | None:
        return next((k for k, chip in enumerate(self._chips) if chip.rect.contains(place)), None)

    def _place(self) -> None:
        tokens = [token.token for token in self._tokens]
        self._chips, n_rows = place_chips(tokens, max(self.width() - 2, 40))
        self.setFixedHeight(n_rows * round(type_px(_ROW_PX)))
        self.update()

    def _paint_chip(self, painter: QPainter, step: int, chip: Chip) -> None:
        fill = probability_colour(self._colour_map, self._tokens[step].probability)
        rect = chip.rect.adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(rect, 4, 4)
        if step == self._chosen:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(self.theme.background), 4.0))
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), 4, 4)
            painter.setPen(QPen(QColor(self.theme.accent), 2.0))
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setPen(QColor(max(_INKS, key=lambda ink: contrast(ink, fill))))
        painter.drawText(chip.rect, Qt.AlignmentFlag.AlignCenter, isolated(chip.text))


class ProbabilityKey(Dressed):
    """The colours of probabilities from 0 to 1, in one line."""

    def __init__(self) -> None:
        super().__init__()
        self._colour_map = "viridis"
        self.setAccessibleName("Colours of probabilities")
        self.setToolTip("Probability that the model gave each token, from 0 to 1.")
        self._fit()

    def set_colour_map(self, name: str) -> None:
        """Show another colour map."""
        self._colour_map = name
        self.update()

    def dress(self) -> None:
        self._fit()

    def paintEvent(self, _event: QPaintEvent) -> None:
        width = text_width("0") + 4
        bar = QRectF(width, self.height() / 2 - 4, self.width() - 2 * width, 8)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for k in range(9):
            gradient.setColorAt(k / 8, QColor(probability_colour(self._colour_map, k / 8)))
        with QPainter(self) as painter:
            painter.fillRect(bar, gradient)
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(0, 0, width, self.height()), middle, "0")
            painter.drawText(
                QRectF(bar.right(), 0, width, self.height()), middle | Qt.AlignmentFlag.AlignRight, "1"
            )

    def _fit(self) -> None:
        self.setFixedSize(round(type_px(72)), round(type_px(16)))
        self.update()
