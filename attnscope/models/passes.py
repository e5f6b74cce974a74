"""Runs one of our networks on one text, or on one text twice, without touching its state.

| symbol | meaning                                 | shape                          |
|--------|-----------------------------------------|--------------------------------|
| ids    | token ids; both rows alike when paired  | [1 or 2, n_tokens]             |
| hidden | the stream before the vocabulary        | [1 or 2, n_tokens, d_model]    |

A paired pass holds the same text twice, first without gates, then with them.

Places of a model where something reads the stream or the heads, and changing what is read there.

A *place* is a module and the number of its call in one pass, since one module may serve several layers. Hooks
live only while a `with` block lasts; no weight is touched.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attnscope.models.inputs import Inputs
from attnscope.models.network import HearIds, best_ids, write_greedily
from attnscope.nn import Probe, layer_products, threads_for
from attnscope.nn.own_module import OwnModule


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """One call of a module in a pass."""

    module: nn.Module
    call: int = 0


@contextmanager
def hooked(handles: Iterable[RemovableHandle]) -> Iterator[None]:
    """Hooks that are removed after the block."""
    with ExitStack() as stack:
        for handle in handles:
            stack.enter_context(handle)
        yield


Change = Callable[[Tensor], Tensor]
"""Gives another tensor of the same shape for one that passes by."""


@contextmanager
def changed_reads(changes: Sequence[tuple[CallPlace, Change]]) -> Iterator[None]:
    """Let modules read `change` of their stream; calls are counted from here on."""
    with ExitStack() as stack:
        for module in dict.fromkeys(place.module for place, _ in changes):
            of_calls = {place.call: change for place, change in changes if place.module is module}
            hook = _ReadHook(of_calls)
            stack.enter_context(module.register_forward_pre_hook(hook.before, with_kwargs=True))
        yield


class _ReadHook:
    """Changes a module's input, by the number of the call."""

    def __init__(self, changes: Mapping[int, Change]) -> None:
        self._changes, self._call = changes, 0

    def before(
        self, _: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        change = self._changes.get(self._call)
        self._call += 1
        if change is None:
            return arguments, named
        if arguments:
            return (change(arguments[0]), *arguments[1:]), named
        return arguments, {**named, "hidden_states": change(named["hidden_states"])}


@contextmanager
def evaluating(module: OwnModule) -> Iterator[None]:
    """Evaluation mode without gradients; a model in training returns to it afterwards.

    No random number is drawn, so training goes on exactly as if nobody had looked.
    """
    was_training = module.training
    if was_training:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            module.train()


@contextmanager
def evaluating_tokens(module: OwnModule, n_tokens: int) -> Iterator[None]:
    """Evaluate with the number of threads that pay for so many tokens at once, of all texts together."""
    with evaluating(module), own_threads(module, n_tokens):
        yield


def own_threads(module: OwnModule, n_tokens: int) -> AbstractContextManager[None]:
    """Number of threads that pay for a pass over so many tokens."""
    d, d_ff = module.config.d_model, module.config.d_ff
    return threads_for(layer_products((4 * d + 2 * d_ff) * d, n_tokens))


def hidden_stream(module: OwnModule, inputs: Inputs, probe: Probe | None, *, n_copies: int = 1) -> Tensor:
    """The last stream of the predicting stack: [n_copies, n_tokens, d_model].

    Of a model that tells labels of texts the one row that they are told from: [n_copies, 1, d_model].
    """
    source = ids_tensor(module, inputs.patches or inputs.source.ids, n_copies)
    segments = ids_tensor(module, inputs.segments, n_copies) if inputs.segments else None
    second = None if inputs.target is None else ids_tensor(module, inputs.target.ids, n_copies)
    hidden = module.told_from(source, second=second, segments=segments, pattern=inputs.pattern, probe=probe)
    return hidden[:, None] if module.config.labels_texts else hidden


def continue_text(
    module: OwnModule,
    ids: Sequence[int],
    probe: Probe | None,
    *,
    n_tokens: int,
    end_id: int | None,
    guess: Sequence[int],
) -> list[int]:
    """Continue `ids` with a decoder, by at most `n_tokens` and within its positions."""

    def next_tokens(sequence: Sequence[int], n_last: int) -> list[int]:
        hidden = module.decode(ids_tensor(module, sequence), probe=probe)
        return _best(module, hidden, n_last)

    n_free = min(n_tokens, module.config.max_tokens - len(ids))
    is_causal = module.can_cache
    return write_greedily(next_tokens, ids, n_tokens=n_free, end_id=end_id, guess=guess, is_causal=is_causal)


def translate(
    module: OwnModule,
    source: Sequence[int],
    probe: Probe | None,
    *,
    begin_id: int,
    end_id: int,
    n_tokens: int,
    guess: Sequence[int],
    hear: HearIds | None = None,
) -> list[int]:
    """Translate `source` with an encoder–decoder, without begin and end tokens."""
    memory = module.encode(ids_tensor(module, source), probe=probe)

    def next_tokens(sequence: Sequence[int], n_last: int) -> list[int]:
        hidden = module.decode(ids_tensor(module, sequence), memory=memory, probe=probe)
        return _best(module, hidden, n_last)

    n_free = min(n_tokens, module.config.max_tokens - 1)
    return write_greedily(next_tokens, [begin_id], n_tokens=n_free, end_id=end_id, guess=guess, hear=hear)


def ids_tensor(
    module: OwnModule, ids: Sequence[int] | Sequence[tuple[int, ...]], n_copies: int = 1
) -> Tensor:
    """Ids as int64 [n_copies, n_tokens] on the model's device; of patches [n_copies, n_tokens, n_numbers]."""
    tensor = torch.tensor([list(ids)], dtype=torch.int64, device=module.tokens.weight.device)
    return tensor if n_copies == 1 else tensor.expand(n_copies, *tensor.shape[1:])


def _best(module: OwnModule, hidden: Tensor, n_last: int) -> list[int]:
    best: list[int] = best_ids(module.logits(hidden[0, -n_last:])).tolist()
    return best
