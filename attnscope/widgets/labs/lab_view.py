"""A lab on the screen: controls, formula and numbers at the left, the picture at the right."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QFileDialog, QHBoxLayout, QLineEdit, QPushButton, QWidget

from attnscope.errors import UserError
from attnscope.fields import Field, FileName, Number, OneOf, Seed, Switch, Text, Value, fields_of
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import type_px
from attnscope.figures.views.lab import lab_figure, row_sizes
from attnscope.labs.lab import HasWords, Lab
from attnscope.viewmodels.labs.controls import LabControls, LabState
from attnscope.widgets.charts import ChartPanel
from attnscope.widgets.form_parts import FormulaLabel, JumpSlider, column, row, scrolled
from attnscope.widgets.labels import PlainLabel, ground, plain_tooltip, push_button, tool_button, when
from attnscope.widgets.labs.cells_and_tables import CellPanel
from attnscope.widgets.theme import Dressed, icon

C = TypeVar("C")
_NAME_PX, _VALUE_PX = 64, 44
ChooseFile = Callable[[QWidget, str], str]


def _ask_file(parent: QWidget, kinds: str) -> str:
    return QFileDialog.getOpenFileName(parent, "Open", str(Path.home()), f"{kinds};;All files (*)")[0]


class ControlRow(QWidget, Generic[C]):
    """One setting: shows its value in a choice; `asked` carries the choice requested by the user.

    `settled` tells that the hand lets go; `group` names what is slid or typed: its changes in a row are one.
    """

    asked = Signal(object)
    settled = Signal()

    def __init__(self, setting: Field, choice: C, *, choose_file: ChooseFile = _ask_file) -> None:
        super().__init__()
        self.choose_file = choose_file
        self._setting, self._choice = setting, choice
        self.group = setting.title if isinstance(setting, Number | Text) else ""
        self._index = -1
        self.name = PlainLabel(setting.title, "small")
        self.value = PlainLabel("", "value")
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.error = PlainLabel("", "error", wraps=True)
        self.error.hide()
        self.field = self._make_field()
        self.field.setAccessibleName(setting.title)
        tip = plain_tooltip(setting.tip)
        for part in (self.field, self.name):
            part.setToolTip(tip)
        layout = column(on=self, spacing=0)
        match setting:
            case Number():
                layout.addLayout(row(self.name, self.field, self.value, spacing=6))
            case FileName():
                self.opener = tool_button("…", f"Open a file: {setting.title}", clicked=self._on_file_wanted)
                layout.addLayout(row(self.name, self.field, self.opener, spacing=6))
            case OneOf() | Text():
                layout.addLayout(row(self.name, self.field, spacing=6))
            case _:
                layout.addWidget(self.field)
        layout.addWidget(self.error)
        self.set_size()
        self.show_choice(choice)

    def show_choice(self, choice: C) -> None:
        self._choice = choice
        setting, field, value = self._setting, self.field, self._setting.of(choice)
        if isinstance(setting, Number) and isinstance(field, JumpSlider):
            at = float(value)
            self._index = min(range(len(setting.values)), key=lambda k: abs(setting.values[k] - at))
            field.setValue(self._index)
            self.value.setText(setting.words(value))
        elif isinstance(setting, OneOf) and isinstance(field, QComboBox):
            field.setCurrentIndex(field.findData(value))
        elif isinstance(setting, Switch) and isinstance(field, QCheckBox):
            field.setChecked(bool(value))
        elif isinstance(setting, Text) and isinstance(field, QLineEdit):
            self.error.hide()
            is_typed = field.hasFocus() and field.text() == value
            if not is_typed:  # what is being typed stays as it is typed
                field.setText(str(value))
                field.setCursorPosition(0)
        if isinstance(setting, Switch | OneOf):
            for part in (self.field, self.name):
                part.setEnabled(setting.is_used(choice))
        elif isinstance(setting, Number | Seed) and self.parentWidget() is not None:
            self.setVisible(setting.is_used(choice))

    def set_size(self) -> None:
        """Adapt to the current size of type."""
        self.name.setFixedWidth(round(type_px(_NAME_PX)))
        self.value.setFixedWidth(round(type_px(_VALUE_PX)))

    def _make_field(self) -> QWidget:
        match self._setting:
            case Number() as number:
                slider = JumpSlider(Qt.Orientation.Horizontal)
                slider.setRange(0, len(number.values) - 1)
                slider.setPageStep(max(1, len(number.values) // 10))
                slider.valueChanged.connect(self._on_slid)
                slider.sliderReleased.connect(self.settled)
                return slider
            case OneOf() as one:
                combo = QComboBox()
                for key, text in one.options.items():
                    combo.addItem(text, key)
                combo.setMinimumContentsLength(8)
                combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
                combo.activated.connect(self._on_picked)
                return combo
            case Switch():
                box = QCheckBox(self._setting.title)
                box.clicked.connect(self._ask)
                return box
            case Seed():
                button = push_button(self._setting.title, clicked=self._on_pushed)
                return button
            case Text() as text:
                edit = QLineEdit(maxLength=text.most, placeholderText=text.example)
                if isinstance(text, FileName):  # it is read, and so only when it is whole
                    edit.editingFinished.connect(self._on_file_named)
                else:
                    edit.textEdited.connect(self._on_written)
                edit.editingFinished.connect(self.settled)
                return edit
            case _:
                raise TypeError(f"no control for {type(self._setting).__name__}")

    # User actions

    def _ask(self, value: Value) -> None:
        self.asked.emit(self._setting.put(self._choice, value))

    def _on_slid(self, index: int) -> None:
        # QSlider has no signal for the person alone that covers keys and the wheel.
        if index != self._index and isinstance(self._setting, Number):
            self._ask(self._setting.values[index])

    def _on_picked(self, index: int) -> None:
        if isinstance(self.field, QComboBox):
            self._ask(str(self.field.itemData(index)))

    def _on_pushed(self) -> None:
        if isinstance(self._setting, Seed):
            self._ask(int(self._setting.of(self._choice)) + self._setting.step)

    def _on_file_wanted(self) -> None:
        if isinstance(self._setting, FileName) and (path := self.choose_file(self, self._setting.kinds)):
            self._open(path)

    def _on_file_named(self) -> None:
        if isinstance(self.field, QLineEdit) and self.field.text().strip() != self._setting.of(self._choice):
            self._open(self.field.text().strip())

    def _open(self, path: str) -> None:
        try:
            self._ask(self._setting.checked(path))
        except UserError as error:
            self.error.setText(str(error))
            self.error.show()

    def _on_written(self, text: str) -> None:
        if self._setting.fits(text):
            self._ask(text)


class WordsPanel(QWidget):
    """The formula, its source, and the live numbers in it."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._formula = FormulaLabel()
        self._rows: list[tuple[PlainLabel, PlainLabel]] = []
        self._layout = column(
            PlainLabel("Formula", "section"),
            self._formula,
            PlainLabel(source, "muted", wraps=True),
            8,
            PlainLabel("Now", "section"),
            on=self,
            spacing=2,
        )

    def show_words(self, formula: tuple[str, ...], numbers: tuple[tuple[str, str], ...]) -> None:
        """Show other words; rows are kept so that nothing jumps."""
        self._formula.set_formulas(*formula)
        while len(self._rows) < len(numbers):
            pair = (PlainLabel("", "muted"), PlainLabel("", "small"))
            pair[1].setAlignment(Qt.AlignmentFlag.AlignRight)
            pair[0].setWordWrap(True)  # a long name takes two lines, rather than the value its room
            self._layout.addLayout(line := row(*pair))
            line.setStretch(0, 1)
            self._rows.append(pair)
        for k, (name, value) in enumerate(self._rows):
            is_there = k < len(numbers)
            name.setText(numbers[k][0] if is_there else "")
            value.setText(numbers[k][1] if is_there else "")


class LabFoot(Dressed):
    """Acts on the current controls of a lab; `export_wanted` asks for the export dialog."""

    export_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.undo_button = tool_button("", "Undo the last change in this lab")
        self.redo_button = tool_button("", "Redo the change in this lab")
        self.reset_button = QPushButton("Reset")
        self.export_button = push_button("Export…", clicked=self.export_wanted)
        self.undo_button.setToolTip("Undo the last change in this lab (Ctrl+Z)")
        self.redo_button.setToolTip("Redo the change in this lab (Ctrl+Y)")
        self.reset_button.setToolTip("Restore the example: every control at its default")
        self.export_button.setToolTip("The picture as SVG, PDF or PNG, its numbers as CSV or NPZ (Ctrl+E)")
        row(
            self.undo_button,
            self.redo_button,
            self.reset_button,
            None,
            self.export_button,
            on=self,
            margins=(12, 6, 12, 8),
            spacing=4,
        )
        for button in (self.undo_button, self.redo_button, self.reset_button):
            button.setEnabled(False)
        self.dress()

    def work_on(self, controls: LabControls[Any]) -> None:
        """Let the buttons undo, redo and reset these controls."""
        self.undo_button.clicked.connect(lambda: controls.undo())
        self.redo_button.clicked.connect(lambda: controls.redo())
        self.reset_button.clicked.connect(lambda: controls.reset())
        self.show_possible(controls)

    def show_possible(self, controls: LabControls[Any]) -> None:
        """Enable what is possible now."""
        self.undo_button.setEnabled(controls.can_undo)
        self.redo_button.setEnabled(controls.can_redo)
        self.reset_button.setEnabled(not controls.is_example)

    def dress(self) -> None:
        self.undo_button.setIcon(icon("undo", self.theme.text, side_px=16))
        self.redo_button.setIcon(icon("redo", self.theme.text, side_px=16))


class LabFrame(Dressed):
    """`side` and `picture` are the layouts to fill; `looked_at` when the lab is shown.

    `controls` is what is set in the lab; the side is `side_px` wide where the type has its usual size.
    """

    export_wanted = Signal()
    hover_text = Signal(str)
    looked_at = Signal()

    def __init__(self, title: str, controls: LabControls[Any], *, side_px: int = 258) -> None:
        super().__init__()
        self.controls, self._side_px = controls, side_px
        self.sentence = PlainLabel(role="name", wraps=True)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        inside = QWidget()
        whole = column(PlainLabel(title, "name"), 4, on=inside, margins=12, spacing=6)
        self.side = column(spacing=6)
        whole.addLayout(self.side)
        whole.addStretch(1)
        self.foot = LabFoot()
        self.foot.work_on(controls)
        self.foot.export_wanted.connect(self.export_wanted)
        self._side = ground(QWidget(), "panel", edge="right")
        column((scrolled(inside), 1), self.foot, on=self._side, margins=(0, 0, 1, 0), spacing=0)
        self.picture = column(self.sentence, margins=(16, 12, 12, 8))
        row(self._side, (self.picture, 1), on=self, spacing=0)

    def add_to_side(self, *parts: QWidget | QHBoxLayout) -> None:
        """Controls, one under the other."""
        for part in parts:
            if isinstance(part, QWidget):
                self.side.addWidget(part)
            else:
                self.side.addLayout(part)

    def fit_room(self) -> None:
        """Adapt to the current size of type: room for two lines, or more if they are short."""
        self._side.setFixedWidth(round(type_px(self._side_px)))
        width = self.width() - self._side.width()
        n_lines = 2 if width > type_px(1000) else 3 if width > type_px(560) else 4
        self.sentence.setFixedHeight(round(type_px(19 * n_lines + 2)))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.looked_at.emit()


_GAP_PX = 24
_LEAST_CHART_PX = 210
"""Narrower charts stand two in a row: at the size of type of 100 %."""


S = TypeVar("S", bound=HasWords)


class LabView(LabFrame, Generic[C, S]):
    """Shows a lab; `page_wanted` asks for another page."""

    controls: LabControls[C]
    page_wanted = Signal(str)
    left = Signal()

    def __init__(self, plan: Lab[C, S]) -> None:
        self.plan = plan
        lab = self.lab = LabState(plan.example, plan.resolve)
        controls = LabControls(
            plan.example,
            lambda: lab.choice,
            lab.choose,
            is_example=lambda choice, _: plan.is_example(choice),
            allows=plan.allows,
        )
        super().__init__(plan.name, controls, side_px=248)
        self.rows: dict[str, ControlRow[C]] = {}
        self.words = WordsPanel(plan.source)
        self._build_side()
        self._build_picture()
        when(self, self._show, self.lab.changed)
        self.dress()
        self._show()

    def dress(self) -> None:
        self.fit_room()
        for control in self.rows.values():
            control.set_size()

    def add_button(self, words: str, tip: str) -> QPushButton:
        """Add another button below the controls."""
        button = push_button(words, name=words, tip=plain_tooltip(tip))
        self.side.insertWidget(len(self.rows), button)
        return button

    def figure_spec(self) -> FigureSpec:
        """The lab as a figure: its picture, its formula and its sentence."""
        return lab_figure(self.plan, self.lab.shown)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.left.emit()

    def fit_room(self) -> None:
        super().fit_room()
        self._fit_panels()

    # Building

    def _build_side(self) -> None:
        for setting in fields_of(self.lab.choice):
            shown: ControlRow[C] = ControlRow(setting, self.lab.choice)
            shown.asked.connect(partial(self.controls.ask, group=shown.group))
            shown.settled.connect(self.controls.settle)
            self.rows[setting.title] = shown
            self.side.addWidget(shown)
        self.side.addSpacing(8)
        self.side.addWidget(self.words)
        if self.plan.other_page is not None:
            self.page_button = tool_button(self.plan.other_page[0], self.plan.other_page[0])
            self.page_button.setToolTip(f"Go to the page {self.plan.other_page[1].capitalize()}")
            self.page_button.clicked.connect(self._on_page_clicked)
            self.side.addSpacing(8)
            self.side.addLayout(row(self.page_button, None))

    def _build_picture(self) -> None:
        shown = self.lab.shown
        n_cells, n_charts = len(self.plan.cells(shown)), len(self.plan.charts(shown))
        self.cell_panels = tuple(CellPanel() for _ in range(n_cells))
        self.chart_panels = tuple(ChartPanel(names_px=self.plan.names_px) for _ in range(n_charts))
        self._panels = column()
        self.picture.addLayout(self._panels, 1)
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
        """Place three charts in a row if there is room, else two."""
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

    # User actions

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
