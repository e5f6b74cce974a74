"""The numbers of a comparison: the head's measures on both sides, and what both models say."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text
from attnscope.viewmodels.compare.rows import (
    PairedAnswer,
    kl_words,
    most_apart,
    rows_of_both,
)
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.comparison_rows import KIND_WORDS, text_difference
from attnscope.viewmodels.session.head_measures import MEASURES
from attnscope.widgets.candidate_table import CandidateTable
from attnscope.widgets.difference_label import DifferenceLabel
from attnscope.widgets.form_parts import narrow_combo, row, scrolled_column
from attnscope.widgets.labels import PlainLabel, plain_tooltip, when

_KL_TOOLTIP = (
    "Kullback–Leibler divergence KL(A ‖ B) = Σ p·ln(p/q) over the whole vocabulary, in nats.\n"
    "A dash: the two models do not answer from one vocabulary, or only one side has this place."
)


class CompareMeasures(QWidget):
    """The measures of the head that is looked at: A, B and B − A."""

    def __init__(self, state: CompareState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.title = PlainLabel("Measures", "name")
        self.numbers: dict[str, tuple[PlainLabel, PlainLabel, PlainLabel]] = {}
        cells = QGridLayout()
        cells.setContentsMargins(0, 0, 0, 0)
        cells.setHorizontalSpacing(10)
        cells.setVerticalSpacing(6)
        right = Qt.AlignmentFlag.AlignRight
        for column, name in enumerate(("A", "B", "Δ"), start=1):
            cells.addWidget(PlainLabel(name, "muted"), 0, column, right)
        for line, kind in enumerate(MEASURES, start=1):
            kind_label = PlainLabel(kind.name, "hint")
            kind_label.setToolTip(plain_tooltip(f"{kind.name}, {kind.unit}\n{kind.definition}"))
            cells.addWidget(kind_label, line, 0)
            labels = (PlainLabel("–"), PlainLabel("–"), PlainLabel("–", "name"))
            for column, label in enumerate(labels, start=1):
                label.setToolTip(kind_label.toolTip())
                cells.addWidget(label, line, column, right)
            self.numbers[kind.field] = labels
        cells.setColumnStretch(0, 1)
        for column in (1, 2, 3):
            cells.setColumnMinimumWidth(column, 44)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 8, 8)
        layout.setSpacing(8)
        layout.addWidget(self.title)
        layout.addLayout(cells)
        layout.addStretch(1)
        when(self, self._show, state.changed.traced, state.changed.head, state.changed.heads)
        self._show()

    def _show(self) -> None:
        state = self._state
        head = state.head
        self.title.setText(f"Measures of {head.label}" if head else "Measures")
        found = {row.kind.field: row for row in state.measures}
        for field, labels in self.numbers.items():
            texts = found[field].texts if field in found else ("–", "–", "–")
            for label, text in zip(labels, texts, strict=True):
                label.setText(text)
            labels[2].setAccessibleName(f"{field}: A {texts[0]}, B {texts[1]}, difference {texts[2]}")


class CompareOutput(QWidget):
    """What both models say at places that stand for each other, and how far apart it is."""

    def __init__(self, state: CompareState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._is_chosen = False
        self.kind = PlainLabel(role="muted")
        self.kl = PlainLabel(role="name")
        self.kl.setToolTip(plain_tooltip(_KL_TOOLTIP))
        self.places = narrow_combo("Prediction to compare")
        self.table = CandidateTable(palette, n_rows=6, names=("A", "B"))
        self.texts = (DifferenceLabel("Text of A", palette), DifferenceLabel("Text of B", palette))
        self._names = (PlainLabel("A", "muted"), PlainLabel("B", "muted"))
        self._lay_out()
        self.places.activated.connect(self._on_chosen)
        changed = state.changed
        when(self, self._show, changed.traced, changed.heads, changed.compared, changed.output)
        self._show()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        for part in (self.table, *self.texts):
            part.set_theme(palette)

    def _lay_out(self) -> None:
        column = scrolled_column(self, spacing=6)
        column.addLayout(row(PlainLabel("Output", "name"), self.kind, None, self.kl))
        written = QGridLayout()
        written.setHorizontalSpacing(8)
        written.setColumnStretch(1, 1)
        for k, (name, text) in enumerate(zip(self._names, self.texts, strict=True)):
            written.addWidget(name, k, 0, Qt.AlignmentFlag.AlignTop)
            written.addWidget(text, k, 1)
        column.addLayout(written)
        column.addWidget(self.places)
        column.addWidget(self.table)
        column.addStretch(1)

    def _on_chosen(self, _index: int) -> None:
        self._is_chosen = True
        self._show_answer()

    def _show(self) -> None:
        state = self._state
        first, second = state.sides["A"].traced, state.sides["B"].traced
        outputs = [traced.comparison.after if traced else None for traced in (first, second)]
        kinds = dict.fromkeys(KIND_WORDS[output.kind] for output in outputs if output)
        self.table.name_answers("label" if any(o and o.kind == "class" for o in outputs) else "token")
        self.kind.setText(" | ".join(kinds))
        if not any(traced and traced.comparison.is_writing for traced in (first, second)):
            self._show_texts(*(output.generated if output else "" for output in outputs))
        labels = [plain_text(answer.label) for answer in state.answers]
        if labels != [self.places.itemText(k) for k in range(self.places.count())]:
            self.places.clear()
            self.places.addItems(labels)
            self._is_chosen = False
        self.places.setVisible(len(labels) > 1)
        if not self._is_chosen and state.kl_nats:
            self.places.setCurrentIndex(self._places_with_both()[most_apart(state.kl_nats)])
        self._show_answer()

    def _show_texts(self, *written: str) -> None:
        for label, segments in zip(self.texts, text_difference(*written), strict=True):
            label.show_segments(segments)
        for part in (*self._names, *self.texts):
            part.setVisible(any(written))

    def _places_with_both(self) -> list[int]:
        return [k for k, answer in enumerate(self._state.answers) if answer.pair is not None]

    def _show_answer(self) -> None:
        answers, at = self._state.answers, max(self.places.currentIndex(), 0)
        answer: PairedAnswer | None = answers[at] if at < len(answers) else None
        if answer is None:
            self.table.show_rows(())
            self.kl.setText("")
            return
        compared = self._state.compared
        is_by_piece = compared is not None and not compared.has_one_vocabulary
        self.table.show_rows(rows_of_both(answer.first, answer.second, is_by_piece=is_by_piece, n_rows=6))
        values = self._state.kl_nats
        both = self._places_with_both()
        place = both.index(at) if at in both else len(values)
        self.kl.setText(kl_words(values[place] if place < len(values) else None) if compared else "")
