"""Byte-pair encoding replayed merge by merge (Sennrich et al. 2016; on bytes: Radford et al. 2019).

A word begins as its letters (or bytes). Again and again the pair with the lowest rank is merged, the
leftmost first, until no pair of neighbours has a rule: what the `tokenizers` library does in one go.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BpeModel:
    """What a BPE tokenizer knows: entries with their ids, ranks of pairs, and how words are written."""

    ids: Mapping[str, int]
    ranks: Mapping[Pair, int]
    unknown: str | None = None
    part_prefix: str = ""
    word_suffix: str = ""
    has_byte_entries: bool = False
    takes_whole_words: bool = False

    def symbols(self, word: str) -> list[str]:
        """A word before any merge, in entries of the vocabulary; what it lacks is the unknown entry."""
        if self.takes_whole_words and word in self.ids:
            return [word]
        found: list[str] = []
        for k, letter in enumerate(word):
            entry = (self.part_prefix if k else "") + letter
            entry += self.word_suffix if k == len(word) - 1 else ""
            if entry in self.ids:
                found.append(entry)
                continue
            spelled = [f"<0x{byte:02X}>" for byte in letter.encode("utf-8", "replace")]
            if self.has_byte_entries and all(entry in self.ids for entry in spelled):
                found.extend(spelled)
            elif self.unknown is not None:
                found.append(self.unknown)
        return found

    def next_merge(self, symbols: list[str]) -> tuple[int, int] | None:
        """Rank and place of the pair to be merged next; None when there is none."""
        ranked = (
            (rank, place)
            for place, pair in enumerate(itertools.pairwise(symbols))
            if (rank := self.ranks.get(pair)) is not None
        )
        return min(ranked, default=None)

    def merge(self, symbols: list[str], place: int) -> list[str]:
        """The symbols with two neighbours made one."""
        made = self.joined(symbols[place], symbols[place + 1])
        return [*symbols[:place], made, *symbols[place + 2 :]]

    def joined(self, left: str, right: str) -> str:
        """The entry that a pair becomes."""
        return left + (right.removeprefix(self.part_prefix) if self.part_prefix else right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One rule applied wherever it fits: `words` afterwards, and the (word, place) of what it made."""

    rank: int
    left: str
    right: str
    words: tuple[tuple[str, ...], ...]
    places: tuple[tuple[int, int], ...]


def bpe_model(state: Mapping[str, Any]) -> BpeModel:
    """The model part of a tokenizer.json."""
    merges: Iterable[Any] = state["merges"]
    split = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in merges]
    pairs: list[Pair] = [(str(left), str(right)) for left, right in split]
    return BpeModel(
        ids=state["vocab"],
        ranks={pair: rank for rank, pair in enumerate(pairs)},
        unknown=state.get("unk_token"),
        part_prefix=state.get("continuing_subword_prefix") or "",
        word_suffix=state.get("end_of_word_suffix") or "",
        has_byte_entries=bool(state.get("byte_fallback")),
        takes_whole_words=bool(state.get("ignore_merges")),
    )


def replay_merges(model: BpeModel, words: Iterable[str]) -> Iterator[Merge]:
    """Every merge of some words in the order of the rules, all words with the same pair at once.

    Words do not touch each other, so each ends as it would alone.
    """
    split = [model.symbols(word) for word in words]
    waiting = [model.next_merge(symbols) for symbols in split]
    while any(merge is not None for merge in waiting):
        rank = min(merge[0] for merge in waiting if merge is not None)
        left = right = ""
        places: list[tuple[int, int]] = []
        for w, symbols in enumerate(split):
            while (merge := waiting[w]) is not None and merge[0] == rank:
                place = merge[1]
                left, right = symbols[place], symbols[place + 1]
                symbols = model.merge(symbols, place)
                places.append((w, place))
                split[w], waiting[w] = symbols, model.next_merge(symbols)
        yield Merge(
            rank=rank,
            left=left,
            right=right,
            words=tuple(tuple(symbols) for symbols in split),
            places=tuple(places),
        )


def count_merges(model: BpeModel, words: Iterable[str]) -> dict[int, int]:
    """How often each rule is applied in a text, by its rank: for the training text, the pair's frequency."""
    counts: dict[int, int] = {}
    for word, n in Counter(words).items():
        symbols = model.symbols(word)
        while (merge := model.next_merge(symbols)) is not None:
            counts[merge[0]] = counts.get(merge[0], 0) + n
            symbols = model.merge(symbols, merge[1])
    return counts


def how_made(model: BpeModel, entry: str) -> list[Merge]:
    """The merges that make one entry out of letters; empty for an entry that no merges make."""
    written = entry.removesuffix(model.word_suffix) if model.word_suffix else entry
    if model.part_prefix:
        written = written.removeprefix(model.part_prefix)
    plain = BpeModel(
        ids=model.ids,
        ranks=model.ranks,
        unknown=model.unknown,
        part_prefix=model.part_prefix,
        word_suffix=model.word_suffix if entry.endswith(model.word_suffix or "\0") else "",
        has_byte_entries=model.has_byte_entries,
    )
    found = list(replay_merges(plain, [written]))
    return found if found and found[-1].words == ((entry,),) else []
