"""The table of what an output token owes to the inputs: input tokens down, methods across, coloured chips."""

import numpy as np
from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, text_width, type_px
from attnscope.records.influence import METHODS, Method
from attnscope.viewmodels.causes.across_layers import METHOD_TIPS, AcrossState, number_words, tip_words
from attnscope.widgets.labels import plain_tooltip

_ROW_PX, _TOKEN_PX, _CELL_PX, _GAP_PX = 22, 56, 44, 3
_STRONGEST = 0.62
_Line = int | str
"""A key, or the title of those that follow."""


class AcrossGrid(QWidget):
    """The table itself, painted as far as it can be seen."""

    def __init__(self, state: AcrossState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state, self._palette = state, palette
        self._lines: tuple[_Line, ...] = ()
        self.setAccessibleName("What the output token owes to each input")
        self.setSizePolicy(QSizePolicy.Policy.MinimumExpanding, QSizePolicy.Policy.Fixed)

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self.show_rows()

    def show_rows(self) -> None:
        """Fit the table and paint it."""
        shown = self._state.shown
        if shown is not None and all(found.weights is None for found in shown.rows):
            shown = None  # every method has refused: the note above says why
        keys: list[_Line] = list(range(len(shown.keys))) if shown is not None else []
        if shown is not None and shown.n_source:
            keys.insert(shown.n_source, "target so far")
            keys.insert(0, "source")
        self._lines = tuple(keys)
        self.setFixedHeight(self.sizeHint().height())
        self.setMinimumWidth(self.sizeHint().width())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Room for every input and method."""
        if not self._lines:
            return QSize(0, 0)
        width = type_px(_TOKEN_PX) + len(METHODS) * type_px(_CELL_PX)
        return QSize(round(width), round((len(self._lines) + 1) * type_px(_ROW_PX)))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the names of the methods, the tokens and their numbers."""
        if not self._lines:
            return
        row_px = type_px(_ROW_PX)
        first = max(0, int(event.rect().top() / row_px) - 1)
        last = min(len(self._lines), int(event.rect().bottom() / row_px) + 1)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self._palette.muted))
            for k, method in enumerate(METHODS):
                self._paint_method(painter, self._cell(-1, k), method, is_last=k == len(METHODS) - 1)
            numbers = {method: self._state.numbers(method) for method in METHODS}
            tops = {
                method: float(np.nanmax(found)) if found is not None and np.isfinite(found).any() else 0.0
                for method, found in numbers.items()
            }
            for line in range(first, last):
                key = self._lines[line]
                if isinstance(key, str):
                    self._paint_title(painter, line, key)
                else:
                    self._paint_token(painter, line, key)
                    for k, method in enumerate(METHODS):
                        found = numbers[method]
                        value = float(found[key]) if found is not None else float("nan")
                        self._paint_cell(painter, self._cell(line, k), value, tops[method])

    def event(self, event: QEvent) -> bool:
        """Tell about the method or the input under the cursor."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tooltip(self.tip_at(event.x(), event.y())), self)
            return True
        return super().event(event)

    def tip_at(self, x: int, y: int) -> str:
        """What is said about a place: a method's definition, or the numbers of an input."""
        line = int(y / type_px(_ROW_PX)) - 1
        if line < 0:
            method = self.method_at(x)
            return f"{method}\n{METHOD_TIPS[method]}" if method is not None else ""
        key = self._lines[line] if line < len(self._lines) else ""
        return tip_words(self._state, key) if isinstance(key, int) else ""

    def method_at(self, x: int) -> Method | None:
        """The method whose column a pixel is in."""
        column = int((x - type_px(_TOKEN_PX)) / self._cell_px())
        return METHODS[column] if x >= type_px(_TOKEN_PX) and column < len(METHODS) else None

    def _cell_px(self) -> float:
        return max(type_px(_CELL_PX), (self.width() - type_px(_TOKEN_PX)) / len(METHODS))

    def _cell(self, line: int, column: int) -> QRect:
        width = self._cell_px()
        left = round(type_px(_TOKEN_PX) + column * width)
        right = round(type_px(_TOKEN_PX) + (column + 1) * width)
        top = round((line + 1) * type_px(_ROW_PX))
        return QRect(left, top, right - left - _GAP_PX, round(type_px(_ROW_PX)) - _GAP_PX)

    def _paint_method(self, painter: QPainter, place: QRect, method: Method, *, is_last: bool) -> None:
        """A name over its column; the last one ends with it, a wider one begins further left."""
        side = Qt.AlignmentFlag.AlignRight if is_last else Qt.AlignmentFlag.AlignHCenter
        wide = max(place.width(), round(text_width(method)) + 2)
        room = place.adjusted(place.width() - wide, 0, 0, 0) if is_last else place
        if is_last and wide <= place.width():
            side = Qt.AlignmentFlag.AlignHCenter
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | side, method)

    def _paint_title(self, painter: QPainter, line: int, title: str) -> None:
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(self._palette.muted))
        place = self._cell(line, 0)
        room = QRect(0, place.y(), self.width(), place.height())
        painter.drawText(room, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft, title)

    def _paint_token(self, painter: QPainter, line: int, key: int) -> None:
        shown = self._state.shown
        if shown is None:
            return
        token, palette, place = shown.keys[key], self._palette, self._cell(line, 0)
        painter.setFont(font(NORMAL_PX))
        is_output = key - shown.n_source == shown.position
        ink = palette.accent if is_output else palette.muted if token.is_special else palette.text
        painter.setPen(QColor(ink))
        room = QRect(0, place.y(), round(type_px(_TOKEN_PX)) - 6, place.height())
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(plain_piece(token.piece), Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, isolated(text))

    def _paint_cell(self, painter: QPainter, place: QRect, value: float, top: float) -> None:
        if value != value:
            return
        palette = self._palette
        colour = QColor(palette.accent)
        colour.setAlphaF(_STRONGEST * min(max(value / top if top > 0 else 0.0, 0.0), 1.0))
        painter.setPen(Qt.PenStyle.NoPen)
        for fill in (QColor(palette.grid), colour):
            painter.setBrush(fill)
            painter.drawRoundedRect(QRectF(place), 4, 4)
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.text if value else palette.muted))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, number_words(value))
