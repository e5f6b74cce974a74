"""Which key a query may see, kept as a rule and never as a matrix.

    symbol      meaning                               shape
    key_valid   False where the key is padding        [batch, n_keys]
    allowed     True where the query sees the key     [batch or 1, 1, rows, columns]

A causal query sees the keys up to its own place, both sequences ending together: query i sees key j
when j <= i + n_keys - n_queries. Must not import attention.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskRule:
    """Causality and key padding of one attention call; two numbers and one row per sequence.

    `key_valid` is bool [batch, n_keys], or None when every key counts.
    """

    is_causal: bool = False
    key_valid: Tensor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every query may see every key."""
        return not self.is_causal and self.key_valid is None

    def allowed(
        self,
        n_queries: int,
        n_keys: int,
        rows: slice = slice(None),
        cols: slice = slice(None),
        *,
        device: torch.device | None = None,
    ) -> Tensor:
        """The rule for some rows and columns, as bool [batch or 1, 1, n_rows, n_columns].

        `n_queries` and `n_keys` are the sizes of the whole map, the slices a part of it. `device` is
        used only when there is no `key_valid` to tell it.
        """
        row_range, col_range = range(n_queries)[rows], range(n_keys)[cols]
        device = device if self.key_valid is None else self.key_valid.device
        if self.is_causal:
            last_key = _indices(row_range, device) + (n_keys - n_queries)
            seen = _indices(col_range, device)[None, :] <= last_key[:, None]  # [rows, cols]
        else:
            seen = torch.ones(len(row_range), len(col_range), dtype=torch.bool, device=device)
        if self.key_valid is None:
            return seen[None, None]
        self._check_keys(n_keys)
        return seen[None, None] & self.key_valid[:, None, None, cols]

    def rows_without_keys(self, n_queries: int, n_keys: int) -> Tensor | None:
        """True where a query sees no key at all, bool [batch or 1, 1, n_queries or 1]; None if it cannot be.

        With a causal rule and fewer keys than queries the first queries see nothing.
        """
        if self.key_valid is None:
            if not self.is_causal or n_queries <= n_keys:
                return None
            return (torch.arange(n_queries) < n_queries - n_keys)[None, None]
        self._check_keys(n_keys)
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

    def _check_keys(self, n_keys: int) -> None:
        if self.key_valid is not None and self.key_valid.shape[1:] != (n_keys,):
            raise ValueError(f"key_valid is {list(self.key_valid.shape)}, expected [batch, {n_keys}]")


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
