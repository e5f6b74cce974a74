"""Heads that stand where rows or queries do, read off the modules around a call.

Heads folded into the batch axis: attention on [batch · n_heads, n_queries, n_keys], as diffusers, fairseq and
einops' `(b h) n d` write it. Three axes may as well be a batch of one head, so that the number of heads is
read off the module, and off the batch of what the modules around the call were given. Where these disagree,
or neither says anything, a person has to tell it: nothing is guessed. Heads stand innermost: row b, head h is
at b · n_heads + h.

Heads that share keys and values (Ainslie et al. 2023), as modules of the transformers library call them: they
say so as `num_key_value_groups`, repeat the keys for each head, and for one query lay the heads of a group
where queries stand (`pack_gqa`, transformers 5.23, `integrations/sdpa_attention.py`).

| symbol | meaning                          | shape                                          |
|--------|----------------------------------|------------------------------------------------|
| packed | one query of all heads           | [batch, n_heads / n_groups, n_groups, d_head]  |
| k      | keys, maybe repeated by groups   | [1, n_heads, n_keys, d_head]                   |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.counting import plural
from attnscope.errors import UserError

_NAMES = ("heads", "num_heads", "n_heads", "n_head", "nhead", "nheads", "num_attention_heads")
_PRODUCT_ARGUMENTS = ("query", "key", "value", "attn_mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A module at work, and of each tensor it was given the shape, and whether it holds whole numbers."""

    module: nn.Module
    shapes: tuple[tuple[torch.Size, bool], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """`n_rows` texts of `n_heads` heads each stand on one axis."""

    n_rows: int
    n_heads: int

    @property
    def note(self) -> str:
        """How the axis was read; empty where there is one way to read it."""
        if self.n_rows == 1 or self.n_heads == 1:
            return ""
        return (
            f"An axis of {self.n_rows * self.n_heads} was read as {self.n_rows} batch rows of "
            f"{self.n_heads} heads each, row by row."
        )

    def unfolded(self, tensor: Tensor) -> Tensor:
        """[n_rows, n_heads, …] of [n_rows · n_heads, …]; one for all rows, or for all heads, stays so."""
        if tensor.ndim != 3:
            return tensor
        if tensor.shape[0] == self.n_rows * self.n_heads:
            return tensor.reshape(self.n_rows, self.n_heads, *tensor.shape[1:])
        return tensor.unsqueeze(1)

    def product(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `scaled_dot_product_attention` with an axis of heads."""
        given = {**dict(zip((*_PRODUCT_ARGUMENTS, "dropout_p", "is_causal"), args, strict=False)), **named}
        folded = {name: given[name] for name in _PRODUCT_ARGUMENTS if isinstance(given.get(name), Tensor)}
        return {**given, **{name: self.unfolded(tensor) for name, tensor in folded.items()}}


def find_fold(n: int, n_queries: int, n_keys: int, told: int | None, around: Sequence[Entered]) -> Fold:
    """How the first axis of `n` maps is made up; `around` are the modules at work, the outermost first.

    Raises UserError where it does not say so.
    """
    if told is not None:
        if n % told:
            raise UserError(
                f"There are {n} maps of {n_queries} × {n_keys}, which are not batch rows of {told} heads.",
                expected=f"a number of heads that divides {n}",
                action="Give another number: attnscope.record(module, heads=…).",
            )
        return Fold(n_rows=n // told, n_heads=told)
    by_module = next((heads for entered in reversed(around) for heads in _own_heads(entered.module, n)), None)
    batches = (_batches(entered, {n_queries, n_keys}) for entered in around)
    found = next((fitting for batch in batches if (fitting := {b for b in batch if n % b == 0})), set())
    by_input = n // next(iter(found)) if len(found) == 1 else None
    if by_module is None and by_input is None and n == 1:
        return Fold(n_rows=1, n_heads=1)
    if by_module is not None and found and n // by_module in found:
        by_input = by_module  # one of two readings of the input, and the module says which
    sure = {heads for heads in (by_module, by_input) if heads is not None}
    if len(sure) != 1:
        raise _untold(n, n_queries, n_keys)
    n_heads = sure.pop()
    return Fold(n_rows=n // n_heads, n_heads=n_heads)


def _own_heads(module: nn.Module, n: int) -> Iterable[int]:
    """What a module says of its heads, where so many could be among `n` maps."""
    for place in (module, getattr(module, "config", None)):
        for name in _NAMES:
            heads = getattr(place, name, None)
            if isinstance(heads, int) and not isinstance(heads, bool) and heads > 0 and n % heads == 0:
                yield heads


def _batches(entered: Entered, lengths: set[int]) -> set[int]:
    """How many texts a module may have been given: axes that stand beside one of that many tokens."""
    found: set[int] = set()
    for shape, is_ids in entered.shapes:
        if len(shape) == 4 and shape[2] * shape[3] in lengths:  # an image, whose pixels are tokens
            found.add(shape[0])
        if len(shape) == 3 or (len(shape) == 2 and is_ids):
            found |= {shape[1 - axis] for axis in (0, 1) if shape[axis] in lengths}
        if len(shape) == (1 if is_ids else 2) and shape[0] in lengths:
            found.add(1)
    return {batch for batch in found if batch > 0}


def tensor_shapes(args: Sequence[Any]) -> tuple[tuple[torch.Size, bool], ...]:
    """The shapes of the tensors among a module's arguments, and whether each holds whole numbers."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    return tuple((tensor.shape, not tensor.is_floating_point()) for tensor in tensors)


def _untold(n: int, n_queries: int, n_keys: int) -> UserError:
    return UserError(
        f"There are {plural(n, 'map')} of {n_queries} × {n_keys}: batch rows, heads, or both, and neither "
        "the module nor what it was given says which.",
        expected="the number of heads",
        action="State it: attnscope.record(module, heads=4), or heads=1 where each map is of another text.",
    )


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
