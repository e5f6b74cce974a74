"""The panel around an attention graph: which output it explains, and what is left out of it."""

from collections.abc import Callable

from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.paint_graph import kept_words, marks_words, share_words
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.records.attention_graph import THRESHOLDS
from attnscope.viewmodels.causes.graph import GraphState
from attnscope.widgets.causes.graph_view import GraphView
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, watch_seen, when_seen

_CHOICES = {f"{share:g}": f"lines from {100 * share:.3g} %" for share in THRESHOLDS}


class GraphPanel(QWidget):
    """The graph under its choice of what is left out; asks for it only while it can be seen."""

    pointed = Signal(str)

    def __init__(
        self, state: GraphState, palette: Palette, note: Callable[[], str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._state, self._note = state, note
        self.title = PlainLabel(role="muted")
        self.threshold = ChoiceButton("lines", "Leave out lines that carry less of the output", _CHOICES)
        self.threshold.chosen.connect(lambda key: state.choose_threshold(float(key)))
        self.note = PlainLabel(role="hint")
        self.note.setWordWrap(True)
        self.note.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.view = GraphView(palette)
        self.view.pointed.connect(self.pointed)
        self.view.walked.connect(self._on_walked)
        self.area = QScrollArea()
        self.area.setWidget(self.view)
        self.area.setWidgetResizable(True)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        heading = row(self.threshold)
        heading.insertWidget(0, self.title, 1)
        column.addLayout(heading)
        column.addWidget(self.area, 1)
        column.addWidget(self.note)
        watch_seen(self, state.watch)
        when_seen(self, self._show, state.changed.graph)
        self._show()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self.view.set_theme(palette)

    def show_title(self, text: str) -> None:
        """Which output is explained."""
        self.title.setText(plain_text(text))
        self._show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the output in sight, or the circle walked to."""
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._show_output)

    def _show(self) -> None:
        state, graph = self._state, self._state.graph
        key = f"{state.threshold:g}"
        self.threshold.show_choice(key)
        self.threshold.setText(f"{_CHOICES[key]} ▾")
        is_new = graph is not self.view.graph
        self.view.show_graph(graph)
        self.area.setVisible(graph is not None)
        if is_new and graph is not None:
            QTimer.singleShot(0, self, self._show_output)  # once the area knows how high the graph is
        self.note.setText(share_words(graph) if graph is not None else state.error or self._note())
        marks = f"{marks_words(graph)}\n{kept_words(graph)}" if graph is not None else ""
        self.note.setToolTip(plain_tooltip(marks))

    def _show_output(self) -> None:
        layout = self.view.layout_now()
        if layout is not None:
            self._on_walked(layout.nodes[self.view.marked or 0])

    def _on_walked(self, place: QPointF) -> None:
        self.area.ensureVisible(round(place.x()), round(place.y()), 8, round(type_px(24)))
