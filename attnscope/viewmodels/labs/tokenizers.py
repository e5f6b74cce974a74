"""The labs on tokenizers: one replayed on a typed text, several compared, the open model's vocabulary."""

from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal, SignalGroup

from attnscope.counting import format_number, percent, plural
from attnscope.labs.lab import LabWords
from attnscope.records.messages import Failed, ModelLoaded, Progress
from attnscope.records.requests import Reply
from attnscope.records.tokenizers import KINDS as KIND_TITLES
from attnscope.records.tokenizers import (
    MAX_QUERY,
    NO_ID,
    PIECE_KINDS,
    CompareTokenizers,
    FindPieces,
    MergeRule,
    PieceDetail,
    PieceKind,
    PiecesFound,
    PieceShown,
    ReplaySplits,
    SearchMode,
    ShowPiece,
    ShowVocabulary,
    SortKey,
    SpellText,
    SplitReplay,
    SplitSource,
    SplitsReplayed,
    SplitStep,
    SplitWord,
    TextSpelled,
    TokenizerRow,
    TokenizersNews,
    VocabularyShown,
    VocabularyTable,
)
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes.tokenizers import KINDS, SPECIALS
from attnscope.viewmodels.labs.controls import LabControls, UnkeptControls
from attnscope.viewmodels.query import Job, Query, Requests

EXAMPLE, MAX_TEXT = "smarter smartest", 600
TRAINED_KINDS = {kind.name: kind.title for kind in KINDS.values() if kind.splits_words}
SOURCES: dict[SplitSource, str] = {
    "sample": "trained on the sample text",
    "text": "trained on this text",
    "model": "of the open model",
}
VOCAB_SIZES = (60, 80, 100, 150, 200, 270, 300, 400, 600, 800, 1200, 1600)


_NOT_SPLIT = SplitReplay(kind="merges", tokenizer="", vocab_size=0, text="", start=(), steps=())


class MergesChanges(SignalGroup):
    """Signals of the lab on merges."""

    choice = Signal()
    replay = Signal()
    step = Signal()


class MergesState:
    """Requests a replay whenever the choice changes."""

    def __init__(self, requests: Requests) -> None:
        self.query = Query(SplitsReplayed, requests)
        self.changed = MergesChanges()
        self.wish = ReplaySplits(text=EXAMPLE, source="sample", vocab_size=800)
        self.controls = LabControls(self.wish, lambda: self.wish, self._choose, allows=_could_be_set)
        self.step = 0

    # User actions

    def start(self) -> None:
        """The lab is shown: request the first replay."""
        self.query.is_watched = True
        self._ask()

    def set_text(self, text: str) -> None:
        """Replay another text."""
        self.controls.ask(replace(self.wish, text=text), group="text")

    def set_source(self, source: SplitSource) -> None:
        """Take another tokenizer."""
        self.controls.ask(replace(self.wish, source=source))

    def set_kind(self, kind: str) -> None:
        """Train another kind; bytes need a larger vocabulary."""
        least = _least_size(kind)
        self.controls.ask(replace(self.wish, kind=kind, vocab_size=max(self.wish.vocab_size, least)))

    def set_size(self, vocab_size: int) -> None:
        """Train a vocabulary of another size."""
        least = _least_size(self.wish.kind)
        self.controls.ask(replace(self.wish, vocab_size=max(vocab_size, least)), group="pieces")

    def show_word(self, word: str, source: SplitSource = "model") -> None:
        """Replay one word of the window with the open model's tokenizer."""
        self.query.is_watched = True
        self.controls.ask(replace(self.wish, text=word, source=source))

    def go_to(self, step: int) -> None:
        """Show the words after so many steps."""
        step = min(max(step, 0), self.n_steps)
        if step != self.step:
            self.step = step
            self.changed.step.emit()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; those to older requests are ignored."""
        if isinstance(reply, ModelLoaded):
            if self.wish.source == "model":
                self.query.renew()
                self._ask()
        elif self.query.take(reply):
            self.step = min(1, self.n_steps)
            self.changed.replay.emit()

    # What is shown

    @property
    def replay(self) -> SplitReplay:
        """Every step; of no word while unknown."""
        answer = self.query.answer
        return _NOT_SPLIT if answer is None else answer.replay

    @property
    def n_steps(self) -> int:
        return len(self.replay.steps)

    @property
    def present(self) -> SplitStep | None:
        """The last step taken; None before the first."""
        return self.replay.steps[self.step - 1] if self.step else None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The words after the current step, as tokens whose pieces join."""
        return tokens_of(self.replay.words_at(self.step))

    @property
    def marked(self) -> frozenset[int]:
        """The `tokens` made by the current step."""
        present = self.present
        if present is None:
            return frozenset()
        starts, n = [], 0
        for word in self.replay.words_at(self.step):
            starts.append(n)
            n += len(word.pieces)
        return frozenset(starts[w] + k for w, k in present.changed if w < len(starts))

    @property
    def rule(self) -> MergeRule | None:
        """The rule of the current step."""
        present = self.present
        if present is None or present.rank is None:
            return None
        return next((rule for rule in self.replay.rules if rule.rank == present.rank), None)

    @property
    def sentence(self) -> str:
        if self.query.error:
            return self.query.error
        replay = self.replay
        if replay is _NOT_SPLIT:
            return "Analysing the tokenizer…" if self.query.is_busy else ""
        if not replay.text.strip():
            return "Type a text to see how it is split."
        present = self.present
        now = _START[replay.kind] if present is None else self._step_sentence(replay, present)
        return f"{_whole_sentence(replay)} {now}".lstrip()

    @property
    def words(self) -> LabWords:
        """The formula and the live numbers."""
        replay = self.replay
        formula = _FORMULA[replay.kind]
        if replay is _NOT_SPLIT:
            return LabWords(formula=formula, numbers=(), sentence=self.sentence)
        n_now = sum(len(word.pieces) for word in replay.words_at(self.step))
        numbers = [
            ("step", f"{self.step} of {self.n_steps}"),
            ("pieces now", f"{n_now:,}"),
            ("pieces at the end", f"{sum(len(word.pieces) for word in replay.last):,}"),
            ("words", f"{len(replay.last):,}"),
            ("vocabulary", f"{replay.vocab_size:,}"),
        ]
        numbers += [("merge rules", f"{replay.n_rules:,}")] if replay.kind == "merges" else []
        numbers += [("unknown", str(replay.n_unknown))] if replay.n_unknown else []
        numbers += [("as the tokenizer itself", "✓ same ids" if replay.is_proved else "differs")]
        return LabWords(formula=formula, numbers=tuple(numbers), sentence=self.sentence)

    def counts(self) -> tuple[int, ...]:
        """The number of pieces after each step, from the first to the last."""
        return tuple(
            sum(len(word.pieces) for word in self.replay.words_at(k)) for k in range(self.n_steps + 1)
        )

    # Inside

    def _choose(self, wish: ReplaySplits) -> None:
        if wish != self.wish:
            self.wish = wish
            self.changed.choice.emit()
            self._ask()

    def _ask(self) -> None:
        self.query.ask(self.wish, self.wish)

    def _step_sentence(self, replay: SplitReplay, step: SplitStep) -> str:
        if replay.kind == "merges":
            n = len(step.changed)
            places = "one position" if n == 1 else f"{n} positions"
            rule = self.rule
            seen = f", seen {rule.count:,} times in training" if rule is not None and rule.count else ""
            return f"Merge {step.rank}: {step.left} + {step.right} → {step.made}, in {places}{seen}."
        if replay.kind == "longest-match":
            tried = "at the first try" if step.n_tried == 0 else f"after {step.n_tried} longer tries"
            return f"The longest entry that fits here is {step.made}, found {tried}."
        if replay.kind == "lattice":
            return self._lattice_sentence(step)
        return "Each word is looked up whole: one entry, or unknown."

    def _lattice_sentence(self, step: SplitStep) -> str:
        best, *others = step.alternatives
        told = f"{step.made}: {_joined(best.pieces)} has log p = {format_number(best.log_p)}"
        if not others:
            return told + "; there is no other split."
        gap = best.log_p - others[0].log_p
        return f"{told}, {format_number(gap)} nats more than {_joined(others[0].pieces)}."


def _could_be_set(wish: ReplaySplits) -> bool:
    """Whether the lab's own controls could request this."""
    is_known = wish.source in SOURCES and wish.kind in TRAINED_KINDS and wish.vocab_size in VOCAB_SIZES
    return is_known and wish.number == 0 and len(wish.text) <= MAX_TEXT


def _whole_sentence(replay: SplitReplay) -> str:
    """Description of the tokenizer, and the first word's tokens; empty if there are no merges."""
    if replay.kind != "merges" or not replay.last:
        return ""
    pieces = replay.last[0].pieces
    ranks = [step.rank for step in replay.steps if step.made == pieces[0] and step.rank is not None]
    word = "".join(pieces).strip()
    made = f"is made by merge {ranks[-1]:,}" if ranks else "is one of its letters"
    told = made if len(pieces) == 1 else f"is left in {len(pieces)} pieces"
    return f"{replay.vocab_size:,} pieces from {replay.n_rules:,} merges; “{word}” {told}."


def tokens_of(words: tuple[SplitWord, ...]) -> tuple[Token, ...]:
    """Words as tokens: the pieces of a word join; unsplit parts count as special."""
    return tuple(
        Token(id=id, piece=piece, joins_previous=k > 0, is_special=id == NO_ID)
        for word in words
        for k, (piece, id) in enumerate(zip(word.pieces, word.ids, strict=True))
    )


def _joined(pieces: tuple[str, ...]) -> str:
    return "·".join(pieces)


_START = {
    "merges": "Every word starts as its letters. Step on: the rule learned first is applied first.",
    "longest-match": "Words are matched from the left, always with the longest entry that fits.",
    "lattice": "Each word can be split in many ways; the most probable split is used.",
    "lookup": "Words are looked up whole.",
}
_FORMULA: dict[str, tuple[str, ...]] = {
    "merges": ("x y → xy, lowest rank first", "rank: order of learning,", "most frequent pair first"),
    "longest-match": ("piece = longest entry", "that the rest starts with"),
    "lattice": ("max Σ log p(piece)", "over all ways to split"),
    "lookup": ("piece = word, or unknown",),
}


def _least_size(kind: str) -> int:
    return min(size for size in VOCAB_SIZES if size >= len(SPECIALS) + KINDS[kind].least)


SENTENCE = "The smarter rabbit shall not perish: naïve, unbelievably fortunate."
MAX_SIZES = 12
_CLAIM = "Larger vocabularies make shorter texts, and each piece occurs less often"
COLUMNS: tuple[tuple[str, str], ...] = (
    ("tokenizer", "Kind, and the pieces asked for"),
    ("pieces", "Actual vocabulary: a small text may not fill it"),
    ("tokens", "Tokens of the measured text"),
    ("per word", "Tokens for each word between spaces (fertility, Rust et al. 2021)"),
    ("per char.", "Tokens for each character"),
    ("used", "Share of the vocabulary that the measured text uses"),
    ("unknown", "Share of tokens for text that the vocabulary lacks"),
    ("bits/token", "Entropy of single tokens, −Σ p log₂ p (Shannon 1948)"),
    ("bits/char.", "The same for each character of the text; unknown tokens hide the text they replace"),
    ("density", "Tokens for each piece in use: how often a piece occurs"),
    ("training", "Time to train it here, ms"),
)


class TokenizersChanges(SignalGroup):
    """Signals of the lab on tokenizers."""

    choice = Signal()
    rows = Signal()
    """And all that is said of a comparison under way."""


class TokenizersState:
    """Starts and stops comparisons."""

    def __init__(self, requests: Requests) -> None:
        self.job = Job(TokenizersNews, TokenizersNews, requests, is_last=lambda news: news.is_done)
        self.changed = TokenizersChanges()
        self.wish = CompareTokenizers(sentence=SENTENCE)
        self.controls = UnkeptControls(self.wish, lambda: self.wish, self._take)
        self._why_stopped = ""
        self._is_started = False

    # User actions

    def choose(self, **changes: object) -> None:
        """Change some fields of the request: `text`, `path`, `sentence`, `kinds`, `sizes`, `is_held_out`."""
        wish = replace(self.wish, **changes)  # type: ignore[arg-type]
        self.controls.ask(wish, group="sentence" if changes.keys() == {"sentence"} else "")

    def look(self) -> None:
        """The lab is shown: the first time, the example is measured at once."""
        if not self._is_started:
            self.start()

    def start(self) -> None:
        """Train and measure everything requested; an earlier comparison is cancelled."""
        self._is_started = True
        self.job.forget()
        self.job.start(self.wish)
        self.changed.rows.emit()

    def stop(self) -> None:
        """Cancel the comparison; the rows stay."""
        self._stop("Stopped.")

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; those to older requests are ignored."""
        if isinstance(reply, ModelLoaded):
            self._stop("Stopped because another model was opened.")
        elif self.job.take(reply):
            self.changed.rows.emit()

    # What is shown

    @property
    def news(self) -> TokenizersNews:
        """Results so far."""
        return self.job.answer or TokenizersNews(number=0, what="Beginning")

    @property
    def is_working(self) -> bool:
        """Whether tokenizers are being trained."""
        return self.job.is_running

    @property
    def error(self) -> str:
        """Why there are no more rows."""
        return self._why_stopped if self.job.phase == "stopped" else self.job.error

    @property
    def rows(self) -> tuple[TokenizerRow, ...]:
        """The rows measured so far, one for each distinct vocabulary."""
        found: dict[tuple[str, object], TokenizerRow] = {}
        for row in self.news.rows:
            found.setdefault((row.kind, f"no {row.asked}" if row.refusal else row.vocab_size), row)
        return tuple(found.values())

    @property
    def sentence(self) -> str:
        """The point to notice, or the progress."""
        if self.error:
            return self.error
        if self.is_working:
            return f"{_CLAIM}. Measured here now: {self.news.what}…"
        good = [row for row in self.rows if not row.refusal]
        if not good:
            return f"{_CLAIM}: train a tokenizer of each kind and size on a text, and see."
        shortest = min(
            good, key=lambda row: row.tokens_per_word if row.unknown_share < 0.05 else float("inf")
        )
        text = self.news.text
        where = (
            f"On {plural(text.n_measured_words, 'word')} of {text.name}, the shortest" if text else "Shortest"
        )
        name = f"{KIND_TITLES.get(shortest.kind, shortest.kind)} with {shortest.vocab_size:,} pieces"
        return (
            f"{_CLAIM}. {where} without losing words: {name}, "
            f"{format_number(shortest.tokens_per_word)} tokens per "
            f"word, each piece met {format_number(shortest.density)} times."
        )

    def cells(self, row: TokenizerRow) -> tuple[str, ...]:
        """One row as texts, in the order of COLUMNS."""
        name = f"{KIND_TITLES.get(row.kind, row.kind)} {row.asked:,}"
        if row.refusal:
            return (name, "too few", *["–"] * (len(COLUMNS) - 2))
        return (
            name,
            f"{row.vocab_size:,}",
            f"{row.n_tokens:,}",
            f"{row.tokens_per_word:.2f}",
            f"{row.tokens_per_character:.2f}",
            percent(row.used_share),
            percent(row.unknown_share, 1) if row.unknown_share else "none",
            f"{row.bits_per_token:.2f}",
            f"{row.bits_per_character:.2f}",
            f"{row.density:.1f}",
            f"{row.train_ms:.0f} ms",
        )

    def _take(self, wish: CompareTokenizers) -> None:
        if wish != self.wish:
            self.wish = wish
            self.changed.choice.emit()

    def _stop(self, why: str) -> None:
        if self.job.stop():
            self._why_stopped = why
            self.changed.rows.emit()


def sizes_from_text(text: str) -> tuple[int, ...]:
    """Sizes typed by the user; anything but numbers from 8 to 100,000 is ignored."""
    words = text.replace(",", " ").replace(";", " ").split()
    numbers = {int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 7}
    return tuple(sorted(number for number in numbers if 8 <= number <= 100_000)[:MAX_SIZES])


MODES: dict[SearchMode, str] = {"contains": "contains", "regex": "regular expression", "id": "ids"}
_KIND_WORDS: dict[PieceKind, str] = {
    "special": "special",
    "word start": "begin a word",
    "continuation": "continue one",
    "byte": "bytes",
    "unused": "not used",
}
SPELLED_EXAMPLE = "the cat is unbelievably naïve"
"""Spelled at first: words that small vocabularies know, a long one, and a letter beyond ASCII."""
_NOTHING = np.zeros(0, np.int32)


class VocabularyChanges(SignalGroup):
    """Signals of the vocabulary browser."""

    table = Signal()
    choice = Signal()
    found = Signal()
    piece = Signal()
    spelled = Signal()


class VocabularyState:
    """The open model's vocabulary, requested when the browser is first shown."""

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
        self.controls = LabControls(self.wish, lambda: self.wish, self._find, allows=_could_be_searched)
        self.typed = SPELLED_EXAMPLE
        self.error = self.note = ""

    # User actions

    def start(self) -> None:
        """The browser is shown: request the vocabulary."""
        if not self._is_started:
            self._is_started = True
            self._ask_table()

    def search(self, query: str) -> None:
        """Search for other pieces."""
        self.controls.ask(replace(self.wish, query=query), group="query")

    def set_mode(self, mode: SearchMode) -> None:
        """Interpret the query in another mode."""
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
        """Handle a reply of the worker; those to older requests are ignored."""
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
        """Share of the vocabulary read; None if unknown."""
        return self._table.fraction

    @property
    def table(self) -> VocabularyTable | None:
        """Every piece, once the vocabulary is read."""
        return self._table.answer.table if self._table.answer is not None else None

    @property
    def detail(self) -> PieceDetail | None:
        """Details of the selected piece."""
        return self._piece.answer.detail if self._piece.answer is not None else None

    @property
    def spelled(self) -> Tokens | None:
        """The typed text as tokens."""
        return self._spelled.answer.tokens if self._spelled.answer is not None else None

    @property
    def unknown_id(self) -> int | None:
        """Id for unknown letters, if the vocabulary has one."""
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
        """Number of pieces shown, or why there are none."""
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
        """Statistics of the typed text."""
        tokens = self.spelled
        if tokens is None:
            return "Type a text to see its tokens and ids; unknown ones are marked."
        unknown = f", {tokens.n_unknown} unknown" if tokens.n_unknown else ""
        ids = " ".join(str(id) for id in tokens.ids[:40]) + (" …" if len(tokens) > 40 else "")
        return f"{plural(len(tokens), 'token')}{unknown} · ids {ids}"

    def kind_counts(self) -> tuple[int, ...]:
        """Number of pieces of each kind, in the order of PIECE_KINDS."""
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


def _could_be_searched(wish: FindPieces) -> bool:
    """Whether the lab's own controls could request this."""
    is_known = wish.mode in MODES and wish.sort in get_args(SortKey) and set(wish.kinds) <= set(PIECE_KINDS)
    return is_known and wish.number == 0 and len(wish.query) <= MAX_QUERY
