"""Every token of the vocabulary as a head of a library's model would read it, and as its output is told.

An embedding passes, as if it were all of the stream, through what stands before the head: the norm of the
embedding, the product that widens it (ALBERT, ELECTRA), the norm of the layer. Which they are is found by
their numbers on some texts, as in `head_rows.py`: a step is passed when what it gave is what the next one
read. An output's own layer (BERT's) counts with its matrix, as if its activation let everything through.

| symbol   | meaning                                                | shape            |
|----------|--------------------------------------------------------|------------------|
| queries  | embeddings as the matrix of the queries reads them     | [vocab, d_model] |
| keys     | embeddings as the matrices of keys and values read them| [vocab, d_model] |
| outputs  | output weights times norms' weights and a head's matrix| [vocab, d_model] |
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnscope.models.huggingface.anatomy import Anatomy, anatomy_of, is_product, not_known
from attnscope.models.huggingface.head_rows import (
    HeadRows,
    ModuleStep,
    first_tokens,
    matrix_of,
    pass_first_tokens,
    watched_steps,
)
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.norms import is_norm, norm_form
from attnscope.models.places import changed_reads
from attnscope.records.sites import SiteKey, Stack

_ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x,
    functional.gelu,
    partial(functional.gelu, approximate="tanh"),
    torch.relu,
    torch.tanh,
    functional.silu,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenTables:
    """The three tables of one site, float32."""

    queries: Tensor
    keys: Tensor
    outputs: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """One pass: every step of the model, and for some layers what they read and which step came next."""

    steps: list[ModuleStep]
    entered: dict[SiteKey, tuple[int, Tensor]]


@torch.no_grad()
def token_tables(network: HuggingFaceNetwork, site: SiteKey, rows: HeadRows) -> TokenTables:
    """The tables for one site whose matrices are `rows`; raises UserError, by name, where widths differ."""
    anatomy = anatomy_of(network)
    reading = _read(network, anatomy)
    stack: Stack = "decoder" if site[0] == "cross" else site[0]
    start, _ = reading.entered[(stack, site[1])]
    own = _entered(network, anatomy, reading, stack)
    queries = _through(own, reading.steps[start:], rows.query_input)
    if site[0] == "cross":
        outside = [step for step in reading.steps if step.module not in _inside(anatomy)]
        keys = _through(_entered(network, anatomy, reading, "encoder"), outside, rows.key_input)
    else:
        keys = _through(own, reading.steps[start:], rows.key_input)
    outputs = _outputs(network, anatomy, reading.steps)
    found = (queries.shape[1], keys.shape[1], outputs.shape[1])
    if found != (rows.q.shape[2], rows.k.shape[2], rows.o.shape[1]):
        raise not_known(network, "its embeddings are of another width than its stream")
    return TokenTables(queries=queries, keys=keys, outputs=outputs)


def _read(network: HuggingFaceNetwork, anatomy: Anatomy) -> _Reading:
    entered: dict[SiteKey, tuple[int, Tensor]] = {}
    with watched_steps(network.module) as steps:

        def enter(key: SiteKey, x: Tensor) -> Tensor:
            entered[key] = (len(steps), x[:, 0].clone())
            return x

        changes = [(place, partial(enter, key)) for key, place in anatomy.blocks.items()]
        with changed_reads(changes):
            pass_first_tokens(network)
    return _Reading(steps, entered)


def _inside(anatomy: Anatomy) -> set[nn.Module]:
    """Everything inside the layers."""
    return {part for place in anatomy.blocks.values() for part in place.module.modules()}


def _entered(network: HuggingFaceNetwork, anatomy: Anatomy, reading: _Reading, stack: Stack) -> Tensor:
    """Every embedding as it enters the first layer when there are no positions."""
    table = _embedding(network, stack)
    ids = torch.arange(table.weight.shape[0], device=network.device)
    every: Tensor = table(ids[None])[0].float()
    _, first = reading.entered[(stack, min(layer for name, layer in anatomy.blocks if name == stack))]
    passed = list(_passed(first, [step for step in reading.steps if step.module not in _inside(anatomy)]))
    if passed:
        for step in reversed(passed):
            if step.read.shape[1] != every.shape[1]:
                return every
            every = step.module(every)
        return every
    own = every[first_tokens(network, stack)[:, 0]]
    if own.shape == first.shape:
        factor = float((own * first).sum() / own.square().sum().clamp(min=1e-12))
        if torch.allclose(own * factor, first.float(), rtol=1e-4, atol=1e-6):
            return every * factor
    return every


def _passed(wanted: Tensor, steps: list[ModuleStep]) -> Iterator[ModuleStep]:
    """The norms and products that gave some numbers, one before the other, the last one first."""
    found: ModuleStep | None = None
    for step in reversed(steps):
        if step.given.shape == wanted.shape and torch.equal(step.given, wanted):
            found, wanted = step, step.read
            yield found


def _embedding(network: HuggingFaceNetwork, stack: Stack) -> Any:
    model = network.module
    if network.form != "encoder-decoder":
        return model.get_input_embeddings()
    part = model.get_encoder() if stack == "encoder" else model.get_decoder()
    return part.get_input_embeddings()


def _through(table: Tensor, steps: list[ModuleStep], wanted: Tensor) -> Tensor:
    """The table through the norm that gave what a matrix read; as it is where no norm did."""
    for step in steps:
        if is_norm(step.module) and step.given.shape == wanted.shape and torch.equal(step.given, wanted):
            return step.module(table) if table.shape[1] == wanted.shape[1] else table
    return table


def _outputs(network: HuggingFaceNetwork, anatomy: Anatomy, steps: list[ModuleStep]) -> Tensor:
    """Output weights with what stands before them: norms' weights, and products of the head's own layer."""
    model, inside = network.module, _inside(anatomy)
    head = model.get_output_embeddings()
    if head is None or not is_product(head):
        raise not_known(network, "its output is not a product of its stream")
    rows: Tensor = head.weight.detach().float()
    wanted = next(step.read for step in reversed(steps) if step.module is head)
    for step in reversed(steps):
        if step.module is head or step.module in inside or step.given.shape != wanted.shape:
            continue
        if is_norm(step.module) and _is_multiple(wanted, step.given):
            form = norm_form(step.module, step.read, step.given)
            if form is None:
                raise not_known(network, "its last norm has a form of its own")
            rows = rows if form.weight is None else rows * form.weight
            rows = rows - rows.mean(dim=-1, keepdim=True) if form.is_centred else rows
            wanted = step.read
        elif is_product(step.module) and _is_activated(wanted, step.given):
            rows, wanted = rows @ matrix_of(step.module).float(), step.read
    return rows


def _is_activated(x: Tensor, of: Tensor) -> bool:
    """Whether `x` is `of`, as it is or through an activation that the library uses in a head."""
    return any(torch.allclose(x, activated(of), rtol=1e-4, atol=1e-6) for activated in _ACTIVATIONS)


def _is_multiple(x: Tensor, of: Tensor) -> bool:
    factor = float((x * of).sum() / of.square().sum().clamp(min=1e-12))
    return factor > 0 and torch.allclose(x, of * factor, rtol=1e-4, atol=1e-6)
