"""What stands where a picture will be, or lies over one that is out of date."""

import bisect
from collections.abc import Callable

from PySide6.QtCore import QObject, QRect, QRectF, Qt, QTimer, Slot
from PySide6.QtGui import QColor, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QProgressBar, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.style import LARGE_PX, NORMAL_PX, font, type_px
from attnscope.viewmodels.session.notices import Placeholder
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, named


def paint_placeholder(painter: QPainter, rect: QRectF, palette: Palette, title: str, text: str) -> None:
    """Say what belongs here and what to do, in the middle of `rect`."""
    middle = rect.center().y()
    painter.setFont(font(LARGE_PX))
    painter.setPen(QColor(palette.muted))
    above = QRectF(rect.left() + 16, middle - type_px(36), rect.width() - 32, type_px(28))
    painter.drawText(above, Qt.AlignmentFlag.AlignCenter, title)
    painter.setFont(font(NORMAL_PX))
    below = QRectF(rect.left() + 24, middle, rect.width() - 48, type_px(60))
    align = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
    painter.drawText(below, align, text)


def paint_veil(painter: QPainter, rect: QRectF, palette: Palette) -> None:
    """Dim what is out of date."""
    veil = QColor(palette.background)
    veil.setAlphaF(0.5)
    painter.fillRect(rect, veil)


def paint_focus(painter: QPainter, rect: QRect, palette: Palette) -> None:
    """Frame the view that hears the keyboard."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.accent), 1.0))
    painter.drawRect(rect.adjusted(0, 0, -1, -1))


_WIDTH_PX, _LEAST_PX, _MARGIN_PX = 480, 120, 16
_MOST_PX = 10_000


class StateCard(QWidget):
    """A calm sentence in the middle of empty space."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = PlainLabel(role="large")
        self._hint = PlainLabel(role="hint", wraps=True)
        self._hint.setMinimumHeight(72)
        self._progress = named(QProgressBar(textVisible=False), "Progress")
        self._progress.setFixedWidth(240)
        layout = column(on=self, margins=None, spacing=6)
        layout.addStretch(3)
        for widget in (self._title, self._progress):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        # Between stretches and not aligned: only so is the hint given the height its width asks for.
        middle = row(None, self._hint, None, spacing=-1)
        layout.addLayout(middle)
        layout.addStretch(4)
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._even_lines()

    def _even_lines(self) -> None:
        """As narrow as the hint is with the lines it needs, so that no single word is left for the last."""
        metrics, text = self._hint.fontMetrics(), self._hint.text()

        def height(width: int) -> int:
            room = QRect(0, 0, width, _MOST_PX)
            return metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, text).height()

        widest = max(min(round(type_px(_WIDTH_PX)), self.width() - 2 * _MARGIN_PX), _LEAST_PX)
        least = height(widest)
        even = bisect.bisect_left(range(widest), True, lo=_LEAST_PX, key=lambda width: height(width) <= least)
        self._hint.setFixedWidth(even + 2)

    def show_stage(self, stage: Placeholder) -> None:
        """Show another state."""
        self._title.setText(stage.title)
        self._hint.setText(stage.hint)
        self._even_lines()
        self.setAccessibleName(f"{stage.title} {stage.hint}")
        policy = self._progress.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self._progress.setSizePolicy(policy)
        self._progress.setVisible(stage.is_working)
        if stage.fraction is None:
            self._progress.setRange(0, 0 if stage.is_working else 100)
        else:
            self._progress.setRange(0, 100)
            self._progress.setValue(round(100 * min(max(stage.fraction, 0.0), 1.0)))


_PATIENCE_MS = 160


class StaleWatch(QObject):
    """Tells `show` whether what is shown `is_stale`; quick answers pass without a flicker."""

    def __init__(self, is_stale: Callable[[], bool], show: Callable[[bool], None], parent: QObject) -> None:
        super().__init__(parent)
        self._is_stale, self._show = is_stale, show
        self._is_shown = False
        self._timer = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._timer.timeout.connect(self._on_time_up)

    def check(self) -> None:
        """Something was posted or received."""
        if not self._is_stale():
            self._timer.stop()
            self._set(False)
        elif not self._timer.isActive() and not self._is_shown:
            self._timer.start()

    @Slot()
    def _on_time_up(self) -> None:
        self._set(self._is_stale())

    def _set(self, is_stale: bool) -> None:
        if is_stale != self._is_shown:
            self._is_shown = is_stale
            self._show(is_stale)
