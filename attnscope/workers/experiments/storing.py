"""Memory that training keeps for its gradients against depth: plain and reversible layers.

    symbol   meaning                                                             shape
    kept     bytes that autograd holds once the loss is known                    one number
    most     bytes that it holds at the worst moment of the backward pass        one number
    error    max |x̂ − x| / max |x| of what a layer read, found from what it gave [n_layers]

Every tensor that an operation saves goes through the hooks of autograd: a storage counts once, from the first
that saves it until the last lets it go; weights do not count. Error is the larger of both streams'.
"""

import time
from collections.abc import Iterator
from statistics import median
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn import ModelConfig, Transformer, build_rule, build_transformer
from attnscope.nn.block import Block, additions_of
from attnscope.records.experiments import (
    KEEPINGS,
    ExperimentNews,
    Keeping,
    StoreFinding,
    StoreQuestion,
    StoreRow,
)
from attnscope.workers.experiments import experiment

VOCABULARY, BATCH = 16, 8
_N_TIMED = 3


@experiment(StoreQuestion)
def measure_stores(question: StoreQuestion) -> Iterator[ExperimentNews]:
    """Yield news after every model; the shallow ones first."""
    depths = [n for n in (1, 2, 4, 8, 12, 16, 24) if n <= question.n_layers]
    rows: list[StoreRow] = []
    for n_layers in depths:
        for keeping in KEEPINGS:
            rows.append(measured(question, keeping, n_layers))
            is_done = len(rows) == len(depths) * len(KEEPINGS)
            yield ExperimentNews(
                n_done=len(rows),
                n_total=len(depths) * len(KEEPINGS),
                finding=StoreFinding(
                    question=question,
                    rows=tuple(rows),
                    errors=errors_of(question, torch.float32) if is_done else (),
                    wide_errors=errors_of(question, torch.float64) if is_done else (),
                ),
                is_done=is_done,
            )


def new_module(question: StoreQuestion, keeping: Keeping, n_layers: int) -> Transformer:
    """A decoder with random weights."""
    config = ModelConfig(
        form="decoder",
        vocab_size=VOCABULARY,
        d_model=question.d_model,
        d_ff=4 * question.d_model,
        n_layers=n_layers,
        max_tokens=question.n_tokens,
        residual=keeping,
        dropout=question.dropout,
    )
    return build_transformer(config, question.seed).train()


def measured(question: StoreQuestion, keeping: Keeping, n_layers: int) -> StoreRow:
    """One model: its memory in a step, and the median time of some steps without counting."""
    module = new_module(question, keeping, n_layers)
    draw = torch.Generator().manual_seed(question.seed)
    ids = torch.randint(0, VOCABULARY, (BATCH, question.n_tokens + 1), generator=draw)

    def loss() -> Tensor:
        return F.cross_entropy(module(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    ledger = Ledger({p.untyped_storage().data_ptr() for p in [*module.parameters(), *module.buffers()]})
    with torch.autograd.graph.saved_tensors_hooks(ledger.pack, ledger.unpack):
        found = loss()
        kept = ledger.now
        torch.autograd.backward(found)
    times = []
    for _ in range(_N_TIMED):
        started = time.perf_counter()
        torch.autograd.backward(loss())
        times.append(1e3 * (time.perf_counter() - started))
    return StoreRow(
        keeping=keeping, n_layers=n_layers, kept_bytes=kept, most_bytes=ledger.most, step_ms=median(times)
    )


@torch.no_grad()
def errors_of(question: StoreQuestion, dtype: torch.dtype) -> tuple[float, ...]:
    """The error of the recomputed input, layer by layer."""
    module = new_module(question, "reversible", question.n_layers).to(dtype)
    rule = build_rule(is_causal=True, key_valid=None)
    additions = additions_of(cast("tuple[Block, ...]", tuple(module.decoder)), {"rule": rule})
    draw = torch.Generator().manual_seed(question.seed)
    shape = (2, BATCH, question.n_tokens, question.d_model)
    a, b = torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype)
    read = []
    for seed, addition in enumerate(additions):
        read.append((a, b))
        a, b = addition.ahead(a, b, seed)
    found: list[float] = []
    for seed, addition in reversed([*enumerate(additions)]):
        a, b = addition.back(a, b, seed)
        pairs = zip((a, b), read[seed], strict=True)
        found.append(max(float((again - x).abs().max() / x.abs().max()) for again, x in pairs))
    n_branches = len(additions) // question.n_layers
    return tuple(found[::-1][::n_branches])  # at the input of each layer


class Ledger:
    """Bytes held by autograd: `now`, and the `most` so far."""

    def __init__(self, weights: set[int]) -> None:
        self.now, self.most = 0, 0
        self._weights, self._holders = weights, dict[int, int]()

    def pack(self, tensor: Tensor) -> "Tensor | _Held":
        """Replace a tensor for autograd."""
        if tensor.untyped_storage().data_ptr() in self._weights:
            return tensor
        return _Held(self, tensor)

    def unpack(self, held: "Tensor | _Held") -> Tensor:
        return held.tensor if isinstance(held, _Held) else held

    def note(self, tensor: Tensor, holders: int) -> None:
        """Count one holder more, or less."""
        storage = tensor.untyped_storage()
        before = self._holders.get(storage.data_ptr(), 0)
        self._holders[storage.data_ptr()] = before + holders
        if before == 0 or before + holders == 0:
            self.now += holders * storage.nbytes()
        self.most = max(self.most, self.now)


class _Held:
    """A tensor counted for as long as this object lives."""

    def __init__(self, ledger: Ledger, tensor: Tensor) -> None:
        self.tensor, self._ledger = tensor.detach(), ledger
        ledger.note(tensor, 1)

    def __del__(self) -> None:
        self._ledger.note(self.tensor, -1)
