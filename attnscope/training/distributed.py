"""Several processes that train one model together, as `torchrun` starts them.

Every process draws the same global batch from (seed, step), works on its own rows of it, and divides by the
scored tokens of all of them; gradients are summed. So n processes make the steps that one process would make
with the same recipe. Only the first writes. A process that alone trains is the usual case: `ALONE`.

The sum of gradients is that of Li et al. 2020 (PyTorch Distributed, section 3.2: in buckets, while the
backward pass still runs); sharding the weights, gradients and the optimiser's memory over the processes is
that of Rajbhandari et al. 2020 (ZeRO, stage 3).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from attnscope.errors import RecipeError, UserError
from attnscope.last_made import LastMade
from attnscope.nn.own_module import OwnModule
from attnscope.training.objectives import Batch, Told, loss_and_hits, loss_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process's rank among all (`index` of `n`), and on its own computer (`local`).

    `attempt` counts how often torchrun has started all of them again, where one computer has them all.
    """

    index: int = 0
    n: int = 1
    local: int = 0
    attempt: int = 0

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the run folder and reports to the user."""
        return self.index == 0

    def share(self, batch: Batch) -> Batch:
        """This process's rows of a global batch with at least one for each."""
        if self.n == 1:
            return batch
        n_rows = len(batch.ids)
        return rows_of(batch, n_rows * self.index // self.n, n_rows * (self.index + 1) // self.n)

    def mean(self, value: Tensor) -> Tensor:
        if self.n == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value / self.n

    def totals(self, values: Sequence[float], device: torch.device) -> tuple[float, ...]:
        """The sums over all processes."""
        if self.n == 1:
            return tuple(values)
        sums = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(sums)
        return tuple(sums.tolist())

    def any(self, is_so: bool, device: torch.device) -> bool:
        """Whether it is true in any process; all of them get the same answer."""
        return is_so if self.n == 1 else self.totals([float(is_so)], device)[0] > 0

    def check_batch(self, batch_size: int, key: str = "training.batch_size") -> None:
        """Raise RecipeError unless each batch has a row for every process."""
        if batch_size < self.n:
            raise RecipeError(
                f"{key} is {batch_size} for {self.n} processes.",
                expected="at least one row for each of them",
                action="Make the batch larger, or start fewer processes.",
            )

    def check_same(self, what: str, value: str) -> None:
        """Raise UserError unless `value` is the same in every process."""
        if self.n == 1:
            return
        values: list[Any] = [None] * self.n
        dist.all_gather_object(values, value)
        if len(set(values)) > 1:
            raise UserError(
                f"The processes of this run do not have the same {what}.",
                expected="the same files, recipe and version of AttnScope wherever a process runs",
                action="Put the data and the run folder where all of them can read it.",
            )


ALONE = Ranks()


def ranks_of(variables: Mapping[str, str]) -> Ranks:
    """Rank of this process, from torchrun's environment; ALONE without it."""
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        return ALONE
    try:
        return Ranks(
            index=int(variables["RANK"]),
            n=int(variables["WORLD_SIZE"]),
            local=int(variables.get("LOCAL_RANK", "0")),
            attempt=_attempt_of(variables),
        )
    except ValueError as error:
        raise UserError(
            f"RANK is {variables['RANK']!r} and WORLD_SIZE {variables['WORLD_SIZE']!r}.",
            expected="whole numbers, as torchrun sets them",
            action="Start with: torchrun --nproc-per-node N -m attnscope train RECIPE --out DIR.",
        ) from error


def _attempt_of(variables: Mapping[str, str]) -> int:
    """Number of restarts by torchrun; 0 over several computers, each of which counts by itself."""
    return int(variables.get("TORCHELASTIC_RESTART_COUNT", "0")) * (
        variables.get("GROUP_WORLD_SIZE", "1") == "1"
    )


@contextmanager
def joined(ranks: Ranks, device: torch.device) -> Iterator[torch.device]:
    """Join the other processes in the block; yields the device of this one.

    On a Mac that is the processor: processes cannot share what is on its graphics device.
    """
    if ranks.n == 1:
        yield device
        return
    if device.type == "mps":  # no library of torch.distributed sends what lies there
        device = torch.device("cpu")
    if device.type == "cuda":
        if ranks.local >= torch.cuda.device_count():
            raise UserError(
                f"Process {ranks.local + 1} of this computer has no GPU of its own.",
                expected=f"at most {torch.cuda.device_count()} processes a computer",
                action="Start fewer, or train on the processor with --device cpu.",
            )
        device = torch.device("cuda", ranks.local)
        torch.cuda.set_device(device)
    _meet(ranks, device)
    try:
        yield device
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "Connection" in str(error) or "gloo" in str(error):
            raise UserError(
                "Another process of this run has ended.",
                action="torchrun starts all of them again from the last checkpoint when --max-restarts is "
                "given; otherwise start the same command again.",
            ) from error
        raise
    finally:
        dist.destroy_process_group()


def _meet(ranks: Ranks, device: torch.device) -> None:
    """Find the other processes, at an address unused by an earlier attempt.

    torchrun keeps one store for all attempts unless it is given --standalone or a rendezvous, and a process
    that reads there where a dead one listened waits for it (torch 2.13).
    """
    try:
        store, index, n = next(iter(rendezvous("env://")))
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(f"attempt {ranks.attempt}", store),  # type: ignore[attr-defined]
            rank=index,
            world_size=n,
            device_id=device if device.type == "cuda" else None,
        )
    except RuntimeError as error:
        raise UserError(
            f"Process {ranks.index + 1} of {ranks.n} cannot reach the others: {error}",
            expected="all of them running, each able to connect to the others",
            action="Run the same command again; the run continues from its last checkpoint.",
        ) from error


def rows_of(batch: Batch, low: int, high: int) -> Batch:
    """The rows low…high of a batch, as wide as the whole one."""
    width = (batch.ids if batch.target_ids is None else batch.target_ids).shape[1]
    is_kept = (batch.scored >= low * width) & (batch.scored < high * width)
    n_places = batch.n_places  # so many labels a row, whatever may be pointed to
    links = batch.links
    if links is not None:
        links = links[(links[:, 0] >= low) & (links[:, 0] < high)] - links.new_tensor([low, 0, 0])
    return replace(
        batch,
        ids=batch.ids[low:high],
        scored=batch.scored[is_kept] - low * width,
        labels=batch.labels[low * n_places : high * n_places] if n_places else batch.labels[is_kept],
        valid=None if batch.valid is None else batch.valid[low:high],
        target_ids=None if batch.target_ids is None else batch.target_ids[low:high],
        target_valid=None if batch.target_valid is None else batch.target_valid[low:high],
        segments=None if batch.segments is None else batch.segments[low:high],
        is_next=None if batch.is_next is None else batch.is_next[low:high],
        links=links,
        words=batch.words[low:high],
        valid_on_cpu=None if batch.valid_on_cpu is None else batch.valid_on_cpu[low:high],
    )


class SharedLoss:
    """The loss of a batch, with gradients that are the mean over all processes.

    `module` is the one to train; `compute`, what one process alone computes with, may be a compiled
    `loss_sum`. With `is_sharded` the module comes on the device "meta" and each process holds only its part
    of every weight: `take_parts` hands them out, `gather_into` puts them together.
    """

    def __init__(self, module: OwnModule, ranks: Ranks, device: torch.device, *, is_sharded: bool) -> None:
        self.module = module
        self.is_sharded = is_sharded and ranks.n > 1
        self._ranks = ranks
        self.compute: Callable[[OwnModule, Batch, float], Tensor] = loss_sum
        self._loss = _Loss(module)
        if self.is_sharded:
            _shard(self._loss, ranks.n, device)
            module.to_empty(device=device)
            module.fill_tables()
        self._averaged: LastMade[nn.parallel.DistributedDataParallel] = LastMade()

    def __call__(self, batch: Batch, smoothing: float, *, is_last: bool = True) -> Tensor:
        """The summed loss in nats over this process's rows, times the number of processes.

        Gradients are exchanged when they are `is_last` of a step; before, they add up in each process.
        """
        if self._ranks.n == 1:
            return self.compute(self.module, batch, smoothing)
        if self.is_sharded:
            self._loss.set_requires_gradient_sync(is_last)  # type: ignore[operator]
            return cast("Tensor", self._loss(batch, smoothing)) * self._ranks.n
        averaged = self._averaged.of("the first batch", lambda: _averaging(self._loss, batch))
        with nullcontext() if is_last else averaged.no_sync():
            return cast("Tensor", averaged(batch, smoothing)) * self._ranks.n

    def told(self, batch: Batch, device: torch.device) -> Told:
        """Summed losses and right predictions over a global batch of held-out data, the same for all."""
        ranks, has_enough = self._ranks, len(batch.ids) >= self._ranks.n
        told = Told(0.0, 0.0, 0.0, 0.0)
        if has_enough or ranks.is_writer or self.is_sharded:
            share = (ranks.share(batch) if has_enough else batch).to(device)
            told = self._loss(share, None) if self.is_sharded else loss_and_hits(self.module, share)
        is_counted = has_enough or ranks.is_writer
        return Told(*ranks.totals([value * is_counted for value in told], device))

    @torch.no_grad()
    def take_parts(self, whole: OwnModule) -> None:
        """Take each process's parts of the writer's weights; the others' `whole` may be on "meta".

        Weights go one after the other, so that no process but the writer ever has more than one of them
        whole; every process has to call it.
        """
        values = whole.state_dict()
        for name, parameter in self.module.state_dict().items():
            value = values[name] if self._ranks.is_writer else torch.empty(parameter.shape)
            parameter.copy_(part_like(parameter, value.to(parameter.device)))

    @torch.no_grad()
    def gather_into(self, whole: OwnModule) -> None:
        """Gather the weights of all processes in the writer's module; every process has to call it."""
        values = whole.state_dict() if self.is_sharded and self._ranks.is_writer else {}
        for name, parameter in self.module.state_dict().items() if self.is_sharded else ():
            value = whole_of(parameter)
            if name in values:
                values[name].copy_(value)


def _averaging(loss: "_Loss", batch: Batch) -> nn.parallel.DistributedDataParallel:
    """The loss with averaged gradients of all processes; a batch shows whether it omits parameters."""
    return nn.parallel.DistributedDataParallel(
        loss, find_unused_parameters=_leaves_some_out(loss, batch), gradient_as_bucket_view=True
    )


def whole_of(value: Tensor) -> Tensor:
    """A whole tensor, whose parts may be in several processes; every process has to call it."""
    value = value.detach()
    gather = getattr(value, "full_tensor", None)
    whole: Tensor = value if gather is None else gather()
    return whole


def part_like(parameter: Tensor, whole: Tensor) -> Tensor:
    """This process's part of the writer's whole tensor, sharded like the parameter.

    Of the other processes' tensors only the shape counts; every process has to call it.
    """
    mesh, placements = getattr(parameter, "device_mesh", None), getattr(parameter, "placements", None)
    if mesh is None or placements is None:
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, mesh, placements)


class _Loss(nn.Module):
    """The loss of a batch as a module, as torch's wrappers require."""

    def __init__(self, module: OwnModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: Batch, smoothing: float | None) -> Any:
        """The summed loss in nats; without smoothing, as a number and with the right predictions."""
        if smoothing is None:
            return loss_and_hits(self.module, batch)
        return loss_sum(self.module, batch, smoothing)


def _shard(loss: _Loss, n: int, device: torch.device) -> None:
    """Shard every weight over the processes: each layer is gathered when used, and so is the rest."""
    from torch.distributed.device_mesh import init_device_mesh  # half a second that others need not wait
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (n,))
    for part in loss.module.modules():
        if isinstance(part, nn.ModuleList):
            for layer in part:
                fully_shard(layer, mesh=mesh)
    fully_shard(loss, mesh=mesh)


def _leaves_some_out(loss: _Loss, batch: Batch) -> bool:
    """Whether a weight in training gets no gradient; restores weights, gradients and random states."""
    devices = [batch.ids.device] if batch.ids.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.autograd.backward(loss(batch, 0.0))
    is_partial = any(p.grad is None for p in loss.parameters() if p.requires_grad)
    loss.zero_grad(set_to_none=True)
    return is_partial
