"""Which part of a map a mask leaves open, block by block and without looking at single cells.

| symbol      | meaning                                  | shape       |
|-------------|------------------------------------------|-------------|
| first, last | the first and the last key a query sees  | [n_queries] |
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.nn.masks import MaskRule
from attnscope.nn.patterns import Intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The first and last key of each query by causality, window and intervals; and what else forbids.

    `n_valid` counts the valid keys before each place, [n_keys + 1]; `removed` are (query, key) pairs [n, 2].
    """

    first: Tensor
    last: Tensor
    n_keys: int
    n_valid: Tensor | None
    removed: Tensor | None
    is_dense: bool

    @staticmethod
    def of(rule: MaskRule, n_queries: int, n_keys: int) -> "Reach":
        """The reach of a rule of one head; a batch is read by its last text."""
        place = torch.arange(n_queries) + (n_keys - n_queries)
        back, ahead = rule.window or (None, None)
        ahead = 0 if rule.is_causal else ahead
        first = torch.zeros_like(place) if back is None else (place - back).clamp(min=0)
        last = torch.full_like(place, n_keys - 1) if ahead is None else (place + ahead).clamp(max=n_keys - 1)
        if isinstance(rule.pattern, Intervals):
            first = torch.maximum(first, rule.pattern.first[-1].cpu())
            last = torch.minimum(last, rule.pattern.last[-1].cpu())
        valid = rule.key_valid
        return Reach(
            first=first,
            last=last,
            n_keys=n_keys,
            n_valid=None if valid is None else _counted(valid[-1]),
            removed=None if rule.removed is None else rule.removed.cells[:, 1:].cpu(),
            is_dense=rule.pattern is not None and not isinstance(rule.pattern, Intervals),
        )

    def keys_of(self, rows: range) -> range:
        """A range of keys outside which none of the rows may look."""
        if not rows:
            return range(0)
        first, last = (
            int(self.first[slice(rows.start, rows.stop)].min()),
            int(self.last[slice(rows.start, rows.stop)].max()),
        )
        return range(max(0, first), max(0, first, min(last + 1, self.n_keys)))

    def is_open(self, rows: range, cols: range) -> bool:
        """Whether the mask surely allows every cell of a rectangle."""
        if self.is_dense:
            return False
        part = slice(rows.start, rows.stop)
        if int(self.first[part].max()) > cols.start or int(self.last[part].min()) < cols.stop - 1:
            return False
        if self.n_valid is not None:
            n_valid = int(self.n_valid[cols.stop] - self.n_valid[cols.start])
            if n_valid != len(cols):
                return False
        if self.removed is None:
            return True
        query, key = self.removed.unbind(dim=1)
        inside = (query >= rows.start) & (query < rows.stop) & (key >= cols.start) & (key < cols.stop)
        return not bool(inside.any())


def _counted(valid: Tensor) -> Tensor:
    """How many keys before each place are valid: [n_keys + 1]."""
    counts = valid.cpu().to(torch.int64).cumsum(dim=0)
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts])
