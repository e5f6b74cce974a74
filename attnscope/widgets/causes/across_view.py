"""The inputs' influence on an output token: a table of inputs and methods, or attention as a graph."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QMoveEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QShowEvent,
)
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from attnscope.counting import number_text
from attnscope.figures.cause_maps import influence_cells, table_cells
from attnscope.figures.page import sized
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, plain_text, text_width, type_px
from attnscope.figures.views.graph import (
    GraphFigure,
    GraphLayout,
    graph_layout,
    inputs_share_words,
    kept_words,
    marks_words,
    natural_graph_height,
    paint_graph_field,
    paint_marked,
    paint_row_names,
)
from attnscope.figures.views.lab import LabFigure
from attnscope.figures.words_and_numbers import caption_of
from attnscope.last_made import LastMade
from attnscope.records.causes import METHODS, THRESHOLDS, AttentionGraph, InfluenceShown, Method
from attnscope.records.charts import CellMap
from attnscope.viewmodels.causes.across_layers import (
    AcrossState,
    GraphState,
    node_words,
    number_words,
    tip_words,
)
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.causes.lens_view import TokenTable
from attnscope.widgets.export.figures_offered import export_one
from attnscope.widgets.form_parts import (
    ChoiceButton,
    FormulaButton,
    NamedFormula,
    column,
    one_of,
    row,
    scrolled,
    stacked,
)
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    Telling,
    plain_tooltip,
    tool_button,
    watch_seen,
    when_seen,
)
from attnscope.widgets.labs.cells_and_tables import CellPanel
from attnscope.widgets.map_widget import ARROWS, paint_focus
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_chips import OutputStrip

# Attention as a graph: the picture, walked with the arrow keys.

_LABEL_PX, _LEAST_STEP_PX, _FOOT_PX = 64.0, 11.0, 6.0


class GraphView(Telling, Dressed):
    """Rows are tokens, columns levels; `pointed` carries words on the node under the cursor."""

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
        """Show another graph, without marks."""
        if graph is not self.graph:
            self._mark(None)
            self._forget()
        self.graph = graph
        self.setMinimumSize(self.sizeHint())
        self.updateGeometry()
        self.update()

    @property
    def marked(self) -> int | None:
        """The node pointed at, by mouse or keyboard."""
        return self._marked

    def layout_now(self) -> GraphLayout | None:
        """Current layout."""
        graph = self.graph
        if graph is None:
            return None
        room = QRectF(self.rect()).adjusted(0, 0, 0, -_FOOT_PX)
        return self._layout.of(
            self.size(), lambda: graph_layout(room, graph, most_label_px=type_px(_LABEL_PX))
        )

    def sizeHint(self) -> QSize:
        if self.graph is None:
            return QSize(0, 0)
        width = type_px(_LABEL_PX + len(self.graph.levels) * _LEAST_STEP_PX)
        return QSize(round(width), round(natural_graph_height(self.graph) + _FOOT_PX))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the graph; a marked node makes the others faint."""
        layout = self.layout_now()
        if layout is None or self.graph is None:
            return
        behind = self._behind(layout, self.graph, event.rect())
        with QPainter(self) as painter:
            painter.drawPixmap(event.rect().topLeft(), behind)
            if self._marked is not None:
                paint_marked(painter, layout, self.graph, self._marked, palette=self.theme)
            if self.x() < 0:
                self._paint_names_beside(painter, layout)
            if self.hasFocus():
                paint_focus(painter, self.rect(), self.theme)

    def moveEvent(self, event: QMoveEvent) -> None:
        """When scrolled sideways, keep the names visible."""
        super().moveEvent(event)
        if event.pos().x() != event.oldPos().x():
            self.update()

    def _paint_names_beside(self, painter: QPainter, layout: GraphLayout) -> None:
        """Paint the names of the rows at the left edge of the visible part."""
        painter.save()
        painter.translate(-self.x(), 0.0)
        painter.fillRect(QRectF(0.0, 0.0, layout.label_right + 2.0, self.height()), QColor(self.theme.panel))
        paint_row_names(painter, layout, self.theme)
        painter.restore()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        self._mark(layout.node_at(event.position()) if layout is not None else None)

    def leaveEvent(self, event: QEvent) -> None:
        self._mark(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._mark(None)
        super().focusOutEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk to the nearest node in the direction of an arrow; Esc clears the mark."""
        key = Qt.Key(event.key())
        if key in ARROWS and self.graph is not None:
            self._walk(key)
        elif key == Qt.Key.Key_Escape and self._marked is not None:
            self._mark(None)
        else:
            super().keyPressEvent(event)

    def tip_at(self, place: QPointF) -> str:
        layout = self.layout_now()
        return self._words(layout.node_at(place)) if layout is not None else ""

    def _behind(self, layout: GraphLayout, graph: AttentionGraph, part: QRect) -> QPixmap:
        """A part of the graph without marks, cached: hundreds of lines take a tenth of a second."""
        is_quiet = self._marked is not None
        kept, ratio = self._painted.get(is_quiet), self.devicePixelRatio()
        if kept is not None and kept[:2] == (self.size(), part) and kept[2].devicePixelRatio() == ratio:
            return kept[2]
        picture = QPixmap(part.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(QColor(self.theme.panel))
        with QPainter(picture) as painter:
            painter.translate(-part.topLeft())
            paint_graph_field(
                painter, layout, graph, palette=self.theme, is_quiet=is_quiet, names_rows=self.x() >= 0
            )
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

    def _words(self, node: int | None) -> str:
        """Tooltip of a node; empty for none."""
        return "" if self.graph is None or node is None else node_words(self.graph, node)

    def _mark(self, node: int | None) -> None:
        if node != self._marked:
            self._marked = node
            words = self._words(node)
            self.setAccessibleDescription(words)
            self.pointed.emit(words)
            self.update()


_CHOICES = {f"{share:g}": f"lines from {100 * share:.3g} %" for share in THRESHOLDS}


class GraphPanel(Dressed):
    """The graph with its threshold; requests it only while visible."""

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
        self.area = scrolled(self.view, is_framed=True, is_across=True)
        column(row((self.title, 1), self.threshold), (self.area, 1), self.note, on=self, spacing=4)
        watch_seen(self, state.watch)
        when_seen(self, self._show, state.changed.graph)
        self._show()

    def show_title(self, text: str) -> None:
        """Show the output explained."""
        self.title.setText(plain_text(text))
        self._show()

    def fit_room(self) -> None:
        """Keep the output visible, or the node walked to."""
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


# The table of what an output token owes to the inputs: input tokens down, methods across, coloured chips.

_STRONGEST = 0.62
_Line = int | str
"""A key, or the title of those that follow."""


class AcrossGrid(TokenTable):
    """Columns are the methods."""

    token_px, cell_px, gap_px = 56, 44, 3

    def __init__(self, state: AcrossState) -> None:
        super().__init__("How much each input contributes to the output token")
        self._state = state
        self._lines: tuple[_Line, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._lines), len(METHODS)

    def show_table(self) -> None:
        shown = self._state.query.answer
        if shown is not None and all(found.weights is None for found in shown.rows):
            shown = None  # every method has refused: the note above says why
        keys: list[_Line] = list(range(len(shown.keys))) if shown is not None else []
        if shown is not None and shown.n_source:
            keys.insert(shown.n_source, "target so far")
            keys.insert(0, "source")
        self._lines = tuple(keys)
        super().show_table()

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._lines:
            return
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            for k, method in enumerate(METHODS):
                self._paint_method(painter, self.cell(-1, k), method, is_last=k == len(METHODS) - 1)
            numbers = {method: self._state.numbers(method) for method in METHODS}
            tops = {
                method: float(np.nanmax(found)) if found is not None and np.isfinite(found).any() else 0.0
                for method, found in numbers.items()
            }
            for line in self.rows_in(event.rect()):
                key = self._lines[line]
                if isinstance(key, str):
                    self._paint_title(painter, line, key)
                else:
                    self._paint_token(painter, line, key)
                    for k, method in enumerate(METHODS):
                        found = numbers[method]
                        value = float(found[key]) if found is not None else float("nan")
                        self._paint_cell(painter, self.cell(line, k), value, tops[method])

    def tip_at(self, place: QPointF) -> str:
        """A method's definition, or the numbers of an input."""
        line, column = self.place_at(place)
        if line < 0:
            method = METHODS[column] if 0 <= column < len(METHODS) else None
            return f"{method}\n{self._state.method_words(method)}" if method is not None else ""
        key = self._lines[line] if line < len(self._lines) else ""
        return tip_words(self._state, key) if isinstance(key, int) else ""

    def _paint_method(self, painter: QPainter, place: QRect, method: Method, *, is_last: bool) -> None:
        """Paint a name over its column; the last one ends with it, a wider one begins further left."""
        side = Qt.AlignmentFlag.AlignRight if is_last else Qt.AlignmentFlag.AlignHCenter
        wide = max(place.width(), round(text_width(method)) + 2)
        room = place.adjusted(place.width() - wide, 0, 0, 0) if is_last else place
        if is_last and wide <= place.width():
            side = Qt.AlignmentFlag.AlignHCenter
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | side, method)

    def _paint_title(self, painter: QPainter, line: int, title: str) -> None:
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(self.theme.muted))
        place = self.cell(line, 0)
        room = QRect(0, place.y(), self.width(), place.height())
        painter.drawText(room, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft, title)

    def _paint_token(self, painter: QPainter, line: int, key: int) -> None:
        shown = self._state.query.answer
        if shown is None:
            return
        token, palette = shown.keys[key], self.theme
        painter.setFont(font(NORMAL_PX))
        is_output = key - shown.n_source == shown.position
        ink = palette.accent if is_output else palette.muted if token.is_special else palette.text
        painter.setPen(QColor(ink))
        self.write(painter, self.token_place(line), token.piece, Qt.AlignmentFlag.AlignLeft)

    def _paint_cell(self, painter: QPainter, place: QRect, value: float, top: float) -> None:
        if value != value:
            return
        palette = self.theme
        colour = QColor(palette.accent)
        colour.setAlphaF(_STRONGEST * min(max(value / top if top > 0 else 0.0, 0.0), 1.0))
        painter.setPen(Qt.PenStyle.NoPen)
        for fill in (QColor(palette.grid), colour):
            painter.setBrush(fill)
            painter.drawRoundedRect(QRectF(place), 4, 4)
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.text if value else palette.muted))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, number_words(value))


# What an output owes to the patches of a picture, method by method, laid over the picture.

_SIDE_PX, _TITLE_PX = 112, 26


class PatchMaps(Dressed):
    """A CellPanel for every method that is not refused; a click makes a patch the output token.

    `pointed` carries the words of the patch under the cursor, empty when there is none.
    """

    pointed = Signal(str)

    def __init__(self, state: AcrossState) -> None:
        super().__init__()
        self._state = state
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(8)
        self.panels: dict[Method, CellPanel] = {}
        for method in METHODS:
            panel = CellPanel()
            panel.hovered.connect(lambda i, j, method=method: self._on_hovered(method, i, j))
            panel.clicked.connect(self._on_clicked)
            self.panels[method] = panel
        self._place(2)

    def show_maps(self) -> None:
        """Show the results of every method for a picture."""
        shown = self._state.query.answer
        picture = shown.picture if shown is not None else None
        for method, panel in self.panels.items():
            numbers = self._state.numbers(method) if picture is not None else None
            if picture is not None and numbers is not None:
                panel.show_cells(influence_cells(method, numbers, picture))
                panel.setToolTip(plain_tooltip(self._state.method_words(method)))
            panel.setVisible(numbers is not None)
        self.fit_room()

    def words(self, method: Method, row: int, column: int) -> str:
        shown, numbers = self._state.query.answer, self._state.numbers(method)
        if shown is None or shown.picture is None or numbers is None or row < 0:
            return ""
        value = numbers[shown.picture.token(row, column)]
        what = "of its sum" if self._state.has_shares else "as computed"
        return f"{method}, patch {row},{column}: {number_text(float(value))} {what}"

    def fit_room(self) -> None:
        """Place maps beside each other if there is room."""
        n_shown = sum(not panel.isHidden() for panel in self.panels.values())
        n_columns = max(1, min(self.width() // round(type_px(_SIDE_PX)), n_shown))
        if n_columns == 3 and n_shown == 4:
            n_columns = 2
        self._place(n_columns)

    def _place(self, n_columns: int) -> None:
        side = round(max(type_px(_SIDE_PX), self.width() / n_columns - 8) + type_px(_TITLE_PX))
        shown = [panel for panel in self.panels.values() if not panel.isHidden()] or [*self.panels.values()]
        for k, panel in enumerate(shown):
            panel.setMinimumHeight(side)
            self._grid.addWidget(panel, k // n_columns, k % n_columns)

    def _on_hovered(self, method: Method, i: int, j: int) -> None:
        for panel in self.panels.values():
            panel.set_cursor(i, j)
        self.pointed.emit(self.words(method, i, j))

    def _on_clicked(self, i: int, j: int) -> None:
        shown = self._state.query.answer
        if shown is not None and shown.picture is not None:
            self._state.choose(shown.picture.token(i, j))


_LOW_PX = 360
_NUMBERS = {"shares": "shares of each method's sum", "computed": "raw values"}
AcrossMode = Literal["table", "graph"]
_MODES: dict[AcrossMode, str] = {
    "table": "How much each input contributes to the output token, by four methods",
    "graph": "Which tokens of which layers contribute to the output token (Abnar & Zuidema 2020)",
}
_ABNAR = "Abnar & Zuidema 2020"
_SAID: dict[AcrossMode, tuple[NamedFormula, ...]] = {
    "table": (
        NamedFormula(
            name="raw", formulas=("r = a_L",), symbols="a: weights of a layer, mean over heads; L: the last"
        ),
        NamedFormula(
            name="rollout",
            formulas=("R_l = A_l R_(l−1)", "A_l = ½ a_l + ½ I"),
            source=f"{_ABNAR}, equation 1",
        ),
        NamedFormula(
            name="flow",
            formulas=("r_j = max flow from the input j to the output",),
            symbols="A: the capacities between two layers",
            source=_ABNAR,
        ),
        NamedFormula(
            name="relevance",
            formulas=("R ← R + Ā_l R", "Ā_l = mean_h (∇a ∘ a)⁺", "∇a = ∂y/∂a"),
            symbols="y: logit of the token shown; R = I at first, which is not shown",
            source="Chefer, Gur & Wolf 2021, equations 5 and 6",
        ),
    ),
    "graph": (
        NamedFormula(
            name="graph",
            formulas=("w_l(i, j) = A_l(i, j) s_l(i)", "s_(l−1)(j) = Σ_i w_l(i, j)", "A_l = ½ a_l + ½ I"),
            symbols="w: share that a line carries; s: that of a circle, 1 at the output",
            source=f"{_ABNAR}, figure 1",
        ),
    ),
}
"""The computation of each view, for one stack; for two see Help."""


class AcrossPanel(Dressed):
    """The choice of the output token over the table or the graph; requests only while visible.

    Of a picture there are maps over it in the table's place. `pointed` carries words on what is under the
    cursor.
    """

    pointed = Signal(str)

    def __init__(self, session: Session, state: AcrossState, graph: GraphState) -> None:
        super().__init__()
        self._session, self._state, self._graph = session, state, graph
        self.mode: AcrossMode = "table"
        self.title = ElidedLabel(role="muted")
        self.numbers = ChoiceButton("numbers", "What the numbers are", _NUMBERS)
        self.numbers.chosen.connect(self._on_numbers_chosen)
        self.strip = OutputStrip()
        self.strip.chosen.connect(state.choose)
        self.note = PlainLabel(role="hint", wraps=True)
        self.grid = AcrossGrid(state)
        self.maps = PatchMaps(state)
        self.maps.pointed.connect(self.pointed)
        self.graph = GraphPanel(graph, lambda: state.note)
        self.graph.pointed.connect(self.pointed)
        self._lay_out()
        when_seen(self, self._show, state.changed.all)
        when_seen(self, self._show_export, graph.changed.graph)
        self._show()

    def show_mode(self, mode: AcrossMode) -> None:
        """Show the table or the graph."""
        self.mode = mode
        self.modes[mode].setChecked(True)
        self._pages.setCurrentIndex(int(mode == "graph"))
        self._state.watch(self.isVisible() and mode == "table")
        self.fit_room()
        self._show_export()

    def figure_spec(self) -> FigureSpec | None:
        """The current view as a figure; None while there is none."""
        model, traced = self._session.model, self._session.traced
        shown, graph = self._state.query.answer, self._graph.graph
        if model is None or traced is None:
            return None
        note = f"{self._state.heading}." if self.mode == "table" else ""
        page = LabFigure(
            gates=traced.gates,
            interventions=traced.interventions,
            caption=caption_of(model, traced, note),
        )
        if self.mode == "graph":
            return None if graph is None else sized(page.as_view(GraphFigure, graph=graph))
        cells = () if shown is None else self._table_cells(shown)
        return replace(page, cells=cells, height_mm=100.0) if cells else None

    def _table_cells(self, shown: InfluenceShown) -> tuple[CellMap, ...]:
        """The table, or a map for each method over a picture."""
        found = {
            method: numbers for method in METHODS if (numbers := self._state.numbers(method)) is not None
        }
        if shown.picture is not None:
            return tuple(influence_cells(name, numbers, shown.picture) for name, numbers in found.items())
        unit = "share of each method's sum" if self._state.has_shares else "as computed"
        return (table_cells(shown.keys, found, shown.n_source, unit),) if found else ()

    def showEvent(self, event: QShowEvent) -> None:
        """Request what is missing; the graph does so by itself."""
        super().showEvent(event)
        self._state.watch(self.mode == "table")
        self.fit_room()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._state.watch(False)

    def _lay_out(self) -> None:
        self._strip_area = scrolled(self.strip, is_framed=True)
        self.area = scrolled(self.grid, is_framed=True, is_across=True)
        self.maps_area = scrolled(self.maps, is_framed=True)
        self.modes = {
            mode: tool_button(mode.title(), tip, role="segment", is_checkable=True)
            for mode, tip in _MODES.items()
        }
        one_of(self, self.modes.values())
        for mode, button in self.modes.items():
            button.clicked.connect(lambda _, mode=mode: self.show_mode(mode))
        self.modes["table"].setChecked(True)
        self.export_button = tool_button("Export…", "Export the view, or its numbers", role="flat")
        self.export_button.clicked.connect(self._on_export)
        table = QWidget()
        self._pages = stacked(table, self.graph)
        self.formula_button = FormulaButton(lambda: _SAID[self.mode])
        modes = row(*self.modes.values(), None, self.formula_button, self.export_button, spacing=0)
        column(modes, self._strip_area, (self._pages, 1), on=self, margins=(16, 8, 8, 8), spacing=4)
        self.stop_button = tool_button("Stop", "Stop the attention flow", role="flat")
        self.stop_button.clicked.connect(self._state.stop)
        heading = row((self.title, 1), self.stop_button, self.numbers)
        column(heading, self.note, (self.area, 1), (self.maps_area, 1), on=table, spacing=4)

    def _on_numbers_chosen(self, key: str) -> None:
        self._state.show_shares(key == "shares")

    def _show(self) -> None:
        state = self._state
        self.strip.show_tokens(state.tokens, state.position)
        self.fit_room()
        self.title.set_full_text(plain_text(state.heading))
        self.numbers.show_choice("shares" if state.has_shares else "computed")
        self.numbers.setText("shares ▾" if state.has_shares else "computed ▾")
        self.stop_button.setVisible(state.flow_fraction is not None)
        self.note.say(state.note)
        self.grid.show_table()
        is_note_alone = bool(state.note) and self.grid.sizeHint().isEmpty()
        is_picture = state.query.answer is not None and state.query.answer.picture is not None
        self.area.setVisible(not is_note_alone and not is_picture)  # what is said then has the whole room
        self.maps_area.setVisible(not is_note_alone and is_picture)
        self.maps.show_maps()
        self.note.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.note.setToolTip(plain_tooltip(state.note))
        self.graph.show_title(state.heading)
        self._show_export()

    def _show_export(self) -> None:
        self.export_button.setEnabled(self.figure_spec() is not None)

    @Slot()
    def _on_export(self) -> None:
        export_one(self.figure_spec(), self)

    def fit_room(self) -> None:
        """Show a few rows of output tokens at most, one of patches; the rest can be scrolled to."""
        n_rows = 3 if self.height() > round(type_px(_LOW_PX)) else 2
        if self.mode == "graph":
            n_rows = 2
        elif self.maps_area.isVisibleTo(self):
            n_rows = 1
        self._strip_area.setFixedHeight(min(self.strip.sizeHint().height(), round(type_px(28)) * n_rows))
        self._see_chosen()

    def _see_chosen(self) -> None:
        """Scroll to the chosen token, once the strip has its size."""
        QTimer.singleShot(0, self, self._scroll_to_chosen)

    def _scroll_to_chosen(self) -> None:
        chips, at = self.strip.chips(), self._state.position
        if at < len(chips):
            place = chips[at].rect.center().toPoint()
            self._strip_area.ensureVisible(place.x(), place.y(), 0, round(type_px(14)))
