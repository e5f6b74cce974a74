"""How the pictures are made, in one line above them: heads blended, keys left out, words, which lines."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from attnscope.records.axes import ROWS, Rows
from attnscope.records.messages import Traced
from attnscope.records.tiles import is_long
from attnscope.viewmodels.maps.aspect import (
    BLENDS,
    BLOCKS,
    HIDDEN,
    OVERS,
    ROW_WORDS,
    Aspect,
    Blend,
    Block,
    Hidden,
    Over,
)
from attnscope.viewmodels.maps.evenness import even_words
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import LINES, ViewState
from attnscope.widgets.aspect_steps import has_two_texts, has_words, writes
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.labels import ElidedLabel, plain_tooltip, tool_button, when

T = TypeVar("T")


class AspectBar(QWidget):
    """Shows and changes the session's aspect; what it takes away from the maps is said at the right."""

    def __init__(self, session: Session, view: ViewState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._view = session, view
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("role", "panel")
        self.blend = ChoiceButton("Heads", "Blend heads into one map", _texts(BLENDS))
        self.over = ChoiceButton("of", "Which heads are blended", _texts(OVERS))
        keys_name = "Leave out keys that take weight without meaning much"
        self.hidden = ChoiceButton("Keys", keys_name, _texts(HIDDEN))
        texts_name = "Queries and keys of which of the two texts, A and B"
        self.block = ChoiceButton("Texts", texts_name, _texts(BLOCKS))
        self.renormalise = _switch("Rows to 1", "Let what is left of each row sum to 1 again (N)")
        self.words = _switch("Words", "Words instead of pieces: keys summed, queries averaged (W)")
        rows_name = "What the rows of cross-attention are called after"
        self.rows = ChoiceButton("Rows", rows_name, _texts(ROW_WORDS))
        self.lines = ChoiceButton("Lines", "Which lines are drawn", LINES)
        self.note = ElidedLabel(role="muted")
        self.note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = self._row = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 16, 2)
        layout.setSpacing(4)
        left_out = (self.hidden, self.block, self.renormalise)
        for widget in (self.rows, self.blend, self.over, *left_out, self.words, self.lines):
            layout.addWidget(widget)
        layout.addWidget(self.note, 1)
        self._connect()
        self._show()

    def add_switch(self, switch: QToolButton) -> None:
        """One more choice of how the pictures are made, behind the others."""
        self._row.insertWidget(self._row.indexOf(self.note), switch)

    def _connect(self) -> None:
        blends: dict[str, Blend] = {name: name for name in BLENDS}
        overs: dict[str, Over] = {name: name for name in OVERS}
        keys: dict[str, Hidden] = {name: name for name in HIDDEN}
        blocks: dict[str, Block] = {name: name for name in BLOCKS}
        rows: dict[str, Rows] = {name: name for name in ROWS}
        self.block.chosen.connect(lambda name: self._look(lambda a: replace(a, block=blocks[name])))
        self.blend.chosen.connect(lambda name: self._look(lambda a: replace(a, blend=blends[name])))
        self.over.chosen.connect(lambda name: self._look(lambda a: replace(a, over=overs[name])))
        self.hidden.chosen.connect(lambda name: self._look(lambda a: replace(a, hidden=keys[name])))
        self.renormalise.clicked.connect(
            lambda is_on: self._look(lambda a: replace(a, is_renormalised=is_on))
        )
        self.words.clicked.connect(lambda is_on: self._look(lambda a: replace(a, is_by_word=is_on)))
        self.rows.chosen.connect(lambda name: self._look(lambda a: replace(a, rows=rows[name])))
        self.lines.chosen.connect(self._view.choose_lines)
        told, view = self._session.changed, self._view.changed
        when(self, self._show, told.aspect, told.heads, told.selection, told.traced, told.model)
        when(self, self._show, view.style, view.view)

    def _look(self, change: Callable[[Aspect], Aspect]) -> None:
        self._session.set_aspect(change(self._session.aspect))
        self._show()

    def _show(self) -> None:
        aspect, view = self._session.aspect, self._view
        self.rows.setVisible(writes(self._session))
        self.rows.show_choice(aspect.rows)
        self.blend.show_choice(aspect.blend)
        self.over.show_choice(aspect.over)
        self.over.setVisible(aspect.blend != "none")
        self.hidden.show_choice(aspect.hidden)
        is_pair = has_two_texts(self._session)
        self.block.setVisible(is_pair)
        self.block.show_choice(aspect.block)
        self.renormalise.setVisible(aspect.hidden != "nothing" or (is_pair and aspect.block != "all"))
        self.renormalise.setChecked(aspect.is_renormalised)
        self.words.setVisible(aspect.is_by_word or has_words(self._session))
        self.words.setChecked(aspect.is_by_word)
        self.lines.setVisible(view.view == "lines")
        self.lines.show_choice(view.lines)
        self.note.set_full_text(self._words())
        self.note.setToolTip(plain_tooltip(self._words()))

    def _words(self) -> str:
        """What the maps lack, and which scale shows what this one does not."""
        session = self._session
        traced = session.traced
        if traced is not None and session.aspect.changes_maps and _is_long(traced):
            return "the map of so long a text is shown as it is"
        shown = session.map_of(session.primary)
        wanted = session.aspect.blend != "none" and session.aspect.over != "selection"
        if wanted and len(session.blended) == 1:
            return "this text is too long to blend so many heads at once"
        if shown is None:
            return ""
        even = even_words(shown) if self._view.scale == "fixed" and self._view.view == "heatmap" else ""
        return " · ".join(filter(None, (shown.note, even and f"{even}; try Scale: per head")))


def _is_long(traced: Traced) -> bool:
    """Whether the maps of a trace are too long to be looked at in another way."""
    n_tokens = max(len(traced.source), len(traced.target or ()))
    return is_long(n_tokens, n_tokens)


def _switch(text: str, name: str) -> QToolButton:
    button = tool_button(text, name, role="segment", is_checkable=True)
    button.setToolTip(name)
    return button


def _texts(choices: Mapping[T, str]) -> dict[str, str]:
    return {str(key): text for key, text in choices.items()}
