"""What a model hands to its attention besides queries and keys, turned into rules.

Masks: ours (`RuleMask`), or laid out by the model itself, bool (True: may be seen) or numbers added to
the scores. Biases: T5's distances and the like. A laid-out tensor is looked at once and remembered for
as long as it lives, since a model gives the same one to all its layers.

    symbol   meaning                                       shape
    mask     as the library broadcasts it                  [batch or 1, n_heads or 1, n_queries or 1, n_keys]
    bias     added to the scores                           likewise
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface.mask_function import RuleMask
from attnscope.models.huggingface.rule_finding import DENSE_CELLS, find_rule_of
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import Bias, DenseBias, RelativeBias

FORBIDDING = -9999.0
"""Numbers up to this, added to a score, forbid the key: exp of it is 0 in every precision."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenMask:
    """A mask as a rule, and what it adds to the scores of the cells it allows."""

    rule: MaskRule
    bias: Bias | None = None


def read_mask(mask: Tensor, n_queries: int, n_keys: int) -> GivenMask:
    """The rule behind any mask that a model may pass; raises UserError for one that cannot be honoured."""
    if isinstance(mask, RuleMask):
        return GivenMask(rule=_rule_of(mask, n_queries, n_keys))
    return _remembered(mask, ("mask", n_queries, n_keys), lambda: _read_cells(mask, n_queries, n_keys))


def read_bias(bias: Tensor, n_queries: int, n_keys: int) -> Bias | None:
    """A bias as numbers for each distance where it is that, None where it is all 0, else as it is."""
    return _remembered(bias, ("bias", n_queries, n_keys), lambda: _read_bias(bias, n_queries, n_keys))


def add_biases(one: Bias | None, other: Bias | None, n_queries: int, n_keys: int) -> Bias | None:
    """The sum of two biases, either of which may be missing."""
    if one is None or other is None:
        return other if one is None else one
    everything = slice(None)
    parts = [bias.part(n_queries, n_keys, everything, everything) for bias in (one, other)]
    return DenseBias(cells=parts[0] + parts[1])


def _rule_of(mask: RuleMask, n_queries: int, n_keys: int) -> MaskRule:
    if mask.is_whole and (mask.n_queries, mask.n_keys) == (n_queries, n_keys):
        return mask.rule  # nearly always; a subclass of Tensor is slow to tell its shape
    if mask.shape[3] > n_keys:
        mask = mask[:, :, :, :n_keys]  # type: ignore[assignment]
    if mask.shape[2:] != (n_queries, n_keys):
        raise _wrong_size(mask, n_queries, n_keys)
    return find_rule_of(mask.lay_out(), n_queries, n_keys)


def _read_cells(mask: Tensor, n_queries: int, n_keys: int) -> GivenMask:
    cells = _four_axes(mask, n_queries, n_keys)
    if cells.dtype == torch.bool:
        return GivenMask(rule=find_rule_of(cells, n_queries, n_keys))
    if not cells.is_floating_point():
        raise UserError(
            f"The model's mask is made of {str(cells.dtype).removeprefix('torch.')} numbers.",
            expected="true and false, or numbers added to the scores",
        )
    rule = find_rule_of(cells > FORBIDDING, n_queries, n_keys)
    numbers = cells.masked_fill(cells <= FORBIDDING, 0.0)
    return GivenMask(rule=rule, bias=_read_bias(numbers, n_queries, n_keys))


def _read_bias(bias: Tensor, n_queries: int, n_keys: int) -> Bias | None:
    cells = _four_axes(bias, n_queries, n_keys)
    if not bool(cells.any()):
        return None
    cells = cells.expand(-1, -1, n_queries, n_keys)
    if (cells.shape[0] == 1 or cells.stride(0) == 0) and _is_by_distance(cells):
        before = cells[0, :, 1:, 0].flip(-1)  # distances −(n_queries − 1) … −1
        values = torch.cat([before, cells[0, :, 0]], dim=-1).contiguous()
        return RelativeBias(values=values, laid_out=cells[:1])
    if cells[0].numel() > DENSE_CELLS:
        raise UserError(
            f"The model adds a number of its own to each of {n_queries} × {n_keys} scores.",
            expected=f"at most {DENSE_CELLS} numbers for one text",
            action="Use a shorter text with this model.",
        )
    return DenseBias(cells=cells)


def _is_by_distance(cells: Tensor) -> bool:
    """Whether each number depends on j − i alone: every diagonal holds one number."""
    if cells.shape[2] <= 1 or cells.shape[3] <= 1:
        return True
    return bool((cells[:1, :, 1:, 1:] == cells[:1, :, :-1, :-1]).all())


def _four_axes(tensor: Tensor, n_queries: int, n_keys: int) -> Tensor:
    """The tensor with four axes, keys beyond the last one cut off as the library does."""
    if tensor.ndim > 4:
        raise _wrong_size(tensor, n_queries, n_keys)
    tensor = tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape))
    tensor = tensor[..., :n_keys]
    if tensor.shape[2] not in (1, n_queries) or tensor.shape[3] not in (1, n_keys):
        raise _wrong_size(tensor, n_queries, n_keys)
    return tensor


def _wrong_size(tensor: Tensor, n_queries: int, n_keys: int) -> UserError:
    return UserError(
        f"The model's mask or bias is of shape {list(tensor.shape)}.",
        expected=f"[batch, n_heads, {n_queries}, {n_keys}]",
        action="This model cannot be traced.",
    )


_Key = tuple[str, int, int]
_memory: dict[tuple[int, _Key], tuple["weakref.ref[Tensor]", int, object]] = {}


def _remembered(tensor: Tensor, key: _Key, find: Callable[[], _Found]) -> _Found:
    """What was found out about the very same, unchanged tensor before, else what `find` finds now."""
    version = -1 if tensor.is_inference() else tensor._version
    entry = _memory.get((id(tensor), key))
    if entry is not None and entry[0]() is tensor and entry[1] == version:
        return entry[2]  # type: ignore[return-value]
    found = find()
    for old in [place for place, (alive, _, _) in _memory.items() if alive() is None]:
        del _memory[old]
    _memory[id(tensor), key] = (weakref.ref(tensor), version, found)
    return found
