"""A place to write down what one sees; saved with the session and its automatic copy."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.viewmodels.session.notes import NotesState
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, listen, tool_button
from attnscope.widgets.window.right_edge import RightEdge

_WIDTH_PX = 320
_NEARLY_FULL = 1000
_EMPTY = (
    "Write down what you see: which head does what, what to try next, what to say in the talk.\n\n"
    "Plain text. It is saved in the session file, and a copy is kept while you work."
)


class NotesPanel(QWidget):
    """The notes of a session as plain text, over the right edge of `over`."""

    def __init__(self, notes: NotesState, palette: Palette, over: QWidget) -> None:
        super().__init__(over)
        self._notes = notes
        self._edge = RightEdge(self, over, _WIDTH_PX)
        self.setProperty("role", "panel")
        self.setProperty("edge", "left")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.edit = QPlainTextEdit()
        self.edit.setAccessibleName("Notes of this session")
        self.edit.setPlaceholderText(_EMPTY)
        self.edit.setTabChangesFocus(True)
        self.close_button = tool_button("", "Close the notes", role="flat")
        self.close_button.setToolTip("Close")
        self.hint = PlainLabel("Saved with the session.", "muted")
        self._lay_out()
        self.edit.textChanged.connect(self._on_text_changed)
        self.set_theme(palette)
        listen(self, notes, self._on_notes)

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._edge.place()
        self.close_button.setIcon(icon("close", palette.muted, side_px=16))

    def setVisible(self, is_visible: bool) -> None:
        super().setVisible(is_visible)
        if is_visible:
            self._edge.place()

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.addWidget(PlainLabel("Notes", "name"), 1)
        heading.addWidget(self.close_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 16)
        layout.setSpacing(8)
        layout.addLayout(heading)
        layout.addWidget(self.hint)
        layout.addWidget(self.edit, 1)

    def _on_text_changed(self) -> None:
        self._notes.write(self.edit.toPlainText())
        n_left = self._notes.n_left
        self.hint.setText(
            f"Room for {n_left:,} more characters." if n_left < _NEARLY_FULL else "Saved with the session."
        )

    def _on_notes(self, _name: str) -> None:
        """Another session's notes have come; what is typed here stands there already."""
        if self.edit.toPlainText() != self._notes.text:
            self.edit.setPlainText(self._notes.text)
