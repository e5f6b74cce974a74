"""What is done to single heads beyond gates: one line, which takes it back, and the rest in a menu."""

from functools import partial

from PySide6.QtWidgets import QHBoxLayout, QMenu, QToolButton, QWidget

from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.records.interventions import Intervention
from attnscope.records.masks import UseMask
from attnscope.viewmodels.session.intervening import in_words, without
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.labels import ElidedLabel, plain_tooltip, tool_button, when

_ROW_PX = 24


class ChangeList(QWidget):
    """The session's interventions, the selected head's first; as high with many as with none."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._shown: tuple[Intervention, ...] = ()
        self.label = ElidedLabel()
        self.back = tool_button("×", "Take this change back", role="status")
        self.more = tool_button("", "The other changes", role="status")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(QMenu(self.more))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.back)
        layout.addWidget(self.more)
        self.back.clicked.connect(self._on_back_clicked)
        told = session.changed
        when(self, self._show, told.interventions, told.selection, told.model, told.traced, told.aspect)
        self.fit_type()
        self._show()

    def fit_type(self) -> None:
        """Be as high as one line of type is now."""
        self.setFixedHeight(round(type_px(_ROW_PX)))

    def _show(self) -> None:
        session = self._session
        changes = session.interventions
        self._shown = tuple(sorted(changes, key=lambda change: change.head != session.primary))
        first, others = next(iter(self._shown), None), self._shown[1:]
        self.label.set_full_text(self._words(first) if first is not None else "")
        if first is not None:
            is_mask = isinstance(first, UseMask)
            told = first.sentence if is_mask else f"{first.head.stack} {first.sentence}"
            self.label.setToolTip(plain_tooltip(told))
        self.back.setVisible(first is not None)
        self.more.setVisible(bool(others))
        self.more.setText(f"+{len(others)} ▾")
        menu = self.more.menu()
        menu.clear()
        for change in others:
            words = f"Take back {self._words(change)}"
            menu.addAction(words.replace("&", "&&"), partial(self._take_back, change))

    def _words(self, change: Intervention) -> str:
        return plain_text(in_words(change, self._session.traced, self._session.aspect.rows))

    def _on_back_clicked(self) -> None:
        if self._shown:
            self._take_back(self._shown[0])

    def _take_back(self, change: Intervention) -> None:
        self._session.head_changes.intervene(without(self._session.interventions, change))
