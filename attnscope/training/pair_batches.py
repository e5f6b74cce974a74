"""Batches for masked models that also tell whether one stretch of text follows another.

    <s> A </s> B </s>      segments 0 0 0 1 1

A and B are stretches of running text ("sentences" in the wide sense of Devlin et al. 2018, section 3.1);
B is what follows A in half of the sequences, and begins elsewhere in the others. Tokens are masked as
for `masked_batch`. The loss is the mean over tokens plus the mean over sequences (their appendix A.2).
Every random draw comes from the generator that is passed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from attnscope.training.batches import Ids, Mask, Vocabulary, masked_batch
from attnscope.training.objectives import Batch

N_AROUND = 3
"""<s> and two </s>."""
_EVALUATION_SEED = 20_181_011
_SHORTEST_SHARE = 0.25
"""A takes at least a quarter of the tokens, and B too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBatches:
    """Two stretches of running text each, of random lengths that fill `n_tokens` together."""

    training: Ids
    held_out: Ids
    vocabulary: Vocabulary
    n_tokens: int
    batch_size: int
    mask_share: float
    n_evaluation: int

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch; each sequence follows on with a chance of one half."""
        length = self._length(self.training)
        starts = rng.integers(0, len(self.training) - length + 1, size=self.batch_size)
        is_next = rng.random(self.batch_size) < 0.5
        return self._batch(self.training, starts, is_next, length, rng)

    def evaluation(self) -> Sequence[Batch]:
        """Places spread evenly over the held-out text, every second B from elsewhere, always the same."""
        length = self._length(self.held_out)
        if len(self.held_out) < 8:
            return ()
        n_pairs = min(self.n_evaluation * self.batch_size, max(2, len(self.held_out) // length))
        starts = np.linspace(0, len(self.held_out) - length, n_pairs).astype(np.int64)
        is_next = np.arange(n_pairs) % 2 == 0
        rng = np.random.default_rng(_EVALUATION_SEED)
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
    """Where a stretch of `n_wanted` tokens begins that has no token of the `length` from `start` on.

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
