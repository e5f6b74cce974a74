"""More steps for a complete run: how many, and what becomes of its learning rate."""

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPushButton, QSpinBox, QVBoxLayout, QWidget

from attnscope.counting import counted
from attnscope.figures.style import type_px
from attnscope.viewmodels.training.longer import longer_words
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.form_parts import inset_text, row
from attnscope.widgets.labels import PlainLabel

_WIDTH_PX, _TOLD_PX = 440, 56
_MOST = 10**9


class LongerDialog(QDialog):
    """Asks how many steps more; the state then goes on with the run."""

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setWindowTitle("More steps")
        self.setMinimumWidth(round(type_px(_WIDTH_PX)))
        self.n_more = QSpinBox()
        self.n_more.setAccessibleName("Steps more")
        self.n_more.setGroupSeparatorShown(True)
        self.n_more.setRange(1, max(1, _MOST - state.step))
        self.n_more.setValue(max(state.recipe.n_steps - state.step, 0) or max(1, state.step))
        self.n_more.selectAll()
        inset_text(self.n_more)
        self._told = PlainLabel("", "muted")
        self._told.setWordWrap(True)
        self._told.setMinimumHeight(round(type_px(_TOLD_PX)))
        self._told.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.go_on = QPushButton("Go on")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        buttons.addButton(self.go_on, QDialogButtonBox.ButtonRole.AcceptRole)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 16)
        layout.setSpacing(12)
        layout.addLayout(
            row(
                PlainLabel(f"{counted(state.step, 'step is', 'steps are')} made. Steps more"),
                self.n_more,
                None,
            )
        )
        layout.addWidget(self._told)
        layout.addStretch(1)
        layout.addWidget(buttons)
        self.go_on.setDefault(True)  # not before it is in the dialog, or Enter would press the other
        self.n_more.valueChanged.connect(self._show_words)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self._show_words()

    def accept(self) -> None:
        """Go on with the run and close."""
        super().accept()
        self._state.lengthen(self.n_more.value())

    @Slot()
    def _show_words(self) -> None:
        self._told.setText(longer_words(self._state.recipe.text, self._state.step, self.n_more.value()))
