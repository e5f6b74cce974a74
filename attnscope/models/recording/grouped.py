"""Heads that share keys and values (Ainslie et al. 2023), as modules of the transformers library call them.

Its modules say so as `num_key_value_groups`. They repeat the keys for each head; and for one query they lay
the heads of a group where queries stand (`pack_gqa`, transformers 5.23, `integrations/sdpa_attention.py`).

| symbol | meaning                          | shape                                          |
|--------|----------------------------------|------------------------------------------------|
| packed | one query of all heads           | [batch, n_heads / n_groups, n_groups, d_head]  |
| k      | keys, maybe repeated by groups   | [1, n_heads, n_keys, d_head]                   |
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each `n_groups` of `n_heads` heads share their keys and values."""

    n_heads: int
    n_groups: int

    def is_packed(self, query: Tensor) -> bool:
        """Whether the heads of each group stand where queries do."""
        return query.ndim == 4 and query.shape[1:3] == (self.n_heads // self.n_groups, self.n_groups)

    def unpacked(self, tensor: Tensor) -> Tensor:
        """One query, or output, of every head: [batch, n_heads, 1, d_head]."""
        return tensor.reshape(tensor.shape[0], self.n_heads, 1, tensor.shape[3])

    def unpacked_mask(self, mask: Tensor) -> Tensor:
        """The mask of every head, where it has one for each."""
        is_packed = mask.ndim == 4 and mask.shape[2] == self.n_groups
        return mask.reshape(mask.shape[0], -1, 1, mask.shape[3]) if is_packed else mask

    def without_copies(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values once for each group, where they were repeated for each head."""
        if k.shape[1] != self.n_heads or v.shape[1] != self.n_heads:
            return k, v
        own = [x[:, :: self.n_groups] for x in (k, v)]
        again = [x.repeat_interleave(self.n_groups, dim=1) for x in own]
        is_repeated = torch.equal(again[0], k) and torch.equal(again[1], v)
        return (own[0], own[1]) if is_repeated else (k, v)


def groups_of(module: nn.Module | None) -> Groups | None:
    """What a module says of heads that share keys; None where it says nothing, or that none do."""
    n_groups = getattr(module, "num_key_value_groups", 1)
    n_heads = getattr(getattr(module, "config", None), "num_attention_heads", None)
    is_told = isinstance(n_groups, int) and isinstance(n_heads, int) and n_groups > 1
    if not is_told or n_heads is None or n_heads % n_groups:
        return None
    return Groups(n_heads=n_heads, n_groups=n_groups)
