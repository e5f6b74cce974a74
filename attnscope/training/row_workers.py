"""Several threads that train one model together: each works out the gradients of its own rows of a batch.

Threads inside the products meet after each of them, some hundred times a step, and while they wait they
either spin, which a busy core beside them turns into hundreds of milliseconds, or sleep, which costs a small
model more than the second thread gains. These meet once a step. Rows are divided as over the processes of
`distributed.py`, and the gradients of the parts are added in their order: equal numbers of workers make equal
steps to the last bit, other numbers differ in the last digits of sums.

Linux wakes a thread on the core of the one that woke it, as these do for Python's lock all the time, and may
leave both there for seconds beside an idle core (6.18, two cores): so each keeps to cores of its own.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from attnscope.nn.dropping import own_dice
from attnscope.training.distributed import Ranks, rows_of
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe

_Part = tuple[Tensor, Sequence[Tensor | None]]


def can_divide(recipe: Recipe, device: torch.device, ranks: Ranks) -> bool:
    """Whether rows of a recipe's batches may be worked out side by side on a CPU, and that can be quicker.

    Cells that read token by token hardly leave Python, which one thread at a time may run; a drawn gate
    belongs to all rows; and what is computed again for its gradient draws from the dice of all threads.
    """
    is_plain = not (recipe.model.is_recurrent or recipe.gates.l0_penalty or recipe.training.checkpointing)
    return device.type == "cpu" and ranks.n == 1 and is_plain and recipe.training.compile != "on"


class RowWorkers:
    """Threads that begin when they are first needed; `close` ends them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            thread_name_prefix="rows", initializer=torch.set_flush_denormal, initargs=(True,)
        )

    def descend(
        self, n: int, loss_of: Callable[[Batch], Tensor], batch: Batch, parameters: Sequence[Tensor]
    ) -> Tensor:
        """Add the gradients of a batch's loss, which is a sum over its rows; gives that loss.

        The batch has at least `n` rows. The caller's thread works out the first part.
        """
        n_rows, groups = len(batch.ids), core_groups(n)
        parts = [rows_of(batch, n_rows * i // n, n_rows * (i + 1) // n) for i in range(n)]
        first, *seeds = torch.randint(2**62, (n,)).tolist()
        others = [
            self._pool.submit(_gradients, loss_of, part, parameters, seed, cores)
            for part, seed, cores in zip(parts[1:], seeds, groups[1:], strict=True)
        ]
        try:
            with own_dice(first), _keeping_to(groups[0]):
                total = loss_of(parts[0])
                torch.autograd.backward(total)
        finally:
            wait(others)  # nothing may change the weights while another reads them
        total = total.detach()
        for other in others:
            loss, gradients = other.result()
            total = total + loss
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None and parameter.grad is not None:
                    parameter.grad.add_(gradient)
                elif gradient is not None:
                    parameter.grad = gradient.clone()
        return total

    def close(self) -> None:
        """End the threads, which are idle between two calls of `descend`."""
        self._pool.shutdown()


def core_groups(n: int) -> list[set[int]]:
    """The cores that this thread may use, dealt out to `n`; empty where they are too few."""
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    return [set(cores[i::n]) if len(cores) >= n else set() for i in range(n)]


@contextmanager
def _keeping_to(cores: set[int]) -> Iterator[None]:
    """Have this thread use these cores only; any where there are none, or the system does not let it."""
    if sys.platform != "linux" or not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # the cores of a container may have become fewer
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


def _gradients(
    loss_of: Callable[[Batch], Tensor],
    part: Batch,
    parameters: Sequence[Tensor],
    seed: int,
    cores: set[int],
) -> _Part:
    with own_dice(seed), _keeping_to(cores):
        loss = loss_of(part)
        return loss.detach(), torch.autograd.grad(loss, parameters, allow_unused=True)
