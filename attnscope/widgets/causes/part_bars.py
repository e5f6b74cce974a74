"""The parts of an output as signed bars: a click chooses a head, the exact value is told under the cursor."""

from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip

from attnscope.counting import short_change
from attnscope.figures.colours import difference_map, lut
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.records.attribution import Contribution
from attnscope.viewmodels.causes.attributing import AttributingState, part_words
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.theme import Dressed

_ROW_PX, _LABEL_PX, _VALUE_PX, _GAP_PX, _BAR_PX = 19.0, 92.0, 42.0, 6.0, 9.0


class PartBars(Dressed):
    """Paints the parts of an AttributingState, as far as they can be seen.

    `pointed` carries the words of the part under the cursor, empty when there is none; `walked` the row that
    a key has gone to.
    """

    pointed = Signal(str)
    walked = Signal(int)

    def __init__(self, state: AttributingState) -> None:
        super().__init__()
        self._state = state
        self._parts: tuple[Contribution, ...] = ()
        self._row = -1
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("What each part adds to the difference of the two logits")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def dress(self) -> None:
        self.show_parts()

    def show_parts(self) -> None:
        """Fit the list and paint it."""
        parts = self._state.parts
        if parts != self._parts:
            self._parts, self._row = parts, -1
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def sizeHint(self) -> QSize:
        """A row for every part."""
        return QSize(220, round(len(self._parts) * type_px(_ROW_PX)))

    def row_rect(self, row: int) -> QRectF:
        """Where a part is painted."""
        return QRectF(0, row * type_px(_ROW_PX), self.width(), type_px(_ROW_PX))

    def row_at(self, y: float) -> int:
        """The part at a height, −1 below the last."""
        row = int(y / type_px(_ROW_PX))
        return row if 0 <= row < len(self._parts) else -1

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint names, bars and values of the rows that can be seen."""
        if not self._parts:
            return
        values = [part.value for part in self._parts]
        low, high = min(0.0, *values), max(0.0, *values)
        first, last = self.row_at(event.rect().top()), self.row_at(event.rect().bottom())
        shown = range(max(first, 0), last + 1 if last >= 0 else len(self._parts))
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(SMALL_PX))
            for row in shown:
                self._paint_row(painter, row, low, max(high - low, 1e-12))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Tell about the part under the cursor."""
        row = self.row_at(event.position().y())
        is_head = row >= 0 and self._parts[row].head is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if is_head else Qt.CursorShape.ArrowCursor)
        self._go_to(row)

    def leaveEvent(self, event: QEvent) -> None:
        """The cursor is gone."""
        super().leaveEvent(event)
        self._go_to(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the head of a bar; with Ctrl beside those chosen."""
        if event.button() == Qt.MouseButton.LeftButton:
            is_added = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self._choose(self.row_at(event.position().y()), is_added=is_added)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up, Down, Home and End walk the parts; Enter chooses a head."""
        last = len(self._parts) - 1
        places = {
            Qt.Key.Key_Down: min(self._row + 1, last),
            Qt.Key.Key_Up: max(self._row - 1, 0),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        key = Qt.Key(event.key())
        if key in places and last >= 0:
            self._go_to(places[key])
            self.walked.emit(self._row)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._row >= 0:
            self._choose(self._row)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """The exact value as a tooltip."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tooltip(self.words(self.row_at(event.y()))), self)
            return True
        return super().event(event)

    def words(self, row: int) -> str:
        """A part in words; empty for no row."""
        found = self._state.found
        if found is None or not 0 <= row < len(self._parts):
            return ""
        part = self._parts[row]
        gate = self._state.gate(part.head) if part.head is not None else 1.0
        return part_words(part, found.total) + (f"; its gate is {gate:g}" if gate != 1.0 else "")

    def _go_to(self, row: int) -> None:
        if row != self._row:
            self._row = row
            self.pointed.emit(self.words(row))
            self.update()

    def _choose(self, row: int, *, is_added: bool = False) -> None:
        head = self._parts[row].head if row >= 0 else None
        if head is not None:
            self._state.select(head, is_added=is_added)

    def _paint_row(self, painter: QPainter, row: int, low: float, span: float) -> None:
        part, palette, rect = self._parts[row], self.theme, self.row_rect(row)
        is_selected = part.head is not None and part.head in self._state.selected
        if row == self._row:
            painter.fillRect(rect, QColor(palette.grid))
        if is_selected:
            painter.fillRect(QRectF(0, rect.top(), 2, rect.height()), QColor(palette.accent))
        label = QRectF(6, rect.top(), type_px(_LABEL_PX) - 6, rect.height())
        value = QRectF(rect.right() - type_px(_VALUE_PX), rect.top(), type_px(_VALUE_PX) - 4, rect.height())
        self._paint_name(painter, label, part, is_selected=is_selected)
        painter.setPen(QColor(palette.text))
        side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(value, side, short_change(part.value))
        field = QRectF(label.right() + _GAP_PX, rect.top(), 0, rect.height())
        field.setRight(value.left() - _GAP_PX)
        zero = field.left() - low / span * field.width()
        end = zero + part.value / span * field.width()
        red, green, blue = lut(difference_map(palette))[255 if part.value > 0 else 0].tolist()
        high_px = type_px(_BAR_PX)
        bar = QRectF(min(zero, end), rect.center().y() - high_px / 2, abs(end - zero), high_px)
        painter.fillRect(bar, QColor(red, green, blue))
        painter.setPen(QPen(QColor(palette.muted), 1.0))
        painter.drawLine(QLineF(round(zero) + 0.5, rect.top(), round(zero) + 0.5, rect.bottom()))

    def _paint_name(self, painter: QPainter, place: QRectF, part: Contribution, *, is_selected: bool) -> None:
        """A head that is off is dimmed and struck, as everywhere."""
        palette = self.theme
        is_off = part.head is not None and self._state.gate(part.head) == 0.0
        quiet = is_off or part.kind == "bias"
        painter.setPen(QColor(palette.accent if is_selected else palette.muted if quiet else palette.text))
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(part.label, Qt.TextElideMode.ElideRight, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        if is_off:
            middle = place.center().y()
            painter.drawLine(QLineF(place.left(), middle, place.left() + text_width(text), middle))
