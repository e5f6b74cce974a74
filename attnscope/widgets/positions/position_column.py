"""One encoding on the positions page: its name, its matrix and its similarity map, one above the other."""

import numpy as np
from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from attnscope.counting import number_text
from attnscope.records.positions import PositionTable
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel
from attnscope.widgets.positions.position_map import PositionMap

_NOTE_LINES, _BELOW_NOTE_PX = 3, 4


class PositionColumn(QWidget):
    """Shows one PositionTable; cursors and views are told to the page, which tells all columns."""

    matrix_hovered = Signal(int, int)
    cosine_hovered = Signal(int, int)
    left = Signal()
    matrix_moved = Signal(QRectF)
    cosine_moved = Signal(QRectF)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table: PositionTable | None = None
        self._swatch = _Swatch()
        self._title = PlainLabel(role="name")
        self._note = ElidedLabel(role="muted", n_lines=_NOTE_LINES)
        self._note.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._matrix_value = PlainLabel(role="value")
        self._cosine_value = PlainLabel(role="value")
        self.matrix = PositionMap("dimension", "position")
        self.cosine = PositionMap("position", "position", is_square=True)
        self._scale = ElidedLabel(role="muted")
        layout = column(self, spacing=2)
        layout.addLayout(row(self._swatch, self._title, None))
        layout.addWidget(self._note)
        self._maps = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._maps.setSpacing(8)
        cosine_title = ElidedLabel("Cosine similarity, to ±1", "muted")
        for title, value, shown in (
            (self._scale, self._matrix_value, self.matrix),
            (cosine_title, self._cosine_value, self.cosine),
        ):
            part = QWidget()
            inside = column(part, spacing=0)
            heading = row(title, value)
            heading.setStretch(0, 1)
            inside.addLayout(heading)
            inside.addWidget(shown, 1)
            self._maps.addWidget(part, 1)
        layout.addLayout(self._maps, 1)
        self.matrix.hovered.connect(self.matrix_hovered)
        self.cosine.hovered.connect(self.cosine_hovered)
        self.matrix.view_moved.connect(self.matrix_moved)
        self.cosine.view_moved.connect(self.cosine_moved)
        self.matrix.left.connect(self.left)
        self.cosine.left.connect(self.left)

    def show_table(self, table: PositionTable, title: str, colour: str) -> None:
        """Show another table; what was read out of the last one is gone."""
        self.clear_cursors()
        self.table = table
        self._title.setText(title)
        self._swatch.set_colour(colour)
        self._note.set_full_text(table.note)
        finite = np.abs(table.matrix[np.isfinite(table.matrix)])
        limit = float(finite.max()) if finite.size else 0.0
        self._scale.set_full_text(f"Encoding, to ±{limit:.4g}")
        self.matrix.set_labels(*table.axes)
        self.cosine.set_labels(table.axes[1], table.axes[1])
        self.matrix.set_values(table.matrix, limit)
        self.cosine.set_values(table.cosine, 1.0)

    def note_height(self, width: int) -> int:
        """How high the note is in this width, in px; 0 without one."""
        metrics, words = self._note.fontMetrics(), self._note.full_text()
        room = QRect(0, 0, width, _NOTE_LINES * metrics.lineSpacing())
        return min(metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height(), room.height())

    def set_note_height(self, height: int) -> None:
        """Keep this room for the note, so that the maps of all columns begin at one height."""
        self._note.setFixedHeight(height + _BELOW_NOTE_PX if height else 0)
        self._note.setVisible(height > 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the maps beside each other where there is more width than height."""
        super().resizeEvent(event)
        is_wide = event.size().width() > 1.25 * event.size().height()
        direction = QBoxLayout.Direction.LeftToRight if is_wide else QBoxLayout.Direction.TopToBottom
        self._maps.setDirection(direction)

    def set_stale(self, is_stale: bool) -> None:
        """Dim both maps."""
        self.matrix.set_stale(is_stale)
        self.cosine.set_stale(is_stale)

    @Slot(int, int)
    def show_matrix_cursor(self, position: int, dimension: int) -> None:
        """Mark a cell of the matrix and write its value."""
        self.matrix.set_cursor((position, dimension))
        self._matrix_value.setText(_text(self.matrix.value_at((position, dimension))))

    @Slot(int, int)
    def show_cosine_cursor(self, first: int, second: int) -> None:
        """Mark a cell of the similarity map and write its value."""
        self.cosine.set_cursor((first, second))
        self._cosine_value.setText(_text(self.cosine.value_at((first, second))))

    @Slot()
    def clear_cursors(self) -> None:
        """Take the marks away."""
        self.matrix.set_cursor(None)
        self.cosine.set_cursor(None)
        self._matrix_value.setText("")
        self._cosine_value.setText("")


class _Swatch(QWidget):
    """A short piece of the line that stands for this encoding below."""

    def __init__(self) -> None:
        super().__init__()
        self._colour = QColor()
        self.setFixedSize(self.sizeHint())

    def set_colour(self, colour: str) -> None:
        self._colour = QColor(colour)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(16, 16)

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(0, 7, 16, 3, self._colour)


def _text(value: float | None) -> str:
    return "" if value is None else number_text(value)
