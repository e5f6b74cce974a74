"""WordPiece and Unigram replayed: longest matches from the left, and the best ways through a lattice.

WordPiece: Wu et al. 2016, section 4.1, in BERT's greedy form (Devlin et al. 2019). Unigram: Kudo 2018,
section 3.2; the best segmentations by dynamic programming (Viterbi 1967) that keeps the k best of each place.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_UNKNOWN_PENALTY = 10.0
"""An unknown letter scores so much less than the rarest piece, as in the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The longest entry found at `start`, after `n_tried` longer candidates; `end` is where it stops."""

    entry: str
    start: int
    end: int
    n_tried: int


def longest_matches(
    word: str, ids: Mapping[str, int], *, prefix: str, unknown: str, max_characters: int = 100
) -> Iterator[Match]:
    """The matches from left to right; a word that cannot be covered is one unknown entry, told last."""
    start = 0
    while start < len(word) and len(word) <= max_characters:
        for end in range(len(word), start, -1):
            entry = (prefix if start else "") + word[start:end]
            if entry in ids:
                yield Match(entry=entry, start=start, end=end, n_tried=len(word) - end)
                start = end
                break
        else:
            break
    if start < len(word):
        yield Match(entry=unknown, start=0, end=len(word), n_tried=len(word) - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnigramModel:
    """Log-probabilities of entries in nats, and their ids."""

    scores: Mapping[str, float]
    ids: Mapping[str, int]
    unknown: str | None
    has_byte_entries: bool = False

    @property
    def unknown_score(self) -> float:
        """What a letter without an entry scores."""
        return min(self.scores.values(), default=0.0) - _UNKNOWN_PENALTY


def unigram_model(state: Mapping[str, Any]) -> UnigramModel:
    """The model part of a tokenizer.json."""
    entries = [(str(entry), float(score)) for entry, score in state["vocab"]]
    unknown_id = state.get("unk_id")
    return UnigramModel(
        scores=dict(entries),
        ids={entry: id for id, (entry, _) in enumerate(entries)},
        unknown=entries[unknown_id][0] if unknown_id is not None else None,
        has_byte_entries=bool(state.get("byte_fallback")),
    )


def best_splits(word: str, model: UnigramModel, n_best: int = 4) -> list[tuple[float, tuple[str, ...]]]:
    """The most probable ways to split a word, the best first: (log-probability, entries).

    Neighbouring unknown letters become one unknown entry, or bytes where the vocabulary has them.
    """
    longest = max(map(len, model.scores), default=1)
    ways: list[list[tuple[float, tuple[str, ...]]]] = [[(0.0, ())]]
    unknown_score = model.unknown_score
    for end in range(1, len(word) + 1):
        found: list[tuple[float, tuple[str, ...]]] = []
        for start in range(max(0, end - longest), end):
            part = word[start:end]
            score = model.scores.get(part)
            if score is None and end - start == 1:
                score, part = unknown_score, f"\0{part}"
            if score is not None:
                found.extend((before + score, (*entries, part)) for before, entries in ways[start])
        ways.append(heapq.nlargest(n_best, found, key=lambda way: way[0]))
    return [(score, tuple(_with_unknown(entries, model))) for score, entries in ways[-1]]


def _with_unknown(entries: tuple[str, ...], model: UnigramModel) -> Iterator[str]:
    is_after_unknown = False
    for entry in entries:
        if not entry.startswith("\0"):
            yield entry
            is_after_unknown = False
            continue
        spelled = [f"<0x{byte:02X}>" for byte in entry[1:].encode("utf-8", "replace")]
        if model.has_byte_entries and all(piece in model.ids for piece in spelled):
            yield from spelled
        elif not is_after_unknown and model.unknown is not None:
            yield model.unknown
            is_after_unknown = True
