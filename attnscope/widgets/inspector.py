"""The selected head: its name, its gate, its measures, and what it does in one line."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.viewmodels.head_measures import describe, find_measures, measures_shown
from attnscope.viewmodels.session import Session
from attnscope.widgets.gate_control import GateControl
from attnscope.widgets.labels import PlainLabel, listen
from attnscope.widgets.measure_rows import MeasureRows


class Inspector(QWidget):
    """Shows the session's primary head."""

    def __init__(self, session: Session, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.name = PlainLabel(role="large")
        self.place = PlainLabel(role="muted")
        self.line = PlainLabel(role="hint")
        self.line.setWordWrap(True)
        self.line.setFixedHeight(36)
        self.line.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.gate = GateControl(session)
        self.measures = MeasureRows(palette)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 16, 8)
        for widget in (self.name, self.place, self.line, self.gate, self.measures):
            layout.addWidget(widget)
        layout.setSpacing(4)
        layout.addStretch(1)
        self.setMinimumHeight(288)
        listen(self, session, self._on_session)
        self._show()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self.measures.set_theme(palette)

    def _on_session(self, name: str) -> None:
        if name in ("selection", "traced", "model"):
            self._show()

    def _show(self) -> None:
        session, head = self._session, self._session.primary
        if head is None:
            self.name.setText("No head")
            self.place.setText("select one in the grid")
            self.line.setText("")
            self.measures.show_measures(())
            return
        n_more = len(session.selection) - 1
        self.name.setText(head.label)
        place = f"{head.stack} · layer {head.layer} · head {head.head}"
        self.place.setText(f"{place} · and {n_more} more" if n_more else place)
        own = find_measures(session.measures, head)
        self.line.setText(describe(own) if own and session.text.strip() else "")
        self.measures.show_measures(measures_shown(session.measures, head) if session.text.strip() else ())
