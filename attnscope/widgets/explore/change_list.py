"""What is done to single heads beyond gates, one line each, with a button that takes it back."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from attnscope.figures.plain import plain_text
from attnscope.records.interventions import Intervention
from attnscope.records.masks import UseMask
from attnscope.viewmodels.session.intervening import in_words, without
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.labels import ElidedLabel, PlainLabel, listen, plain_tooltip, tool_button

N_SHOWN = 3
"""More than these are counted in one line."""


class ChangeList(QWidget):
    """The session's interventions, the selected head's first; takes no room when there are none."""

    resized = Signal()
    """It has more or fewer lines than before."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._shown: tuple[Intervention, ...] | None = None
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 4, 0, 4)
        self._rows.setSpacing(2)
        listen(self, session, self._on_session)
        self._show()

    def _on_session(self, name: str) -> None:
        if name in ("interventions", "selection", "model"):
            self._show()

    def _show(self) -> None:
        session = self._session
        changes = session.interventions
        ordered = tuple(sorted(changes, key=lambda change: change.head != session.primary))
        if ordered == self._shown:
            return
        self._shown = ordered
        while item := self._rows.takeAt(0):
            if widget := item.widget():
                widget.setParent(None)
                widget.deleteLater()
        for change in ordered[:N_SHOWN]:
            self._rows.addWidget(self._row(change))
        n_more = len(ordered) - N_SHOWN
        if n_more > 0:
            label = PlainLabel(f"and {n_more} more", role="hint")
            self._rows.addWidget(label)
        for k in range(self._rows.count()):
            item = self._rows.itemAt(k)
            if item is not None and (row := item.widget()) is not None:
                row.show()  # a layout counts no row that has yet to be shown
        self.setVisible(bool(ordered))
        self.resized.emit()

    def _row(self, change: Intervention) -> QWidget:
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        label = ElidedLabel(plain_text(in_words(change, self._session.traced, self._session.aspect.rows)))
        is_mask = isinstance(change, UseMask)
        told = change.sentence if is_mask else f"{change.head.stack} {change.sentence}"
        label.setToolTip(plain_tooltip(told))
        button = tool_button("×", f"Take back: {change.sentence}", role="flat")
        button.setToolTip("Take this change back")
        button.clicked.connect(
            lambda _checked=False: self._session.head_changes.intervene(
                without(self._session.interventions, change)
            )
        )
        layout.addWidget(label, 1)
        layout.addWidget(button)
        return row
