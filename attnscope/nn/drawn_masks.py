"""A mask that a person has drawn, in the place of the one that a call came with.

    symbol   meaning                                             shape
    cells    True where the query (row) sees the key (column)    [n_queries, n_keys]

Causality and padding stay; a window or a sparse rule goes. A mask that came cell by cell or as intervals
may carry causality itself, so it stays as well. Only the last text of a batch is changed.
"""

from dataclasses import replace

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.nn.masks import MaskRule
from attnscope.nn.patterns import Dense, Edges, Intervals


def check_size(cells: Tensor, n_queries: int, n_keys: int) -> None:
    """Raise UserError when a mask is of another number of tokens than the call."""
    if tuple(cells.shape) != (n_queries, n_keys):
        raise UserError(
            f"The mask is for {plural(cells.shape[0], 'token')}, but here it is {n_queries} × {n_keys}.",
            expected="a mask for as many tokens as the text has, special tokens counted in",
            action="Draw the mask again for this text.",
        )


def with_drawn_mask(rule: MaskRule, cells: Tensor, n_texts: int) -> MaskRule:
    """The rule of a batch of `n_texts` whose last text is read under `cells`."""
    n_queries, n_keys = cells.shape
    last = cells[None, None]  # [1, 1, Q, T]
    if isinstance(rule.pattern, Dense | Intervals | Edges):
        rows, columns = (torch.arange(n, device=cells.device) for n in (n_queries, n_keys))
        last = last & rule.pattern.last_text().allowed(rows, columns).to(cells.device)
    if n_texts > 1:
        before = replace(rule, is_causal=False, key_valid=None, removed=None)
        allowed = before.allowed(n_queries, n_keys, device=cells.device).to(cells.device)
        n_heads = max(allowed.shape[1], last.shape[1])
        others = allowed.expand(n_texts, n_heads, -1, -1)[:-1]
        last = torch.cat([others, last.expand(1, n_heads, -1, -1)])  # [B, H or 1, Q, T]
    return replace(rule, window=None, pattern=Dense(cells=last))
