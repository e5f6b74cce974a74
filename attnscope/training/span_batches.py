"""Batches for span corruption: hidden stretches of running text, and what was hidden (Raffel et al. 2020).

| symbol  | meaning                                                       | shape      |
|---------|---------------------------------------------------------------|------------|
| window  | tokens of running text                                        | [n_tokens] |
| hidden  | whether a token is hidden                                     | [n_tokens] |

    window   Thank you for inviting me to your party last week
    source   Thank you <extra_0> me to your party <extra_1> week </s>
    target   <extra_0> for inviting <extra_1> last </s>

Every random draw comes from the generator that is passed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.training.batches import Ids, Mask, Vocabulary
from attnscope.training.objectives import Batch

MOST_SENTINELS = 100
"""As many as T5 has; a longer text has longer spans."""
_EVALUATION_SEED = 20_191_023


def count_spans(n_tokens: int, share: float, mean_span: float) -> tuple[int, int]:
    """How many of `n_tokens` tokens are hidden, and in how many spans."""
    n_hidden = min(max(round(n_tokens * share), 1), n_tokens - 1)
    n_spans = min(max(round(n_hidden / mean_span), 1), n_hidden, n_tokens - n_hidden, MOST_SENTINELS)
    return n_hidden, n_spans


def hidden_tokens(n_tokens: int, share: float, mean_span: float, rng: np.random.Generator) -> Mask:
    """Which tokens are hidden, [n_tokens]: spans of random lengths with random gaps, each at least 1.

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
class SpanBatches:
    """Windows of running text with other spans hidden each time they are drawn."""

    training: Ids
    held_out: Ids
    vocabulary: Vocabulary
    sentinels: tuple[int, ...]
    n_tokens: int
    batch_size: int
    corrupted_share: float
    mean_span: float
    n_evaluation: int

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch."""
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
        rng = np.random.default_rng(_EVALUATION_SEED)
        parts = np.array_split(starts, -(-n_windows // self.batch_size))
        return tuple(self._batch(self.held_out, part, length, rng) for part in parts)

    @property
    def _length(self) -> int:
        """The most tokens of text whose source and target both fit, with what is put around them."""
        length = self.n_tokens
        while length > 2:
            n_hidden, n_spans = count_spans(length, self.corrupted_share, self.mean_span)
            longest = max(length - n_hidden + n_spans, n_hidden + n_spans) + 1
            if longest <= self.n_tokens:
                break
            length -= 1
        return length

    def _batch(self, ids: Ids, starts: NDArray[np.int64], length: int, rng: np.random.Generator) -> Batch:
        """Every sequence has as many hidden tokens and spans as every other: nothing is padded."""
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
    """`total` cut into `n` parts of at least 1, every way as likely, [n]."""
    cuts = np.sort(rng.choice(total - 1, size=n - 1, replace=False)) + 1
    parts: NDArray[np.int64] = np.diff(np.concatenate([[0], cuts, [total]]))
    return parts
