"""The lab that compares tokenizers: charts against the vocabulary size, a table, one sentence overall."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
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

from attnscope.counting import fixed, plural
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import plain_text, type_px
from attnscope.figures.views.lab import LabFigure
from attnscope.labs import LABS
from attnscope.records.charts import Chart, Series
from attnscope.records.tokenizers import KINDS, SIZES, TokenizerRow
from attnscope.viewmodels.labs.tokenizers import (
    COLUMNS,
    MAX_TEXT,
    SOURCES,
    TRAINED_KINDS,
    VOCAB_SIZES,
    MergesState,
    TokenizersState,
    sizes_from_text,
)
from attnscope.widgets.charts import ChartPanel
from attnscope.widgets.form_parts import JumpSlider, column, one_of, play_icon, row, scrolled
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, tool_button, when
from attnscope.widgets.labs.cells_and_tables import TextTable, TextTableModel
from attnscope.widgets.labs.lab_view import LabFrame, WordsPanel
from attnscope.widgets.token_chips import ChipFlow

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
        super().__init__("Tokenizers compared", state.controls)
        self._choose_file, self._ask_text = choose_file, ask_text
        self.state = state
        self.text_name = PlainLabel("the sample text", "small", wraps=True)
        self.kinds = {kind: QCheckBox(name) for kind, name in KINDS.items()}
        self.sizes, self.typed = named(QLineEdit(), "Vocabulary sizes"), QLineEdit()
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
        self.table.set_widths((116, 58, 58, 76, 76, 48, 76, 80, 80, 64, 68))

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
        one_of(self, (self.table_tab, self.chips_tab)).buttonClicked.connect(self._on_tab)
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
            self.typed.setCursorPosition(0)
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
        """Say what to do in place of axes without curves."""
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

    # User actions

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


# The lab that replays merges: the words as chips at each step, the steps as a table, the rules beside it.


_STEP_MS = 700
_CHIPS_PX = 92
_STEP_COLUMNS = (
    ("step", "Which step; click to go there"),
    ("what happens", "The pair that becomes one piece, or the piece that is found"),
    ("rank", "When the rule was learned: lower ranks are applied first"),
    ("here", "How often in this text"),
    ("words", "The words it touches, as they are split after the step"),
)
_RULE_COLUMNS = (
    ("rank", "When the rule was learned"),
    ("rule", "Two neighbours and what they become; ␣ is the space before a word"),
    ("seen", "How often the pair occurred in the training text when it was merged"),
)


_MERGES = "Merges replayed"


class MergesView(LabFrame):
    """Shows a MergesState."""

    def __init__(self, state: MergesState) -> None:
        super().__init__(_MERGES, state.controls)
        self.state = state
        self.words = WordsPanel(LABS[_MERGES].source)
        self.text = named(QLineEdit(maxLength=MAX_TEXT), "Text to split")
        self.source, self.kind = QComboBox(), QComboBox()
        self.pieces, self.slider = (
            JumpSlider(Qt.Orientation.Horizontal),
            JumpSlider(Qt.Orientation.Horizontal),
        )
        self.pieces_value, self.place = PlainLabel("", "value"), PlainLabel("", "hint")
        self.play = tool_button("", "Play the steps", clicked=self._on_play)
        self.back, self.forward = tool_button("◂", "One step back"), tool_button("▸", "One step on")
        self.chips = ChipFlow("The words at this step")
        self._step_rows = TextTableModel(_STEP_COLUMNS, self._step_cells, left=frozenset({1, 4}))
        self._rule_rows = TextTableModel(_RULE_COLUMNS, self._rule_cells, left=frozenset({1}))
        self.steps = TextTable(self._step_rows, "Steps")
        self.rules = TextTable(self._rule_rows, "Merge rules")
        self._timer = QTimer(self, interval=_STEP_MS)
        self._timer.timeout.connect(self._on_tick)
        self._build_side()
        self._build_picture()
        self.looked_at.connect(self.state.start)
        self.dress()
        changed = state.changed
        when(self, self._show_choice, changed.choice)
        when(self, self._show_replay, changed.replay)
        when(self, self._show_step, changed.replay, changed.step)
        for show in (self._show_choice, self._show_replay, self._show_step):
            show()

    def dress(self) -> None:
        super().dress()
        self._area.setFixedHeight(round(type_px(_CHIPS_PX)))
        self.rules.setFixedWidth(round(type_px(236)))
        self.rules.set_widths((44, 110, 56), stretched=1)
        self.steps.set_widths((44, 156, 52, 48, 200), stretched=4)
        for table in (self.steps, self.rules):
            table.fit_rows()
        self._show_play()

    def figure_spec(self) -> FigureSpec | None:
        """Chart of the number of pieces, merge by merge."""
        state = self.state
        if not state.n_steps:
            return None
        counts = state.counts()
        heights = np.array(counts, np.float64)
        chart = Chart(
            title="Pieces left",
            x_label="steps done",
            y_label="pieces",
            series=(Series(name="pieces", xs=np.arange(len(counts), dtype=np.float64), ys=heights),),
            marks=((float(state.step), "shown"),),
        )  # fmt: skip
        words = state.words
        split = " ".join("·".join(word.pieces) for word in state.replay.words_at(state.step))
        note = " · ".join((*words.formula, f"step {state.step}: {split}")) + ". " + words.sentence
        return LabFigure(
            charts=(chart,),
            title=f"Merges replayed: “{state.wish.text[:60]}”",
            caption=Caption(note=plain_text(note)),
            width_mm=160.0,
            height_mm=100.0,
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if Qt.Key(event.key()) in steps:
            self.state.go_to(self.state.step + steps[Qt.Key(event.key())])
        elif event.key() == Qt.Key.Key_Space:
            self._on_play()
        else:
            super().keyPressEvent(event)

    # Building

    def _build_side(self) -> None:
        for source, name in SOURCES.items():
            self.source.addItem(name, source)
        for kind, name in TRAINED_KINDS.items():
            self.kind.addItem(name, kind)
        for combo, name in ((self.source, "Whose tokenizer"), (self.kind, "Kind to train")):
            combo.setAccessibleName(name)
            combo.setMinimumContentsLength(10)
            combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.pieces.setRange(0, len(VOCAB_SIZES) - 1)
        self.pieces.setAccessibleName("Vocabulary size")
        self.pieces.setToolTip("Pieces of the tokenizer that is trained here")
        self.pieces_value.setMinimumWidth(40)
        self.source.activated.connect(self._on_source)
        self.kind.activated.connect(self._on_kind)
        self.pieces.valueChanged.connect(self._on_size)
        self._kind_row, self._size_row = QWidget(), QWidget()
        for widget, parts in (
            (self._kind_row, (PlainLabel("kind", "small"), self.kind)),
            (self._size_row, (PlainLabel("pieces", "small"), self.pieces, self.pieces_value)),
        ):
            layout = row(on=widget, spacing=-1)
            for k, part in enumerate(parts):
                layout.addWidget(part, 1 if k == 1 else 0)
        self.add_to_side(self.source, self._kind_row, self._size_row)
        self.side.addSpacing(8)
        self.add_to_side(self.words)

    def _build_picture(self) -> None:
        self.text.textEdited.connect(self.state.set_text)
        self.text.setPlaceholderText("Type words to split")
        self.slider.setAccessibleName("Step")
        self.slider.valueChanged.connect(self.state.go_to)
        self.back.clicked.connect(self._on_back)
        self.forward.clicked.connect(self._on_forward)
        self._area = scrolled(self.chips, is_across=True)
        self.chips.hovered.connect(self.hover_text)
        self.steps.row_chosen.connect(self._on_step_row)
        self.place.setMinimumWidth(80)
        bar = row(self.play, self.back, self.forward, (self.slider, 1), self.place)
        self._rules_title = PlainLabel("Rules", "section")
        beside = column(self._rules_title, (self.rules, 1), spacing=4)
        below = row(spacing=16)
        left = column(PlainLabel("Steps", "section"), (self.steps, 1), spacing=4)
        below.addLayout(left, 1)
        below.addLayout(beside)
        for part in (self.text, self._area):
            self.picture.addWidget(part)
        self.picture.addLayout(bar)
        self.picture.addLayout(below, 1)

    # Showing

    def _show_replay(self) -> None:
        state = self.state
        self._step_rows.show_rows(state.n_steps)
        self._rule_rows.show_rows(len(state.replay.rules))
        self.slider.setRange(0, max(1, state.n_steps))
        self.slider.setEnabled(state.n_steps > 0)

    def _show_choice(self) -> None:
        state = self.state
        if self.text.text() != state.wish.text:
            self.text.setText(state.wish.text)
        self.source.setCurrentIndex(self.source.findData(state.wish.source))
        self.kind.setCurrentIndex(self.kind.findData(state.wish.kind))
        self.pieces.setValue(self._size_shown)
        self.pieces_value.setText(f"{state.wish.vocab_size:,}")
        for widget in (self._kind_row, self._size_row):
            widget.setVisible(state.wish.source != "model")
        self.foot.show_possible(state.controls)

    def _show_step(self) -> None:
        state, words = self.state, self.state.words
        self.sentence.setText(plain_text(words.sentence))
        self.sentence.set_role("error" if state.query.error else "name")
        self.words.show_words(words.formula, words.numbers)
        self.chips.show_tokens(state.tokens, marked=state.marked, unknown_id=state.replay.unknown_id)
        self.slider.setValue(state.step)
        self.place.setText(f"step {state.step} of {state.n_steps}")
        self.back.setEnabled(state.step > 0)
        self.forward.setEnabled(state.step < state.n_steps)
        self.steps.choose_row(state.step - 1)
        replay, rule = state.replay, state.rule
        has_rules = bool(replay.rules)
        self.rules.setVisible(has_rules)
        self._rules_title.setVisible(has_rules)
        if has_rules:
            n = len(replay.rules)
            all_words = f"All {n:,} rules" if n == replay.n_rules else f"{n:,} of {replay.n_rules:,} rules"
            self._rules_title.setText(all_words)
            self.rules.setColumnHidden(2, replay.rules[0].count is None)
            self.rules.choose_row(replay.rules.index(rule) if rule is not None else -1)
        if state.step >= state.n_steps and self._timer.isActive():
            self._timer.stop()
        self._show_play()

    def _show_play(self) -> None:
        self.play.setIcon(play_icon(self.theme.text, is_playing=self._timer.isActive()))

    def _step_cells(self, k: int) -> tuple[str, ...]:
        step = self.state.replay.steps[k]
        what = f"{step.left} + {step.right} → {step.made}" if step.left else step.made or "looked up"
        if step.alternatives:
            what = f"{step.made}: log p {fixed(step.alternatives[0].log_p)}"
        touched = sorted({w for w, _ in step.changed})
        words = "   ".join("·".join(step.words[w].pieces) for w in touched[:12])
        if len(step.alternatives) > 1:
            others = (f"{'·'.join(a.pieces)} {fixed(a.log_p)}" for a in step.alternatives[1:])
            words += "   rather than  " + ",  ".join(others)
        rank = f"{step.rank:,}" if step.rank is not None else ""
        return (str(k + 1), plain_text(what), rank, str(len(step.changed) or ""), plain_text(words))

    def _rule_cells(self, k: int) -> tuple[str, ...]:
        rule = self.state.replay.rules[k]
        count = f"{rule.count:,}" if rule.count is not None else "–"
        return (f"{rule.rank:,}", plain_text(f"{rule.left} + {rule.right} → {rule.made}"), count)

    @property
    def _size_shown(self) -> int:
        chosen = self.state.wish.vocab_size
        return min(range(len(VOCAB_SIZES)), key=lambda k: abs(VOCAB_SIZES[k] - chosen))

    # User actions

    def _on_source(self, index: int) -> None:
        self.state.set_source(self.source.itemData(index))

    def _on_kind(self, index: int) -> None:
        self.state.set_kind(str(self.kind.itemData(index)))

    def _on_size(self, index: int) -> None:
        if index != self._size_shown:
            self.state.set_size(VOCAB_SIZES[index])

    def _on_step_row(self, k: int) -> None:
        self.state.go_to(k + 1)

    def _on_back(self) -> None:
        self.state.go_to(self.state.step - 1)

    def _on_forward(self) -> None:
        self.state.go_to(self.state.step + 1)

    def _on_play(self) -> None:
        if self._timer.isActive():
            self._timer.stop()
        elif self.state.n_steps:
            if self.state.step >= self.state.n_steps:
                self.state.go_to(0)
            self._timer.start()
        self._show_play()

    def _on_tick(self) -> None:
        if self.isVisible():
            self.state.go_to(self.state.step + 1)
        else:
            self._timer.stop()
