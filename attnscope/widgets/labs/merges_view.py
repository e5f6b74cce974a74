"""The lab that replays merges: the words as chips at each step, the steps as a table, the rules beside it."""

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QComboBox, QFrame, QLineEdit, QScrollArea, QWidget

from attnscope.counting import fixed
from attnscope.figures.plain import plain_text
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import type_px
from attnscope.figures.views.lab import LabFigure
from attnscope.records.charts import Chart, Series
from attnscope.viewmodels.labs.merges import MAX_TEXT, SIZES, SOURCES, TRAINED_KINDS, MergesState
from attnscope.widgets.form_parts import column, play_icon, row
from attnscope.widgets.jump_slider import JumpSlider
from attnscope.widgets.labels import PlainLabel, named, tool_button, when
from attnscope.widgets.labs.chip_flow import ChipFlow
from attnscope.widgets.labs.lab_frame import LabFrame
from attnscope.widgets.labs.text_table import TextTable, TextTableModel

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


class MergesView(LabFrame):
    """Shows a MergesState."""

    def __init__(self, state: MergesState) -> None:
        super().__init__("Merges replayed", state.controls)
        self.state = state
        self.text = named(QLineEdit(maxLength=MAX_TEXT), "Text to split")
        self.source, self.kind = QComboBox(), QComboBox()
        self.pieces, self.slider = (
            JumpSlider(Qt.Orientation.Horizontal),
            JumpSlider(Qt.Orientation.Horizontal),
        )
        self.pieces_value, self.place = PlainLabel("", "value"), PlainLabel("", "hint")
        self.play = tool_button("", "Play the steps")
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
        """How the number of pieces falls, merge by merge."""
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
        split = (
            " ".join("·".join(word.pieces) for word in state.replay.words_at(state.step))
            if state.replay
            else ""
        )
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
        self.pieces.setRange(0, len(SIZES) - 1)
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

    def _build_picture(self) -> None:
        self.text.textEdited.connect(self._on_text)
        self.text.setPlaceholderText("Type words to split")
        self.slider.setAccessibleName("Step")
        self.slider.valueChanged.connect(self._on_slid)
        self.play.clicked.connect(self._on_play)
        self.back.clicked.connect(self._on_back)
        self.forward.clicked.connect(self._on_forward)
        self._area = QScrollArea(widgetResizable=True)
        self._area.setWidget(self.chips)
        self.chips.setAutoFillBackground(False)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
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
        self._rule_rows.show_rows(len(state.replay.rules) if state.replay else 0)
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
        self.show_words(words.formula, words.numbers)
        unknown = state.replay.unknown_id if state.replay is not None else None
        self.chips.show_tokens(state.tokens, marked=state.marked, unknown_id=unknown)
        self.slider.setValue(state.step)
        self.place.setText(f"step {state.step} of {state.n_steps}")
        self.back.setEnabled(state.step > 0)
        self.forward.setEnabled(state.step < state.n_steps)
        self.steps.choose_row(state.step - 1)
        replay, rule = state.replay, state.rule
        has_rules = replay is not None and bool(replay.rules)
        self.rules.setVisible(has_rules)
        self._rules_title.setVisible(has_rules)
        if replay is not None and has_rules:
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
        replay = self.state.replay
        if replay is None:
            return ("",) * len(_STEP_COLUMNS)
        step = replay.steps[k]
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
        replay = self.state.replay
        if replay is None:
            return ("", "", "")
        rule = replay.rules[k]
        count = f"{rule.count:,}" if rule.count is not None else "–"
        return (f"{rule.rank:,}", plain_text(f"{rule.left} + {rule.right} → {rule.made}"), count)

    @property
    def _size_shown(self) -> int:
        """Which of the sizes is nearest to the one that is chosen."""
        chosen = self.state.wish.vocab_size
        return min(range(len(SIZES)), key=lambda k: abs(SIZES[k] - chosen))

    # What the person does

    def _on_text(self, text: str) -> None:
        self.state.set_text(text)

    def _on_source(self, index: int) -> None:
        self.state.set_source(self.source.itemData(index))

    def _on_kind(self, index: int) -> None:
        self.state.set_kind(str(self.kind.itemData(index)))

    def _on_size(self, index: int) -> None:
        if index != self._size_shown:
            self.state.set_size(SIZES[index])

    def _on_slid(self, step: int) -> None:
        self.state.go_to(step)

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
