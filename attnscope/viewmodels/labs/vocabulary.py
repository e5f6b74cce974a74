"""The vocabulary browser: what is searched, the ids found, the piece looked at, a text spelled."""

from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal, SignalGroup

from attnscope.counting import plural
from attnscope.records.messages import Failed, ModelLoaded, Progress
from attnscope.records.requests import Reply
from attnscope.records.tokenizers import (
    MAX_QUERY,
    PIECE_KINDS,
    FindPieces,
    PieceDetail,
    PieceKind,
    PiecesFound,
    PieceShown,
    SearchMode,
    ShowPiece,
    ShowVocabulary,
    SortKey,
    SpellText,
    TextSpelled,
    VocabularyShown,
    VocabularyTable,
)
from attnscope.records.tokens import Tokens
from attnscope.viewmodels.labs.controls import LabControls
from attnscope.viewmodels.query import Job, Query, Requests

MODES: dict[SearchMode, str] = {"contains": "contains", "regex": "regular expression", "id": "ids"}
_KIND_WORDS: dict[PieceKind, str] = {
    "special": "special",
    "word start": "begin a word",
    "continuation": "continue one",
    "byte": "bytes",
    "unused": "not used",
}
EXAMPLE = "the cat is unbelievably naïve"
"""Spelled at first: words that small vocabularies know, a long one, and a letter beyond ASCII."""
_NOTHING = np.zeros(0, np.int32)


class VocabularyChanges(SignalGroup):
    """What of the browser can change."""

    table = Signal()
    choice = Signal()
    found = Signal()
    piece = Signal()
    spelled = Signal()


class VocabularyState:
    """The open model's vocabulary, asked for when the browser is first looked at."""

    def __init__(self, requests: Requests) -> None:
        self.changed = VocabularyChanges()
        self._is_started = False
        self._table = Job(Progress, VocabularyShown, requests)
        self._found = Query(PiecesFound, requests)
        self._piece = Query(PieceShown, requests)
        self._spelled = Query(TextSpelled, requests)
        self._piece.is_watched = self._spelled.is_watched = True
        self.ids: NDArray[np.int32] = _NOTHING
        self.wish = FindPieces(number=0)
        self.controls = LabControls(self.wish, lambda: self.wish, self._find, allows=_could_be_set)
        self.typed = EXAMPLE
        self.error = self.note = ""

    # What the person does

    def start(self) -> None:
        """The browser is looked at: ask for the vocabulary."""
        if not self._is_started:
            self._is_started = True
            self._ask_table()

    def search(self, query: str) -> None:
        """Look for other pieces."""
        self.controls.ask(replace(self.wish, query=query), group="query")

    def set_mode(self, mode: SearchMode) -> None:
        """Read the query in another way."""
        self.controls.ask(replace(self.wish, mode=mode))

    def set_kinds(self, kinds: tuple[PieceKind, ...]) -> None:
        """Show pieces of some kinds only; none named: of every kind."""
        self.controls.ask(replace(self.wish, kinds=kinds))

    def sort(self, key: SortKey, *, is_descending: bool) -> None:
        """Order the pieces in another way."""
        self.controls.ask(replace(self.wish, sort=key, is_descending=is_descending))

    def look_at(self, id: int) -> None:
        """Show one piece in detail."""
        self._piece.renew()
        self._piece.ask(id, ShowPiece(id=id))

    def spell(self, text: str) -> None:
        """Split a text into tokens."""
        self.typed = text
        if not text:
            self._spelled.forget()
            self.changed.spelled.emit()
            return
        self._spelled.renew()
        self._spelled.ask(text, SpellText(text=text))

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those of older requests change nothing."""
        match reply:
            case VocabularyShown() if self._table.take(reply):
                self.error, self._found.is_watched = "", True
                self.ids = np.arange(len(reply.table), dtype=np.int32)
                self.changed.table.emit()
                if self.wish != FindPieces(number=0):
                    self._find(self.wish, is_new=True)
                if self.typed:
                    self.spell(self.typed)
                if len(reply.table):
                    self.look_at(_longest(reply.table))
            case PiecesFound() if self._found.take(reply):
                self.ids, self.note, self.error = reply.ids, reply.note, ""
                self.changed.found.emit()
            case PieceShown() if self._piece.take(reply):
                self.changed.piece.emit()
            case TextSpelled() if self._spelled.take(reply):
                self.changed.spelled.emit()
            case Progress() if self._table.take(reply):
                self.changed.table.emit()
            case Failed() if self._table.take(reply):
                self.error = reply.message
                self.changed.table.emit()
            case Failed() if self._found.take(reply):
                self.error = reply.message
                self.changed.found.emit()
            case ModelLoaded():
                self._forget()
            case _:
                pass

    # What is shown

    @property
    def progress(self) -> float | None:
        """How much of the vocabulary is read; None where that is not known."""
        return self._table.fraction

    @property
    def table(self) -> VocabularyTable | None:
        """Every piece, once the vocabulary is read."""
        return self._table.answer.table if self._table.answer is not None else None

    @property
    def detail(self) -> PieceDetail | None:
        """What is known of the piece that is looked at."""
        return self._piece.answer.detail if self._piece.answer is not None else None

    @property
    def spelled(self) -> Tokens | None:
        """The typed text as tokens."""
        return self._spelled.answer.tokens if self._spelled.answer is not None else None

    @property
    def unknown_id(self) -> int | None:
        """What unknown letters become, where the vocabulary has something for them."""
        return self._spelled.answer.unknown_id if self._spelled.answer is not None else None

    @property
    def sentence(self) -> str:
        """The vocabulary in one sentence; empty while it is read."""
        table = self.table
        if table is None or not len(table):
            return ""
        counts = dict(zip(PIECE_KINDS, self.kind_counts(), strict=True))
        told = [f"{n:,} {_KIND_WORDS[kind]}" for kind, n in counts.items() if n]
        longest = _longest(table)
        return (
            f"{table.name} has {len(table):,} pieces: {', '.join(told)}. The longest, "
            f"“{table.piece(longest).strip()}”, has {plural(int(table.lengths[longest]), 'character')}."
        )

    @property
    def count_sentence(self) -> str:
        """How many pieces are shown, or why none are."""
        if self.error:
            return self.error
        if self.table is None:
            return "Reading the vocabulary…"
        n, n_all = len(self.ids), len(self.table)
        told = f"{n_all:,} pieces" if n == n_all else f"{n:,} of {n_all:,} pieces"
        if n == 0:
            told = f"No matches among {n_all:,} pieces."
        return f"{told} · {self.note}" if self.note else told

    @property
    def spelled_sentence(self) -> str:
        """The typed text in numbers."""
        tokens = self.spelled
        if tokens is None:
            return "Type a text to see its tokens and ids; unknown ones are marked."
        unknown = f", {tokens.n_unknown} unknown" if tokens.n_unknown else ""
        ids = " ".join(str(id) for id in tokens.ids[:40]) + (" …" if len(tokens) > 40 else "")
        return f"{plural(len(tokens), 'token')}{unknown} · ids {ids}"

    def kind_counts(self) -> tuple[int, ...]:
        """How many pieces are of each kind, in the order of PIECE_KINDS."""
        if self.table is None:
            return ()
        return tuple(int(n) for n in np.bincount(self.table.kinds, minlength=5))

    # Inside

    def _ask_table(self) -> None:
        self._table.start(ShowVocabulary())

    def _forget(self) -> None:
        self.ids = _NOTHING
        self.error = self.note = ""
        self._table.give_up()
        self._table.forget()
        self._found.forget()
        self._found.is_watched = False
        self._piece.forget()
        self._spelled.forget()
        self.changed.table.emit()
        self.changed.piece.emit()
        self.changed.spelled.emit()
        if self._is_started:
            self._ask_table()

    def _find(self, wish: FindPieces, *, is_new: bool = False) -> None:
        if wish == self.wish and not is_new:
            return
        self.wish = wish
        self.changed.choice.emit()
        self._found.renew()
        self._found.ask(wish, wish)


def _longest(table: VocabularyTable) -> int:
    """The id of the longest piece that is not special."""
    return int(np.where(table.kinds == PIECE_KINDS.index("special"), 0, table.lengths).argmax())


def _could_be_set(wish: FindPieces) -> bool:
    """Whether the lab's own controls could ask for this."""
    is_known = wish.mode in MODES and wish.sort in get_args(SortKey) and set(wish.kinds) <= set(PIECE_KINDS)
    return is_known and wish.number == 0 and len(wish.query) <= MAX_QUERY
