"""Batches for models that see the first tokens of a text at once: there nothing is left to be told.

| symbol | meaning                                                          | shape      |
|--------|------------------------------------------------------------------|------------|
| scored | where a token has to be told, flat over [batch, n_tokens]        | [n_scored] |
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnscope.training.batches import BatchMaker
from attnscope.training.objectives import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterPrefix:
    """Another maker's batches, scored only where the next token is not seen: from the prefix's last on."""

    batches: BatchMaker
    n_prefix: int

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch."""
        return self._cut(self.batches.draw(rng, progress))

    def evaluation(self) -> Sequence[Batch]:
        """The same held-out batches every time."""
        return tuple(self._cut(batch) for batch in self.batches.evaluation())

    def _cut(self, batch: Batch) -> Batch:
        is_open = batch.scored % batch.ids.shape[1] >= self.n_prefix - 1
        return replace(batch, scored=batch.scored[is_open], labels=batch.labels[is_open])
