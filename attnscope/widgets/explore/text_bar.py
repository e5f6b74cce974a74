"""Text input: the text, the decoder's text if there is one, samples, and their tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, QRect, QStringListModel, Qt, Signal, Slot
from PySide6.QtGui import QAction, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QCompleter,
    QFrame,
    QGridLayout,
    QLineEdit,
    QListView,
    QMenu,
    QScrollArea,
    QSizePolicy,
    QWidget,
)

from attnscope.counting import plural
from attnscope.figures.style import plain_piece, plain_text, shorten, type_px
from attnscope.records.models import ModelInfo, Sample
from attnscope.records.sites import Axis
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes.tokenizers import KINDS
from attnscope.viewmodels.compare.difference import CERTAINTY_TIP, token_labels, unsure_text
from attnscope.viewmodels.maps.aspect import shown_tokens
from attnscope.viewmodels.session.changes import READ_ONLY, READ_ONLY_TIP, is_recorded
from attnscope.viewmodels.session.opening import wanted_input
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.session.typed_text import (
    begun_word,
    completions,
    nearest_words,
    text_notes,
    words_told,
)
from attnscope.viewmodels.view_state import Highlight, ViewState, sides_of
from attnscope.widgets.actions import writes
from attnscope.widgets.form_parts import row
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_chips import TokenStrip, is_unknown, typed_letters

# A list under the field in which a word is begun that a small vocabulary knows how to end.


class WordHelp(QCompleter):
    """Suggests words while typing; Tab takes the chosen or the first one, Return only a chosen one."""

    def __init__(self, edit: QLineEdit) -> None:
        self._listed = QStringListModel()
        super().__init__(self._listed, edit)
        self._edit = edit
        self._words: Sequence[str] = ()
        self.setWidget(edit)
        self.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self.list = named(QListView(), "Known words")
        self.setPopup(self.list)
        edit.textEdited.connect(self._on_edited)
        self.activated.connect(self._put)

    def set_words(self, words: Sequence[str]) -> None:
        """Set the suggestions; none: nothing is suggested."""
        self._words = words
        self.list.hide()

    def takes(self, event: QKeyEvent) -> bool:
        """Whether a key of the field is for the open list."""
        if not self.list.isVisible():
            return False
        chosen = self.list.selectionModel().selectedIndexes()  # the current one may only have had the focus
        match event.key():
            case Qt.Key.Key_Tab:
                self.list.hide()
                self._put(str((chosen or [self._listed.index(0)])[0].data()))
                return True
            case Qt.Key.Key_Escape:
                self.list.hide()
                return True
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if chosen:
                self.list.hide()
                self._put(str(chosen[0].data()))
                return True
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self.list.hide()
        return False

    @Slot(str)
    def _on_edited(self, text: str) -> None:
        begun = begun_word(text, self._edit.cursorPosition())
        found = completions(self._words, begun) if self._words else []
        if not found:
            self.list.hide()
            return
        self._listed.setStringList(found)
        style = self._edit.window().styleSheet()
        if self.list.styleSheet() != style:  # a window of its own, which takes no style from another
            self.list.setStyleSheet(style)
        left = self._edit.cursorRect().left() - self._edit.fontMetrics().horizontalAdvance(begun)
        width = max(120, self.list.sizeHintForColumn(0) + 32)
        self.complete(QRect(left, 0, width, self._edit.height() + 2))

    @Slot(str)
    def _put(self, word: str) -> None:
        """Insert the word where it was begun; the field can undo it."""
        at = self._edit.cursorPosition()
        begun = begun_word(self._edit.text(), at)
        self._edit.setSelection(at - len(begun), len(begun))
        self._edit.insert(word)
        self.list.hide()


# A token strip of at most a few rows; longer texts scroll inside it, and lit tokens come into view.

MAX_ROWS = 3
_MAX_ROWS_LOW = 1
"""When the pictures need the height."""


class TokenScroll(QScrollArea):
    """Holds one strip; as high as its rows, up to `max_rows`."""

    def __init__(self, strip: TokenStrip) -> None:
        super().__init__()
        self._strip = strip
        self._n_rows, self._max_rows = 1, MAX_ROWS
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.setWidget(strip)
        strip.setAutoFillBackground(False)  # setWidget turns it on
        self._fit()
        strip.rows_changed.connect(self._on_rows_changed)
        strip.token_hovered.connect(self._on_token_hovered)

    def show_lit(self, lit: Highlight) -> None:
        """Highlight tokens, and bring them into view when another view highlights them."""
        self._strip.set_lit(lit)
        index = lit.query if lit.query is not None else lit.key
        if index is not None and not self._strip.underMouse():
            self._bring_into_view(index)

    def set_max_rows(self, max_rows: int) -> None:
        """Limit the number of visible rows."""
        self._max_rows = max_rows
        self._fit()

    def _on_rows_changed(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(min(self._n_rows, self._max_rows) * self._strip.row_px)

    def _on_token_hovered(self, index: int) -> None:
        if self._strip.hasFocus():
            self._bring_into_view(index)

    def _bring_into_view(self, index: int) -> None:
        chip = self._strip.chip_of(index)
        if self._strip.height() > self.height() and chip is not None:
            centre = chip.rect.center().toPoint()
            self.ensureVisible(centre.x(), centre.y(), 0, self._strip.row_px // 2)


def word_around(tokens: Sequence[Token], index: int) -> tuple[int, int]:
    """The first token of a word, and the one after its last."""
    first, last = index, index + 1
    while first > 0 and tokens[first].joins_previous:
        first -= 1
    while last < len(tokens) and tokens[last].joins_previous:
        last += 1
    return first, last


def word_text(tokens: Tokens, index: int) -> str:
    """The letters of the word of a token, as typed; empty for a token outside the text."""
    first, last = word_around(tokens.tokens, index)
    return tokens.text[tokens.tokens[first].start : tokens.tokens[last - 1].end].strip()


def token_menu(
    tokens: Tokens,
    index: int,
    show_merges: Callable[[str], None],
    parent: QWidget,
    *,
    offered: Sequence[str] = (),
    put: Callable[[str], None] = lambda _: None,
) -> QMenu:
    """Menu of one token of a text; first, known words to put in its place."""
    menu = QMenu(parent)
    token, word = tokens.tokens[index], word_text(tokens, index)
    shown = plain_piece(word, max_characters=24)
    for known in offered:
        _add(menu, f"Write “{known}” instead of “{shown}”", partial(put, known))
    if offered:
        menu.addSeparator()
    merges = _add(menu, f"Show how “{shown}” is split", lambda: show_merges(word))
    merges.setEnabled(bool(word))
    if not word:
        merges.setText("This token comes from no text")
    menu.addSeparator()
    clipboard = QGuiApplication.clipboard()
    _add(menu, "Copy the piece", lambda: clipboard.setText(token.piece))
    _add(menu, f"Copy the id {token.id}", lambda: clipboard.setText(str(token.id)))
    _add(menu, "Copy all ids", lambda: clipboard.setText(" ".join(map(str, tokens.ids))))
    return menu


def _add(menu: QMenu, text: str, run: Callable[[], None]) -> QAction:
    action = QAction(text.replace("&", "&&"), menu)
    action.triggered.connect(lambda _checked=False: run())
    menu.addAction(action)
    return action


Side = Literal["source", "target"]
Room = Literal["all", "low", "fields"]
"""How much height there is for the texts: for all of both, for one line with its tokens, or for fields."""
MAX_LINE_CHARACTERS = 20_000
"""Longer texts are named in the field, not shown there."""
_OWN, _PAIR = "the model writes its own", "none: the text is read alone"
_OWN_TOOLTIP = "Empty: the model writes its own translation. Type to see how it reads yours."
_EMPTY = "nothing: the text is matched with an empty one"
_PAIR_TOOLTIPS = (
    "A second sentence, read together with the first. Empty: the text is read alone.",
    "A second sentence, read by the same encoder and matched with the first, both ways.",
)


class TokenLine(QWidget):
    """One text of a session as tokens, with notes beside them."""

    merges_wanted = Signal(str)

    def __init__(self, side: Side, session: Session, view: ViewState) -> None:
        super().__init__()
        self.side, self._session, self._view = side, session, view
        self.strip = TokenStrip("Tokens of the text" if side == "source" else "Tokens of the target")
        self.area = TokenScroll(self.strip)
        self.notes = PlainLabel(role="warning")
        self.strip.token_hovered.connect(self._on_hovered)
        self.strip.token_clicked.connect(self._on_clicked)
        self.strip.token_left.connect(self._on_left)
        self.strip.menu_wanted.connect(self._open_menu)

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of the text that was traced."""
        traced = self._session.traced
        if traced is None:
            return None
        return traced.source if self.side == "source" else traced.target

    @property
    def known_words(self) -> tuple[str, ...]:
        """The words that can be typed, if they are few."""
        model = self._session.model
        if model is None or is_recorded(model):
            return ()
        return model.words[self.side == "target"]

    @Slot(int)
    def _on_hovered(self, index: int) -> None:
        self._view.hover_token(self.side, index, _sides(self._session), _n_ahead(self._session))

    @Slot()
    def _on_left(self) -> None:
        self._view.hover_token("source", None, _sides(self._session))

    @Slot(int)
    def _on_clicked(self, index: int) -> None:
        """Open the menu of an unknown word on a click, with the nearest known ones."""
        tokens, chip = self.tokens, self.strip.chip_of(index)
        if chip is None or tokens is None or index >= len(tokens) or not self.known_words:
            return
        if is_unknown(tokens.tokens[index]):
            self._open_menu(index, self.strip.mapToGlobal(chip.rect.bottomLeft().toPoint()))

    @Slot(int, QPoint)
    def _open_menu(self, index: int, place: QPoint) -> None:
        tokens = self.tokens
        if tokens is None or index >= len(tokens) or self._session.aspect.is_by_word:
            return
        own = typed_letters(tokens.tokens[index], tokens.text)
        offered = nearest_words(self.known_words, own) if own else ()
        put = partial(self._replace, tokens, index)
        menu = token_menu(tokens, index, self.merges_wanted.emit, self.strip, offered=offered, put=put)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(place)

    def _replace(self, tokens: Tokens, index: int, word: str) -> None:
        """Replace a token by a known word, unless the text has changed since."""
        session, token, is_source = self._session, tokens.tokens[index], self.side == "source"
        now = session.text if is_source else session.target
        if now != tokens.text:
            return
        text = f"{now[: token.start]}{word}{now[token.end :]}"
        session.history.close_group()
        (session.texts.set_text if is_source else session.texts.set_target)(text)
        session.history.close_group()


def _n_ahead(session: Session) -> int:
    """Distance between a query and the later token that names its row."""
    return int(session.aspect.rows == "written" and writes(session))


def _sides(session: Session) -> tuple[Axis, Axis]:
    model = session.model
    sites = model.sites if model else ()
    return sides_of(session.stack, sites, has_target=bool(model and model.takes_target))


class TextBar(Dressed):
    """Shows the session's texts and tokens; typing changes the session at every key.

    `merges_wanted` carries a word whose tokens somebody wants to see made.
    """

    merges_wanted = Signal(str)
    left = Signal()
    """Esc or Return in a field: the keys are for the pictures again."""

    def __init__(self, session: Session, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = session, view
        self._is_history_newer = False
        self.text_edit = _LineEdit("Text", "Type a sentence…", self._leaves_undo)
        self.target_edit = _LineEdit("Target text", _OWN, self._leaves_undo)
        self._text_label = PlainLabel("text", "muted")
        self._target_label = PlainLabel("target", "muted")
        self.samples_button = tool_button("Samples ▾", "Sample sentences")
        self.samples_button.setPopupMode(self.samples_button.ToolButtonPopupMode.InstantPopup)
        self.samples_button.setMenu(QMenu(self.samples_button))
        self._source, self._target = TokenLine("source", session, view), TokenLine("target", session, view)
        self._lines = (self._source, self._target)
        self.source_strip, self.target_strip = self._source.strip, self._target.strip
        self.past_button = tool_button("Read past", "Read on past the trained positions", role="status")
        self._room: Room = "all"
        self._lay_out()
        self.past_button.clicked.connect(self._on_past_clicked)
        for edit in (self.text_edit, self.target_edit):
            edit.left.connect(self.left)
            edit.returnPressed.connect(self.left)
            edit.editingFinished.connect(self._session.history.close_group)
        self.text_edit.textEdited.connect(self._on_text_edited)
        self.target_edit.textEdited.connect(self._on_target_edited)
        for line in self._lines:
            line.merges_wanted.connect(self.merges_wanted)
        self.dress()
        told = session.changed
        when(self, self._on_model, told.model)
        when(self, self._show_texts, told.text)
        when(self, self._show_tokens, told.traced, told.aspect)
        when(self, self._show_notes, told.text, told.traced)
        when(self, self._show_lit, told.selection, told.traced, told.aspect, view.changed.highlight)
        when(self, self._on_history, told.history)
        for show in (self._on_model, self._show_texts, self._show_tokens, self._show_notes, self._show_lit):
            show()

    def dress(self) -> None:
        for label in (self._text_label, self._target_label):
            label.setFixedWidth(round(type_px(40)))

    def set_stale(self, is_stale: bool) -> None:
        """Dim the tokens while they are not those of the text."""
        self.source_strip.set_stale(is_stale)
        self.target_strip.set_stale(is_stale)

    def set_room(self, room: Room) -> None:
        """Use so much height: all, one line of fields above one of tokens, or the fields alone."""
        if room != self._room:
            self._room = room
            for line in self._lines:
                line.area.set_max_rows(_MAX_ROWS_LOW if room == "low" else MAX_ROWS)
            self._place()

    def _lay_out(self) -> None:
        grid = self._grid = QGridLayout(self)
        grid.setContentsMargins(16, 8, 16, 8)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(4)
        for line in self._lines:
            beside = (self.past_button,) if line is self._source else ()
            row((line.area, 1), (line.notes, 0, Qt.AlignmentFlag.AlignVCenter), *beside, on=line)
        self._place()

    def _place(self) -> None:
        """Place both texts below each other, or beside each other if the pictures need the height."""
        grid, is_beside = self._grid, self._room != "all"
        labels, edits = (self._text_label, self._target_label), (self.text_edit, self.target_edit)
        for k, (label, edit, line) in enumerate(zip(labels, edits, self._lines, strict=True)):
            row, column = (0, 2 * k) if is_beside else (2 * k, 0)
            grid.addWidget(label, row, column)
            grid.addWidget(edit, row, column + 1)
            grid.addWidget(line, row + 1, column + 1, 1, 1 if is_beside else 2)
        grid.addWidget(self.samples_button, 0, 4 if is_beside else 2)
        takes_target = not self.target_edit.isHidden()
        grid.setColumnStretch(1, 1)
        grid.setColumnStretch(3, int(is_beside and takes_target))
        for k, line in enumerate(self._lines):
            line.setVisible(self._room != "fields" and (k == 0 or takes_target))

    def _on_model(self) -> None:
        self._show_samples()
        self._show_target_row()
        about = _known_words(self._session.model)
        for strip in (self.source_strip, self.target_strip):
            strip.set_vocabulary_words(about)
        for edit, line in zip((self.text_edit, self.target_edit), self._lines, strict=True):
            edit.words.set_words(line.known_words)

    def _on_history(self) -> None:
        self._is_history_newer = True

    def _show_texts(self) -> None:
        self._show_source_text()
        _show_text(self.target_edit, self._session.target or "", is_quiet_when_blank=True)

    def _show_target_row(self) -> None:
        model = self._session.model
        takes_target = model is not None and model.takes_target
        for widget in (self._target_label, self.target_edit, self._target.area, self._target.notes):
            widget.setVisible(takes_target)
        if model is not None and model.reads_pairs and not model.labels:
            self._target.area.hide()  # both sentences are one text: its tokens stand above
        self._place()
        self._text_label.setText(_text_name(model))
        self._target_label.setText("second" if model is not None and model.reads_pairs else "target")
        is_fixed = is_recorded(model)
        self.samples_button.setEnabled(bool(model and model.samples) and not is_fixed)
        for edit in (self.text_edit, self.target_edit):
            edit.setReadOnly(is_fixed)
            edit.setToolTip(plain_tooltip(READ_ONLY_TIP if is_fixed else ""))

    def _show_samples(self) -> None:
        menu = self.samples_button.menu()
        menu.clear()
        menu.setToolTipsVisible(True)
        for sample in self._session.model.samples if self._session.model else ():
            menu.addAction(self._sample_action(sample, menu))

    def _sample_action(self, sample: Sample, menu: QMenu) -> QAction:
        label = shorten(plain_text(sample.text), 56).replace("&", "&&")
        hint = _cut(plain_text(sample.hint), 110).replace("&", "&&")
        action = QAction(f"{label}\t{hint}" if hint else label, menu)
        action.setToolTip(plain_tooltip("\n".join(t for t in (sample.text, sample.target, sample.hint) if t)))
        session = self._session
        action.triggered.connect(lambda: session.texts.choose_sample(sample))
        return action

    def _show_tokens(self) -> None:
        traced = self._session.traced_text
        aspect = self._session.aspect
        target = traced.target if traced else None
        for strip, side in (
            (self.source_strip, traced.source if traced else None),
            (self.target_strip, target),
        ):
            tokens = shown_tokens(side, aspect) if side else ()
            answers: dict[int, str] = {}
            if traced is not None and side is traced.source and traced.comparison.after.kind == "class":
                is_whole = len(tokens) == len(side.tokens)
                answers = token_labels(traced.comparison.after) if is_whole else {}
            strip.set_tokens(tokens, side.text if side else "", answers)
        written = shorten(plain_text(traced.comparison.before.generated), 120) if traced else ""
        if written and traced and not traced.is_target_whole:
            written += " …"
        if written and traced and (traced.gates or traced.interventions):
            written = f"{written}   (written with all heads on; held fixed)"
        model = self._session.model
        is_pair = model is not None and model.reads_pairs
        is_matched = model is not None and any(site.stack == "back" for site in model.sites)
        alone = _EMPTY if is_matched else _PAIR
        self.target_edit.setPlaceholderText(alone if is_pair else written or _OWN)
        about = _PAIR_TOOLTIPS[is_matched] if is_pair else _OWN_TOOLTIP
        is_fixed = is_recorded(self._session.model)
        self.target_edit.setToolTip(plain_tooltip(READ_ONLY_TIP if is_fixed else about))

    def _show_source_text(self) -> None:
        """Show the text, or for one too long for a line a description; typing then replaces it."""
        session = self._session
        is_line = len(session.text) <= MAX_LINE_CHARACTERS and session.text not in session.texts.names
        _show_text(self.text_edit, session.text if is_line else "")
        name = session.texts.names.get(session.text, "a long text")
        words = f"{name} · {plural(len(session.text), 'character')} · typing replaces it"
        asked = wanted_input(session.model.reads if session.model else "text")
        self.text_edit.setPlaceholderText(asked if is_line else plain_text(words))

    def _show_notes(self) -> None:
        traced = self._session.traced_text
        source = traced.source if traced else Tokens(text="", tokens=())
        target = traced.target if traced else None
        is_fixed = is_recorded(self._session.model)
        typed = self._session.texts.typed
        model = self._session.model
        words = ((), ()) if model is None or is_fixed else model.words
        self._source.notes.setText(
            READ_ONLY if is_fixed else text_notes(source, typed, n_words=len(words[0]))
        )
        lost = text_notes(replace(source, n_unknown=source.n_strange, n_copyable=0), typed)
        self._source.notes.set_role("warning" if lost and not is_fixed else "hint")
        unsure = unsure_text(traced.comparison) if traced else ""
        of_target = [text_notes(target, n_words=len(words[1])) if target else "", unsure]
        self._target.notes.setText(" ".join(filter(None, of_target)))
        lost = text_notes(replace(target, n_unknown=target.n_strange, n_copyable=0)) if target else ""
        self._target.notes.set_role("warning" if lost or unsure else "hint")
        self._show_past_button(source)
        for notes, known in zip((self._source.notes, self._target.notes), words, strict=True):
            about = READ_ONLY_TIP if is_fixed else _NOTES_TOOLTIP
            about += f"\n{words_told(known)}" if known else ""
            notes.setToolTip(plain_tooltip(about if notes.text() else ""))
        if unsure:
            self._target.notes.setToolTip(plain_tooltip(CERTAINTY_TIP))

    def _show_past_button(self, source: Tokens) -> None:
        """Offer to read a long text further, if the model's positions are computed and not learned."""
        model, is_past = self._session.model, self._session.texts.is_past_trained
        can_read_past = model is not None and model.can_read_past
        self.past_button.setVisible(can_read_past and (source.n_dropped > 0 or source.n_untrained > 0))
        if model is not None:
            limit = f"{model.max_tokens:,}"
            self.past_button.setText(f"Cut at {limit}" if is_past else f"Read past {limit} tokens")
            self.past_button.setToolTip(
                plain_tooltip(
                    f"The model was trained on texts of up to {model.max_tokens:,} tokens. Its positions are "
                    "computed, so it can read on, but it was never trained there."
                )
            )

    def _on_past_clicked(self) -> None:
        self._session.texts.read_past(not self._session.texts.is_past_trained)

    def _show_lit(self) -> None:
        sides, n_ahead = _sides(self._session), _n_ahead(self._session)
        for line in self._lines:
            line.area.show_lit(self._view.lit_tokens(line.side, sides, n_ahead))

    def _on_text_edited(self, text: str) -> None:
        is_full = 2 * len(text) >= MOST_TYPED <= len(text.encode("utf-16-le", "surrogatepass")) // 2
        self._session.texts.set_text(text, is_more=is_full)
        self._is_history_newer = False

    def _on_target_edited(self, text: str) -> None:
        self._session.texts.set_target(text)
        self._is_history_newer = False

    def _leaves_undo(self, edit: QLineEdit, is_redo: bool) -> bool:
        """Whether undo (or redo) concerns heads: they changed last, or `edit` has nothing to undo."""
        session = self._session
        if not (edit.isRedoAvailable() if is_redo else edit.isUndoAvailable()):
            return True
        return self._is_history_newer and bool(
            session.history.redo_label if is_redo else session.history.undo_label
        )


_NOTES_TOOLTIP = (
    "cut: the model reads no more tokens than this.\n"
    "unknown: the tokenizer has no piece for it.\n"
    "can be copied: it has no piece for it either, but the model can copy it from the source.\n"
    "replaced: characters that are not text became U+FFFD.\n"
    "never trained: the model was trained on shorter texts."
)


MOST_TYPED = 200_000


class _LineEdit(QLineEdit):
    """A field that leaves the keys of undo and redo to the window if `leaves_undo` says so.

    It takes `MOST_TYPED` UTF-16 units, far more than are read: what is cut of them can be counted.
    """

    left = Signal()
    """Esc, where the window has nothing to dismiss."""

    def __init__(self, name: str, placeholder: str, leaves_undo: Callable[[QLineEdit, bool], bool]) -> None:
        super().__init__()
        self._leaves_undo = leaves_undo
        self.setAccessibleName(name)
        self.setPlaceholderText(placeholder)
        self.setAcceptDrops(False)  # the window takes files and texts alike
        self.setMaxLength(MOST_TYPED)
        self.words = WordHelp(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.words.takes(event):
            return
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Take every key except those of an undo that is not the field's own; Tab for suggestions."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Tab and self.words.takes(event):
                return True
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            is_redo = event.matches(QKeySequence.StandardKey.Redo)
            is_undo = event.matches(QKeySequence.StandardKey.Undo)
            if (is_undo or is_redo) and self._leaves_undo(self, is_redo):
                event.ignore()
                return False
        return super().event(event)


def _cut(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else f"{text[: max_characters - 1].rstrip()}…"


def _show_text(edit: QLineEdit, text: str, *, is_quiet_when_blank: bool = False) -> None:
    """Show `text` unless it is there already, keeping the cursor's position."""
    shown = edit.text()
    if shown == text or (is_quiet_when_blank and not text and not shown.strip()):
        return
    at = edit.cursorPosition()
    edit.setText(text)
    edit.setCursorPosition(min(at, len(text)) if edit.hasFocus() else 0)


def _known_words(model: ModelInfo | None) -> str:
    """Show the size of the tokenizer's vocabulary, and where to see it."""
    if model is None or is_recorded(model):
        return ""
    noun = KINDS[model.tokenizer].pieces if model.tokenizer in KINDS else "tokens"
    offer = "; a click offers the nearest" if any(model.words) else ""
    return f"the model has {model.vocab_size:,} {noun}; the page Labs lists them under Vocabulary{offer}"


def _text_name(model: ModelInfo | None) -> str:
    """Name of the first line: a text, or the path of something else."""
    if model is None or model.reads in ("text", "attention"):
        return "source" if model is not None and model.form == "encoder-decoder" else "text"
    return model.reads
