"""One side of a comparison as a row: model, texts, gates and interventions."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QGridLayout, QLineEdit, QMenu, QToolButton, QWidget

from attnscope.figures.style import plain_text, shorten, type_px
from attnscope.records.maps import Which
from attnscope.viewmodels.compare.difference import (
    PairedAnswer,
    kind_words,
    kl_words,
    most_apart,
    rows_of_both,
    text_difference,
)
from attnscope.viewmodels.compare.sides import example_for
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.session.changes import CHANGES, Changes, Kept, changes_words, short_checkpoint
from attnscope.viewmodels.session.head_measures import MEASURES
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.dialogs import ask_folder
from attnscope.widgets.explore.output_panel import CandidateTable, DifferenceLabel
from attnscope.widgets.form_parts import column, narrow_combo, row, scrolled_column
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, tool_button, when, when_seen
from attnscope.widgets.theme import Dressed

# The numbers of a comparison: the head's measures on both sides, and what both models say.

_KL_TOOLTIP = (
    "Kullback–Leibler divergence KL(A ‖ B) = Σ p·ln(p/q) over the whole vocabulary, in nats.\n"
    "A dash: the two models do not answer from one vocabulary, or only one side has this position."
)


class CompareMeasures(QWidget):
    """The measures of the selected head: A, B and B − A."""

    def __init__(self, state: CompareState) -> None:
        super().__init__()
        self._state = state
        self.title = PlainLabel("Measures", "name")
        self.numbers: dict[str, tuple[PlainLabel, PlainLabel, PlainLabel]] = {}
        cells = QGridLayout()
        cells.setContentsMargins(0, 0, 0, 0)
        cells.setHorizontalSpacing(10)
        cells.setVerticalSpacing(6)
        right = Qt.AlignmentFlag.AlignRight
        for k, name in enumerate(("A", "B", "Δ"), start=1):
            cells.addWidget(PlainLabel(name, "muted"), 0, k, right)
        for line, kind in enumerate(MEASURES, start=1):
            kind_label = PlainLabel(kind.name, "hint")
            kind_label.setToolTip(plain_tooltip(f"{kind.name}, {kind.unit}\n{kind.definition}"))
            cells.addWidget(kind_label, line, 0)
            labels = (PlainLabel("–"), PlainLabel("–"), PlainLabel("–", "name"))
            for k, label in enumerate(labels, start=1):
                label.setToolTip(kind_label.toolTip())
                cells.addWidget(label, line, k, right)
            self.numbers[kind.field] = labels
        cells.setColumnStretch(0, 1)
        for k in (1, 2, 3):
            cells.setColumnMinimumWidth(k, 44)
        column(self.title, cells, None, on=self, margins=(12, 8, 8, 8))
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
    """Both models' outputs at corresponding positions, and their distance."""

    def __init__(self, state: CompareState) -> None:
        super().__init__()
        self._state = state
        self._is_chosen = False
        self.kind = PlainLabel(role="muted")
        self.kl = PlainLabel(role="name", tip=plain_tooltip(_KL_TOOLTIP))
        self.places = narrow_combo("Prediction to compare")
        self.table = CandidateTable(n_rows=6, names=("A", "B"))
        self.texts = (DifferenceLabel("Text of A"), DifferenceLabel("Text of B"))
        self._names = (PlainLabel("A", "muted"), PlainLabel("B", "muted"))
        self._lay_out()
        self.places.activated.connect(self._on_chosen)
        changed = state.changed
        when(self, self._show, changed.traced, changed.heads, changed.compared, changed.output)
        self._show()

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
        kinds = dict.fromkeys(
            kind_words(traced.comparison.after.kind, traced.info) for traced in (first, second) if traced
        )
        self.table.name_answers("label" if any(o and o.kind == "class" for o in outputs) else "token")
        self.kind.setText(" | ".join(kinds))
        if not any(traced and traced.comparison.is_writing for traced in (first, second)):
            self._show_texts(*(output.generated if output else "" for output in outputs))
        labels = [plain_text(answer.label) for answer in state.differences.answers]
        if labels != [self.places.itemText(k) for k in range(self.places.count())]:
            self.places.clear()
            self.places.addItems(labels)
            self._is_chosen = False
        self.places.setVisible(len(labels) > 1)
        if not self._is_chosen and state.differences.kl_nats:
            self.places.setCurrentIndex(self._places_with_both()[most_apart(state.differences.kl_nats)])
        self._show_answer()

    def _show_texts(self, *written: str) -> None:
        for label, segments in zip(self.texts, text_difference(*written), strict=True):
            label.show_segments(segments)
        for part in (*self._names, *self.texts):
            part.setVisible(any(written))

    def _places_with_both(self) -> list[int]:
        return [k for k, answer in enumerate(self._state.differences.answers) if answer.pair is not None]

    def _show_answer(self) -> None:
        answers, at = self._state.differences.answers, max(self.places.currentIndex(), 0)
        answer: PairedAnswer | None = answers[at] if at < len(answers) else None
        if answer is None:
            self.table.show_rows(())
            self.kl.setText("")
            return
        compared = self._state.differences.query.answer
        is_by_piece = compared is not None and not compared.has_one_vocabulary
        self.table.show_rows(rows_of_both(answer.first, answer.second, is_by_piece=is_by_piece, n_rows=6))
        values = self._state.differences.kl_nats
        both = self._places_with_both()
        place = both.index(at) if at in both else len(values)
        self.kl.setText(kl_words(values, place) if compared else "")


OfferModels = Callable[[], tuple[str, ...]]
AskFolder = Callable[[QWidget, str, str], str]
_LONGEST_TEXT = 120
_HELD = "What the untouched model writes: the maps are read on it, so that both sides have the same tokens."
_COMPANION = "another sample, or the same text with two words exchanged"
_MODEL_PX, _CHANGES_PX = 148, 196


class CompareSide(Dressed):
    """Shows one side of a CompareState; the user's choices call its methods."""

    def __init__(
        self,
        which: Which,
        state: CompareState,
        session: Session,
        *,
        offer_models: OfferModels = tuple,
        choose_folder: AskFolder = ask_folder,
    ) -> None:
        super().__init__()
        self._which, self._state, self._session = which, state, session
        self._offer_models, self._choose_folder = offer_models, choose_folder
        self.label = PlainLabel(which, "large")
        self.model_button = self._menu_button(f"Model of {which}", self._fill_models)
        self.text_edit = named(QLineEdit(), f"Text of {which}")
        self.target_edit = named(QLineEdit(), f"Second text of {which}")
        self.changes_button = self._menu_button(f"Gates and interventions of {which}", self._fill_changes)
        self._lay_out()
        self.dress()
        self.text_edit.textEdited.connect(self._on_text_edited)
        self.target_edit.textEdited.connect(self._on_target_edited)
        when_seen(self, self._show, state.changed.sides, state.changed.traced, state.changed.kept)

    def _menu_button(self, name: str, fill: Callable[[], None]) -> QToolButton:
        button = tool_button("", name, tip=name)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(button, toolTipsVisible=True)
        menu.aboutToShow.connect(fill)
        button.setMenu(menu)
        return button

    def _lay_out(self) -> None:
        row(
            self.label,
            self.model_button,
            (self.text_edit, 3),
            (self.target_edit, 2),
            self.changes_button,
            on=self,
        )
        self.setTabOrder(self.model_button, self.text_edit)
        self.setTabOrder(self.text_edit, self.target_edit)
        self.setTabOrder(self.target_edit, self.changes_button)

    # Showing

    def dress(self) -> None:
        self.label.setFixedWidth(round(type_px(20)))
        self.model_button.setFixedWidth(round(type_px(_MODEL_PX)))
        self.changes_button.setFixedWidth(round(type_px(_CHANGES_PX)))
        self._show()

    def _show(self) -> None:
        side, session = self._state.sides[self._which], self._session
        choice = side.choice
        _show_text(self.text_edit, choice.text or "")
        _show_text(self.target_edit, (choice.target or "") if choice.text is not None else "")
        example = example_for(choice, session)
        followed = shorten(plain_text(example.text or session.text), _LONGEST_TEXT)
        follows = plain_text(example.words) or "as in Explore"
        self.text_edit.setPlaceholderText(f"{follows}: {followed}" if followed else follows)
        whole = choice.text or example.text or session.text
        self.text_edit.setToolTip(
            plain_tooltip(f"{whole}\n\nEmpty: the text in Explore; while nothing differs, {_COMPANION}.")
        )
        takes_target = side.takes_target or (choice.text is not None and choice.target is not None)
        self.target_edit.setVisible(takes_target)
        traced = side.traced
        read = shorten(plain_text(traced.target.text), _LONGEST_TEXT) if traced and traced.target else ""
        explore = (
            "as in Explore" if choice.text is None and not example.text and session.target is not None else ""
        )
        is_changed = side.shown is not None and bool(side.shown.gates or side.shown.interventions)
        self.target_edit.setPlaceholderText(
            f"{explore or ('held fixed' if is_changed else 'its own')}: {read}"
        )
        second = self.target_edit.text() or self.target_edit.placeholderText()
        held = "" if explore or not is_changed else f"\n\n{_HELD}"
        self.target_edit.setToolTip(plain_tooltip(f"{second}{held}"))
        model = "open model" if choice.model is None else short_checkpoint(choice.model)
        if choice.model is None and session.model is not None:
            model = session.model.name
        self._name(self.model_button, model, "open now" if choice.model is None else choice.model)
        self._name(self.changes_button, self._changes_words(), self._changes_tip())

    def _changes_words(self) -> str:
        choice = self._state.sides[self._which].choice
        if choice.changes == "explore":
            words = changes_words(self._session.gates, self._session.interventions)
            return f"Explore: {words}"
        return choice.kept.label if choice.changes == "kept" and choice.kept else "untouched"

    def _changes_tip(self) -> str:
        return f"{self.changes_button.accessibleName()}: {self._changes_words()}"

    def _name(self, button: QToolButton, text: str, tip: str) -> None:
        room = button.minimumWidth() - round(type_px(36))
        shown = button.fontMetrics().elidedText(plain_text(text), Qt.TextElideMode.ElideRight, room)
        button.setText(f"{shown.replace('&', '&&')} ▾")
        button.setToolTip(plain_tooltip(tip))

    # Menus

    def _fill_models(self) -> None:
        menu, choice = self.model_button.menu(), self._state.sides[self._which].choice
        menu.clear()
        model = self._session.model
        name = f"The open model{f' ({model.name})' if model else ''}"
        self._add(menu, name, lambda: self._choose_model(None), is_on=choice.model is None)
        menu.addSeparator()
        for source in self._offer_models():
            run = partial(self._choose_model, source)
            action = self._add(menu, short_checkpoint(source), run, is_on=choice.model == source)
            action.setToolTip(plain_tooltip(source))
        menu.addSeparator()
        self._add(menu, "Model or checkpoint folder…", self._ask_model)

    def _fill_changes(self) -> None:
        menu, choice = self.changes_button.menu(), self._state.sides[self._which].choice
        menu.clear()
        for changes, name in CHANGES.items():
            run = partial(self._choose_changes, changes)
            self._add(menu, name[0].upper() + name[1:], run, is_on=choice.changes == changes)
        if self._state.kept:
            menu.addSeparator()
        for kept in self._state.kept:
            run = partial(self._choose_changes, "kept", kept)
            action = self._add(menu, f"Kept: {kept.label}", run, is_on=choice.kept == kept)
            action.setToolTip(plain_tooltip(f"{short_checkpoint(kept.source)}\n{kept.text}"))

    def _add(self, menu: QMenu, text: str, run: Callable[[], None], *, is_on: bool = False) -> QAction:
        action = QAction(shorten(plain_text(text), 60).replace("&", "&&"), menu, checkable=True)
        action.setChecked(is_on)
        action.triggered.connect(lambda _checked=False: run())
        menu.addAction(action)
        return action

    # Intents

    def _choose_model(self, source: str | None) -> None:
        self._state.choosing.choose_model(self._which, source)

    def _ask_model(self) -> None:
        folder = self._choose_folder(self, f"Model or checkpoint for {self._which}", str(Path.home()))
        if folder:
            self._choose_model(folder)

    def _choose_changes(self, changes: Changes, kept: Kept | None = None) -> None:
        self._state.choosing.choose_changes(self._which, changes, kept)

    def _on_text_edited(self, text: str) -> None:
        self._state.choosing.set_text(self._which, text)

    def _on_target_edited(self, text: str) -> None:
        self._state.choosing.set_target(self._which, text)


def _show_text(edit: QLineEdit, text: str) -> None:
    """Show `text` unless it is there already, keeping the cursor's position."""
    if edit.text() != text and not (edit.hasFocus() and not edit.text().strip() and not text):
        at = edit.cursorPosition()
        edit.setText(text)
        edit.setCursorPosition(min(at, len(text)) if edit.hasFocus() else 0)
