"""Everything that was done, in words: a click goes back to a step, or forward again."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QWidget,
)

from attnscope.figures.plain import plain_text
from attnscope.figures.style import font
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.icons import icon
from attnscope.widgets.labels import PlainLabel, ground, named, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed
from attnscope.widgets.window.right_edge import RightEdge

_WIDTH_PX = 280


class HistoryPanel(Dressed):
    """The session's history, newest below; undone steps stay, quietly, until something new is done."""

    def __init__(self, session: Session, over: QWidget) -> None:
        super().__init__(over)
        self._session = session
        self._edge = RightEdge(self, over, _WIDTH_PX)
        ground(self, "panel", edge="left")
        self.steps = named(QListWidget(), "Steps you can go back to")
        self.steps.setWordWrap(True)
        self.steps.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.close_button = tool_button("", "Close the history", role="flat", tip="Close (Ctrl+H)")
        self.python_button = QPushButton("Copy as Python")
        self.command_button = QPushButton("Copy as command line")
        self.hint = PlainLabel("Click a step to go back to it.", "muted")
        self._lay_out()
        self.steps.itemClicked.connect(self._on_chosen)
        self.steps.itemActivated.connect(self._on_chosen)
        self.dress()
        when(self, self.show_steps, session.changed.history)

    def dress(self) -> None:
        self._edge.place()
        self.close_button.setIcon(icon("close", self.theme.muted, side_px=16))
        self.show_steps()

    def show_steps(self) -> None:
        """Show the session's steps, the present one marked."""
        if self.isHidden():
            return
        history = self._session.history
        texts = ("start", *history.labels)
        for k, text in enumerate(texts):
            item = self.steps.item(k)
            if item is None:
                item = QListWidgetItem()
                self.steps.addItem(item)
            shown = plain_text(text)
            is_now, is_undone = k == history.n_done, k > history.n_done
            item.setText(shown)
            item.setToolTip(plain_tooltip(shown))
            item.setFont(font(13, is_bold=is_now, is_italic=is_undone))
            item.setForeground(QColor(self.theme.muted if is_undone else self.theme.text))
            state = "present step" if is_now else "undone" if is_undone else "done"
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{shown}, {state}")
        while self.steps.count() > len(texts):
            self.steps.takeItem(self.steps.count() - 1)
        self.steps.setCurrentRow(history.n_done)

    def setVisible(self, is_visible: bool) -> None:
        super().setVisible(is_visible)
        if is_visible:
            self._edge.place()
            self.show_steps()

    def _lay_out(self) -> None:
        column(
            row((PlainLabel("History", "name"), 1), self.close_button, spacing=-1),
            self.hint,
            (self.steps, 1),
            self.python_button,
            self.command_button,
            on=self,
            margins=(16, 8, 16, 16),
        )

    def _on_chosen(self, item: QListWidgetItem) -> None:
        self._session.go_to(self.steps.row(item))
