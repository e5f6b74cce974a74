"""Asking questions about the model and its text: questions, options, and the answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QIntValidator, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLineEdit, QScrollArea, QWidget

from attnscope.fields import Field, Number, OneOf, Switch, Value, fields_of
from attnscope.figures.page import sized
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import plain_text, type_px
from attnscope.figures.views.answer import AnswerFigure, cell_text, cells_px
from attnscope.figures.words_and_numbers import caption_of
from attnscope.records.charts import Answer, NumberTable
from attnscope.viewmodels.asking import AskState
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.command_palette import Offer
from attnscope.widgets.export.figures_offered import export_one
from attnscope.widgets.form_parts import ChoiceButton, FlowRow, FormulaLabel, column, narrow_combo, row
from attnscope.widgets.labels import (
    PlainLabel,
    named,
    plain_tooltip,
    push_button,
    tool_button,
    watch_seen,
    when_seen,
)
from attnscope.widgets.labs.cells_and_tables import CellPanel, TextTable, TextTableModel
from attnscope.widgets.map_widget import StaleWatch
from attnscope.widgets.theme import Dressed

if TYPE_CHECKING:
    from attnscope.widgets.charts import ChartPanel

_CHART_PX, _MOST_LINES, _LINE_PX, _HEAD_PX = 190, 16, 24, 30
_MEASURED_ROWS, _CELL_PADDING_PX, _WIDEST_PX = 100, 22, 260
_PART_PX, _MOST_ACROSS = 280, 3
"""The least width of each of the maps or charts that stand beside each other, and how many do at most."""
_WORD_PX, _NUMBER_PX, _COUNT_PX = 96, 72, 36


class _TitledEdit(QWidget):
    """A typed value, after its title; `around` is to its left and right."""

    def __init__(
        self, title: str, *around: QWidget, width_px: int = _NUMBER_PX, left_px: int = 14, spacing: int = 4
    ) -> None:
        super().__init__()
        self.edit = named(QLineEdit(), title)
        self.edit.setFixedWidth(round(type_px(width_px)))
        parts = (PlainLabel(f"{title}:"), *around[:1], self.edit, *around[1:])
        row(*parts, on=self, margins=(left_px, 0, 0, 0), spacing=spacing)


class _WalkedEdit(_TitledEdit):
    """A typed whole number, with ◂ and ▸; `walked` carries the step. ↑ and ↓ do the same."""

    walked = Signal(int)

    def __init__(self, title: str) -> None:
        back = tool_button("◂", f"Previous {title}", tip=f"Previous {title} (↓)", role="flat")
        on = tool_button("▸", f"Next {title}", tip=f"Next {title} (↑)", role="flat")
        super().__init__(title, back, on, width_px=_COUNT_PX, spacing=0)
        self.back, self.on = back, on
        self.edit.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.edit.setValidator(QIntValidator(self.edit))
        back.clicked.connect(lambda: self.walked.emit(-1))
        on.clicked.connect(lambda: self.walked.emit(1))

    def show_value(self, value: int, least: int, most: int) -> None:
        """Show a number within this range."""
        self.edit.setText(str(value))
        self.back.setEnabled(value > least)
        self.on.setEnabled(value < most)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
        n = steps.get(Qt.Key(event.key()))
        if n is None:
            super().keyPressEvent(event)
        elif (self.on if n > 0 else self.back).isEnabled():
            self.walked.emit(n)


class OptionsRow(QWidget):
    """The options of a question before the button `last`; `asked` carries the name of one and its value."""

    asked = Signal(str, object)

    def __init__(self, last: QWidget) -> None:
        super().__init__()
        self._row = FlowRow(spacing=4, line_spacing=2)
        self._row.setContentsMargins(0, 0, 0, 0)
        self.setLayout(self._row)
        self._last = last
        self._row.addWidget(last)
        self._parts: dict[str, tuple[Field, QWidget]] = {}
        self._kind: type = object
        self._limits: dict[str, float] = {}

    def show_options(self, options: object, limits: Iterable[tuple[str, float]] = ()) -> None:
        """Show the chosen options; the controls are made anew for another question.

        `limits` are the largest values of some that are walked.
        """
        self._limits = dict(limits)
        if type(options) is not self._kind:
            self._kind = type(options)
            self._build(fields_of(options))
        for field, part in self._parts.values():
            value = field.of(options)
            if isinstance(part, ChoiceButton):
                part.show_choice(str(value))
            elif isinstance(part, _WalkedEdit) and isinstance(field, Number):
                part.show_value(int(value), int(field.values[0]), self._most(field))
            elif isinstance(part, _TitledEdit):
                part.edit.setText(str(value))
            else:
                part.setChecked(bool(value))  # type: ignore[attr-defined]  # a button
            part.setEnabled(field.is_used(options))

    def _build(self, fields: Iterable[Field]) -> None:
        for _, part in self._parts.values():
            self._row.removeWidget(part)
            part.hide()
            part.deleteLater()
        self._parts = {field.name: (field, self._make(field)) for field in fields}
        for field, part in self._parts.values():
            part.setToolTip(plain_tooltip(field.tip))
            self._row.addWidget(part)
        self._row.removeWidget(self._last)
        self._row.addWidget(self._last)

    def _make(self, field: Field) -> QWidget:
        def ask(value: Value) -> None:
            self.asked.emit(field.name, value)

        match field:
            case Number() if field.is_walked:
                walked = _WalkedEdit(field.title)
                walked.walked.connect(lambda n: ask(self._typed(field, walked) + n))
                walked.edit.editingFinished.connect(lambda: ask(self._typed(field, walked)))
                return walked
            case OneOf() | Number():
                values = field.options if isinstance(field, OneOf) else map(str, field.values)
                button = ChoiceButton(
                    field.title, field.tip, {key: field.words(field.parsed(key)) for key in values}
                )
                button.chosen.connect(lambda key: ask(field.parsed(key)))
                return button
            case Switch():
                switch = tool_button(field.title, field.tip, role="segment", is_checkable=True, clicked=ask)
                return switch
            case _:
                part = _TitledEdit(field.title)
                part.edit.editingFinished.connect(lambda: ask(part.edit.text()))
                return part

    def _most(self, field: Number) -> int:
        return int(min(field.values[-1], self._limits.get(field.name, field.values[-1])))

    def _typed(self, field: Number, part: _WalkedEdit) -> int:
        """Number in a control, within its range; anything else counts as the first value."""
        text, least = part.edit.text().strip(), int(field.values[0])
        return min(max(int(text) if text.isdecimal() else least, least), self._most(field))


_NOTHING = Answer(sentence="")
"""Shown while there is no answer."""


class AnswerView(Dressed):
    """Maps, charts and tables of an answer; `hover_text` describes the item under the cursor.

    They stand one above the other, where there is room up to three maps or charts beside each other.
    """

    hover_text = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 4, 8, 0)
        self._layout.setSpacing(12)
        self._shown = _NOTHING
        self._n_across = 1
        self.cells: list[CellPanel] = []
        self.charts: list[ChartPanel] = []
        self.tables: list[_TablePart] = []

    def show_answer(self, answer: Answer | None) -> None:
        """Show another answer, reusing existing parts."""
        self._shown = answer or _NOTHING
        cells, charts, tables = self._shown.cells, self._shown.charts, self._shown.tables
        while len(self.cells) < len(cells):
            self.cells.append(self._new_cells())
        while len(self.charts) < len(charts):
            self.charts.append(self._new_chart())
        for k, panel in enumerate(self.cells):
            panel.setVisible(k < len(cells))
            if k < len(cells):
                panel.setFixedHeight(round(type_px(1.0) * cells_px(cells[k])))
                panel.show_cells(cells[k])
        for k, chart_panel in enumerate(self.charts):
            chart_panel.setVisible(k < len(charts))
            if k < len(charts):
                chart_panel.setFixedHeight(round(type_px(_CHART_PX)))
                chart_panel.show_chart(charts[k])
        if [part.columns for part in self.tables] != [table.columns for table in tables]:
            for old in self.tables:
                self._layout.removeWidget(old)
                old.hide()
                old.deleteLater()
            self.tables = [_TablePart(table) for table in tables]
        for part, table in zip(self.tables, tables, strict=True):
            part.show_table(table)
        self._arrange()

    def fit_room(self) -> None:
        n_across = min(max(int(self.width() / type_px(_PART_PX)), 1), _MOST_ACROSS)
        if n_across != self._n_across:
            self._n_across = n_across
            self._arrange()

    def _arrange(self) -> None:
        """Place every part; wide maps have a row to themselves, as tables do."""
        while self._layout.count():
            self._layout.takeAt(0)
        maps = self._shown.cells
        wide = [shown.is_wide or shown.values.shape[1] > 2 * shown.values.shape[0] for shown in maps]
        n_charts = len(self._shown.charts)
        n_across, row = min(self._n_across, max(len(maps), n_charts, 1)), 0
        for panels, is_wide in (
            (self.cells[: len(maps)], wide),
            (self.charts[:n_charts], [False] * n_charts),
        ):
            place = 0
            for panel, spans in zip(panels, is_wide, strict=True):
                if place and (spans or place == n_across):
                    row, place = row + 1, 0
                n = n_across if spans or len(panels) == 1 else 1
                self._layout.addWidget(panel, row, place, 1, n, Qt.AlignmentFlag.AlignTop)
                place += n
            row += bool(place)
        for part in self.tables:
            self._layout.addWidget(part, row, 0, 1, n_across)
            row += 1
        for k in range(_MOST_ACROSS):
            self._layout.setColumnStretch(k, int(k < n_across))

    def _new_cells(self) -> CellPanel:
        panel = CellPanel()
        panel.setParent(self)
        panel.hovered.connect(lambda i, j: self._on_hovered(panel, i, j))
        return panel

    def _new_chart(self) -> "ChartPanel":
        from attnscope.widgets.charts import ChartPanel  # its plotting library is slow to import

        panel = ChartPanel()
        panel.setParent(self)
        panel.hover_text.connect(self.hover_text)
        return panel

    def _on_hovered(self, panel: CellPanel, i: int, j: int) -> None:
        panel.set_cursor(i, j)
        self.hover_text.emit(panel.sentence(i, j) if i >= 0 else "")


class _TablePart(Dressed):
    """A table under its title, as high as sixteen rows at most."""

    def __init__(self, table: NumberTable) -> None:
        super().__init__()
        self.columns = table.columns
        self._table = table
        self._title = PlainLabel(role="name")
        self._model = TextTableModel(
            [(name, name) for name in table.columns],
            lambda k: [cell_text(cell) for cell in self._table.rows[k]],
        )
        self._shown = TextTable(self._model, table.title)
        self._model.setParent(self._shown)
        self._wanted: list[int] = []
        self._least: list[int] = []
        column(self._title, self._shown, on=self, spacing=2)
        self.show_table(table)

    def show_table(self, table: NumberTable) -> None:
        """Show another table with these columns."""
        self._table = table
        self._title.setText(table.title)
        self._model.show_rows(len(table.rows))
        n_lines = min(len(table.rows), _MOST_LINES)
        self._shown.setFixedHeight(round(type_px(_LINE_PX * n_lines + _HEAD_PX + 12)))
        self._measure()
        self.fit_room()

    def _measure(self) -> None:
        """Preferred width of each column for heading and first cells, and width of its heading."""
        inside, heading = self._shown.fontMetrics(), self._shown.horizontalHeader().fontMetrics()
        padding, self._wanted, self._least = round(type_px(_CELL_PADDING_PX)), [], []
        for k, name in enumerate(self._table.columns):
            texts = (cell_text(row[k]) for row in self._table.rows[:_MEASURED_ROWS])
            needed, named = (
                max(map(inside.horizontalAdvance, texts), default=0),
                heading.horizontalAdvance(name),
            )
            least, most = round(type_px(_NUMBER_PX if k else _WORD_PX)), round(type_px(_WIDEST_PX))
            self._least.append(max(named + padding, least))
            self._wanted.append(min(max(needed + padding, self._least[-1]), most))

    def fit_room(self) -> None:
        """Columns as wide as wanted; if there is less room the widest are cut to their heading at most."""
        widths = list(self._wanted)
        too_much = sum(widths) - self._shown.viewport().width()
        if widths and too_much > 0:
            widest = widths.index(max(widths))
            widths[widest] = max(widths[widest] - too_much, self._least[widest])
        for k, width in enumerate(widths):
            self._shown.setColumnWidth(k, width)


class _AnswerArea(QScrollArea):
    """Scrolls an answer; its sentences are never wider than the visible part, as maps and tables may be."""

    def __init__(self, sentences: Sequence[QWidget], parent: QWidget) -> None:
        super().__init__(parent, widgetResizable=True)
        self._sentences = sentences

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for label in self._sentences:
            label.setMaximumWidth(self.viewport().width())


class AskPanel(Dressed):
    """Asks only while visible. `pointed` carries words on the item under the cursor.

    `enlarged` asks for room in the place of the head, or gives it back.
    """

    pointed = Signal(str)
    enlarged = Signal(bool)

    def __init__(self, session: Session, state: AskState) -> None:
        super().__init__()
        self._session, self._state = session, state
        self.questions = narrow_combo("Question")
        for name, question in state.questions.items():
            self.questions.addItem(question.title, name)
            self.questions.setItemData(
                self.questions.count() - 1, plain_tooltip(question.words), Qt.ItemDataRole.ToolTipRole
            )
        self.enlarge_button = tool_button(
            "Enlarge",
            "Enlarge the answer",
            role="segment",
            is_checkable=True,
            tip="Whether answers have the place of the head, or stand beside it",
            clicked=self.enlarged,
        )
        self.words, self.note = PlainLabel(role="muted"), PlainLabel(role="hint")
        self.sentence, self.formula, self.source = PlainLabel(), FormulaLabel(), PlainLabel(role="muted")
        self.kept_button = push_button("", clicked=lambda: session.opening.load(state.kept_run))
        for label in (self.words, self.sentence, self.note, self.source):
            label.setWordWrap(True)
        self.answer = AnswerView()
        self.export_button = tool_button("Export…", "Export the answer, or its numbers", role="flat")
        self.options = OptionsRow(self.export_button)
        self._lay_out()
        self._stale = StaleWatch(lambda: state.is_busy, self._show_stale, self)
        self.questions.activated.connect(self._on_chosen)
        self.options.asked.connect(state.set_option)
        self.answer.hover_text.connect(self.pointed)
        self.export_button.clicked.connect(lambda: export_one(self.figure_spec(), self))
        watch_seen(self, state.watch)
        when_seen(self, self._show, state.changed.question, state.changed.answer)
        when_seen(self, self._show_busy, state.changed.busy)
        self._show()

    def dress(self) -> None:
        self.answer.show_answer(self._state.answer)

    def choose(self, name: str, values: Mapping[str, Value] = MappingProxyType({})) -> None:
        """Ask another question, with some of its options set."""
        self._state.choose(name, values)

    def figure_spec(self) -> FigureSpec | None:
        """The answer as a figure; None if there is none."""
        model, traced, answer = self._session.model, self._session.traced, self._state.answer
        if model is None or traced is None or answer is None or not self.isVisible():
            return None
        caption = caption_of(model, traced, " ".join(filter(None, (answer.sentence, answer.note))))
        spec = AnswerFigure(
            charts=answer.charts,
            cells=answer.cells,
            tables=answer.tables,
            gates=traced.gates,
            interventions=traced.interventions,
            title=self._state.question.title,
            caption=caption,
        )
        return sized(spec)

    def _lay_out(self) -> None:
        inner = QWidget()
        said = (self.sentence, self.note, self.formula, self.source)
        kept = row(self.kept_button, None)
        column(self.sentence, self.note, kept, *said[2:], self.answer, None, on=inner, margins=(0, 0, 0, 8))
        self.area = _AnswerArea(said, self)
        self.area.setWidget(inner)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(
            row((self.questions, 1), self.enlarge_button, spacing=4),
            self.words,
            self.options,
            (self.area, 1),
            on=self,
            margins=(16, 8, 8, 8),
            spacing=4,
        )

    @Slot(int)
    def _on_chosen(self, index: int) -> None:
        self._state.choose(str(self.questions.itemData(index)))

    def _show(self) -> None:
        state, question, answer = self._state, self._state.question, self._state.answer
        self.questions.setCurrentIndex(self.questions.findData(question.name))
        self.words.setText(question.words)
        self.words.setToolTip(plain_tooltip(f"Needs {question.needs}."))
        formula = (answer.formula if answer is not None else "") or question.formula
        self.formula.set_formulas(*filter(None, formula.split(",   ")))
        self.formula.setVisible(bool(formula))
        self.source.say(question.source)
        self.options.show_options(state.options, answer.limits if answer is not None else ())
        self.sentence.setText(plain_text(answer.sentence) if answer is not None else "")
        self.sentence.setVisible(answer is not None)
        note = state.note or (answer.note if answer is not None else "")
        self.note.say(note)
        self.kept_button.setText(f"Open {state.kept_run}")
        self.kept_button.setToolTip("Open the model of a kept run that can be asked this")
        self.kept_button.setVisible(bool(state.kept_run))
        self.answer.show_answer(answer)
        self.export_button.setEnabled(answer is not None)
        self._show_busy()

    def _show_busy(self) -> None:
        self._stale.check()

    def _show_stale(self, is_stale: bool) -> None:
        self.answer.setEnabled(not is_stale)
        self.sentence.setEnabled(not is_stale)


def ask_offers(state: AskState, show: Callable[[str], None]) -> Iterable[Offer]:
    """One palette offer for each question; `show` turns to it."""
    for name, question in state.questions.items():
        detail = f"{question.words} ({', '.join(question.search)})" if question.search else question.words

        def run(name: str = name) -> None:
            show(name)

        yield Offer(
            item=Item(
                key=f"ask:{name}",
                kind="page",
                title=f"Ask: {question.title}",
                detail=detail,
                search=f"{question.source} {question.formula}",
            ),
            run=run,
        )
