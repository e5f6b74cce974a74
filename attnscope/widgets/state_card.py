"""What stands where pictures will be: a title, a hint, and progress where something is happening."""

import bisect

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QProgressBar, QWidget

from attnscope.figures.style import type_px
from attnscope.viewmodels.placeholder import Placeholder
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, named

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
