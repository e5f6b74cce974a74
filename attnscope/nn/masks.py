"""Which key a query may see, kept as a rule and never as a matrix.

    symbol      meaning                               shape
    key_valid   False where the key is padding        [batch, n_keys]
    allowed     True where the query sees the key     [batch or 1, n_heads or 1, rows, columns]

A query's own place among the keys is such that both sequences end together: query i stands at key
i + n_keys - n_queries. A causal query sees the keys up to its own place. Must not import attention.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.nn.patterns import Pattern


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemovedCells:
    """Single cells that somebody has knocked out: `cells` int64 [n, 3] of head, query and key."""

    cells: Tensor
    n_heads: int

    def allowed(self, i: Tensor, j: Tensor) -> Tensor:
        """Bool [1, n_heads, rows, columns] for the queries `i` and the keys `j`, both in even steps."""
        # A last row and column takes the cells that are not in this part: no shape depends on values.
        n_rows, n_cols = len(i), len(j)
        seen = torch.ones(1, self.n_heads, n_rows + 1, n_cols + 1, dtype=torch.bool, device=i.device)
        if not (n_rows and n_cols):
            return seen[:, :, :n_rows, :n_cols]
        head, query, key = self.cells.to(i.device).unbind(dim=1)
        row, has_row = _place_in(i, query)
        column, has_column = _place_in(j, key)
        inside = has_row & has_column
        seen[0, head, torch.where(inside, row, n_rows), torch.where(inside, column, n_cols)] = False
        return seen[:, :, :n_rows, :n_cols]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskRule:
    """What one attention call forbids; a cell is allowed when every part allows it.

    `key_valid` is bool [batch, n_keys], or None when every key counts. `window` is the most tokens that a
    query looks back and ahead of its own place (Beltagy et al. 2020, section 3.1), None for no limit.
    `pattern` is any further rule; `removed` are single cells of single heads.
    """

    is_causal: bool = False
    key_valid: Tensor | None = None
    window: tuple[int | None, int | None] | None = None
    pattern: Pattern | None = None
    removed: RemovedCells | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every query may see every key."""
        return not self.is_causal and self.key_valid is None and self.is_simple

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for rules that are made of the very same parts, while these live."""
        return (self.is_causal, self.window, *map(id, (self.key_valid, self.pattern, self.removed)))

    @property
    def is_banded(self) -> bool:
        """Whether a window limits what a query sees."""
        return self.window is not None and self.window != (None, None)

    @property
    def is_simple(self) -> bool:
        """Whether nothing but causality and padding counts: what fused attention knows by itself."""
        return not self.is_banded and self.pattern is None and self.removed is None

    def allowed(
        self,
        n_queries: int,
        n_keys: int,
        rows: slice = slice(None),
        cols: slice | Tensor = slice(None),
        *,
        device: torch.device | None = None,
    ) -> Tensor:
        """The rule for some rows and columns, as bool [batch or 1, n_heads or 1, n_rows, n_columns].

        `n_queries` and `n_keys` are the sizes of the whole map, the slices a part of it; columns may be
        listed by their numbers as well, where no cells were removed. `device` is used only when there is no
        `key_valid` to tell it.
        """
        device = device if self.key_valid is None else self.key_valid.device
        i = _indices(range(n_queries)[rows], device)
        j = cols.to(device) if isinstance(cols, Tensor) else _indices(range(n_keys)[cols], device)
        seen = self._near(i, j, n_keys - n_queries)[None, None]
        if self.pattern is not None:
            self.pattern.check(n_queries, n_keys)
            seen = seen & self.pattern.allowed(i, j).to(seen.device)
        if self.removed is not None:
            seen = seen & self.removed.allowed(i, j)
        if self.key_valid is None:
            return seen
        _check_keys(self.key_valid, n_keys)
        return seen & self.key_valid[:, j if isinstance(cols, Tensor) else cols][:, None, None]

    def rows_without_keys(self, n_queries: int, n_keys: int) -> Tensor | None:
        """True where a query sees no key, bool [batch or 1, heads or 1, n_queries or 1]; None: all do.

        With a causal rule and fewer keys than queries the first queries see nothing.
        """
        if not self.is_simple:
            return None if self._sees_itself(n_queries, n_keys) else self._find_blind_rows(n_queries, n_keys)
        if self.key_valid is None:
            if not self.is_causal or n_queries <= n_keys:
                return None
            return (torch.arange(n_queries) < n_queries - n_keys)[None, None]
        _check_keys(self.key_valid, n_keys)
        if not self.is_causal:
            return ~self.key_valid.any(dim=1)[:, None, None]
        n_seen = self.key_valid.cumsum(dim=1)
        last_key = torch.arange(n_queries, device=n_seen.device) + (n_keys - n_queries)
        n_seen = n_seen[:, last_key.clamp(min=0)]  # [batch, n_queries]
        return ((n_seen == 0) | (last_key < 0))[:, None]

    def key_bias(self, dtype: torch.dtype) -> Tensor | None:
        """The padding as numbers added to scores: 0 or −inf, [batch, 1, 1, n_keys]; None without padding."""
        if self.key_valid is None:
            return None
        bias = torch.zeros(self.key_valid.shape, dtype=dtype, device=self.key_valid.device)
        return bias.masked_fill_(~self.key_valid, -math.inf)[:, None, None, :]

    def last_text(self) -> "MaskRule":
        """The rule of the last text of the batch, holding nothing of the others."""
        if self.key_valid is None and self.pattern is None:
            return self
        return replace(
            self,
            key_valid=None if self.key_valid is None else self.key_valid[-1:].clone(),
            pattern=None if self.pattern is None else self.pattern.last_text(),
        )

    def _near(self, i: Tensor, j: Tensor, offset: int) -> Tensor:
        """Causality and the window, bool [rows, columns]."""
        place, key = (i + offset)[:, None], j[None, :]
        back, ahead = self.window or (None, None)
        ahead = 0 if self.is_causal else ahead
        if back is None:
            if ahead is None:
                return torch.ones(len(i), len(j), dtype=torch.bool, device=i.device)
            return key <= place + ahead
        seen = key >= place - back
        return seen if ahead is None else seen & (key <= place + ahead)

    def _sees_itself(self, n_queries: int, n_keys: int) -> bool:
        """Whether a window is all there is besides causality, and every query stands at some key."""
        is_window = self.key_valid is None and self.pattern is None and self.removed is None
        return is_window and n_queries <= n_keys and min(side or 0 for side in self.window or (0,)) >= 0

    def _find_blind_rows(self, n_queries: int, n_keys: int) -> Tensor | None:
        n_rows = max(1, _BLOCK_CELLS // max(1, n_keys))
        blind = [
            ~self.allowed(n_queries, n_keys, slice(start, start + n_rows)).any(dim=-1)
            for start in range(0, n_queries, n_rows)
        ]
        found = torch.cat(blind, dim=-1) if blind else torch.zeros(1, 1, 0, dtype=torch.bool)
        return found if bool(found.any()) else None


def _check_keys(key_valid: Tensor, n_keys: int) -> None:
    if key_valid.shape[1:] != (n_keys,):
        raise ValueError(f"key_valid is {list(key_valid.shape)}, expected [batch, {n_keys}]")


def _place_in(steps: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Where each wanted number stands in an even sequence, and whether it does."""
    step = steps[1] - steps[0] if len(steps) > 1 else steps.new_ones(())
    place = torch.div(wanted - steps[0], step, rounding_mode="floor")
    return place, (place >= 0) & (place < len(steps)) & (place * step + steps[0] == wanted)


_BLOCK_CELLS = 4_000_000


def build_rule(*, is_causal: bool, key_valid: Tensor | None = None) -> MaskRule:
    """The rule for a batch; without any padding `key_valid` is dropped, so attention stays quick.

    On accelerators the values are not looked at, because that would wait for the device.
    """
    if key_valid is None:
        return MaskRule(is_causal=is_causal)
    if key_valid.ndim != 2:
        raise ValueError(f"key_valid is {list(key_valid.shape)}, expected [batch, n_keys]")
    key_valid = key_valid.to(torch.bool)
    if key_valid.device.type == "cpu" and bool(key_valid.all()):
        return MaskRule(is_causal=is_causal)
    return MaskRule(is_causal=is_causal, key_valid=key_valid)


def _indices(part: range, device: torch.device | None) -> Tensor:
    return torch.arange(part.start, part.stop, part.step, device=device)
