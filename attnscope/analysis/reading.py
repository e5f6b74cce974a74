"""Reading one text with a model while something watches what flows through it.

| symbol | meaning                                            | shape                          |
|--------|----------------------------------------------------|--------------------------------|
| stream | what a block reads; one more after the last block  | [n_blocks + 1, n_tokens, d]    |
| joined | head outputs side by side, of one site             | [n_tokens, n_heads · d_head]   |

Hooks live only while a `with` block lasts; no weight is touched.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnscope.analysis.batches import NOT_SCORED
from attnscope.analysis.model_adapter import OwnSubject, TokenBatch
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.nn.block import one_stream
from attnscope.records.sites import SiteKey, Stack
from attnscope.records.tokens import Token


def read_text(model: Model, text: str, target: str | None = None) -> tuple[Inputs, TokenBatch]:
    """One text as tokens and as a batch of one in which nothing is scored."""
    inputs = model.encode(text, target)
    return inputs, batch_of(inputs, model.device)


def batch_of(inputs: Inputs, device: torch.device, n_copies: int = 1) -> TokenBatch:
    """Some copies of one text as a batch in which nothing is scored."""
    source = torch.tensor([inputs.patches or inputs.source.ids], device=device)
    ids = source.expand(n_copies, *source.shape[1:])
    target = None
    if inputs.target is not None:
        target = torch.tensor([inputs.target.ids], device=device).expand(n_copies, -1)
    segments = None
    if any(inputs.segments):
        segments = torch.tensor([inputs.segments], device=device).expand(n_copies, -1)
    n_told = len(predicting_tokens(inputs))
    labels = torch.full((n_copies, n_told), NOT_SCORED, device=device)
    return TokenBatch(ids=ids, labels=labels, target_ids=target, segments=segments)


def predicting_tokens(inputs: Inputs) -> tuple[Token, ...]:
    return inputs.source.tokens if inputs.target is None else inputs.target.tokens


def tokens_of_stack(inputs: Inputs, stack: Stack) -> tuple[Token, ...]:
    return (inputs.source if stack != "decoder" or inputs.target is None else inputs.target).tokens


@contextmanager
def watched_streams(subject: OwnSubject, stack: Stack) -> Iterator[list[Tensor]]:
    """A list that fills with the streams of a stack, [batch, n_tokens, d], as a pass goes on."""
    blocks = subject.blocks(stack)
    streams: list[Tensor] = []

    def before(block: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        streams.append(one_stream(block, arguments[0]).detach())

    def after(block: nn.Module, arguments: object, result: object) -> None:
        streams.append(one_stream(block, first_tensor(result)).detach())

    handles = [block.register_forward_pre_hook(before) for block in blocks]
    handles += [block.register_forward_hook(after) for block in blocks[-1:]]
    try:
        yield streams
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watched_heads(subject: OwnSubject, sites: Iterable[SiteKey]) -> Iterator[dict[SiteKey, Tensor]]:
    """A table that fills with the joined head outputs of sites, [batch, n_tokens, H · D]."""
    joined: dict[SiteKey, Tensor] = {}

    def watch(site: SiteKey) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def before(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            joined[site] = arguments[0].detach()

        return before

    handles = [subject.projection(site).register_forward_pre_hook(watch(site)) for site in sites]
    try:
        yield joined
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(result: object) -> Tensor:
    """The stream among what a block returns."""
    found = result[0] if isinstance(result, Sequence) else result
    if not isinstance(found, Tensor):
        raise TypeError(f"a block returned {type(found).__name__}")
    return found
