"""The panel around an attention graph: which output it explains, and what is left out of it."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QToolTip, QWidget

from attnscope.figures.graph_layout import GraphLayout, graph_layout, natural_graph_height
from attnscope.figures.paint_graph import (
    inputs_share_words,
    kept_words,
    marks_words,
    paint_graph_field,
    paint_marked,
)
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.last_made import LastMade
from attnscope.records.attention_graph import THRESHOLDS, AttentionGraph
from attnscope.viewmodels.causes.graph import GraphState, node_words
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, watch_seen, when_seen
from attnscope.widgets.panning import ARROWS
from attnscope.widgets.placeholder import paint_focus
from attnscope.widgets.theme import Dressed

# Attention as a graph: the picture, walked with the arrow keys.

_LABEL_PX, _LEAST_STEP_PX, _FOOT_PX = 64.0, 14.0, 6.0


class GraphView(Dressed):
    """Rows are tokens, columns levels; `pointed` carries words on the circle under the cursor."""

    pointed = Signal(str)
    walked = Signal(object)
    """The place (QPointF) of the circle that the keyboard went to."""

    def __init__(self) -> None:
        super().__init__()
        self.graph: AttentionGraph | None = None
        self._marked: int | None = None
        self._layout: LastMade[GraphLayout] = LastMade()
        self._painted: dict[bool, tuple[QSize, QRect, QPixmap]] = {}
        self.setAccessibleName("Attention as a graph, from the inputs to one output token")
        self.setSizePolicy(QSizePolicy.Policy.MinimumExpanding, QSizePolicy.Policy.MinimumExpanding)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)

    def dress(self) -> None:
        self._forget()
        self.show_graph(self.graph)

    def show_graph(self, graph: AttentionGraph | None) -> None:
        """Show another graph; nothing is marked in it."""
        if graph is not self.graph:
            self._mark(None)
            self._forget()
        self.graph = graph
        self.setMinimumSize(self.sizeHint())
        self.updateGeometry()
        self.update()

    @property
    def marked(self) -> int | None:
        """The circle pointed at, by mouse or keyboard."""
        return self._marked

    def layout_now(self) -> GraphLayout | None:
        """Where everything lies at this moment."""
        graph = self.graph
        if graph is None:
            return None
        room = QRectF(self.rect()).adjusted(0, 0, 0, -_FOOT_PX)
        return self._layout.of(
            self.size(), lambda: graph_layout(room, graph, most_label_px=type_px(_LABEL_PX))
        )

    def sizeHint(self) -> QSize:
        """Room for every row, and for columns that can be told apart."""
        if self.graph is None:
            return QSize(0, 0)
        width = type_px(_LABEL_PX + len(self.graph.levels) * _LEAST_STEP_PX)
        return QSize(round(width), round(natural_graph_height(self.graph) + _FOOT_PX))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the graph; a marked circle leaves the others quiet."""
        layout = self.layout_now()
        if layout is None or self.graph is None:
            return
        behind = self._behind(layout, self.graph, event.rect())
        with QPainter(self) as painter:
            painter.drawPixmap(event.rect().topLeft(), behind)
            if self._marked is not None:
                paint_marked(painter, layout, self.graph, self._marked, palette=self.theme)
            if self.hasFocus():
                paint_focus(painter, self.rect(), self.theme)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Mark the circle under the cursor."""
        layout = self.layout_now()
        self._mark(layout.node_at(event.position()) if layout is not None else None)

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is pointed at."""
        self._mark(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Nothing is walked to."""
        self._mark(None)
        super().focusOutEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk to the nearest circle in the direction of an arrow; Esc marks none."""
        key = Qt.Key(event.key())
        if key in ARROWS and self.graph is not None:
            self._walk(key)
        elif key == Qt.Key.Key_Escape and self._marked is not None:
            self._mark(None)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Tell about the circle under the cursor."""
        if isinstance(event, QHelpEvent):
            layout = self.layout_now()
            node = layout.node_at(QPointF(event.pos())) if layout is not None else None
            words = node_words(self.graph, node) if self.graph is not None and node is not None else ""
            QToolTip.showText(event.globalPos(), plain_tooltip(words), self)
            return True
        return super().event(event)

    def _behind(self, layout: GraphLayout, graph: AttentionGraph, part: QRect) -> QPixmap:
        """A part of the graph without what is marked, kept: hundreds of lines take a tenth of a second."""
        is_quiet = self._marked is not None
        kept, ratio = self._painted.get(is_quiet), self.devicePixelRatio()
        if kept is not None and kept[:2] == (self.size(), part) and kept[2].devicePixelRatio() == ratio:
            return kept[2]
        picture = QPixmap(part.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(QColor(self.theme.panel))
        with QPainter(picture) as painter:
            painter.translate(-part.topLeft())
            paint_graph_field(painter, layout, graph, palette=self.theme, is_quiet=is_quiet)
        if part.contains(self.visibleRegion().boundingRect()):
            self._painted[is_quiet] = self.size(), part, picture
        return picture

    def _forget(self) -> None:
        self._layout.forget()
        self._painted.clear()

    def _walk(self, key: Qt.Key) -> None:
        layout = self.layout_now()
        if layout is None or self._marked is None:
            self._mark(0)  # the output
            return
        here, nodes = layout.nodes[self._marked], layout.nodes
        is_across = key in (Qt.Key.Key_Left, Qt.Key.Key_Right)
        sign = 1 if key in (Qt.Key.Key_Right, Qt.Key.Key_Down) else -1
        ahead: dict[int, float] = {}
        for i, place in enumerate(nodes):
            along, aside = place.x() - here.x(), place.y() - here.y()
            if not is_across:
                along, aside = aside, along
            if along * sign > 0.5 and (is_across or abs(aside) < 0.5):
                ahead[i] = abs(along) + 3 * abs(aside)
        if ahead:
            best = min(ahead, key=ahead.__getitem__)
            self._mark(best)
            self.walked.emit(nodes[best])

    def _mark(self, node: int | None) -> None:
        if node != self._marked:
            self._marked = node
            graph = self.graph
            words = node_words(graph, node) if graph is not None and node is not None else ""
            self.setAccessibleDescription(words)
            self.pointed.emit(words)
            self.update()


_CHOICES = {f"{share:g}": f"lines from {100 * share:.3g} %" for share in THRESHOLDS}


class GraphPanel(QWidget):
    """The graph under its choice of what is left out; asks for it only while it can be seen."""

    pointed = Signal(str)

    def __init__(self, state: GraphState, note: Callable[[], str]) -> None:
        super().__init__()
        self._state, self._note = state, note
        self.title = PlainLabel(role="muted")
        self.threshold = ChoiceButton("lines", "Hide lines that carry less of the output", _CHOICES)
        self.threshold.chosen.connect(lambda key: state.choose_threshold(float(key)))
        self.note = PlainLabel(role="hint", wraps=True)
        self.note.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.view = GraphView()
        self.view.pointed.connect(self.pointed)
        self.view.walked.connect(self._on_walked)
        self.area = QScrollArea(widgetResizable=True)
        self.area.setWidget(self.view)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(row((self.title, 1), self.threshold), (self.area, 1), self.note, on=self, spacing=4)
        watch_seen(self, state.watch)
        when_seen(self, self._show, state.changed.graph)
        self._show()

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
        self.note.setText(
            inputs_share_words(graph) if graph is not None else state.query.error or self._note()
        )
        marks = f"{marks_words(graph)}\n{kept_words(graph)}" if graph is not None else ""
        self.note.setToolTip(plain_tooltip(marks))

    def _show_output(self) -> None:
        layout = self.view.layout_now()
        if layout is not None:
            self._on_walked(layout.nodes[self.view.marked or 0])

    def _on_walked(self, place: QPointF) -> None:
        self.area.ensureVisible(round(place.x()), round(place.y()), 8, round(type_px(24)))
