"""The mask that the library carries around in our name: a rule in the dress of a tensor.

A `RuleMask` looks to the library like a bool mask [batch, 1, n_queries, n_keys] of stride 0, one byte
in memory, and carries the `MaskRule` to the attention function. It may be moved and sliced; a model
that computes with its mask gets the true cells.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from attnscope.nn.masks import MaskRule

_FULL = slice(None)


class RuleMask(Tensor):
    """A mask of no memory: `rule` is of the whole map, `rows` and `cols` are the part that it shows."""

    rule: MaskRule
    n_queries: int
    n_keys: int
    rows: range
    cols: range

    @staticmethod
    def of(
        rule: MaskRule,
        n_queries: int,
        n_keys: int,
        *,
        batch: int,
        device: torch.device,
        rows: range | None = None,
        cols: range | None = None,
    ) -> "RuleMask":
        """A mask that shows the rows and columns (None: all) of a rule."""
        rows, cols = rows or range(n_queries), cols or range(n_keys)
        cell = torch.ones((), dtype=torch.bool, device=device)
        mask = cell.expand(batch, 1, len(rows), len(cols)).as_subclass(RuleMask)
        mask.rule, mask.n_queries, mask.n_keys, mask.rows, mask.cols = rule, n_queries, n_keys, rows, cols
        return mask

    @property
    def is_whole(self) -> bool:
        """Whether every row and column is shown."""
        return (len(self.rows), len(self.cols)) == (self.n_queries, self.n_keys)

    def lay_out(self) -> Tensor:
        """The true cells: a plain bool tensor of this shape."""
        rows = slice(self.rows.start, self.rows.stop)
        cols = slice(self.cols.start, self.cols.stop)
        allowed = self.rule.allowed(self.n_queries, self.n_keys, rows, cols, device=self.device)
        return allowed.to(self.device).expand(self.shape[0], -1, -1, -1).contiguous()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Shape and the like as they are, moves and slices as rules, anything else on the true cells."""
        kwargs = kwargs or {}
        if func in _metadata():
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        mask = args[0] if args else None
        if isinstance(mask, RuleMask):
            if func in _moves():
                moved = func(torch.ones((), dtype=torch.bool, device=mask.device), *args[1:], **kwargs)
                if moved.dtype == torch.bool:
                    return mask._like(moved.device, mask.rows, mask.cols)
            if func is Tensor.__getitem__ and (part := _part_of(mask, args[1])) is not None:
                return mask._like(mask.device, *part)
        return func(*_laid_out(args), **_laid_out(kwargs))

    def _like(self, device: torch.device, rows: range, cols: range) -> "RuleMask":
        return RuleMask.of(
            self.rule, self.n_queries, self.n_keys, batch=self.shape[0], device=device, rows=rows, cols=cols
        )


@cache
def _metadata() -> frozenset[Any]:
    names = ("shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_cpu", "requires_grad", "is_meta")
    getters = [getattr(Tensor, name).__get__ for name in names]
    methods = [Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.is_floating_point]
    return frozenset([*getters, *methods, Tensor.is_inference, Tensor.__len__, Tensor.__hash__])


@cache
def _moves() -> frozenset[Any]:
    return frozenset([Tensor.to, Tensor.bool, Tensor.contiguous, Tensor.clone, Tensor.detach, Tensor.cpu])


def _part_of(mask: RuleMask, index: Any) -> tuple[range, range] | None:
    """The rows and columns that an index leaves when it cuts nothing else; None when it does more."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [part for part in parts if not isinstance(part, Tensor)]:
        place = parts.index(Ellipsis)
        parts[place : place + 1] = [_FULL] * (5 - len(parts))
    parts += [_FULL] * (4 - len(parts))
    if len(parts) != 4 or not all(isinstance(part, slice) for part in parts):
        return None
    whole = all(
        range(size)[part] == range(size) for size, part in zip(mask.shape[:2], parts[:2], strict=True)
    )
    rows, cols = mask.rows[parts[2]], mask.cols[parts[3]]
    return (rows, cols) if whole and rows.step == cols.step == 1 and rows and cols else None


def _laid_out(value: Any) -> Any:
    if isinstance(value, RuleMask):
        return value.lay_out()
    if isinstance(value, (tuple, list)):
        return type(value)(_laid_out(part) for part in value)
    if isinstance(value, dict):
        return {name: _laid_out(part) for name, part in value.items()}
    return value
