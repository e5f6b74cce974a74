"""How a tokenizer splits a text: merges (BPE), longest matches (WordPiece), lattices (Unigram)."""

from dataclasses import dataclass
from typing import Literal

from attnscope.records.requests import Reply, Request

SplitKind = Literal["merges", "longest-match", "lattice", "lookup"]
SplitSource = Literal["model", "text", "sample"]
"""Whose tokenizer: the open model's, one trained on the typed text, or one trained on the sample text."""
MAX_SPLIT_CHARACTERS = 600
NO_ID = -1
"""Stands for the rest of a word that has yet to be split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWord:
    """One word as it is split by now: its pieces as people read them, and their ids."""

    pieces: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to split a word, and its log-probability in nats."""

    pieces: tuple[str, ...]
    log_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStep:
    """The words after one step, and what was done.

    `left` and `right` became `made`, the merge of that `rank`; elsewhere `made` is the piece found after
    `n_tried` longer candidates. `changed` are the pieces that the step made, as (word, piece).
    """

    words: tuple[SplitWord, ...]
    made: str
    left: str = ""
    right: str = ""
    rank: int | None = None
    n_tried: int = 0
    changed: tuple[tuple[int, int], ...] = ()
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """One rule of a BPE tokenizer; `count` is how often the pair stood in the training text, where known."""

    rank: int
    left: str
    right: str
    made: str
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReplay:
    """A text as it is split from the first step to the last.

    `start` are the words before any step. `rules` are all of a small tokenizer's, else those used here, of
    `n_rules`. `is_proved` says that the last step has the very ids of the tokenizer itself; `n_unknown`
    counts pieces it has no entry for; `n_cut` characters of the text were left out.
    """

    kind: SplitKind
    tokenizer: str
    vocab_size: int
    text: str
    start: tuple[SplitWord, ...]
    steps: tuple[SplitStep, ...]
    rules: tuple[MergeRule, ...] = ()
    n_rules: int = 0
    is_proved: bool = False
    n_unknown: int = 0
    unknown_id: int | None = None
    n_cut: int = 0

    @property
    def last(self) -> tuple[SplitWord, ...]:
        """The words after every step."""
        return self.steps[-1].words if self.steps else self.start

    def words_at(self, step: int) -> tuple[SplitWord, ...]:
        """The words after `step` steps."""
        return self.start if step <= 0 or not self.steps else self.steps[min(step, len(self.steps)) - 1].words


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySplits(Request):
    """Replay how a tokenizer splits `text`; `kind` and `vocab_size` are of one trained here. Newest wins."""

    is_view = True
    text: str
    source: SplitSource = "model"
    kind: str = "bpe"
    vocab_size: int = 200

    @property
    def beyond_recordings(self) -> str:
        """What it asks that only a running model can do."""
        return "Its tokenizer" if self.source == "model" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsReplayed(Reply):
    """The replay that was asked for."""

    replay: SplitReplay
