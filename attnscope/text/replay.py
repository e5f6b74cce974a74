"""Replaying how any tokenizer of the `tokenizers` library splits a text, proved against the library."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.records.splits import (
    MAX_SPLIT_CHARACTERS,
    NO_ID,
    Alternative,
    MergeRule,
    SplitReplay,
    SplitStep,
    SplitWord,
)
from attnscope.text.cleaning import clean_text
from attnscope.text.guarding import library_errors
from attnscope.text.matching import UnigramModel, best_splits, longest_matches, unigram_model
from attnscope.text.merges import BpeModel, bpe_model, count_merges, replay_merges
from attnscope.text.pieces import shown_piece
from attnscope.text.vocabulary import Vocabulary

MAX_RULES = 2_000
_FAILED, _ACTION = "The tokenizer cannot be replayed on this text", "Change the text."


class Splitter:
    """One tokenizer taken apart; reading its rules costs a moment, replaying does not.

    `training_texts` are what it was trained on, where that is known: rules then have frequencies.
    """

    def __init__(self, entries: Vocabulary, training_texts: Iterable[str] = ()) -> None:
        self.entries = entries
        self._library: LibraryTokenizer = entries.library
        # The library's own JSON is the only way to its rules; for 250,000 pieces it takes half a second.
        state = json.loads(self._library.to_str())["model"]
        self._state: Mapping[str, Any] = state
        self.bpe: BpeModel | None = bpe_model(state) if state["type"] == "BPE" else None
        self.unigram: UnigramModel | None = unigram_model(state) if state["type"] == "Unigram" else None
        self._counts: dict[int, int] = {}
        texts = tuple(training_texts)
        if self.bpe is not None and texts:
            self._counts = count_merges(self.bpe, (word for text in texts for word in self.words(text)))

    @property
    def n_rules(self) -> int:
        """How many merges it has."""
        return len(self.bpe.ranks) if self.bpe is not None else 0

    def words(self, text: str) -> list[str]:
        """The words that the tokenizer splits one by one, as its vocabulary writes them."""
        library = self._library
        with library_errors(_FAILED, action=_ACTION):
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
        with library_errors(_FAILED, action=_ACTION):
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
        assert self.bpe is not None
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
        assert self.unigram is not None
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
        """An entry of the vocabulary as people read it."""
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
