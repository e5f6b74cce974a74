"""Batches of running text for every objective that reads it, and their demands on the tokenizer.

Pairs (Devlin et al. 2018, section 3.1 and appendix A.2): masked, and told whether B follows A.

    <s> A </s> B </s>      segments 0 0 0 1 1

A and B are stretches of running text ("sentences" in the wide sense); B is what follows A in half of the
sequences, and begins elsewhere in the others. Tokens are masked as for `masked_batch`. The loss is the mean
over tokens plus the mean over sequences.

Span corruption: hidden stretches of running text, and what was hidden (Raffel et al. 2020).

| symbol  | meaning                                                          | shape      |
|---------|------------------------------------------------------------------|------------|
| window  | tokens of running text                                           | [n_tokens] |
| hidden  | whether a token is hidden                                        | [n_tokens] |
| scored  | where a token has to be told, flat over [batch, n_tokens]        | [n_scored] |

    window   Thank you for inviting me to your party last week
    source   Thank you <extra_0> me to your party <extra_1> week </s>
    target   <extra_0> for inviting <extra_1> last </s>

Models that see the first tokens of a text at once are scored behind those: before, there is nothing to tell.
Every random draw comes from the generator that is passed in.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.errors import RecipeError
from attnscope.nn.embedding_and_head import memory_ids
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import (
    BatchMaker,
    Ids,
    Mask,
    RunningBatches,
    TextBatches,
    VocabularyIds,
    masked_batch,
)
from attnscope.training.objectives import Batch
from attnscope.training.parts import Recipe

_LEAST = 8
N_AROUND = 3
"""<s> and two </s>."""
_PAIRS_SEED = 20_181_011
_SHORTEST_SHARE = 0.25
"""A takes at least a quarter of the tokens, and B too."""
MOST_SENTINELS = 100
"""As many as T5 has; a longer text has longer spans."""
_SPANS_SEED = 20_191_023


def with_sentinels(recipe: Recipe, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer for span corruption; one that has sentinels already is unchanged.

    As many are added as the longest text of the recipe can have spans. Raises RecipeError for the
    tokenizer of a model that is gone on from and never had any: its embedding has no rows for them.
    """
    if not OBJECTIVES[recipe.objective.kind].hides_spans:
        return tokenizer
    objective = recipe.objective
    _, n_spans = count_spans(recipe.model.max_tokens, objective.corrupted_share, objective.mean_span)
    if not tokenizer.sentinel_ids and not recipe.start.source:
        return tokenizer.with_sentinels(n_spans)
    if len(tokenizer.sentinel_ids) < n_spans:
        raise RecipeError(
            f"The tokenizer has {len(tokenizer.sentinel_ids)} sentinels for hidden spans.",
            expected=f"{n_spans}, one for each span of {recipe.model.max_tokens} tokens",
            action="Start from a model trained with span corruption, make objective.mean_span larger or "
            "model.max_tokens smaller.",
        )
    return tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOfRecipe:
    """Running text as the ids of a recipe, from which its objective makes batches.

    Raises RecipeError when there is too little.
    """

    recipe: Recipe
    tokenizer: Tokenizer
    vocabulary: VocabularyIds
    training: Ids
    held_out: Ids

    def windows(self, mask_share: float | None) -> BatchMaker:
        """Stretches of text in which each token predicts the next, or a share is hidden."""
        repeated_share = self.recipe.data.repeated_share
        return TextBatches(**self._sizes(), mask_share=mask_share, repeated_share=repeated_share)

    def stretches(self) -> BatchMaker:
        """Two stretches; in half of the rows the second follows the first."""
        self._check_enough()
        return PairBatches(**self._sizes(), mask_share=self.recipe.objective.mask_share)

    def spans(self) -> BatchMaker:
        self._check_enough()
        objective = self.recipe.objective
        return SpanBatches(
            **self._sizes(),
            sentinels=self.tokenizer.sentinel_ids,
            corrupted_share=objective.corrupted_share,
            mean_span=objective.mean_span,
        )

    def _sizes(self) -> dict[str, Any]:
        """The fields of `RunningBatches`."""
        return {
            "training": self.training,
            "held_out": self.held_out,
            "vocabulary": self.vocabulary,
            "n_tokens": self.recipe.model.max_tokens,
            "batch_size": self.recipe.training.batch_size,
            "n_evaluation": self.recipe.training.evaluation_batches,
        }

    def _check_enough(self) -> None:
        if len(self.training) < _LEAST:
            raise RecipeError(
                f"{self.recipe.data.path} has only {plural(len(self.training), 'token')} to train on.",
                expected=f"at least {_LEAST}, better many thousands",
                action="Choose a longer text, or a smaller data.validation_share.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBatches(RunningBatches):
    """Two stretches of running text each, of random lengths that fill `n_tokens` together."""

    mask_share: float

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """Draw one random training batch; the second stretch follows the first with probability one half."""
        length = self._length(self.training)
        starts = rng.integers(0, len(self.training) - length + 1, size=self.batch_size)
        is_next = rng.random(self.batch_size) < 0.5
        return self._batch(self.training, starts, is_next, length, rng)

    def evaluation(self) -> Sequence[Batch]:
        """Positions spread evenly over the held-out text, every second B from elsewhere, always the same."""
        length = self._length(self.held_out)
        if len(self.held_out) < 8:
            return ()
        n_pairs = min(self.n_evaluation * self.batch_size, max(2, len(self.held_out) // length))
        starts = np.linspace(0, len(self.held_out) - length, n_pairs).astype(np.int64)
        is_next = np.arange(n_pairs) % 2 == 0
        rng = np.random.default_rng(_PAIRS_SEED)
        parts = np.array_split(np.arange(n_pairs), -(-n_pairs // self.batch_size))
        return tuple(self._batch(self.held_out, starts[p], is_next[p], length, rng) for p in parts)

    def _length(self, ids: Ids) -> int:
        """Tokens of A and B together; half of the text at most, so that B can begin elsewhere."""
        return max(2, min(self.n_tokens - N_AROUND, len(ids) // 2))

    def _batch(self, ids: Ids, starts: Ids, is_next: Mask, length: int, rng: np.random.Generator) -> Batch:
        shortest = max(1, int(_SHORTEST_SHARE * length))
        cuts = rng.integers(shortest, length - shortest + 1, size=len(starts))
        rows, segments = [], []
        for start, cut, follows in zip(starts.tolist(), cuts.tolist(), is_next.tolist(), strict=True):
            n_second = length - cut
            second = start + cut if follows else elsewhere(len(ids), start, length, n_second, rng)
            a, b = ids[start : start + cut], ids[second : second + n_second]
            ends = [self.vocabulary.end_id]
            rows.append(np.concatenate([[self.vocabulary.begin_id], a, ends, b, ends]))
            segments.append(np.repeat([0, 1], [cut + 2, n_second + 1]))
        batch = masked_batch(np.stack(rows), self.vocabulary, self.mask_share, rng)
        return replace(
            batch,
            segments=torch.from_numpy(np.stack(segments)),
            is_next=torch.from_numpy(is_next.astype(np.int64)),
            pair_weight=len(batch.labels) / len(rows),
        )


def elsewhere(n_tokens: int, start: int, length: int, n_wanted: int, rng: np.random.Generator) -> int:
    """Start of a stretch of `n_wanted` tokens outside the `length` tokens from `start` on.

    Where the text is too short for that, one that begins at another place than any of them.
    """
    before = np.arange(0, max(0, start - n_wanted + 1))
    after = np.arange(start + length, n_tokens - n_wanted + 1)
    places = np.concatenate([before, after])
    if not len(places):
        every = np.arange(0, max(1, n_tokens - n_wanted + 1))
        places = every[(every < start) | (every >= start + length)]
        places = places if len(places) else every[:1]
    return int(places[int(rng.integers(len(places)))])


def count_spans(n_tokens: int, share: float, mean_span: float) -> tuple[int, int]:
    """Number of `n_tokens` tokens to hide, and in how many spans."""
    n_hidden = min(max(round(n_tokens * share), 1), n_tokens - 1)
    n_spans = min(max(round(n_hidden / mean_span), 1), n_hidden, n_tokens - n_hidden, MOST_SENTINELS)
    return n_hidden, n_spans


def hidden_tokens(n_tokens: int, share: float, mean_span: float, rng: np.random.Generator) -> Mask:
    """Hidden tokens, [n_tokens]: spans of random lengths with random gaps, each at least 1.

    Spans and gaps are drawn evenly from all ways to cut their tokens into so many parts; a text begins
    with a gap and ends with a span (Raffel et al. 2020, section 3.1.4, and their code).
    """
    n_hidden, n_spans = count_spans(n_tokens, share, mean_span)
    gaps = _parts(n_tokens - n_hidden, n_spans, rng)
    spans = _parts(n_hidden, n_spans, rng)
    lengths = np.stack([gaps, spans], axis=1).reshape(-1)  # [2 n_spans]
    hidden: Mask = np.repeat(np.tile([False, True], n_spans), lengths)  # [n_tokens]
    return hidden


def corrupt(window: Ids, hidden: Mask, sentinels: Sequence[int]) -> tuple[Ids, Ids]:
    """The text with a sentinel for each span, and each sentinel with its span."""
    is_first = hidden & ~np.concatenate([[False], hidden[:-1]])
    number = np.cumsum(is_first) - 1
    marks = np.asarray(sentinels, dtype=np.int64)[np.clip(number, 0, None)]  # [n_tokens]
    source = np.where(is_first, marks, window)[~hidden | is_first]
    both = np.stack([marks, window], axis=1)  # [n_tokens, 2]
    target = both[np.stack([is_first, hidden], axis=1)]
    return source, target


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatches(RunningBatches):
    """Windows of running text with spans hidden anew for each draw."""

    sentinels: tuple[int, ...]
    corrupted_share: float
    mean_span: float

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        length = min(self._length, len(self.training))
        starts = rng.integers(0, len(self.training) - length + 1, size=self.batch_size)
        return self._batch(self.training, starts, length, rng)

    def evaluation(self) -> Sequence[Batch]:
        """Windows spread evenly over the held-out text, corrupted the same way every time."""
        length = min(self._length, len(self.held_out))
        if length < 2:
            return ()
        n_windows = min(self.n_evaluation * self.batch_size, max(1, len(self.held_out) // length))
        starts = np.linspace(0, len(self.held_out) - length, n_windows).astype(np.int64)
        rng = np.random.default_rng(_SPANS_SEED)
        parts = np.array_split(starts, -(-n_windows // self.batch_size))
        return tuple(self._batch(self.held_out, part, length, rng) for part in parts)

    @property
    def _length(self) -> int:
        """The maximum length of text whose source and target both fit, with their special tokens."""
        length = self.n_tokens
        while length > 2:
            n_hidden, n_spans = count_spans(length, self.corrupted_share, self.mean_span)
            longest = max(length - n_hidden + n_spans, n_hidden + n_spans) + 1
            if longest <= self.n_tokens:
                break
            length -= 1
        return length

    def _batch(self, ids: Ids, starts: NDArray[np.int64], length: int, rng: np.random.Generator) -> Batch:
        """Every sequence has the same number of hidden tokens and spans: nothing is padded."""
        begin, end = [self.vocabulary.begin_id], [self.vocabulary.end_id]
        sources, targets = [], []
        for start in starts:
            hidden = hidden_tokens(length, self.corrupted_share, self.mean_span, rng)
            source, target = corrupt(ids[start : start + length], hidden, self.sentinels)
            sources.append(np.concatenate([source, end]))
            targets.append(np.concatenate([begin, target, end]))
        whole = torch.from_numpy(np.stack(targets))  # [B, T + 1]
        labels = whole[:, 1:].reshape(-1)
        return Batch(
            ids=torch.from_numpy(np.stack(sources)),
            target_ids=whole[:, :-1].contiguous(),
            scored=torch.arange(len(labels)),
            labels=labels.contiguous(),
        )


def _parts(total: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`total` split into `n` parts of at least 1, uniformly at random, [n]."""
    cuts = np.sort(rng.choice(total - 1, size=n - 1, replace=False)) + 1
    parts: NDArray[np.int64] = np.diff(np.concatenate([[0], cuts, [total]]))
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBatches(ABC):
    """Another maker's batches, each changed in the same way."""

    batches: BatchMaker

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        return self._changed(self.batches.draw(rng, progress))

    def evaluation(self) -> Sequence[Batch]:
        """The same held-out batches every time."""
        return tuple(map(self._changed, self.batches.evaluation()))

    def sized(self, n_texts: int, n_tokens: int) -> Self:
        """The other maker's batches at this size."""
        return replace(self, batches=self.batches.sized(n_texts, n_tokens))

    @abstractmethod
    def _changed(self, batch: Batch) -> Batch: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterPrefix(ChangedBatches):
    """Batches scored only where the next token is not visible: from the prefix's last on."""

    n_prefix: int

    def _changed(self, batch: Batch) -> Batch:
        is_open = batch.scored % batch.ids.shape[1] >= self.n_prefix - 1
        return replace(batch, scored=batch.scored[is_open], labels=batch.labels[is_open])


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindMemory(ChangedBatches):
    """Batches with memory tokens in front of each text, which are not scored themselves."""

    vocab_size: int
    n_memory: int

    def sized(self, n_texts: int, n_tokens: int) -> Self:
        """Memory tokens count among those of a text."""
        return replace(self, batches=self.batches.sized(n_texts, n_tokens - self.n_memory))

    def _changed(self, batch: Batch) -> Batch:
        n_texts, n_tokens = batch.ids.shape
        known = torch.tensor(list(memory_ids(self.vocab_size, self.n_memory))).expand(n_texts, -1)
        row, column = batch.scored // n_tokens, batch.scored % n_tokens
        return replace(
            batch,
            ids=torch.cat([known, batch.ids], dim=1),
            scored=row * (self.n_memory + n_tokens) + self.n_memory + column,
            valid=None if batch.valid is None else F.pad(batch.valid, (self.n_memory, 0), value=True),
            segments=None if batch.segments is None else F.pad(batch.segments, (self.n_memory, 0)),
        )
