"""The frame of a lab that is no plain plan: controls and numbers at the left, anything at the right."""

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from attnscope.figures.style import type_px
from attnscope.viewmodels.labs.controls import LabControls
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel
from attnscope.widgets.labs.lab_foot import LabFoot
from attnscope.widgets.labs.lab_side import lab_side, sentence_px
from attnscope.widgets.theme import Dressed

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
