"""The lab that replays a tokenizer on a typed text: whose tokenizer, which step, what is said of it."""

from dataclasses import replace

from psygnal import Signal, SignalGroup

from attnscope.counting import format_number
from attnscope.labs.lab import LabWords
from attnscope.records.messages import ModelLoaded
from attnscope.records.requests import Reply
from attnscope.records.tokenizers import (
    NO_ID,
    MergeRule,
    ReplaySplits,
    SplitReplay,
    SplitSource,
    SplitsReplayed,
    SplitStep,
    SplitWord,
)
from attnscope.records.tokens import Token
from attnscope.schemes.tokenizers import KINDS, SPECIALS
from attnscope.viewmodels.labs.controls import LabControls
from attnscope.viewmodels.query import Query, Requests

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
    """What of the lab can change."""

    choice = Signal()
    replay = Signal()
    step = Signal()


class MergesState:
    """Asks for a replay whenever the choice changes."""

    def __init__(self, requests: Requests) -> None:
        self.query = Query(SplitsReplayed, requests)
        self.changed = MergesChanges()
        self.wish = ReplaySplits(text=EXAMPLE, source="sample", vocab_size=800)
        self.controls = LabControls(self.wish, lambda: self.wish, self._choose, allows=_could_be_set)
        self.step = 0

    # What the person does

    def start(self) -> None:
        """The lab is looked at: ask for the first replay."""
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
        """Take a reply of the worker; those of older requests change nothing."""
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
        """Every step; of no word while it is not known."""
        answer = self.query.answer
        return _NOT_SPLIT if answer is None else answer.replay

    @property
    def n_steps(self) -> int:
        """The steps of the replay."""
        return len(self.replay.steps)

    @property
    def present(self) -> SplitStep | None:
        """The step that has just been taken; None before the first."""
        return self.replay.steps[self.step - 1] if self.step else None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The words after the present step, as tokens whose pieces join."""
        return tokens_of(self.replay.words_at(self.step))

    @property
    def marked(self) -> frozenset[int]:
        """Which of `tokens` the present step made."""
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
        """The rule of the present step."""
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
        """The number of pieces after each step, from none to all."""
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
    """Whether the lab's own controls could ask for this."""
    is_known = wish.source in SOURCES and wish.kind in TRAINED_KINDS and wish.vocab_size in VOCAB_SIZES
    return is_known and wish.number == 0 and len(wish.text) <= MAX_TEXT


def _whole_sentence(replay: SplitReplay) -> str:
    """What the tokenizer is, and what becomes of the first word; empty where there are no merges."""
    if replay.kind != "merges" or not replay.last:
        return ""
    pieces = replay.last[0].pieces
    ranks = [step.rank for step in replay.steps if step.made == pieces[0] and step.rank is not None]
    word = "".join(pieces).strip()
    made = f"is made by merge {ranks[-1]:,}" if ranks else "is one of its letters"
    told = made if len(pieces) == 1 else f"is left in {len(pieces)} pieces"
    return f"{replay.vocab_size:,} pieces from {replay.n_rules:,} merges; “{word}” {told}."


def tokens_of(words: tuple[SplitWord, ...]) -> tuple[Token, ...]:
    """Words as tokens: the pieces of a word join; what is yet to be split counts as special."""
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
    """The smallest of the sizes that is possible for a kind."""
    return min(size for size in VOCAB_SIZES if size >= len(SPECIALS) + KINDS[kind].least)
