"""What an output token owes to the inputs: a table of inputs and methods, or attention as a graph."""

from dataclasses import replace
from typing import Literal

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QHideEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QButtonGroup,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from attnscope.figures.cause_maps import influence_cells, table_cells
from attnscope.figures.cell_map import CellMap
from attnscope.figures.colours import Palette
from attnscope.figures.page import sized
from attnscope.figures.plain import plain_text
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import type_px
from attnscope.figures.views.graph import GraphFigure
from attnscope.figures.views.lab import LabFigure
from attnscope.records.influence import METHODS, InfluenceShown
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.causes.graph import GraphState
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.causes.across_grid import AcrossGrid
from attnscope.widgets.causes.graph_panel import GraphPanel
from attnscope.widgets.causes.output_strip import OutputStrip
from attnscope.widgets.causes.patch_maps import PatchMaps
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.export.one_figure import export_one
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button, when_seen

_LOW_PX = 360
_NUMBERS = {"shares": "shares of each method's sum", "computed": "numbers as they were computed"}
AcrossMode = Literal["table", "graph"]
_MODES: dict[AcrossMode, str] = {
    "table": "What the output token owes to each input, by four methods",
    "graph": "Which tokens of which layers the output token is made of (Abnar & Zuidema 2020)",
}


class AcrossPanel(QWidget):
    """The choice of the output token over the table or the graph; asks only while it can be seen.

    Of a picture there are maps over it in the table's place. `pointed` carries words on what is under the
    cursor.
    """

    pointed = Signal(str)

    def __init__(
        self,
        session: Session,
        state: AcrossState,
        graph: GraphState,
        palette: Palette,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._state, self._graph = session, state, graph
        self.mode: AcrossMode = "table"
        self.title = ElidedLabel(role="muted")
        self.numbers = ChoiceButton("numbers", "What the numbers are", _NUMBERS)
        self.numbers.chosen.connect(self._on_numbers_chosen)
        self.strip = OutputStrip(palette)
        self.strip.chosen.connect(state.choose)
        self.note = PlainLabel(role="hint")
        self.note.setWordWrap(True)
        self.grid = AcrossGrid(state, palette)
        self.maps = PatchMaps(state, palette)
        self.maps.pointed.connect(self.pointed)
        self.graph = GraphPanel(graph, palette, lambda: state.note)
        self.graph.pointed.connect(self.pointed)
        self._lay_out()
        when_seen(self, self._show, state.changed.all)
        when_seen(self, self._show_export, graph.changed.graph)
        self._show()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self.strip.set_theme(palette)
        self.grid.set_theme(palette)
        self.maps.set_theme(palette)
        self.graph.set_theme(palette)
        self._fit_strip()

    def show_mode(self, mode: AcrossMode) -> None:
        """Show the table or the graph."""
        self.mode = mode
        self.modes[mode].setChecked(True)
        self._pages.setCurrentIndex(int(mode == "graph"))
        self._state.watch(self.isVisible() and mode == "table")
        self._fit_strip()
        self._show_export()

    def figure_spec(self) -> FigureSpec | None:
        """What is shown, as a figure; None while there is nothing."""
        model, traced = self._session.model, self._session.traced
        shown, graph = self._state.shown, self._graph.graph
        if model is None or traced is None:
            return None
        page = LabFigure(
            gates=traced.gates,
            interventions=traced.interventions,
            caption=Caption(
                model=model.name,
                sha256=model.sha256,
                text=traced.source.read_text,
                target=traced.target.text if traced.target else None,
                step=traced.step,
                note=f"{self._state.heading}." if self.mode == "table" else "",
            ),
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
        """Ask for what is missing; the graph does so by itself."""
        super().showEvent(event)
        self._state.watch(self.mode == "table")
        self._fit_strip()

    def hideEvent(self, event: QHideEvent) -> None:
        """Ask for nothing more."""
        super().hideEvent(event)
        self._state.watch(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave room for the numbers."""
        super().resizeEvent(event)
        self._fit_strip()

    def _lay_out(self) -> None:
        self._strip_area, self.area, self.maps_area = (QScrollArea(self) for _ in range(3))
        places = ((self._strip_area, self.strip), (self.area, self.grid), (self.maps_area, self.maps))
        for area, inner in places:
            area.setWidget(inner)
            area.setWidgetResizable(True)
            area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for area in (self._strip_area, self.maps_area):
            area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 8, 8, 8)
        column.setSpacing(4)
        self.modes = {
            mode: tool_button(mode.title(), tip, role="segment", is_checkable=True)
            for mode, tip in _MODES.items()
        }
        group = QButtonGroup(self)
        for mode, button in self.modes.items():
            group.addButton(button)
            button.clicked.connect(lambda _, mode=mode: self.show_mode(mode))
        self.modes["table"].setChecked(True)
        self.export_button = tool_button("Export…", "Export what is shown, or its numbers", role="flat")
        self.export_button.clicked.connect(self._on_export)
        column.addLayout(row(*self.modes.values(), None, self.export_button, spacing=0))
        column.addWidget(self._strip_area)
        self._pages = QStackedWidget()
        column.addWidget(self._pages, 1)
        table = QWidget()
        column = QVBoxLayout(table)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        self._pages.addWidget(table)
        self._pages.addWidget(self.graph)
        self.stop_button = tool_button("Stop", "Stop the attention flow", role="flat")
        self.stop_button.clicked.connect(self._state.stop)
        heading = row(self.stop_button, self.numbers)
        heading.insertWidget(0, self.title, 1)
        column.addLayout(heading)
        column.addWidget(self.note)
        column.addWidget(self.area, 1)
        column.addWidget(self.maps_area, 1)

    def _on_numbers_chosen(self, key: str) -> None:
        self._state.show_shares(key == "shares")

    def _show(self) -> None:
        state = self._state
        self.strip.show_tokens(state.tokens, state.position)
        self._fit_strip()
        self.title.set_full_text(plain_text(state.heading))
        self.numbers.show_choice("shares" if state.has_shares else "computed")
        self.numbers.setText("shares ▾" if state.has_shares else "computed ▾")
        self.stop_button.setVisible(state.flow_fraction is not None)
        self.note.setText(state.note)
        self.note.setVisible(bool(state.note))
        self.grid.show_rows()
        is_note_alone = bool(state.note) and self.grid.sizeHint().isEmpty()
        is_picture = state.shown is not None and state.shown.picture is not None
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

    def _fit_strip(self) -> None:
        """A few rows of output tokens at most, one of patches; more are scrolled to."""
        n_rows = 3 if self.height() > round(type_px(_LOW_PX)) else 2
        if self.mode == "graph":
            n_rows = 2
        elif self.maps_area.isVisibleTo(self):
            n_rows = 1
        self._strip_area.setFixedHeight(min(self.strip.sizeHint().height(), round(type_px(28)) * n_rows))
        self._see_chosen()

    def _see_chosen(self) -> None:
        """Scroll to the chosen token, once the strip has its place."""
        QTimer.singleShot(0, self, self._scroll_to_chosen)

    def _scroll_to_chosen(self) -> None:
        chips, at = self.strip.chips(), self._state.position
        if at < len(chips):
            place = chips[at].rect.center().toPoint()
            self._strip_area.ensureVisible(place.x(), place.y(), 0, round(type_px(14)))
