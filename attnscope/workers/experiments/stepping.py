"""The same training in float32, in parts, with blocks computed twice, and in bfloat16.

    symbol   meaning                                                                   shape
    g, g₆₄   gradient of the first step over all weights, and the same in float64      [n_weights]
    error    ‖g − g₆₄‖ / ‖g₆₄‖                                                         one number
    most     bytes of tensors that a step has made and still needs, at its worst moment one number

In parts: each part's loss is the sum over its tokens divided by the tokens of the whole batch, so that the
gradients of the parts add up to that of the batch (`training.accumulate`). In bfloat16 products are rounded
to 8 bits, weights and sums stay in float32 (Micikevicius et al. 2018; Kalamkar et al. 2019).
"""

import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnscope.nn import ModelConfig, Transformer, build_transformer
from attnscope.records.experiments import (
    STEP_WAYS,
    ExperimentNews,
    StepsFinding,
    StepsQuestion,
    StepsRow,
    StepWay,
)
from attnscope.training.descent import autocast_of
from attnscope.workers.experiments import experiment

VOCABULARY = 32
N_STEPS = 20
_RATE = 2e-3
_CHANCE = 0.2
"""The share of tokens that follow no rule: the loss ends above 0."""


@experiment(StepsQuestion)
def measure_steps(question: StepsQuestion) -> Iterator[ExperimentNews]:
    """Yield news after every step, alternating methods: other load slows all alike."""
    exact = gradient_of(question, "whole", torch.float64)
    trained = [_Trained(question, way, exact) for way in STEP_WAYS]
    for n_done, ids in zip(range(1, N_STEPS + 1), batches_of(question), strict=False):
        for one in trained:
            one.step(ids)
        yield ExperimentNews(
            n_done=n_done,
            n_total=N_STEPS,
            finding=StepsFinding(question=question, rows=tuple(one.row() for one in trained)),
            is_done=n_done == N_STEPS,
        )


def new_module(question: StepsQuestion, way: StepWay) -> Transformer:
    """A decoder with the same random weights for every method."""
    config = ModelConfig(
        form="decoder",
        vocab_size=VOCABULARY,
        d_model=question.d_model,
        d_ff=4 * question.d_model,
        n_layers=question.n_layers,
        max_tokens=question.n_tokens,
    )
    module = build_transformer(config, question.seed).train()
    module.is_recomputing = way == "checkpointed"
    return module


def batches_of(question: StepsQuestion) -> Iterator[Tensor]:
    """The texts of one step after another, [batch, n_tokens + 1]: each token usually has its successor."""
    draw = torch.Generator().manual_seed(question.seed)
    follower = torch.randperm(VOCABULARY, generator=draw)
    shape = (question.batch, question.n_tokens + 1)
    while True:
        ids = torch.randint(0, VOCABULARY, shape, generator=draw)
        is_drawn = torch.rand(shape, generator=draw) < _CHANCE
        for t in range(1, shape[1]):
            ids[:, t] = torch.where(is_drawn[:, t], ids[:, t], follower[ids[:, t - 1]])
        yield ids


def add_gradients(module: Transformer, ids: Tensor, question: StepsQuestion, way: StepWay) -> float:
    """Add the gradient of a batch to that of the module, by one method; returns the loss in nats a token."""
    context: Callable[[], AbstractContextManager[object]] = autocast_of(
        "bfloat16" if way == "bfloat16" else "float32", torch.device("cpu")
    )
    n_scored, total = ids[:, 1:].numel(), 0.0
    for part in ids.chunk(question.n_parts if way == "parts" else 1):
        with context():
            logits = module(part[:, :-1]).flatten(0, 1)
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        loss = F.cross_entropy(exact, part[:, 1:].flatten(), reduction="sum") / n_scored
        torch.autograd.backward(loss)
        total += float(loss.detach())
    return total


def gradient_of(question: StepsQuestion, way: StepWay, dtype: torch.dtype = torch.float32) -> Tensor:
    """The gradient of the first batch over all weights, float64 [n_weights]."""
    module = new_module(question, way).to(dtype)
    add_gradients(module, next(batches_of(question)), question, way)
    found = [p.grad for p in module.parameters() if p.grad is not None]
    return torch.cat([gradient.flatten().double() for gradient in found])


class _Trained:
    """A decoder that learns by one method."""

    def __init__(self, question: StepsQuestion, way: StepWay, exact: Tensor) -> None:
        self._question, self._way = question, way
        self._error = float((gradient_of(question, way) - exact).norm() / exact.norm())
        self._most_bytes = _most_bytes(question, way)
        self._module = new_module(question, way)
        self._optimizer = torch.optim.AdamW(self._module.parameters(), lr=_RATE)
        self._losses: list[float] = []
        self._times: list[float] = []

    def step(self, ids: Tensor) -> None:
        begin_s = time.perf_counter()
        self._losses.append(add_gradients(self._module, ids, self._question, self._way))
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._times.append(1e3 * (time.perf_counter() - begin_s))

    def row(self) -> StepsRow:
        """State so far."""
        return StepsRow(
            way=self._way,
            losses=tuple(self._losses),
            step_ms=median(self._times),
            most_bytes=self._most_bytes,
            gradient_error=self._error,
        )


def _most_bytes(question: StepsQuestion, way: StepWay) -> int:
    """Peak bytes of a step's tensors: those stored, those recomputed, and the gradients."""
    module, ids = new_module(question, way), next(batches_of(question))
    live = LiveBytes()
    with live:
        add_gradients(module, ids, question, way)
    return live.most


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hooks untyped
    """Bytes of all live tensors created in the block: `now`, and the `most` so far.

    A storage counts once, from the operation that gave it until nothing holds it. What an operation needs
    inside is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now, self.most = 0, 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation, and count its outputs except its inputs."""
        kwargs = dict(kwargs or {})
        given = [part.untyped_storage() for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
        found = func(*args, **kwargs)
        for part in tree_leaves(found):
            if isinstance(part, Tensor) and all(part.untyped_storage() is not one for one in given):
                self._count(part.untyped_storage())
        return found

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        n_bytes = storage.nbytes()
        self.now += n_bytes
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._let_go, n_bytes).atexit = False

    def _let_go(self, n_bytes: int) -> None:
        self.now -= n_bytes
