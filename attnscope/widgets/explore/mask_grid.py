"""The grid of a mask: tokens × tokens, allowed by click, drag and keyboard."""

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy

from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.viewmodels.session.masking import Cell, MaskState
from attnscope.widgets.panning import ARROWS
from attnscope.widgets.theme import Dressed

_LEAST_PX, _MOST_PX, _PAD_PX, _MARK_PX = 15, 48, 6, 14
_LONGEST = 14


class MaskGrid(Dressed):
    """Shows and paints the cells of `state`; `pointed_at` carries the cell under cursor or keys."""

    pointed_at = Signal(int, int)
    cell_moved = Signal(QRect)

    def __init__(self, state: MaskState) -> None:
        super().__init__()
        self._state = state
        self._cells = state.cells
        self._names: tuple[str, ...] = ()
        self._cell_px, self._left_px, self._top_px = 20, 80, 80
        self._room = QSize(480, 420)
        self._cursor: Cell = (0, 0)
        self._hovered: Cell | None = None
        self._stroke: tuple[bool, Cell] | None = None
        self.setAccessibleName("Mask: rows queries, columns keys")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def dress(self) -> None:
        self._measure()

    def show_state(self) -> None:
        """Show the cells as they are now."""
        self._cells = self._state.cells
        names = tuple(plain_piece(token.piece, max_characters=_LONGEST) for token in self._state.tokens)
        if names != self._names:
            self._names, self._cursor, self._hovered = names, (0, 0), None
            self._measure()
        self.update()

    def fit(self, room: QSize) -> None:
        """Make the cells as large as there is room for."""
        self._room = room
        self._measure()

    def cell_at(self, place: QPointF) -> Cell | None:
        """The cell at a place of the widget."""
        row = int((place.y() - self._top_px) // self._cell_px)
        column = int((place.x() - self._left_px) // self._cell_px)
        n = len(self._names)
        return (row, column) if 0 <= row < n and 0 <= column < n else None

    def cell_rect(self, cell: Cell) -> QRectF:
        """Where a cell is."""
        side = float(self._cell_px)
        return QRectF(self._left_px + cell[1] * side, self._top_px + cell[0] * side, side, side)

    def sizeHint(self) -> QSize:
        n = max(1, len(self._names))
        return QSize(self._left_px + n * self._cell_px + 2, self._top_px + n * self._cell_px + 2)

    # What the person does

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and cell and not self._state.is_locked(*cell):
            self._cursor = cell
            self._state.begin_stroke()
            self._stroke = (not bool(self._cells[cell]), cell)
            self._state.paint([cell], self._stroke[0])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position())
        if self._stroke is not None and cell is not None and cell != self._stroke[1]:
            value, last = self._stroke
            wanted = [c for c in _between(last, cell) if not self._state.is_locked(*c)]
            self._stroke = (value, cell)
            if wanted:
                self._state.paint(wanted, value)
        self._point_at(cell)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if self._stroke is not None:
            self._stroke = None
            self._state.end_stroke()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = ARROWS.get(Qt.Key(event.key()))
        n = len(self._names)
        if step is not None and n:
            before = self._cursor
            self._cursor = (min(max(before[0] + step[0], 0), n - 1), min(max(before[1] + step[1], 0), n - 1))
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self._paint_key(bool(self._cells[before]))
            self.cell_moved.emit(self.cell_rect(self._cursor).toRect())
            self._point_at(self._cursor)
        elif event.key() == Qt.Key.Key_Space and n:
            self._paint_key(not bool(self._cells[self._cursor]))
            self._point_at(self._cursor)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point_at(None)

    def _paint_key(self, is_allowed: bool) -> None:
        if not self._state.is_locked(*self._cursor):
            self._state.begin_stroke()
            self._state.paint([self._cursor], is_allowed)
            self._state.end_stroke()

    def _point_at(self, cell: Cell | None) -> None:
        if cell != self._hovered:
            self._hovered = cell
            self.pointed_at.emit(*(cell or (-1, -1)))
            if cell is not None:
                self.setAccessibleDescription(self._state.cell_sentence(*cell))
            self.update()

    # Painting

    def _measure(self) -> None:
        n = max(1, len(self._names))
        widest = max((text_width(name, SMALL_PX) for name in self._names), default=24.0)
        self._left_px = round(widest + 2 * _PAD_PX + type_px(_MARK_PX))
        self._top_px = round(widest + 2 * _PAD_PX)
        room = min(self._room.width() - self._left_px, self._room.height() - self._top_px) - 4
        least, most = round(type_px(_LEAST_PX)), round(type_px(_MOST_PX))
        self._cell_px = min(max(room // n, least), most)
        self.setFixedSize(self.sizeHint())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        n = len(self._names)
        if not n:
            return
        with QPainter(self) as painter:
            painter.setClipRect(event.rect())
            self._paint_cells(painter, event.rect())
            self._paint_names(painter, event.rect())
            for cell, width in ((self._hovered, 1.0), (self._cursor if self.hasFocus() else None, 2.0)):
                if cell is not None:
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.setPen(QPen(QColor(self.theme.text), width))
                    painter.drawRect(self.cell_rect(cell))

    def _paint_cells(self, painter: QPainter, area: QRect) -> None:
        palette, n = self.theme, len(self._names)
        first_row, last_row = self._span(area.top() - self._top_px, area.bottom() - self._top_px, n)
        first, last = self._span(area.left() - self._left_px, area.right() - self._left_px, n)
        painter.setPen(QPen(QColor(palette.line), 1.0))
        for i in range(first_row, last_row):
            for j in range(first, last):
                rect = self.cell_rect((i, j))
                if self._state.is_locked(i, j):
                    painter.fillRect(rect, QColor(palette.not_allowed))
                    painter.fillRect(rect, QBrush(QColor(palette.hatch), Qt.BrushStyle.BDiagPattern))
                else:
                    painter.fillRect(
                        rect, QColor(palette.accent if self._cells[i, j] else palette.background)
                    )
                painter.drawRect(rect)

    def _paint_names(self, painter: QPainter, area: QRect) -> None:
        palette, blind = self.theme, set(self._state.blind)
        row, column = self._hovered or (-1, -1)
        painter.setFont(font(SMALL_PX))
        side, flags = self._cell_px, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for k, name in enumerate(self._names):
            place = self._top_px + k * side
            if area.top() - side <= place <= area.bottom() + side:
                ink = palette.warning if k in blind else palette.accent if k == row else palette.text
                painter.setPen(QColor(ink))
                box = QRectF(0, place, self._left_px - _PAD_PX, side)
                painter.drawText(box, flags, isolated(f"∅ {name}" if k in blind else name))
            left = self._left_px + k * side
            if area.left() - side <= left <= area.right() + side:
                painter.setPen(QColor(palette.accent if k == column else palette.text))
                painter.save()
                painter.translate(left + side / 2, self._top_px - _PAD_PX)
                painter.rotate(-90)
                box = QRectF(0, -side / 2, self._top_px, side)
                painter.drawText(
                    box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, isolated(name)
                )
                painter.restore()

    def _span(self, low: int, high: int, n: int) -> tuple[int, int]:
        return max(0, low // self._cell_px), min(n, high // self._cell_px + 1)


def _between(first: Cell, last: Cell) -> list[Cell]:
    """The cells on the way from one to another, without the first."""
    n = max(abs(last[0] - first[0]), abs(last[1] - first[1]))
    return [
        (
            first[0] + round((last[0] - first[0]) * k / n),
            first[1] + round((last[1] - first[1]) * k / n),
        )
        for k in range(1, n + 1)
    ]
