"""The model writes: settings, the written tokens, what there was to choose from, the tree of the beams."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QProgressBar,
    QPushButton,
    QScrollArea,
)

from attnscope.figures.plain import plain_text
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import NO_HIGHLIGHT, Highlight, ViewState
from attnscope.viewmodels.writing.state import GenerationState
from attnscope.widgets.form_parts import row, scrolled_column
from attnscope.widgets.labels import PlainLabel, plain_tooltip, rule, when, when_seen
from attnscope.widgets.theme import Dressed
from attnscope.widgets.writing.alternative_table import AlternativeTable
from attnscope.widgets.writing.beam_view import BeamView
from attnscope.widgets.writing.writing_form import (
    WritingForm,
    place_of_chosen,
    tokens_as_read,
    tree_sentence,
    writing_summary,
)
from attnscope.widgets.writing.written_strip import ProbabilityKey, WrittenStrip


class GenerationPanel(Dressed):
    """Shows a GenerationState; the chosen token's row is lit in the maps of the page."""

    def __init__(self, state: GenerationState, session: Session, view: ViewState) -> None:
        super().__init__()
        self._state, self._session, self._view = state, session, view
        self._is_lighting = False
        self.form = WritingForm(state)
        self.write = QPushButton("Generate")
        self.use = QPushButton("Use as text")
        self.progress = QProgressBar()
        self.summary = PlainLabel(role="muted")
        self.key = ProbabilityKey()
        self.strip = WrittenStrip()
        self.where = PlainLabel(role="name")
        self.alternatives = AlternativeTable()
        self.tree_title = PlainLabel("Beam tree", "name")
        self.tree_hint = PlainLabel(role="muted")
        self.has_dropped = QCheckBox("dropped")
        self.tree = BeamView()
        self._tree_scroll = QScrollArea()
        self._lay_out()
        self._connect()
        self._show()

    def dress(self) -> None:
        self._fit_tree()

    def _lay_out(self) -> None:
        column = scrolled_column(self)
        column.addWidget(self.form)
        column.addLayout(row(self.write, self.use, None))
        column.addWidget(self.progress)
        told = row(self.summary, self.key)
        told.setStretch(0, 1)
        column.addLayout(told)
        column.addWidget(self.strip)
        self._rules = (rule(), rule())
        column.addWidget(self._rules[0])
        column.addWidget(self.where)
        column.addWidget(self.alternatives)
        column.addWidget(self._rules[1])
        column.addLayout(row(self.tree_title, None, self.has_dropped))
        column.addWidget(self.tree_hint)
        column.addWidget(self._tree_scroll)
        column.addStretch(1)
        self.summary.setWordWrap(True)
        self.where.setWordWrap(True)
        self.tree_hint.setWordWrap(True)
        self.has_dropped.setChecked(True)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Tokens generated")
        policy = self.progress.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.progress.setSizePolicy(policy)
        self._tree_scroll.setWidget(self.tree)
        self._tree_scroll.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def _connect(self) -> None:
        self.write.clicked.connect(self._on_write_clicked)
        self.use.clicked.connect(self._state.use_as_text)
        self.strip.step_chosen.connect(self._on_step_chosen)
        self.tree.step_chosen.connect(self._on_step_chosen)
        self.has_dropped.clicked.connect(self._on_dropped_clicked)
        state, session, view = self._state.changed, self._session.changed, self._view.changed
        when_seen(
            self, self._show, state.writing, state.outdated, state.settings, session.model, session.text
        )
        when_seen(self, self._show_step, state.step)
        when_seen(self, self._light, session.selection)
        when(self, self._light_again, view.highlight)
        when(self, self._take_colours, view.style)

    # Intents

    def _on_write_clicked(self) -> None:
        if self._state.is_writing:
            self._state.stop()
        else:
            self._state.write()

    def _on_step_chosen(self, step: int) -> None:
        self._state.choose_step(step if step >= 0 else None)

    def _on_dropped_clicked(self, is_checked: bool) -> None:
        self.tree.show_dropped(is_checked)
        self._fit_tree()

    # Showing

    def _take_colours(self) -> None:
        self.strip.set_colour_map(self._view.colour_map)
        self.key.set_colour_map(self._view.colour_map)

    def _light_again(self) -> None:
        if self._view.highlight == NO_HIGHLIGHT:
            self._light()

    def _show(self) -> None:
        state = self._state
        self.write.setText("Stop" if state.is_writing else "Generate")
        self.write.setEnabled(state.is_writing or state.can_write)
        self.use.setEnabled(state.can_be_used)
        self.use.setVisible(bool(state.tokens))
        takes_target = self._session.model is not None and self._session.model.takes_target
        self.use.setText("Use as target" if takes_target else "Use as text")
        self.progress.setVisible(state.is_writing)
        self.progress.setRange(0, max(state.n_most, 1))
        self.progress.setValue(len(state.tokens))
        self.summary.setText(plain_text(writing_summary(state, self._session)))
        self.summary.set_role("error" if state.phase == "failed" else "muted")
        self.strip.show_tokens(tokens_as_read(state))
        self.strip.setVisible(bool(state.tokens))
        self.key.setVisible(bool(state.tokens))
        tree = state.tree
        self.tree.show_tree(tree)
        for part in (self.tree_title, self.tree_hint, self.has_dropped, self._tree_scroll, self._rules[1]):
            part.setVisible(tree is not None)
        if tree is not None:
            self.tree_hint.setText(tree_sentence(tree))
            self.tree_hint.setToolTip(plain_tooltip(_TREE_TOOLTIP))
            self._fit_tree()
        self._show_step()

    def _show_step(self) -> None:
        state, chosen = self._state, self._state.chosen
        self.strip.show_chosen(state.step if chosen else None)
        self.tree.show_chosen(state.step if chosen else None)
        for part in (self.where, self.alternatives, self._rules[0]):
            part.setVisible(chosen is not None)
        if chosen is not None:
            self.where.setText(plain_text(place_of_chosen(state)))
            self.alternatives.show_rows(state.candidates, chosen.token.id)
        self._light()

    def _light(self) -> None:
        """Light the row that the chosen token was written from, unless the cursor lights another."""
        row = self._state.row(self._session.stack)
        if row is not None and self._view.highlight.key is None:
            self._is_lighting = True
            self._view.set_highlight(Highlight(query=row))
        elif self._is_lighting and row is None:
            self._is_lighting = False
            self._view.set_highlight(NO_HIGHLIGHT)

    def _fit_tree(self) -> None:
        bar = self._tree_scroll.horizontalScrollBar().sizeHint().height()
        self._tree_scroll.setFixedHeight(self.tree.height() + bar + 2)


_TREE_TOOLTIP = (
    "Each row is one token; each node a text that ends with it.\n"
    "score = Σ log p / ((5 + n) / 6)^α (Wu et al. 2016, equation 14), in nats.\n"
    "Boxes were kept, double boxes end their text, the blue path is the text that was taken."
)
