"""The frame of a lab: what scrolls at the left, the buttons that stay below it, anything at the right."""

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QWidget

from attnscope.figures.style import type_px
from attnscope.viewmodels.labs.controls import LabControls
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, ground, push_button, tool_button
from attnscope.widgets.theme import Dressed


class LabFoot(Dressed):
    """Works on the controls of a lab once it is shown them; `export_wanted` asks for the export dialog."""

    export_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.undo_button = tool_button("", "Undo the last change in this lab")
        self.redo_button = tool_button("", "Redo the change in this lab")
        self.reset_button = QPushButton("Reset")
        self.export_button = push_button("Export…", clicked=self.export_wanted)
        self.undo_button.setToolTip("Undo the last change in this lab (Ctrl+Z)")
        self.redo_button.setToolTip("Redo the change in this lab (Ctrl+Y)")
        self.reset_button.setToolTip("Restore the example: every control at its default")
        self.export_button.setToolTip("The picture as SVG, PDF or PNG, its numbers as CSV or NPZ (Ctrl+E)")
        row(
            self.undo_button,
            self.redo_button,
            self.reset_button,
            None,
            self.export_button,
            on=self,
            margins=(12, 6, 12, 8),
            spacing=4,
        )
        for button in (self.undo_button, self.redo_button, self.reset_button):
            button.setEnabled(False)
        self.dress()

    def work_on(self, controls: LabControls[Any]) -> None:
        """Let the buttons undo, redo and reset these controls."""
        self.undo_button.clicked.connect(lambda: controls.undo())
        self.redo_button.clicked.connect(lambda: controls.redo())
        self.reset_button.clicked.connect(lambda: controls.reset())
        self.show_possible(controls)

    def show_possible(self, controls: LabControls[Any]) -> None:
        """Enable what can be done now."""
        self.undo_button.setEnabled(controls.can_undo)
        self.redo_button.setEnabled(controls.can_redo)
        self.reset_button.setEnabled(not controls.is_example)

    def dress(self) -> None:
        self.undo_button.setIcon(icon("undo", self.theme.text, side_px=16))
        self.redo_button.setIcon(icon("redo", self.theme.text, side_px=16))


def lab_side(inside: QWidget, foot: QWidget) -> QWidget:
    """A panel of `inside`, which scrolls downwards, over the buttons of the lab."""
    area = QScrollArea(widgetResizable=True)
    area.setWidget(inside)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    side = ground(QWidget(), "panel", edge="right")
    column((area, 1), foot, on=side, margins=(0, 0, 1, 0), spacing=0)
    return side


def sentence_px(width: int) -> int:
    """The height for a lab's sentence beside its side: two lines, or more where they are short."""
    n_lines = 2 if width > type_px(1000) else 3 if width > type_px(560) else 4
    return round(type_px(19 * n_lines + 2))


_SIDE_PX = 258


class LabFrame(Dressed):
    """`side` and `picture` are the layouts to fill; `looked_at` when the lab is shown.

    `controls` is what is set in the lab.
    """

    export_wanted = Signal()
    hover_text = Signal(str)
    looked_at = Signal()

    def __init__(self, title: str, controls: LabControls[Any]) -> None:
        super().__init__()
        self.controls = controls
        self.sentence = PlainLabel(role="name", wraps=True)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        inside = QWidget()
        whole = column(PlainLabel(title, "name"), 4, on=inside, margins=12, spacing=6)
        self.side = column(spacing=6)
        whole.addLayout(self.side)
        whole.addStretch(1)
        self.foot = LabFoot()
        self.foot.work_on(controls)
        self.foot.export_wanted.connect(self.export_wanted)
        self._side = lab_side(inside, self.foot)
        self.picture = column(self.sentence, margins=(16, 12, 12, 8))
        row(self._side, (self.picture, 1), on=self, spacing=0)

    def add_to_side(self, *parts: QWidget | QHBoxLayout) -> None:
        """Controls, one under the other."""
        for part in parts:
            if isinstance(part, QWidget):
                self.side.addWidget(part)
            else:
                self.side.addLayout(part)

    def dress(self) -> None:
        self.fit_frame()

    def fit_frame(self) -> None:
        """Make room for the present size of type."""
        self._side.setFixedWidth(round(type_px(_SIDE_PX)))
        self.sentence.setFixedHeight(sentence_px(self.width() - self._side.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit_frame()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.looked_at.emit()
