"""One line at the first start of all: where to begin. It can be sent away, and does not come again."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, tool_button
from attnscope.widgets.theme import Dressed


class Invitation(Dressed):
    """A line above the page; `accepted` when the person wants to begin there."""

    accepted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.setProperty("edge", "bottom")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Invitation to the tours")
        self.open_button = QPushButton("Open Learn")
        self.close_button = tool_button("", "Send the invitation away", role="flat")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(16, 3, 8, 3)
        layout.addWidget(PlainLabel("New here? Guided tours show on this window what attention computes."))
        layout.addWidget(self.open_button)
        layout.addStretch(1)
        layout.addWidget(self.close_button)
        self.open_button.clicked.connect(self._on_open)
        self.close_button.clicked.connect(self.hide)
        self.dress()
        self.hide()

    def dress(self) -> None:
        self.close_button.setIcon(icon("close", self.theme.muted, side_px=16))

    def _on_open(self) -> None:
        self.hide()
        self.accepted.emit()
