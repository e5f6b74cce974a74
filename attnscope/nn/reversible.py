"""Reversible layers (`schemes/residuals/reversible.py`): a backward pass for which nothing between is kept.

    symbol   meaning                                                     shape
    a, b     the stream that is written next, and the one that is read   [batch, n_tokens, d_model]
    f        what a branch adds: its norms, itself, its dropout          the same
    p, q     the streams after it, p = b and q = a + f(b)                the same

Gomez et al. 2017, algorithm 1; Kitaev et al. 2020, section 3, where the two branches of a layer are
y₁ = x₁ + F(x₂), y₂ = x₂ + G(y₁). From the last layer to the first, b = p and a = q − f(p); f(p) is computed
again for it, and gives the gradients as well: ∂L/∂a = ∂L/∂q, ∂L/∂b = ∂L/∂p + f'(p)ᵀ ∂L/∂q. A branch drops the
same places both times, since its dice are thrown from the same number.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnscope.nn.block import Block, BlockArguments, Branch
from attnscope.nn.dropping import new_seed, own_dice
from attnscope.nn.scores import RelativeBias


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AddedBranch:
    """One branch: `said` gives f of a stream, `reads` are the tensors it learns or reads besides."""

    said: Callable[[Tensor], Tensor]
    reads: tuple[Tensor, ...]
    name: str

    def ahead(self, a: Tensor, b: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """P and q."""
        with _dice(seed, b.device):
            return b, a + self.said(b)

    def back(self, p: Tensor, q: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """A and b again, up to rounding."""
        with _dice(seed, p.device):
            return q - self.said(p), p


def through_reversible(blocks: Iterable[Block], x: Tensor, choices: BlockArguments) -> Tensor:
    """The sum of both streams after all blocks; for the backward pass only the last two are kept."""
    choices, given, leaves = _let_go(choices)
    additions = additions_of(blocks, choices, leaves)
    learned = {id(one): one for addition in additions for one in addition.reads}
    originals = dict(zip(map(id, leaves), given, strict=True))
    read = [originals.get(key, one) for key, one in learned.items()]
    half = x / 2
    a, b = _Reversible.apply(half, half, additions, tuple(learned), *read)  # type: ignore[no-untyped-call]
    return a + b  # type: ignore[no-any-return]


def additions_of(
    blocks: Iterable[Block], choices: BlockArguments, leaves: Sequence[Tensor] = ()
) -> tuple[AddedBranch, ...]:
    """Every branch in the order of a pass; of `leaves` each may read any."""
    return tuple(
        AddedBranch(
            said=partial(_said, block, branch, choices),
            reads=(*_learned(block, branch), *leaves),
            name=f"L{block.layer} {branch.replace('_', '-')}",
        )
        for block in blocks
        for branch in block.branches
    )


def _said(block: Block, branch: Branch, choices: BlockArguments, x: Tensor) -> Tensor:
    return block.addition(branch, x, choices)


def _learned(block: Block, branch: Branch) -> Iterator[Tensor]:
    for name in (branch, f"{branch}_norm", f"{branch}_end"):
        module = getattr(block, name)
        if module is not None:
            yield from (p for p in module.parameters() if p.requires_grad)


def _let_go(choices: BlockArguments) -> tuple[BlockArguments, list[Tensor], list[Tensor]]:
    """The choices with leaves in the place of what has a history, which must not be walked twice; both."""
    given: list[Tensor] = []
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        given.append(tensor)
        leaves.append(tensor.detach().requires_grad_())
        return leaves[-1]

    memory, bias, loose = choices.get("memory"), choices.get("bias"), choices.copy()
    if memory is not None:
        loose["memory"] = leaf(memory)
    if isinstance(bias, RelativeBias) and bias.laid_out is not None:  # then its values are not looked at
        loose["bias"] = replace(bias, values=bias.values.detach(), laid_out=leaf(bias.laid_out))
    elif isinstance(bias, RelativeBias):
        loose["bias"] = replace(bias, values=leaf(bias.values))
    return loose, given, leaves


@contextmanager
def _dice(seed: int, device: torch.device) -> Iterator[None]:
    """Let what is dropped follow from a number."""
    with ExitStack() as stack:
        stack.enter_context(own_dice(seed))
        if device.type != "cpu":
            stack.enter_context(torch.random.fork_rng([device], device_type=device.type))
            torch.get_device_module(device).manual_seed(seed % 2**63)
        yield


class _Reversible(torch.autograd.Function):
    """All branches of a stack, by the numbers of the tensors that they read."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        additions: tuple[AddedBranch, ...],
        keys: tuple[int, ...],
        *read: Tensor,
    ) -> tuple[Tensor, Tensor]:
        kind = a.device.type
        ctx.precision = (torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        ctx.additions, ctx.keys, ctx.seeds = additions, keys, [new_seed() for _ in additions]
        with _autocast(kind, *ctx.precision):
            for addition, seed in zip(additions, ctx.seeds, strict=True):
                a, b = addition.ahead(a, b, seed)
        ctx.save_for_backward(a, b)
        return a, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_p: Tensor, of_q: Tensor) -> tuple[Any, ...]:
        p, q = ctx.saved_tensors
        found: dict[int, Tensor] = {}
        for addition, seed in zip(reversed(ctx.additions), reversed(ctx.seeds), strict=True):
            b = p.detach().requires_grad_()
            with torch.enable_grad(), _autocast(b.device.type, *ctx.precision), _dice(seed, b.device):
                said = addition.said(b)
            asked = (b, *addition.reads)
            gradients = torch.autograd.grad(said, asked, of_q.to(said.dtype), allow_unused=True)
            for one, gradient in zip(addition.reads, gradients[1:], strict=True):
                if gradient is not None:
                    found[id(one)] = found[id(one)] + gradient if id(one) in found else gradient
            p, q = q - said.detach(), p
            of_p, of_q = of_q, of_p if gradients[0] is None else of_p + gradients[0]
        return of_p, of_q, None, None, *(found.get(key) for key in ctx.keys)


def _autocast(kind: str, dtype: torch.dtype, is_on: bool) -> torch.autocast:
    """The precision of the forward pass, without copies of weights that a backward pass could not follow."""
    return torch.autocast(kind, dtype=dtype, enabled=is_on, cache_enabled=False)
