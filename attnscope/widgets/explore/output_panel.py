"""What the model says, always before | after: candidates, how far they moved apart, generated text."""

from PySide6.QtWidgets import QWidget

from attnscope.figures.plain import plain_text
from attnscope.records.outputs import Comparison
from attnscope.viewmodels.comparison_rows import (
    CERTAINTY_TIP,
    COPIED_TIP,
    candidate_rows,
    certainty_text,
    copied_text,
    follows_text,
    kind_words,
    kl_text,
    most_changed_position,
    prediction_labels,
    text_difference,
)
from attnscope.viewmodels.session.gating import mask_in
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.before_after import CandidateTable, DifferenceLabel
from attnscope.widgets.form_parts import narrow_combo, row, scrolled_column
from attnscope.widgets.labels import PlainLabel, plain_tooltip, when
from attnscope.widgets.placeholders import StaleWatch

_UNWRITTEN = "not written: the mask covers only this text"
_NOTHING = {"masked-token": "No token here can be filled in: each is special or unknown. Type <mask>."}
_SIDES = ("all heads on", "with your changes")
_KL_TOOLTIP = (
    "Kullback–Leibler divergence KL(before ‖ after) = Σ p·ln(p/q) over the whole vocabulary, in nats.\n"
    "0: the gates change nothing here."
)
_FOLLOWS_TOOLTIP = (
    "Next-sentence prediction: the probability, by the model, that the second text follows the first; 0.5 is"
    " undecided. Read from the first token's last state. (Devlin et al. 2018)\n"
    "With changes to heads: before → after."
)


class OutputPanel(QWidget):
    """Shows the comparison of the newest trace; which prediction is the view state's.

    It begins at the prediction that the gates moved most, until the person chooses one.
    """

    def __init__(self, session: Session, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = session, view
        self.title = PlainLabel("Output", "name")
        self.kind = PlainLabel(role="muted")
        self.positions = narrow_combo("Prediction to show")
        self.table = CandidateTable()
        self.kl = PlainLabel(role="name", tip=plain_tooltip(_KL_TOOLTIP))
        self.follows = PlainLabel(wraps=True, tip=plain_tooltip(_FOLLOWS_TOOLTIP))
        self.copied = PlainLabel(wraps=True, tip=plain_tooltip(COPIED_TIP))
        self._text_titles = (PlainLabel(role="muted"), PlainLabel(role="muted"))
        self.texts = (
            DifferenceLabel("Text before the gates"),
            DifferenceLabel("Text after the gates"),
        )
        self.certainty = PlainLabel(role="muted", tip=plain_tooltip(CERTAINTY_TIP))
        self.unwritten = PlainLabel(_UNWRITTEN, "hint")
        self._lay_out()
        self._is_chosen = False
        self._stale = StaleWatch(self._is_late, self._show_stale, self)
        self.positions.activated.connect(self._on_chosen)
        told = session.changed
        when(self, self._show_all, told.traced)
        when(self, self._show_texts, told.output)
        when(self, self._stale.check, told.traced, told.output, told.stale)
        when(self, self._show_prediction, view.changed.position)
        self._show_all()

    def _lay_out(self) -> None:
        column = scrolled_column(self)
        column.addLayout(row(self.title, self.kind, None, self.kl))
        column.addWidget(self.follows)
        column.addWidget(self.positions)
        for title, text in zip(self._text_titles, self.texts, strict=True):
            column.addWidget(title)
            column.addWidget(text)
            if text is self.texts[0]:
                column.addWidget(self.certainty)
        self.unwritten.setWordWrap(True)
        column.addWidget(self.unwritten)
        column.addWidget(self.copied)
        column.addWidget(self.table)
        column.addStretch(1)

    def _is_late(self) -> bool:
        comparison = self._comparison()
        return self._session.tracing.is_stale or (comparison is not None and comparison.is_writing)

    def _show_stale(self, is_stale: bool) -> None:
        for text in self.texts:
            text.set_stale(is_stale)

    def _on_chosen(self, index: int) -> None:
        """The person chose: other gates do not move on to another prediction until the text changes."""
        self._is_chosen = True
        self._view.choose_position(index)

    def _comparison(self) -> Comparison | None:
        has_text = bool(self._session.text.strip())
        return self._session.traced.comparison if self._session.traced and has_text else None

    def _show_all(self) -> None:
        comparison = self._comparison()
        model, kind = self._session.model, comparison.before.kind if comparison else None
        self.kind.setText(kind_words(kind, model) if kind else "")
        self.table.name_answers("label" if comparison and comparison.before.kind == "class" else "token")
        labels = [plain_text(label) for label in prediction_labels(comparison)] if comparison else []
        if labels != [self.positions.itemText(k) for k in range(self.positions.count())]:
            self.positions.clear()
            self.positions.addItems(labels)
            self._is_chosen = False
        if comparison and not self._is_chosen:
            self._view.choose_position(most_changed_position(comparison))
        self.positions.setVisible(len(labels) > 1)
        follows = follows_text(comparison) if comparison else ""
        self.follows.setText(follows)
        self.follows.setVisible(bool(follows))
        self._show_texts()
        self._show_prediction()

    def _show_texts(self) -> None:
        """What the model writes; while it writes, what it wrote before."""
        comparison = self._comparison()
        if comparison and comparison.is_writing:
            return
        before = comparison.before.generated if comparison else ""
        after = comparison.after.generated if comparison else ""
        is_second = comparison is not None and comparison.before.kind == "translation"
        what = self.kind.text() if is_second else "continuation"
        model = self._session.model
        is_alone = model is not None and not model.has_gates  # no head can be changed: both would be the same
        for title, side in zip(self._text_titles, _SIDES, strict=True):
            title.setText(what if is_alone else f"{what}, {side}")
        for widget, segments in zip(self.texts, text_difference(before, after), strict=True):
            widget.show_segments(segments)
        for part in (*self._text_titles, *self.texts):
            part.setVisible(bool(before or after))
        certainty = certainty_text(comparison) if comparison else ""
        self.certainty.setText(certainty)
        self.certainty.setVisible(bool(certainty))
        is_unwritten = bool(before) and not after and mask_in(self._session.interventions) is not None
        self._text_titles[1].setVisible(bool(before or after) and not is_alone)
        self.texts[1].setVisible(bool(before or after) and not is_alone and not is_unwritten)
        refused = comparison.refused if comparison else ""
        kind = comparison.before.kind if comparison else None
        nothing = _NOTHING.get(kind, "") if comparison and kind and not comparison.before.predictions else ""
        self.unwritten.setText(refused or nothing or _UNWRITTEN)
        self.unwritten.setVisible(is_unwritten or bool(refused or nothing))

    def _show_prediction(self) -> None:
        comparison = self._comparison()
        n_shared = 0
        if comparison:
            n_shared = min(len(comparison.before.predictions), len(comparison.after.predictions))
        self.table.setVisible(comparison is None or n_shared > 0)
        self.copied.setVisible(bool(comparison and n_shared and comparison.after.p_write))
        if comparison is None or n_shared == 0:
            self.table.show_rows(())
            self.kl.setText("")
            return
        at = min(self._view.position, n_shared - 1)
        self.positions.setCurrentIndex(at)
        before, after = comparison.before.predictions[at], comparison.after.predictions[at]
        self.table.show_rows(candidate_rows(before, after))
        self.kl.setText(kl_text(comparison, at))
        if comparison.after.p_write:
            self.copied.setText(copied_text(comparison, at))
