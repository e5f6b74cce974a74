"""The lab that compares tokenizers: charts against the vocabulary size, a table, one sentence in all."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QFileDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QInputDialog,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QWidget,
)

from attnscope.counting import plural
from attnscope.figures.plain import plain_text
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import type_px
from attnscope.figures.views.lab import LabFigure
from attnscope.records.charts import Chart, Series
from attnscope.records.tokenizers import KINDS, SIZES, TokenizerRow
from attnscope.viewmodels.labs.tokenizers import COLUMNS, TokenizersState, sizes_from_text
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel, plain_tooltip, tool_button, when
from attnscope.widgets.labs.chip_flow import ChipFlow
from attnscope.widgets.labs.lab_frame import LabFrame
from attnscope.widgets.labs.lab_plot import ChartPanel
from attnscope.widgets.labs.text_table import TextTable, TextTableModel

_NAME_PX = 132
_EMPTY = "Nothing measured yet.\n“Train and compare” trains every ticked kind on the text on the left."
ChooseFile = Callable[[QWidget], str]
AskText = Callable[[QWidget], str]


def _ask_file(parent: QWidget) -> str:
    return QFileDialog.getOpenFileName(parent, "Open a text", str(Path.home()))[0]


def _ask_text(parent: QWidget) -> str:
    text, is_accepted = QInputDialog.getMultiLineText(parent, "Paste a text", "Text to train on and measure")
    return text if is_accepted else ""


class TokenizersView(LabFrame):
    """Shows a TokenizersState."""

    def __init__(
        self,
        state: TokenizersState,
        *,
        choose_file: ChooseFile = _ask_file,
        ask_text: AskText = _ask_text,
    ) -> None:
        super().__init__("Tokenizers compared", state.controls, has_words=False)
        self._choose_file, self._ask_text = choose_file, ask_text
        self.state = state
        self.text_name = PlainLabel("the sample text", "small")
        self.kinds = {kind: QCheckBox(name) for kind, name in KINDS.items()}
        self.sizes, self.typed = QLineEdit(), QLineEdit()
        self.held_out = QCheckBox("Measure on the last fifth")
        self.start, self.progress = QPushButton("Train and compare"), QProgressBar()
        self.length_chart, self.density_chart = ChartPanel(), ChartPanel()
        self.empty = PlainLabel(_EMPTY, "hint")
        self._rows = TextTableModel(COLUMNS, self._cells)
        self.table = TextTable(self._rows, "Tokenizers")
        self._flows: list[tuple[PlainLabel, ChipFlow]] = []
        self._n_shown = -1
        self._build_side()
        self._build_picture()
        self.looked_at.connect(state.look)
        self.dress()
        when(self, self._show_choice, state.changed.choice)
        when(self, self._show_rows, state.changed.rows)
        self._show_choice()
        self._show_rows()

    def dress(self) -> None:
        super().dress()
        for name, _flow in self._flows:
            name.setFixedWidth(round(type_px(_NAME_PX)))
        self.table.fit_rows()
        self.table.set_widths((122, 58, 58, 66, 64, 48, 70, 74, 74, 58, 62))

    def figure_spec(self) -> FigureSpec | None:
        """Both charts; the sentence and the text in the caption."""
        state = self.state
        if not any(not row.refusal for row in state.rows):
            return None
        text = state.news.text
        note = state.sentence
        if text is not None:
            note += (
                f" Trained on {text.n_characters:,} characters, measured on {text.n_measured_characters:,}."
            )
        return LabFigure(
            charts=self._charts(),
            title="Tokenizers compared",
            caption=Caption(note=plain_text(note)),
            width_mm=160.0,
            height_mm=190.0,
        )

    # Building

    def _build_side(self) -> None:
        self.sample_button = tool_button("Sample", "Use the sample text")
        self.file_button = tool_button("File…", "Use the text of a file")
        self.paste_button = tool_button("Paste…", "Use a pasted text")
        for button, run in (
            (self.sample_button, self._on_sample),
            (self.file_button, self._on_file),
            (self.paste_button, self._on_paste),
        ):
            button.clicked.connect(run)
        self.file_button.setToolTip("Up to 1,000,000 characters of a UTF-8 file")
        self.text_name.setWordWrap(True)
        self.add_to_side(
            PlainLabel("Text", "section"),
            row(self.sample_button, self.file_button, self.paste_button, None, spacing=6),
            self.text_name,
            self.held_out,
        )
        self.held_out.setToolTip("Train on the first four fifths only, so that unknown words occur")
        self.held_out.clicked.connect(self._on_held_out)
        grid = QGridLayout()
        grid.setSpacing(4)
        for k, box in enumerate(self.kinds.values()):
            box.clicked.connect(self._on_kinds)
            grid.addWidget(box, k // 2, k % 2)
        self.side.addWidget(PlainLabel("Kinds", "section"))
        self.side.addLayout(grid)
        self.sizes.setText(" ".join(map(str, SIZES)))
        self.sizes.setAccessibleName("Vocabulary sizes")
        self.sizes.setToolTip(plain_tooltip("Pieces of each vocabulary, up to 12 sizes"))
        self.sizes.editingFinished.connect(self._on_sizes)
        self.typed.setAccessibleName("Sentence in every tokenizer")
        self.typed.setMaxLength(300)
        self.typed.textEdited.connect(self._on_sentence)
        self.start.setDefault(True)
        self.start.clicked.connect(self._on_start)
        self.progress.setTextVisible(False)
        self.progress.setRange(0, 1000)
        self.add_to_side(
            PlainLabel("Vocabulary sizes", "section"),
            self.sizes,
            PlainLabel("Sentence shown in each", "section"),
            self.typed,
            self.start,
            self.progress,
        )

    def _build_picture(self) -> None:
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.picture.addWidget(self.empty, 10)
        charts = row(self.length_chart, self.density_chart, spacing=16)
        self.picture.addLayout(charts, 5)
        self.table_tab = tool_button("Table", "Show the table", role="segment", is_checkable=True)
        self.chips_tab = tool_button(
            "Sentence", "Show the sentence in each", role="segment", is_checkable=True
        )
        group = QButtonGroup(self)
        for tab in (self.table_tab, self.chips_tab):
            group.addButton(tab)
            tab.clicked.connect(self._on_tab)
        self.table_tab.setChecked(True)
        self.picture.addLayout(row(self.table_tab, self.chips_tab, None, spacing=4))
        self._stack = QStackedWidget()
        self._stack.addWidget(self.table)
        area = QScrollArea(widgetResizable=True)
        self._chips = QWidget()
        self._chip_rows = column(None, on=self._chips, spacing=2)
        area.setWidget(self._chips)
        self._chips.setAutoFillBackground(False)
        area.setFrameShape(QFrame.Shape.NoFrame)
        self._stack.addWidget(area)
        self.picture.addWidget(self._stack, 5)
        self.length_chart.hover_text.connect(self.hover_text)
        self.density_chart.hover_text.connect(self.hover_text)

    # Showing

    def _show_choice(self) -> None:
        wish = self.state.wish
        for kind, box in self.kinds.items():
            box.setChecked(kind in wish.kinds)
        self.held_out.setChecked(wish.is_held_out)
        self.sizes.setText(" ".join(map(str, wish.sizes)))
        if self.typed.text() != wish.sentence:
            self.typed.setText(wish.sentence)
        self.foot.show_possible(self.state.controls)
        named = Path(wish.path).name if wish.path else "pasted" if wish.text else "the sample text"
        n = f", {plural(len(wish.text), 'character')}" if wish.text and not wish.path else ""
        self.text_name.setText(plain_text(named) + n)

    def _show_rows(self) -> None:
        state = self.state
        self.sentence.setText(plain_text(state.sentence))
        self.sentence.set_role("error" if state.error and not state.error.startswith("Stopped") else "name")
        self.start.setText("Stop" if state.is_working else "Train and compare")
        self.progress.setValue(round(1000 * state.news.fraction) if state.is_working else 0)
        n_rows = len(state.rows)
        self._show_empty(n_rows == 0)
        if n_rows != self._n_shown:
            self._n_shown = n_rows
            self._rows.show_rows(n_rows)
            length, density = self._charts()
            self.length_chart.show_chart(length)
            self.density_chart.show_chart(density)
            self._show_chips()

    def _show_empty(self, is_empty: bool) -> None:
        """Say what is to be done in the place of axes without curves."""
        self.empty.setVisible(is_empty)
        for part in (self.length_chart, self.density_chart, self.table_tab, self.chips_tab, self._stack):
            part.setVisible(not is_empty)

    def _charts(self) -> tuple[Chart, Chart]:
        rows = self.state.rows
        return (
            _chart(rows, "Length", "tokens per word", lambda row: row.tokens_per_word),
            _chart(rows, "Density", "tokens for each used piece", lambda row: row.density, is_log=True),
        )

    def _show_chips(self) -> None:
        good = [row for row in self.state.rows if not row.refusal]
        while len(self._flows) < len(good):
            name, flow = PlainLabel("", "small"), ChipFlow("Sentence")
            name.setFixedWidth(round(type_px(_NAME_PX)))
            name.setAlignment(Qt.AlignmentFlag.AlignTop)
            name.setContentsMargins(0, 6, 0, 0)
            flow.hovered.connect(self.hover_text)
            line = QHBoxLayout()
            line.addWidget(name)
            line.addWidget(flow, 1)
            self._chip_rows.insertLayout(len(self._flows), line)
            self._flows.append((name, flow))
        for k, (name, flow) in enumerate(self._flows):
            is_there = k < len(good)
            name.setVisible(is_there)
            flow.setVisible(is_there)
            if is_there:
                kind = KINDS.get(good[k].kind, good[k].kind)
                name.setText(f"{kind} {good[k].vocab_size:,}: {len(good[k].sentence)}")
                name.setToolTip(plural(len(good[k].sentence), "token"))
                flow.show_tokens(good[k].sentence, unknown_id=good[k].unknown_id)

    def _cells(self, k: int) -> tuple[str, ...]:
        return self.state.cells(self.state.rows[k])

    # What the person does

    def _on_start(self) -> None:
        if self.state.is_working:
            self.state.stop()
        else:
            self._on_sizes()
            self._n_shown = -1
            self.state.start()

    def _on_sample(self) -> None:
        self.state.choose(text="", path="")

    def _on_file(self) -> None:
        path = self._choose_file(self)
        if path:
            self.state.choose(text="", path=path)

    def _on_paste(self) -> None:
        text = self._ask_text(self)
        if text.strip():
            self.state.choose(text=text, path="")

    def _on_held_out(self, is_held_out: bool) -> None:
        self.state.choose(is_held_out=is_held_out)

    def _on_kinds(self) -> None:
        self.state.choose(kinds=tuple(kind for kind, box in self.kinds.items() if box.isChecked()))

    def _on_sizes(self) -> None:
        sizes = sizes_from_text(self.sizes.text()) or SIZES
        self.sizes.setText(" ".join(map(str, sizes)))
        self.state.choose(sizes=sizes)

    def _on_sentence(self, text: str) -> None:
        self.state.choose(sentence=text)

    def _on_tab(self) -> None:
        self._stack.setCurrentIndex(1 if self.chips_tab.isChecked() else 0)


def _chart(
    rows: tuple[TokenizerRow, ...],
    title: str,
    y_label: str,
    value: Callable[[TokenizerRow], float],
    *,
    is_log: bool = False,
) -> Chart:
    """One curve for each kind against the pieces it has."""
    series = []
    for colour, (kind, name) in enumerate(KINDS.items()):
        own = sorted(
            (row for row in rows if row.kind == kind and not row.refusal), key=lambda row: row.vocab_size
        )
        if own:
            series.append(
                Series(
                    name=name,
                    xs=np.array([row.vocab_size for row in own], np.float64),
                    ys=np.array([value(row) for row in own], np.float64),
                    colour=colour,
                    has_points=True,
                )
            )
    return Chart(
        title=title,
        x_label="pieces in the vocabulary",
        y_label=y_label,
        series=tuple(series),
        is_log_x=bool(series),
        is_log_y=is_log and bool(series),
    )
