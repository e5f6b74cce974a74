"""A step's forward and backward pass as one CUDA graph, for models so small that calls cost more than work.

A graph is captured once, in about a second, and replayed for every batch of the same shape: one call in the
place of hundreds (PyTorch documentation, "CUDA semantics", section "CUDA Graphs"). Weights, gradients and
the batch stay where they were in memory, so gradients are zeroed and not let go, and each batch is copied
into the place of the first. A batch of another shape is computed as without a graph, and adds to the same
gradients. The optimiser, clipping and the learning rate are outside. Random numbers of a replay begin at the
seed that was set before it (pytorch/pytorch pull request 84967), so that a resumed run draws the same.

Before it is used a graph proves itself on a second batch: its loss and gradients must be those of a plain
pass. The steps here are tested with a stand-in for the graph; on a GPU they have not run yet.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor

from attnscope.training.distributed import SharedLoss
from attnscope.training.objectives import Batch, pack, unpack
from attnscope.training.recipe import Recipe

WARM_UPS = 3
"""Passes before the capture: libraries choose their kernels and workspaces in the first ones."""
_LOSS_TOLERANCE, _GRADIENT_TOLERANCE = 1e-4, 1e-3
"""Of the loss, and of the gradient's length: atomic sums of a GPU differ by 1e-6, a wrong graph by more."""
Shape = tuple[object, ...]


class Recorder(Protocol):
    """What makes a graph of some work on a device."""

    def warm_up(self, work: Callable[[], Tensor]) -> None:
        """Do the work some times, apart from everything else that the device does."""
        ...

    def capture(self, work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Note what the work asks of the device without doing it: what does it, and where its result is."""
        ...


class CudaRecorder:
    """`torch.cuda.CUDAGraph`, warmed up and captured on one stream of its own (what ROCm needs)."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def warm_up(self, work: Callable[[], Tensor]) -> None:
        """See `Recorder`."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """See `Recorder`; other threads may use the device meanwhile."""
        graph, usual = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                result = work()
        finally:
            torch.cuda.set_stream(usual)  # a capture that fails leaves its own
        return graph.replay, result


class StepGraph:
    """The loss and the gradients of batches of one shape, replayed."""

    def __init__(self, batch: Batch, place: Tensor, n_scored: Tensor) -> None:
        self._shape, self._place, self._n_scored = shape_of(batch), place, n_scored
        self._replay: Callable[[], None] = _nothing
        self._loss = n_scored

    def fits(self, batch: Batch) -> bool:
        """Whether a batch, on the CPU, has the shape that was captured."""
        return shape_of(batch) == self._shape

    def take(self, batch: Batch, n_scored: int) -> None:
        """Put a batch, on the CPU, where the graph reads it; `n_scored` is what its loss is divided by."""
        is_pinned = self._place.device.type == "cuda"
        self._place.copy_(pack(batch, is_pinned=is_pinned), non_blocking=is_pinned)
        self._n_scored.fill_(n_scored)

    def record(self, recorder: Recorder, work: Callable[[], Tensor]) -> None:
        """Capture the work, which must read the place and add to gradients that are there."""
        self._replay, self._loss = recorder.capture(work)

    def run(self, batch: Batch, n_scored: int) -> Tensor:
        """Add a batch's gradients to those that are there; its loss over `n_scored`, a tensor of its own."""
        self.take(batch, n_scored)
        self._replay()
        return self._loss.detach().clone()


def shape_of(batch: Batch) -> Shape:
    """Equal for batches that the same graph computes."""
    named = (batch.ids, batch.scored, batch.labels, batch.valid, batch.target_ids, batch.target_valid)
    shapes = [None if t is None else t.shape for t in (*named, batch.segments, batch.is_next)]
    return (*shapes, batch.pair_weight, batch.gates is None)


def wants_graph(recipe: Recipe, device: torch.device, n_processes: int = 1) -> bool:
    """Whether a recipe's steps can be captured: nothing in them may wait for the device or look at values."""
    model, training = recipe.model, recipe.training
    is_plain = not (training.checkpointing or recipe.gates.l0_penalty or model.is_recurrent)
    is_plain = is_plain and not recipe.objective.guided_head
    is_alone = n_processes == 1 and model.pooling != "hierarchical"
    return device.type == "cuda" and training.compile != "off" and is_plain and is_alone


def capture_step(
    loss_of: SharedLoss,
    batches: tuple[Batch, Batch],
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    smoothing: float,
    recorder: Recorder | None = None,
) -> tuple[StepGraph | None, str]:
    """The graph of a step, and a note how it went; None where the two batches differ in shape or it fails.

    Both are on the CPU: the first is captured, the second proves it. Weights and the CPU's dice stay as they
    were; with a graph, gradients are there afterwards and 0, for the weights that get some.
    """
    first, second = batches
    if shape_of(first) != shape_of(second):
        return None, ""
    module = loss_of.module.train()
    state = torch.get_rng_state()
    try:
        graph = _captured(loss_of, first, device, autocast, smoothing, recorder or CudaRecorder(device))
        is_proved = _is_proved(graph, loss_of, second, device, autocast, smoothing)
    except (RuntimeError, NotImplementedError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        graph, is_proved, note = None, False, f"No CUDA graph: {lines[0][:200]}"
    else:
        note = "" if is_proved else "No CUDA graph: its gradients were not those of a plain step."
    finally:
        torch.set_rng_state(state)
        module.zero_grad(set_to_none=False)
    if graph is None or not is_proved:
        module.zero_grad(set_to_none=True)
        return None, note
    return graph, "Steps are replayed as one CUDA graph."


def _captured(
    loss_of: SharedLoss,
    batch: Batch,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    smoothing: float,
    recorder: Recorder,
) -> StepGraph:
    place = pack(batch).to(device)
    n_scored = torch.ones((), device=device)
    graph = StepGraph(batch, place, n_scored)

    def work() -> Tensor:
        with autocast():
            loss = loss_of(unpack(batch, place), smoothing) / n_scored
        torch.autograd.backward(loss)
        return loss.detach()

    graph.take(batch, max(1, len(batch.labels)))
    recorder.warm_up(work)
    graph.record(recorder, work)
    return graph


def _is_proved(
    graph: StepGraph,
    loss_of: SharedLoss,
    batch: Batch,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    smoothing: float,
) -> bool:
    """Whether a replay gives what a plain pass gives, with the same dice."""
    module, n_scored = loss_of.module, max(1, len(batch.labels))
    learning = [p for p in module.parameters() if p.requires_grad]
    module.zero_grad(set_to_none=False)
    torch.manual_seed(0)
    with autocast():
        plain = loss_of(batch.to(device), smoothing) / n_scored
    torch.autograd.backward(plain)
    expected = [None if p.grad is None else p.grad.clone() for p in learning]
    module.zero_grad(set_to_none=False)
    torch.manual_seed(0)
    loss = graph.run(batch, n_scored)
    pairs = [(p.grad, old) for p, old in zip(learning, expected, strict=True) if p.grad is not None]
    apart = torch.stack([(new - old).norm() for new, old in pairs if old is not None]).norm()
    size = torch.stack([old.norm() for _, old in pairs if old is not None]).norm()
    is_same_loss = (loss - plain.detach()).abs() <= _LOSS_TOLERANCE * plain.detach().abs()
    return bool(is_same_loss & (apart <= _GRADIENT_TOLERANCE * size))


def _nothing() -> None:
    """There is no graph yet."""
