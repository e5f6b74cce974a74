"""Converts a mask given cell by cell to the shortest equivalent rule.

    symbol   meaning                                          shape
    cells    True where the query sees the key                [batch or 1, n_heads or 1, rows, n_keys]
    first    first key that a query sees (n_keys if none)     [batch or 1, n_queries]
    last     last key that a query sees (-1 if none)          [batch or 1, n_queries]

Tried in this order, each compared with every cell in row blocks: padding alone, causality, windows,
one interval of keys for each query, the cells themselves. Nothing is assumed that was not compared.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.nn.masks import Dense, Intervals, MaskRule, build_rule

Cells = Callable[[slice], Tensor]
"""The mask of some rows: bool [batch or 1, n_heads or 1, n_rows, n_keys]."""

BLOCK_CELLS = 4_000_000
"""At most so many cells are looked at together."""

DENSE_CELLS = 2**24
"""The largest mask that is kept cell by cell (4096 × 4096 of one text)."""


def find_rule(cells: Cells, n_queries: int, n_keys: int, *, has_padding: bool) -> MaskRule:
    """The rule of a mask of which any rows can be requested; raises UserError if none is short enough.

    With `has_padding` the keys that no query of a text sees count as padding.
    """
    if n_queries == 0 or n_keys == 0:
        return MaskRule()
    found = _Facts(cells, n_queries, n_keys)
    valid = found.seen_keys if has_padding and not bool(found.seen_keys.all()) else None
    for rule in found.candidates(valid):
        if _agrees(rule, cells, n_queries, n_keys):
            return rule
    if found.is_gapless(valid):
        intervals = Intervals(first=found.first.contiguous(), last=found.last.contiguous())
        rule = MaskRule(key_valid=valid, pattern=intervals)
        if _agrees(rule, cells, n_queries, n_keys):
            return rule
    return _keep_cells(cells, n_queries, n_keys)


def find_rule_of(mask: Tensor, n_queries: int, n_keys: int) -> MaskRule:
    """The rule of a whole mask, bool [batch or 1, n_heads or 1, n_queries or 1, n_keys or 1]."""
    if mask.shape[2] == 1 and mask.shape[1] == 1 and n_queries > 1:
        return build_rule(is_causal=False, key_valid=mask[:, 0, 0].expand(-1, n_keys))
    whole = mask.expand(-1, -1, n_queries, n_keys)
    return find_rule(lambda rows: whole[:, :, rows], n_queries, n_keys, has_padding=True)


def row_blocks(n_queries: int, n_keys: int) -> Iterator[slice]:
    """The rows of a map in blocks of bounded size."""
    n_rows = max(1, BLOCK_CELLS // max(1, n_keys))
    for start in range(0, n_queries, n_rows):
        yield slice(start, min(start + n_rows, n_queries))


class _Facts:
    """Result of scanning every cell: each query's first and last key, and keys that nobody sees."""

    def __init__(self, cells: Cells, n_queries: int, n_keys: int) -> None:
        self._offset = n_keys - n_queries
        self._n_keys = n_keys
        firsts, lasts, counts, seen = [], [], [], []
        self._heads_agree = True
        for rows in row_blocks(n_queries, n_keys):
            block = cells(rows)
            if block.shape[1] > 1:
                self._heads_agree &= bool((block == block[:, :1]).all())
            seen.append(block.any(dim=2).any(dim=1))  # [B, T]
            block = block[:, 0]  # [B, rows, T]
            count = block.sum(dim=-1)
            firsts.append(block.byte().argmax(dim=-1).masked_fill(count == 0, n_keys))
            lasts.append((n_keys - 1 - block.flip(-1).byte().argmax(dim=-1)).masked_fill(count == 0, -1))
            counts.append(count)
        self.first, self.last = torch.cat(firsts, dim=1), torch.cat(lasts, dim=1)  # [B, Q]
        self._count = torch.cat(counts, dim=1)
        self.seen_keys = torch.stack(seen).any(dim=0)  # [B, T]

    def candidates(self, key_valid: Tensor | None) -> Iterator[MaskRule]:
        """Rules with at most a padding, causality and a window that might fit."""
        if not self._heads_agree:
            return
        sees = self.last >= 0
        if not bool(sees.any()):
            return
        own = torch.arange(self.first.shape[1], device=self.first.device) + self._offset
        ahead = int((self.last - own)[sees].max())
        back = int((own - self.first)[sees].max())
        if back < 0:
            return
        yield MaskRule(key_valid=key_valid)
        if ahead <= 0:
            yield MaskRule(is_causal=True, key_valid=key_valid)
            yield MaskRule(is_causal=True, key_valid=key_valid, window=(back, None))
        else:
            yield MaskRule(key_valid=key_valid, window=(back, ahead))

    def is_gapless(self, key_valid: Tensor | None) -> bool:
        """Whether each query sees every key (except padding) between its first and its last."""
        if not self._heads_agree:
            return False
        if key_valid is None:
            between = self.last - self.first + 1
        else:
            n_before = torch.nn.functional.pad(key_valid.long().cumsum(dim=1), (1, 0))  # [B, T + 1]
            n_before = n_before.expand(self.first.shape[0], -1)
            between = n_before.gather(1, self.last + 1) - n_before.gather(1, self.first)
        return bool((between.clamp(min=0) == self._count).all())


def _agrees(rule: MaskRule, cells: Cells, n_queries: int, n_keys: int) -> bool:
    for rows in row_blocks(n_queries, n_keys):
        theirs = cells(rows)
        ours = rule.allowed(n_queries, n_keys, rows, device=theirs.device)
        if not bool((ours == theirs).all()):
            return False
    return True


def _keep_cells(cells: Cells, n_queries: int, n_keys: int) -> MaskRule:
    blocks: list[Tensor] = []
    n_cells = 0
    for rows in row_blocks(n_queries, n_keys):
        block = cells(rows)
        n_cells += block.numel()
        if n_cells > DENSE_CELLS:
            raise UserError(
                f"The model's mask of {n_queries} × {n_keys} tokens follows no rule that AttnScope knows.",
                expected="causality, padding, a window, one run of keys for each query, or a shorter text",
                action=f"Use at most {int(DENSE_CELLS**0.5)} tokens with this model.",
            )
        blocks.append(block.clone())
    return MaskRule(pattern=Dense(cells=torch.cat(blocks, dim=2)))
