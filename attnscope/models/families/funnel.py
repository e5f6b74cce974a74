"""Funnel Transformer: later blocks read a text of half the length, pooled in pairs (Dai et al. 2020).

    symbol   meaning                                                                     shape
    n_b      rows of block b; block 0 has the tokens, each later one about half as many
    M_b      which tokens a row of block b is the mean of; rows add up to 1              [n_b, T]
    A_b      in which row of block b a token is; a row has a single 1, or is 0           [T, n_b]
    p        weights of a layer that has its queries in block b, its keys in block a     [B, H, n_b, n_a]
    P        the same, token by token: A_b p M_a                                         [B, H, T, T]

A token is given the row of the block that it is part of, and the weight of a row is shared out among its
tokens as they count in the mean: the value of a row is then that of its tokens, but for what `pooling_type`
= max loses. With `truncate_seq` the last tokens are part of no row: theirs are
without weights (NaN). The decoder's layers read all tokens again.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnscope.models.families.family import Family, Seen


class Funnel(Family):
    name, title = "funnel", "Funnel Transformer"
    has_empty_rows = fails_when_short = True

    def laid_out(
        self, output: Mapping[str, Any], n_tokens: int, *, config: Any, seen: Seen
    ) -> Mapping[str, Any]:
        maps: tuple[Tensor, ...] = tuple(output.get("attentions") or ())
        if not maps:
            return output
        n = n_tokens or maps[0].shape[-1]
        blocks = means_of_blocks(
            n, len(config.block_sizes), has_own_first=config.separate_cls, is_cut=config.truncate_seq
        )
        of_size = {len(means): means.to(maps[0]) for means in blocks}
        return {
            **output,
            "attentions": tuple(lay_pooled(p, of_size[p.shape[2]], of_size[p.shape[3]]) for p in maps),
        }


def means_of_blocks(n: int, n_blocks: int, *, has_own_first: bool, is_cut: bool) -> list[Tensor]:
    """M of every block; with its own first row (the class token), and cut as `truncate_seq` says."""
    found = [torch.eye(n)]
    for _ in range(n_blocks - 1):
        before = found[-1]
        if len(before) <= (2 if has_own_first else 1):
            break
        if has_own_first:
            before = torch.cat([before[:1], before[:-1] if is_cut else before])
        pairs = [before[k : k + 2].mean(dim=0) for k in range(0, len(before), 2)]
        found.append(torch.stack(pairs))
    return found


def lay_pooled(p: Tensor, of_queries: Tensor, of_keys: Tensor) -> Tensor:
    """P of p [B, H, n_b, n_a], with M of the block of its queries and of that of its keys."""
    rows = (of_queries > 0).to(p)  # each token is in one row at most
    return rows.T @ p @ of_keys
