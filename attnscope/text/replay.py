"""Replays how any tokenizer of the `tokenizers` library splits a text, and checks the result.

Byte-pair encoding merge by merge (Sennrich et al. 2016; on bytes: Radford et al. 2019): a word begins as its
letters (or bytes). Again and again the pair with the lowest rank is merged, the leftmost first, until no pair
of neighbours has a rule: what the `tokenizers` library does in one go.

WordPiece by longest matches from the left: Wu et al. 2016, section 4.1, in BERT's greedy form (Devlin et al.
2019). Unigram by the best ways through a lattice: Kudo 2018, section 3.2; the best segmentations by dynamic
programming (Viterbi 1967) that keeps the k best of each place.
"""

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.records.tokenizers import (
    MAX_SPLIT_CHARACTERS,
    NO_ID,
    Alternative,
    MergeRule,
    SplitReplay,
    SplitStep,
    SplitWord,
)
from attnscope.text.safety import clean_text, library_errors, without_panic_words
from attnscope.text.vocabulary import Vocabulary, shown_piece

MAX_RULES = 2_000
_FAILED, _ACTION = "The tokenizer cannot be replayed on this text", "Change the text."
Pair = tuple[str, str]
_UNKNOWN_PENALTY = 10.0
"""An unknown letter scores so much less than the rarest piece, as in the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BpeModel:
    """The contents of a BPE tokenizer: entries with their ids, ranks of pairs, and how words are written."""

    ids: Mapping[str, int]
    ranks: Mapping[Pair, int]
    unknown: tuple[str, ...] = ()
    """Replacement of a letter missing from the vocabulary; empty if it is left out."""
    part_prefix: str = ""
    word_suffix: str = ""
    has_byte_entries: bool = False
    takes_whole_words: bool = False

    def symbols(self, word: str) -> list[str]:
        """A word before any merge, as entries of the vocabulary; missing ones are the unknown entry."""
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
            else:
                found.extend(self.unknown)
        return found

    def next_merge(self, symbols: list[str]) -> tuple[int, int] | None:
        """Rank and position of the next pair to merge; None if there is none."""
        ranked = (
            (rank, place)
            for place, pair in enumerate(itertools.pairwise(symbols))
            if (rank := self.ranks.get(pair)) is not None
        )
        return min(ranked, default=None)

    def merge(self, symbols: list[str], place: int) -> list[str]:
        """The symbols with two neighbours merged."""
        made = self.joined(symbols[place], symbols[place + 1])
        return [*symbols[:place], made, *symbols[place + 2 :]]

    def joined(self, left: str, right: str) -> str:
        """The entry for a merged pair."""
        return left + (right.removeprefix(self.part_prefix) if self.part_prefix else right)


NO_MERGES = BpeModel(ids={}, ranks={})
"""Of a tokenizer that merges nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One rule applied wherever it fits: `words` afterwards, and the (word, position) of each result."""

    rank: int
    left: str
    right: str
    words: tuple[tuple[str, ...], ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryMatch:
    """The longest entry found at `start`, after `n_tried` longer candidates; `end` is its end."""

    entry: str
    start: int
    end: int
    n_tried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnigramModel:
    """Log-probabilities of entries in nats, and their ids."""

    scores: Mapping[str, float]
    ids: Mapping[str, int]
    unknown: str | None
    has_byte_entries: bool = False

    @property
    def unknown_score(self) -> float:
        """Score of a letter without an entry."""
        return min(self.scores.values(), default=0.0) - _UNKNOWN_PENALTY


NO_SCORES = UnigramModel(scores={}, ids={}, unknown=None)
"""Of a tokenizer that knows no probabilities."""


class Splitter:
    """One tokenizer, analysed; reading its rules takes a moment, replaying does not.

    `training_texts` are what it was trained on, where that is known: rules then have frequencies.
    """

    def __init__(self, entries: Vocabulary, training_texts: Iterable[str] = ()) -> None:
        self.entries = entries
        self._library: LibraryTokenizer = entries.library
        # The library's own JSON is the only way to its rules; for 250,000 pieces it takes half a second.
        state = json.loads(self._library.to_str())["model"]
        self._state: Mapping[str, Any] = state
        self.bpe = _bpe_model(state) if state["type"] == "BPE" else NO_MERGES
        self.unigram = _unigram_model(state) if state["type"] == "Unigram" else NO_SCORES
        texts = tuple(training_texts) if self.bpe.ranks else ()
        self._counts = count_merges(self.bpe, (word for text in texts for word in self.words(text)))

    @property
    def score_name(self) -> str:
        """Name of a piece's score; empty if pieces have none."""
        return {"BPE": "merge rank", "Unigram": "log-probability"}.get(self._state["type"], "")

    @property
    def n_rules(self) -> int:
        return len(self.bpe.ranks)

    def words(self, text: str) -> list[str]:
        """The words that the tokenizer splits one by one, in its vocabulary's notation."""
        library = self._library
        with library_errors(_FAILED, action=_ACTION), without_panic_words():
            if library.normalizer is not None:
                text = library.normalizer.normalize_str(text)
            if library.pre_tokenizer is None:
                return [text] if text else []
            return [word for word, _ in library.pre_tokenizer.pre_tokenize_str(text)]

    def replay(self, text: str, name: str) -> SplitReplay:
        """Every step on a text of at most MAX_SPLIT_CHARACTERS; raises LoadError for the library's faults."""
        clean = clean_text(text, max_characters=MAX_SPLIT_CHARACTERS)
        words = self.words(clean.text)
        match self._state["type"]:
            case "BPE":
                kind, (start, steps) = "merges", self._merges(words)
            case "WordPiece":
                kind, (start, steps) = "longest-match", self._matches(words)
            case "Unigram":
                kind, (start, steps) = "lattice", self._lattice(words)
            case _:
                kind, (start, steps) = "lookup", self._lookups(words)
        last = steps[-1].words if steps else start
        ids = [id for word in last for id in word.ids]
        with library_errors(_FAILED, action=_ACTION), without_panic_words():
            own = self._library.encode(clean.text, add_special_tokens=False).ids
        unknown = self.entries.roles.get("unknown")
        return SplitReplay(
            kind=kind,  # type: ignore[arg-type]
            tokenizer=name,
            vocab_size=self.entries.size,
            text=clean.text,
            start=start,
            steps=steps,
            rules=self._rules(steps),
            n_rules=self.n_rules,
            is_proved=ids == own,
            n_unknown=sum(id == unknown for id in ids),
            unknown_id=unknown,
            n_cut=clean.n_cut,
        )

    # -- each kind --------------------------------------------------------------------------------

    def _merges(self, words: Sequence[str]) -> tuple[tuple[SplitWord, ...], tuple[SplitStep, ...]]:
        start = shown = [self._word(self.bpe.symbols(word)) for word in words]
        steps: list[SplitStep] = []
        for merge in replay_merges(self.bpe, words):
            shown = list(shown)
            for w in {w for w, _ in merge.places}:
                shown[w] = self._word(merge.words[w])
            made = self.bpe.joined(merge.left, merge.right)
            changed = {
                (w, k) for w, _ in merge.places for k, entry in enumerate(merge.words[w]) if entry == made
            }
            steps.append(
                SplitStep(
                    words=tuple(shown),
                    left=self.read(merge.left),
                    right=self.read(merge.right),
                    made=self.read(made),
                    rank=merge.rank,
                    changed=tuple(sorted(changed)),
                )
            )
        return tuple(start), tuple(steps)

    def _matches(self, words: Sequence[str]) -> tuple[tuple[SplitWord, ...], tuple[SplitStep, ...]]:
        state = self._state
        ids, prefix = state["vocab"], str(state.get("continuing_subword_prefix", "##"))
        start = [SplitWord(pieces=(word,), ids=(NO_ID,)) for word in words]
        shown, steps = list(start), []
        for w, word in enumerate(words):
            found: list[str] = []
            for match in longest_matches(
                word,
                ids,
                prefix=prefix,
                unknown=state["unk_token"],
                max_characters=int(state.get("max_input_chars_per_word", 100)),
            ):
                found = [match.entry] if match.start == 0 else [*found, match.entry]
                shown = list(shown)
                shown[w] = self._word(found, rest=word[match.end :])
                steps.append(
                    SplitStep(
                        words=tuple(shown),
                        made=self.read(match.entry),
                        n_tried=match.n_tried,
                        changed=((w, len(found) - 1),),
                    )
                )
        return tuple(start), tuple(steps)

    def _lattice(self, words: Sequence[str]) -> tuple[tuple[SplitWord, ...], tuple[SplitStep, ...]]:
        model = self.unigram
        start = [SplitWord(pieces=(self.read(word),), ids=(NO_ID,)) for word in words]
        shown, steps = list(start), []
        for w, word in enumerate(words):
            ways = best_splits(word, model)
            if not ways:
                continue
            shown = list(shown)
            shown[w] = self._word(ways[0][1])
            alternatives = tuple(
                Alternative(pieces=self._word(way).pieces, log_p=score) for score, way in ways
            )
            changed = tuple((w, k) for k in range(len(shown[w].pieces)))
            steps.append(
                SplitStep(
                    words=tuple(shown), made=self.read(word), changed=changed, alternatives=alternatives
                )
            )
        return tuple(start), tuple(steps)

    def _lookups(self, words: Sequence[str]) -> tuple[tuple[SplitWord, ...], tuple[SplitStep, ...]]:
        ids, unknown = self._state["vocab"], self._state.get("unk_token", "")
        start = tuple(SplitWord(pieces=(self.read(word),), ids=(NO_ID,)) for word in words)
        found = tuple(self._word([word if word in ids else unknown]) for word in words)
        return start, (SplitStep(words=found, made=""),) if words else ()

    # -- as people read it -------------------------------------------------------------------------

    def _word(self, symbols: Sequence[str], rest: str = "") -> SplitWord:
        ids = [found for entry in symbols if (found := self._library.token_to_id(entry)) is not None]
        pieces = self.entries.pieces(ids)
        if rest:
            return SplitWord(pieces=(*pieces, rest), ids=(*ids, NO_ID))
        return SplitWord(pieces=tuple(pieces), ids=tuple(ids))

    def read(self, entry: str) -> str:
        id = self._library.token_to_id(entry)
        if id is None or id in self.entries.specials:
            return entry.replace("\u2581", "␣")
        return shown_piece(self.entries.reading(id))

    def _rules(self, steps: Sequence[SplitStep]) -> tuple[MergeRule, ...]:
        if self.bpe is None:
            return ()
        if len(self.bpe.ranks) > MAX_RULES:
            used = {step.rank: step for step in steps if step.rank is not None}
            return tuple(
                MergeRule(rank=rank, left=step.left, right=step.right, made=step.made)
                for rank, step in sorted(used.items())
            )
        return tuple(self._every_rule(self.bpe))

    def _every_rule(self, model: BpeModel) -> Iterator[MergeRule]:
        for (left, right), rank in model.ranks.items():
            yield MergeRule(
                rank=rank,
                left=self.read(left),
                right=self.read(right),
                made=self.read(model.joined(left, right)),
                count=self._counts.get(rank, 0) if self._counts else None,
            )


def _bpe_model(state: Mapping[str, Any]) -> BpeModel:
    merges: Iterable[Any] = state["merges"]
    split = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in merges]
    pairs: list[Pair] = [(str(left), str(right)) for left, right in split]
    return BpeModel(
        ids=state["vocab"],
        ranks={pair: rank for rank, pair in enumerate(pairs)},
        unknown=() if state.get("unk_token") is None else (state["unk_token"],),
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
    """Number of times each rule is applied in a text, by its rank: for the training text, the pair's
    frequency.
    """
    counts: dict[int, int] = {}
    for word, n in Counter(words).items():
        symbols = model.symbols(word)
        while (merge := model.next_merge(symbols)) is not None:
            counts[merge[0]] = counts.get(merge[0], 0) + n
            symbols = model.merge(symbols, merge[1])
    return counts


def how_made(model: BpeModel, entry: str) -> list[Merge]:
    """The merges that build one entry from letters; empty if there are none."""
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


def longest_matches(
    word: str, ids: Mapping[str, int], *, prefix: str, unknown: str, max_characters: int = 100
) -> Iterator[EntryMatch]:
    """The matches from left to right; a word that cannot be covered becomes one unknown entry, last."""
    start = 0
    while start < len(word) and len(word) <= max_characters:
        for end in range(len(word), start, -1):
            entry = (prefix if start else "") + word[start:end]
            if entry in ids:
                yield EntryMatch(entry=entry, start=start, end=end, n_tried=len(word) - end)
                start = end
                break
        else:
            break
    if start < len(word):
        yield EntryMatch(entry=unknown, start=0, end=len(word), n_tried=len(word) - start)


def _unigram_model(state: Mapping[str, Any]) -> UnigramModel:
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
