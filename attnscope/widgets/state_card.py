"""What stands where pictures will be: a title, a hint, and progress where something is happening."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from attnscope.viewmodels.stage import Stage
from attnscope.widgets.labels import PlainLabel

_WIDTH_PX = 480


class StateCard(QWidget):
    """A calm sentence in the middle of empty space."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = PlainLabel(role="large")
        self._hint = PlainLabel(role="hint")
        self._hint.setWordWrap(True)
        self._hint.setMaximumWidth(_WIDTH_PX)
        self._hint.setMinimumHeight(72)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(240)
        self._progress.setAccessibleName("Progress")
        layout = QVBoxLayout(self)
        layout.setSpacing(6)
        layout.addStretch(3)
        for widget in (self._title, self._progress):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        # Between stretches and not aligned: only so is the hint given the height its width asks for.
        middle = QHBoxLayout()
        middle.addStretch(1)
        middle.addWidget(self._hint, _WIDTH_PX)
        middle.addStretch(1)
        layout.addLayout(middle)
        layout.addStretch(4)
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)

    def show_stage(self, stage: Stage) -> None:
        """Show another state."""
        self._title.setText(stage.title)
        self._hint.setText(stage.hint)
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
