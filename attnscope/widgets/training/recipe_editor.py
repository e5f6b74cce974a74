"""The text editor for recipes: plain monospaced text, line numbers, one marked line, and the cost."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
    QShowEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextOption,
)
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QPlainTextEdit,
    QTableWidget,
    QTableWidgetItem,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from attnscope.counting import bytes_text, short_count
from attnscope.figures.colours import series_colour
from attnscope.figures.style import NORMAL_PX, font, type_px
from attnscope.records.plans import Plan
from attnscope.viewmodels.training.planning import (
    PRESET_COLUMNS,
    WORD_COLUMNS,
    Row,
    batch_lines,
    disk_rows,
    memory_line,
    memory_rows,
    plan_summary,
    preset_row_cells,
    problem_of,
    published_words,
    rate_words,
    seconds_text,
    size_rows,
    texts_words,
    tokens_words,
    work_rows,
)
from attnscope.viewmodels.training.recipe_text import csv_of_table, take_preset
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.form_parts import SideTabs, column, dress_table, monospaced_font, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, named, push_button, tool_button, when
from attnscope.widgets.theme import Dressed, Dressing

_FONT = """
QPlainTextEdit { font-family: monospace; font-size: @type@px; padding: 0; }
QAbstractScrollArea::corner { background: transparent; border: none; }
"""
_SECTION = re.compile(r"^\s*\[.*")


class RecipeEditor(Dressing, QPlainTextEdit):
    """Shows and edits the text of a recipe; `textChanged` when it differs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marked: int | None = None
        self._numbers = _LineNumbers(self)
        self._highlighter = _TomlHighlighter(self.document(), self.theme.muted)
        self._fit_type()
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTabChangesFocus(True)
        self.setAccessibleName("Recipe")
        self.blockCountChanged.connect(self._on_lines_counted)
        self.updateRequest.connect(self._on_scrolled)
        self._on_lines_counted()

    def dress(self) -> None:
        self._fit_type()
        self._highlighter.set_quiet(self.theme.muted)
        self.set_marked_line(self._marked)

    def _fit_type(self) -> None:
        sheet = _FONT.replace("@type@", str(round(type_px(12))))
        if sheet == self.styleSheet():
            return
        self.setStyleSheet(sheet)
        self.ensurePolished()
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self._on_lines_counted()

    def set_text(self, text: str, *, is_edit: bool = False) -> None:
        """Set another text; the old edit can be undone.

        The cursor stays where it is when the text is the same.
        """
        if text == self.toPlainText():
            return
        if not is_edit:
            self.setPlainText(text)
            return
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)

    def set_marked_line(self, line: int | None) -> None:
        """Mark one line, from 1, as faulty."""
        self._marked = line
        block = self.document().findBlockByNumber(line - 1) if line else None
        if block is None or not block.isValid():
            self.setExtraSelections([])
        else:
            mark = QTextEdit.ExtraSelection()
            colour = QColor(self.theme.error)
            colour.setAlpha(40)
            mark.format.setBackground(colour)
            mark.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
            mark.cursor = QTextCursor(block)
            self.setExtraSelections([mark])
        self._numbers.update()

    def reveal_line(self, line: int) -> None:
        """Bring a line, from 1, into view; the cursor goes there."""
        if self.textCursor().blockNumber() != line - 1:
            self.setTextCursor(QTextCursor(self.document().findBlockByNumber(line - 1)))
            self.centerCursor()

    def numbers_width(self) -> int:
        """Width of the line numbers in pixels."""
        n_digits = max(2, len(str(self.blockCount())))
        return 14 + n_digits * self.fontMetrics().horizontalAdvance("9")

    def paint_numbers(self, widget: QWidget, area: QRect) -> None:
        """Paint the line numbers within `area` on `widget`."""
        with QPainter(widget) as painter:
            painter.fillRect(area, QColor(self.theme.panel))
            painter.setFont(monospaced_font(round(type_px(11))))
            block = self.firstVisibleBlock()
            top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
            while block.isValid() and top <= area.bottom():
                height = self.blockBoundingRect(block).height()
                is_marked = block.blockNumber() + 1 == self._marked
                painter.setPen(QColor(self.theme.error if is_marked else self.theme.muted))
                place = QRect(0, round(top), widget.width() - 8, round(height))
                painter.drawText(place, Qt.AlignmentFlag.AlignRight, str(block.blockNumber() + 1))
                top += height
                block = block.next()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        inside = self.contentsRect()
        self._numbers.setGeometry(inside.left(), inside.top(), self.numbers_width(), inside.height())

    @Slot()
    def _on_lines_counted(self) -> None:
        self.setViewportMargins(self.numbers_width(), 0, 0, 0)

    @Slot(QRect, int)
    def _on_scrolled(self, area: QRect, dy: int) -> None:
        if dy:
            self._numbers.scroll(0, dy)
        else:
            self._numbers.update(0, area.y(), self._numbers.width(), area.height())


class _LineNumbers(QWidget):
    def __init__(self, editor: RecipeEditor) -> None:
        super().__init__(editor)
        self._editor = editor

    def sizeHint(self) -> QSize:
        return QSize(self._editor.numbers_width(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._editor.paint_numbers(self, event.rect())


class _TomlHighlighter(QSyntaxHighlighter):
    """Sections bold, comments faint; nothing else is coloured."""

    def __init__(self, document: QTextDocument, quiet: str) -> None:
        super().__init__(document)
        self.set_quiet(quiet)

    def set_quiet(self, colour: str) -> None:
        """Set the colour of comments."""
        self._section = QTextCharFormat()
        self._section.setFontWeight(QFont.Weight.Bold)
        self._comment = QTextCharFormat()
        self._comment.setForeground(QColor(colour))
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        if _SECTION.match(text):
            self.setFormat(0, len(text), self._section)
        start = _comment_start(text)
        if start is not None:
            self.setFormat(start, len(text) - start, self._comment)


def _comment_start(text: str) -> int | None:
    quote = ""
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            return i
    return None


COST_TABS = {
    "This recipe": "Parameters, memory, operations (FLOPs) and time of the recipe, counted before it runs",
    "What it reads": "The batch that the run begins with: masked tokens (80, 10, 10 %), spans, pairs, "
    "packing and padding",
    "Presets": "Published models: Transformer base and big, BERT, GPT, T5, XLNet, RoBERTa, Megatron-LM, "
    "Turing-NLG, GPT-3; parameters, data and hardware beside what is counted here",
}
"""The tabs of the dialog, each with what it shows."""
_STRIP_PX, _BAND_PX = 44, 34
"""The height of the drawn learning rate, and of what warms up below it, with their words."""

# What the recipe costs in full, and the table of presets: a window of its own that follows the editor.


class CostDialog(QDialog):
    """Shows the plan of a TrainingState and the presets; stays open beside the editor."""

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setWindowTitle("Cost in advance")
        self.setModal(False)
        self._summary = PlainLabel(role="name")
        self._problem = PlainLabel(role="error", wraps=True)
        self._notes = PlainLabel(role="muted", wraps=True)
        self._groups = {
            name: _Group(title)
            for name, title in (
                ("size", "Parameters"),
                ("memory", "Memory while training"),
                ("work", "Work and time"),
                ("disk", "Checkpoints on disk"),
            )
        }
        self.presets = _preset_table()
        self.tabs = SideTabs()
        panels = (self._build_plan(), _BatchPanel(state), self._build_presets())
        for (name, words), panel in zip(COST_TABS.items(), panels, strict=True):
            self.tabs.add(name, panel, tip=words)
        column(self.tabs, on=self, margins=(16, 8, 16, 16), spacing=-1)
        self.resize(980, 580)
        when(self, self._show_plan, state.planning.changed.plan)
        when(self, self._show_presets, state.planning.changed.presets)
        when(self, self._show_take, state.changed.status)
        state.planning.ask_presets()
        self._show_plan()
        self._show_presets()

    def _build_plan(self) -> QWidget:
        page = QWidget()
        layout = column(self._summary, self._problem, on=page, margins=8, spacing=12)
        grid = QGridLayout()
        grid.setHorizontalSpacing(40)
        grid.setVerticalSpacing(16)
        for name, place in (("memory", (0, 0)), ("work", (0, 1)), ("size", (1, 0)), ("disk", (1, 1))):
            grid.addWidget(self._groups[name], *place, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 1)
        layout.addLayout(grid)
        layout.addStretch(1)
        layout.addWidget(self._notes)
        return page

    def _build_presets(self) -> QWidget:
        page = QWidget()
        self._presets_note = PlainLabel(role="muted", wraps=True)
        layout = column((self.presets, 1), self._presets_note, on=page, margins=8)
        self._take = push_button("Put into the recipe", clicked=self._on_take)
        copy = push_button("Copy table", tip="Copies the table as CSV", clicked=self._on_copy)
        copy.setAutoDefault(False)
        buttons: QHBoxLayout = row(None, copy, self._take)
        layout.addLayout(buttons)
        self.presets.itemDoubleClicked.connect(self._on_take)
        self.presets.itemSelectionChanged.connect(self._show_take)
        return page

    def _show_plan(self) -> None:
        planning = self._state.planning
        plan = planning.plan
        for group in self._groups.values():
            group.setVisible(plan is not None)
        if plan is None:
            self._summary.setText("This recipe has no cost yet")
            self._problem.setText(planning.problem)
            self._notes.setText("")
            return
        self._summary.setText(f"{plan.name}: {plan_summary(plan)}")
        self._problem.setText(problem_of(plan))
        self._groups["size"].show_rows(size_rows(plan))
        self._groups["memory"].show_rows(memory_rows(plan))
        self._groups["work"].show_rows(work_rows(plan))
        self._groups["disk"].show_rows(disk_rows(plan))
        pace = (
            f"The time is {plan.pace.words}; evaluation on held-out data and saving come on top."
            if plan.pace
            else ""
        )
        memory = (
            "Memory is of the longest batch: weights, gradients and moments in float32, and what each layer "
            "keeps for its gradients (after Korthikanti et al. 2022, section 4.1). Nothing is allocated."
        )
        self._notes.setText("\n".join(text for text in (pace, memory, *plan.notes) if text))

    def _show_presets(self) -> None:
        planning = self._state.planning
        rows = planning.presets
        self.presets.setRowCount(len(rows))
        for i, preset in enumerate(rows):
            for k, text in enumerate(preset_row_cells(preset)):
                item = QTableWidgetItem(text)
                left, right = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
                side = left if k in WORD_COLUMNS else right
                item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
                item.setToolTip(published_words(preset))
                self.presets.setItem(i, k, item)
        self._show_take()

    @Slot()
    def _show_take(self) -> None:
        planning, at = self._state.planning, self.presets.currentRow()
        self._take.setEnabled(at >= 0 and not self._state.run.is_active)
        rows, free = planning.presets, bytes_text(planning.available_bytes)
        n_fitting = sum(preset.least_bytes <= planning.available_bytes for preset in rows)
        self._presets_note.setText(
            f"{rows[at].name}, as published: {rows[at].published.parameters}. {published_words(rows[at])}"
            if 0 <= at < len(rows)
            else "Sizes are exact. Operations are of the forward pass over the longest text; memory is with "
            f"one such text at a time: {n_fitting} of {len(rows)} fit the {free} that are free here."
            if rows
            else "Counting the presets…"
        )

    @Slot()
    def _on_take(self) -> None:
        rows, at = self._state.planning.presets, self.presets.currentRow()
        if 0 <= at < len(rows) and not self._state.run.is_active:
            take_preset(self._state, rows[at])
            self.tabs.show_panel("This recipe")

    @Slot()
    def _on_copy(self) -> None:
        rows = [preset_row_cells(preset) for preset in self._state.planning.presets]
        QGuiApplication.clipboard().setText(csv_of_table(PRESET_COLUMNS, rows))


_SAMPLE = "Read from the sample text that comes with the program: no file is given after Data yet."


class _BatchPanel(QWidget):
    """The first batch of the recipe: read when first shown, and again on request."""

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self._state = state
        self.text = named(QPlainTextEdit(readOnly=True), "What the model reads first")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(monospaced_font(round(type_px(12))))
        self._problem = PlainLabel(role="error", wraps=True)
        self._sample = PlainLabel(_SAMPLE, role="muted", wraps=True)
        self._again = push_button(
            "Read again",
            tip="Reads the data of the recipe as it stands now",
            clicked=self._state.planning.ask_batch,
        )
        self._again.setAutoDefault(False)
        column((self.text, 1), self._problem, self._sample, row(None, self._again), on=self, margins=8)
        when(self, self._show_batch, state.planning.changed.batch)
        when(self, self._ask_first, state.planning.changed.plan)
        self._show_batch()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._state.planning.is_batch_old:
            self._state.planning.ask_batch()

    def _ask_first(self) -> None:
        """Read what could not be read before, since no recipe was ready."""
        if self.isVisible() and not self._state.planning.has_asked_batch:
            self._state.planning.ask_batch()

    def _show_batch(self) -> None:
        planning = self._state.planning
        batch, problem = planning.batch, planning.batch_problem
        waiting = "Reading the data…" if planning.has_asked_batch and not problem else ""
        self.text.setPlainText(waiting if batch is None else "\n".join(batch_lines(batch)))
        self._problem.say(problem)
        self._sample.setVisible(planning.is_sample_batch)


class _Group(QWidget):
    """Lines of name and value under a title; the last of several sums is emphasised."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(24)
        self._grid.setVerticalSpacing(3)
        self._grid.setColumnStretch(0, 1)
        self._grid.addWidget(PlainLabel(title, "section"), 0, 0)
        self._labels: list[tuple[PlainLabel, PlainLabel]] = []

    def show_rows(self, rows: Sequence[Row]) -> None:
        while len(self._labels) < len(rows):
            pair = (PlainLabel(role="muted"), PlainLabel(role="value"))
            for k, label in enumerate(pair):
                side = Qt.AlignmentFlag.AlignRight if k else Qt.AlignmentFlag.AlignLeft
                self._grid.addWidget(label, len(self._labels) + 1, k, side)
            self._labels.append(pair)
        for i, (name, value) in enumerate(self._labels):
            has_row = i < len(rows)
            name.setVisible(has_row)
            value.setVisible(has_row)
            if has_row:
                name.setText(rows[i][0])
                value.setText(rows[i][1])
        self.setAccessibleName(f"{self._title}: " + ", ".join(f"{name} {value}" for name, value in rows))


def _preset_table() -> QTableWidget:
    table = QTableWidget(0, len(PRESET_COLUMNS))
    dress_table(table, "Presets")
    table.setHorizontalHeaderLabels(list(PRESET_COLUMNS))
    table.setTabKeyNavigation(False)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    return table


class _Band(NamedTuple):
    """One quantity against the step, with its words; `colour` is that of a series, without it the accent."""

    points: Sequence[tuple[int, float]]
    words: str
    colour: int | None = None


class RateStrip(Dressed):
    """The schedules of a plan against the step, small, with words: the learning rate, and below it the batch
    size and the length of texts if these warm up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bands: tuple[_Band, ...] = ()
        self.dress()

    def dress(self) -> None:
        self._fit_height()
        self.update()

    def show_plan(self, plan: Plan | None) -> None:
        """Draw the schedules of a plan, if there is one."""
        self._bands = () if plan is None else tuple(band for band in _bands(plan) if band.points)
        words = "\n".join(band.words for band in self._bands)
        self.setVisible(bool(self._bands))
        self.setToolTip(words)
        self.setAccessibleName(words.replace("\n", "; "))
        self._fit_height()
        self.update()

    def _fit_height(self) -> None:
        n_below = max(0, len(self._bands) - 1)
        self.setFixedHeight(round(type_px(_STRIP_PX)) + n_below * round(type_px(_BAND_PX)))

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._bands:
            return
        last, top = self._bands[0].points[-1][0], 0.0
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font())
            for band in self._bands:
                height = round(type_px(_BAND_PX if top else _STRIP_PX))
                self._paint(painter, band, QRectF(0.0, top, self.width(), height), last)
                top += height

    def _paint(self, painter: QPainter, band: _Band, room: QRectF, last: int) -> None:
        palette = self.theme
        box = room.adjusted(1.0, 2.0, -1.0, -type_px(NORMAL_PX) - 2.0)
        peak = max(value for _, value in band.points)
        points = [
            QPointF(
                box.x() + box.width() * (step - 1) / max(1, last - 1),
                box.bottom() - box.height() * value / peak if peak > 0 else box.bottom(),
            )
            for step, value in band.points
        ]
        painter.setPen(QPen(QColor(palette.grid), 1.0))
        painter.drawLine(box.bottomLeft(), box.bottomRight())
        colour = palette.accent if band.colour is None else series_colour(palette, band.colour)
        painter.setPen(QPen(QColor(colour), 1.5))
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(QColor(palette.muted))
        words = QFontMetricsF(painter.font()).elidedText(band.words, Qt.TextElideMode.ElideRight, box.width())
        painter.drawText(QPointF(box.x(), room.bottom() - 3.0), words)


def _bands(plan: Plan) -> Iterator[_Band]:
    yield _Band(plan.rates, f"learning rate {rate_words(plan)}")
    yield _Band(plan.texts, f"batch size {texts_words(plan)}", 5)
    yield _Band(plan.lengths, f"length {tokens_words(plan)}", 6)


class CostBar(QWidget):
    """Shows the plan of a TrainingState in a line; the button opens the details."""

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._line = ElidedLabel(role="muted")
        self.more = tool_button("Cost…", "Cost of this recipe", role="flat", clicked=self._on_more)
        self.more.setToolTip("Parameters, memory, operations, time and disk of this recipe, and the presets")
        self._problem = PlainLabel(role="warning", wraps=True)
        self._problem.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout: QVBoxLayout = column(on=self, spacing=4)
        top = row((self._line, 1), self.more, spacing=4)
        layout.addLayout(top)
        self.rates = RateStrip()
        layout.addWidget(self.rates)
        layout.addWidget(self._problem)
        self.show_plan()

    @property
    def has_words(self) -> bool:
        """Whether there is any text about the recipe."""
        return self._state.planning.plan is not None or bool(self._state.planning.problem)

    def show_plan(self) -> None:
        planning = self._state.planning
        plan = planning.plan
        problem = planning.problem if plan is None else problem_of(plan)
        if plan is None:
            self._line.set_full_text("This recipe cannot run yet" if problem else "")
        else:
            parts = [f"{short_count(plan.n_parameters)} parameters", bytes_text(plan.memory_bytes)]
            if plan.seconds is not None:
                parts.append(seconds_text(plan))
            if self._state.recipe.is_changed:
                parts.append("edited")
            self._line.set_full_text(" · ".join(parts))
            self._line.setToolTip(f"Training takes {memory_line(plan)} on {plan.device}")
        self.rates.show_plan(plan)
        self._problem.say(problem)

    @cached_property
    def _dialog(self) -> CostDialog:
        return CostDialog(self._state, self.window())

    @Slot()
    def _on_more(self) -> None:
        self._dialog.show()
        self._dialog.raise_()

    def open_presets(self) -> None:
        self.open_tab("Presets")

    def open_tab(self, name: str) -> None:
        self._on_more()
        self._dialog.tabs.show_panel(name)
