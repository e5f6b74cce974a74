"""The measures of one head, each as a bar that shows where it stands among all heads."""

import math

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, text_width, type_px
from attnscope.viewmodels.session.head_measures import MEASURES, MeasureKind, MeasureShown
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.theme import Dressed

_ROW_PX, _VALUE_PX = 24, 40


def names_px() -> float:
    """The width of the longest name, so that none is cut."""
    return max(text_width(kind.name, NORMAL_PX) for kind in MEASURES)


class MeasureRow(Dressed):
    """One measure: name, bar with a tick for every head, value."""

    def __init__(self, kind: MeasureKind) -> None:
        super().__init__()
        self._kind = kind
        self._shown: MeasureShown | None = None
        self._name_px = names_px()
        self.setFixedHeight(round(type_px(_ROW_PX)))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(plain_tooltip(f"{kind.name}, {kind.unit}\n{kind.definition}"))
        self.setAccessibleName(kind.name)

    def show_measure(self, shown: MeasureShown | None) -> None:
        """Show another value."""
        if shown == self._shown:
            return
        self._shown = shown
        if shown:
            self.setToolTip(plain_tooltip(shown.tooltip))
            self.setAccessibleDescription(f"{shown.text} {shown.kind.unit}")
        self.update()

    def dress(self) -> None:
        self._name_px = names_px()
        self.setFixedHeight(round(type_px(_ROW_PX)))

    def sizeHint(self) -> QSize:
        """Room for name, bar and value."""
        return QSize(240, round(type_px(_ROW_PX)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint name, bar and value."""
        palette, shown = self.theme, self._shown
        middle = Qt.AlignmentFlag.AlignVCenter
        with QPainter(self) as painter:
            painter.setFont(font(NORMAL_PX))
            painter.setPen(QColor(palette.muted))
            row, name, room = type_px(_ROW_PX), self._name_px, type_px(_VALUE_PX)
            painter.drawText(QRectF(0, 0, name, row), middle, self._kind.name)
            bar = QRectF(name + 8, row / 2 - 4, self.width() - name - room - 16, 8)
            painter.fillRect(bar, QColor(palette.grid))
            painter.setPen(QColor(palette.text))
            value = QRectF(self.width() - room, 0, room, row)
            painter.setFont(font(SMALL_PX if shown is None else NORMAL_PX))
            painter.drawText(value, middle | Qt.AlignmentFlag.AlignRight, shown.text if shown else "–")
            if shown:
                _paint_bar(painter, bar, shown, palette)


def _paint_bar(painter: QPainter, bar: QRectF, shown: MeasureShown, palette: Palette) -> None:
    left, width = bar.x(), bar.width()
    if math.isfinite(shown.place):
        own = width * min(max(shown.place, 0.0), 1.0)
        painter.fillRect(QRectF(left, bar.y(), own, bar.height()), QColor(palette.accent))
    tick, top = QColor(palette.muted), bar.bottom() + 1
    for place in {min(max(place, 0.0), 1.0) for place in shown.others}:
        painter.fillRect(QRectF(left + (width - 1) * place, top, 1, 4), tick)


class MeasureRows(QWidget):
    """Every measure of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = tuple(MeasureRow(kind) for kind in MEASURES)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for row in self.rows:
            layout.addWidget(row)

    def show_measures(self, measures: tuple[MeasureShown, ...]) -> None:
        """Show other values; none are shown when there are none."""
        for k, row in enumerate(self.rows):
            row.show_measure(measures[k] if k < len(measures) else None)
