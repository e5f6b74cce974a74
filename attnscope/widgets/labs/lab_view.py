"""One lab on the screen: controls, formula and numbers at the left, the picture at the right."""

from functools import partial
from typing import Generic, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from attnscope.fields import fields_of
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import type_px
from attnscope.figures.views.lab import lab_figure, row_sizes
from attnscope.labs.lab import HasWords, Lab
from attnscope.viewmodels.labs.controls import LabControls, LabState
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, push_button, tool_button, when
from attnscope.widgets.labs.cell_panel import CellPanel
from attnscope.widgets.labs.controls import ControlRow, WordsPanel
from attnscope.widgets.labs.lab_frame import LabFoot, lab_side, sentence_px
from attnscope.widgets.labs.lab_plot import ChartPanel
from attnscope.widgets.theme import Dressed

_SIDE_PX, _GAP_PX = 248, 24
_LEAST_CHART_PX = 210
"""Narrower charts stand two in a row: at the size of type of 100 %."""


C = TypeVar("C")
S = TypeVar("S", bound=HasWords)


class LabView(Dressed, Generic[C, S]):
    """Shows a lab; `export_wanted` asks for the export dialog, `page_wanted` for another page."""

    export_wanted = Signal()
    page_wanted = Signal(str)
    hover_text = Signal(str)
    looked_at = Signal()
    left = Signal()

    def __init__(self, plan: Lab[C, S], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.plan = plan
        self.lab: LabState[C, S] = LabState(plan.example, plan.resolve)
        lab = self.lab
        self.controls = LabControls(
            plan.example,
            lambda: lab.choice,
            lab.choose,
            is_example=lambda choice, _: plan.is_example(choice),
            allows=plan.allows,
        )
        self.rows: dict[str, ControlRow[C]] = {}
        self.words = WordsPanel(plan.source)
        self.sentence = PlainLabel(role="name", wraps=True)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.cell_panels: tuple[CellPanel, ...] = ()
        self.chart_panels: tuple[ChartPanel, ...] = ()
        self._side = self._build_side()
        row(self._side, (self._build_picture(), 1), on=self, spacing=0)
        when(self, self._show, self.lab.changed)
        self.dress()
        self._show()

    def dress(self) -> None:
        self._side.setFixedWidth(round(type_px(_SIDE_PX)))
        self._fit_sentence()
        self._fit_panels()
        for control in self.rows.values():
            control.set_size()

    def add_button(self, words: str, tip: str) -> QPushButton:
        """One more button below the controls."""
        button = push_button(words, name=words, tip=plain_tooltip(tip))
        self._column.insertWidget(2 + len(self.rows), button)
        return button

    def figure_spec(self) -> FigureSpec:
        """The lab as a figure: its picture, its formula and its sentence."""
        return lab_figure(self.plan, self.lab.shown)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.looked_at.emit()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.left.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_sentence()
        self._fit_panels()

    # Building

    def _build_side(self) -> QWidget:
        inside = QWidget()
        layout = column(PlainLabel(self.plan.name, "name"), 4, on=inside, margins=12, spacing=6)
        for setting in fields_of(self.lab.choice):
            shown: ControlRow[C] = ControlRow(setting, self.lab.choice)
            shown.asked.connect(partial(self.controls.ask, group=shown.group))
            shown.settled.connect(self.controls.settle)
            self.rows[setting.title] = shown
            layout.addWidget(shown)
        self._column = layout
        layout.addSpacing(8)
        layout.addWidget(self.words)
        if self.plan.other_page is not None:
            self.page_button = tool_button(self.plan.other_page[0], self.plan.other_page[0])
            self.page_button.setToolTip(f"Go to the page {self.plan.other_page[1].capitalize()}")
            self.page_button.clicked.connect(self._on_page_clicked)
            layout.addSpacing(8)
            layout.addLayout(row(self.page_button, None))
        layout.addStretch(1)
        self.foot = LabFoot()
        self.foot.work_on(self.controls)
        self.foot.export_wanted.connect(self.export_wanted)
        return lab_side(inside, self.foot)

    def _build_picture(self) -> QWidget:
        shown = self.lab.shown
        n_cells, n_charts = len(self.plan.cells(shown)), len(self.plan.charts(shown))
        self.cell_panels = tuple(CellPanel() for _ in range(n_cells))
        self.chart_panels = tuple(ChartPanel(names_px=self.plan.names_px) for _ in range(n_charts))
        picture = QWidget()
        layout = column(self.sentence, on=picture, margins=(16, 12, 12, 8))
        self._panels = column()
        layout.addLayout(self._panels, 1)
        self._sizes: tuple[int, ...] = ()
        self._lines: list[QHBoxLayout] = []
        self._place_panels(row_sizes(n_cells + n_charts, n_maps=n_cells))
        for chart_panel in self.chart_panels:
            chart_panel.hover_text.connect(self.hover_text)
        for cell_panel in self.cell_panels:
            cell_panel.hovered.connect(self._on_hovered)
            cell_panel.clicked.connect(self._on_clicked)
        for k in self.plan.dragged:
            chart_panel = self.chart_panels[k]
            chart_panel.dragged.connect(self._on_dragged)
            chart_panel.let_go.connect(self.controls.settle)
            is_plane = self.plan.charts(shown)[k].is_geometric
            shape = Qt.CursorShape.SizeAllCursor if is_plane else Qt.CursorShape.SizeHorCursor
            chart_panel.plot.setCursor(shape)
        return picture

    def _place_panels(self, sizes: tuple[int, ...]) -> None:
        """Panels in rows of so many, each as wide as the others of its row."""
        if sizes == self._sizes:
            return
        self._sizes = sizes
        for before in self._lines:  # the panels in it stay, and are placed anew
            self._panels.removeItem(before)
            before.deleteLater()
        self._lines = []
        panels: list[QWidget] = [*self.cell_panels, *self.chart_panels]
        for k, n_here in enumerate(sizes):
            here, panels = panels[:n_here], panels[n_here:]
            line = row(spacing=_GAP_PX)
            for panel in here:
                line.addWidget(panel, 1)
            self._lines.append(line)
            self._panels.addLayout(line, self.plan.stretches[k] if k < len(self.plan.stretches) else 1)

    def _fit_panels(self) -> None:
        """Three charts in a row where there is room, else two."""
        sizes = row_sizes(len(self.cell_panels) + len(self.chart_panels), n_maps=len(self.cell_panels))
        width = self.width() - self._side.width()
        if (
            not self.cell_panels
            and max(sizes, default=0) > 2
            and width < type_px(_LEAST_CHART_PX) * max(sizes)
        ):
            n = len(self.chart_panels)
            sizes = (2,) * (n // 2) + (1,) * (n % 2)
        self._place_panels(sizes)

    # Showing

    def _fit_sentence(self) -> None:
        """Room for two lines, or more where they are short: the same for every sentence."""
        self.sentence.setFixedHeight(sentence_px(self.width() - self._side.width()))

    def _show(self) -> None:
        shown = self.lab.shown
        for control in self.rows.values():
            control.show_choice(self.lab.choice)
        self.words.show_words(shown.words.formula, shown.words.numbers)
        self.sentence.setText(shown.words.sentence)
        self.foot.show_possible(self.controls)
        for cells, panel in zip(self.plan.cells(shown), self.cell_panels, strict=True):
            panel.show_cells(cells)
        for chart, chart_panel in zip(self.plan.charts(shown), self.chart_panels, strict=True):
            chart_panel.show_chart(chart)

    # What the person does

    def _on_page_clicked(self) -> None:
        if self.plan.other_page is not None:
            self.page_wanted.emit(self.plan.other_page[1])

    def _on_dragged(self, x: float, y: float, is_start: bool) -> None:
        self.controls.ask(self.plan.drag(self.lab.choice, x, y, is_start=is_start), group="drag")

    def _on_clicked(self, i: int, j: int) -> None:
        source = self.sender()
        for k, panel in enumerate(self.cell_panels):
            if panel is source:
                self.controls.ask(self.plan.click(self.lab.choice, k, i, j))

    def _on_hovered(self, i: int, j: int) -> None:
        source = self.sender()
        same = [p for p in self.cell_panels if p.shape == getattr(source, "shape", None)]
        for panel in same:
            panel.set_cursor(i, j)
        self.hover_text.emit("  ·  ".join(p.sentence(i, j) for p in same) if i >= 0 else "")
