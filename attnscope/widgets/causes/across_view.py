"""What an output token owes to the inputs: input tokens down, methods across, coloured chips with numbers."""

import numpy as np
from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QHideEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QToolTip, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece, plain_text
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, text_width, type_px
from attnscope.records.influence import METHODS, Method
from attnscope.viewmodels.causes.across_layers import METHOD_TIPS, AcrossState, number_words, tip_words
from attnscope.widgets.causes.output_strip import OutputStrip
from attnscope.widgets.causes.patch_maps import PatchMaps
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, listen_seen, plain_tooltip, tool_button

_ROW_PX, _TOKEN_PX, _CELL_PX, _GAP_PX, _LOW_PX = 22, 56, 44, 3, 360
_STRONGEST = 0.62
_NUMBERS = {"shares": "shares of each method's sum", "computed": "numbers as they were computed"}
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


class AcrossPanel(QWidget):
    """The table with the choice of the output token; asks for it only while it can be seen.

    Of a picture there are maps over it in the table's place. `pointed` carries words on what is under the
    cursor.
    """

    pointed = Signal(str)

    def __init__(self, state: AcrossState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.title = ElidedLabel(role="muted")
        self.numbers = ChoiceButton("numbers", "What the numbers are", _NUMBERS)
        self.numbers.chosen.connect(self._on_numbers_chosen)
        self.strip = OutputStrip(palette)
        self.strip.chosen.connect(state.choose)
        self.note = PlainLabel(role="hint")
        self.note.setWordWrap(True)
        self.grid = AcrossGrid(state, palette)
        self.maps = PatchMaps(state, palette)
        self.maps.pointed.connect(self.pointed)
        self._lay_out()
        listen_seen(self, state, self._on_state)
        self._on_state("choice")

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self.strip.set_theme(palette)
        self.grid.set_theme(palette)
        self.maps.set_theme(palette)
        self._fit_strip()

    def showEvent(self, event: QShowEvent) -> None:
        """Ask for what is missing."""
        super().showEvent(event)
        self._state.watch(True)
        self._fit_strip()

    def hideEvent(self, event: QHideEvent) -> None:
        """Ask for nothing more."""
        super().hideEvent(event)
        self._state.watch(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave room for the numbers."""
        super().resizeEvent(event)
        self._fit_strip()

    def _lay_out(self) -> None:
        self._strip_area, self.area, self.maps_area = (QScrollArea(self) for _ in range(3))
        places = ((self._strip_area, self.strip), (self.area, self.grid), (self.maps_area, self.maps))
        for area, inner in places:
            area.setWidget(inner)
            area.setWidgetResizable(True)
            area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for area in (self._strip_area, self.maps_area):
            area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 8, 8, 8)
        column.setSpacing(4)
        column.addWidget(self._strip_area)
        self.stop_button = tool_button("Stop", "Stop the attention flow", role="flat")
        self.stop_button.clicked.connect(self._state.stop)
        heading = row(self.stop_button, self.numbers)
        heading.insertWidget(0, self.title, 1)
        column.addLayout(heading)
        column.addWidget(self.note)
        column.addWidget(self.area, 1)
        column.addWidget(self.maps_area, 1)

    def _on_numbers_chosen(self, key: str) -> None:
        self._state.show_shares(key == "shares")

    def _on_state(self, _name: str) -> None:
        state = self._state
        self.strip.show_tokens(state.tokens, state.position)
        self._fit_strip()
        self.title.set_full_text(plain_text(state.heading))
        self.numbers.show_choice("shares" if state.has_shares else "computed")
        self.numbers.setText("shares ▾" if state.has_shares else "computed ▾")
        self.stop_button.setVisible(state.flow_fraction is not None)
        self.note.setText(state.note)
        self.note.setVisible(bool(state.note))
        self.grid.show_rows()
        is_note_alone = bool(state.note) and self.grid.sizeHint().isEmpty()
        is_picture = state.shown is not None and state.shown.picture is not None
        self.area.setVisible(not is_note_alone and not is_picture)  # what is said then has the whole room
        self.maps_area.setVisible(not is_note_alone and is_picture)
        self.maps.show_maps()
        self.note.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.note.setToolTip(plain_tooltip(state.note))

    def _fit_strip(self) -> None:
        """A few rows of output tokens at most, one of patches; more are scrolled to."""
        n_rows = 3 if self.height() > round(type_px(_LOW_PX)) else 2
        if self.maps_area.isVisibleTo(self):
            n_rows = 1
        self._strip_area.setFixedHeight(min(self.strip.sizeHint().height(), round(type_px(28)) * n_rows))
