"""The buttons below the controls of every lab: undo, redo, the example again, export."""

from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton

from attnscope.viewmodels.labs.controls import LabControls
from attnscope.widgets.form_parts import row
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import push_button, tool_button
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
