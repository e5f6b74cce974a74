"""Watching one pass: what places (`models/places.py`) read and gave in it, as float64.

What is watched is what the model itself computed, in its own precision.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnscope.analysis.reading import first_tensor
from attnscope.errors import NotFiniteError, UserError
from attnscope.models.places import CallPlace
from attnscope.nn.block import one_stream
from attnscope.nn.precision import exact
from attnscope.nn.transformer import Transformer
from attnscope.questions.question import Numbers


class WatchedPass:
    """What places read and gave in one pass, of the last text of the batch; float64 [n_tokens, n]."""

    def __init__(self) -> None:
        self.read_at: dict[CallPlace, Tensor] = {}
        self.given_at: dict[CallPlace, Tensor] = {}

    def read(self, place: CallPlace) -> Numbers:
        """What a place read; raises UserError where the pass never came there."""
        return self._of(self.read_at, place)

    def given(self, place: CallPlace) -> Numbers:
        """What a place gave."""
        return self._of(self.given_at, place)

    def is_read(self, place: CallPlace, x: Numbers) -> bool:
        """Whether a place read exactly this stream."""
        return place in self.read_at and np.array_equal(self.read(place), x)

    def _of(self, found: Mapping[CallPlace, Tensor], place: CallPlace) -> Numbers:
        if place not in found:
            raise UserError(
                f"A part of the model ({type(place.module).__name__}) was not used on this text.",
                expected="a model that uses each of its layers",
            )
        numbers: Numbers = exact(known_finite(found[place])).cpu().numpy()
        return numbers.reshape(-1, numbers.shape[-1])


@contextmanager
def watched(*, reads: Sequence[CallPlace] = (), gives: Sequence[CallPlace] = ()) -> Iterator[WatchedPass]:
    """What places read and give in the pass that follows."""
    seen = WatchedPass()
    with ExitStack() as stack:
        for module in dict.fromkeys(place.module for place in (*reads, *gives)):
            read = {place.call: place for place in reads if place.module is module}
            given = {place.call: place for place in gives if place.module is module}
            before, after = _hooks(seen, read, given)
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(after).remove)
        yield seen


def _hooks(
    seen: WatchedPass, read: Mapping[int, CallPlace], given: Mapping[int, CallPlace]
) -> tuple[Callable[..., None], Callable[..., None]]:
    calls: Counter[str] = Counter()

    def before(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        place = read.get(calls["read"])
        calls["read"] += 1
        if place is not None:
            stream = arguments[0] if arguments else named["hidden_states"]
            seen.read_at[place] = _last_text(one_stream(module, stream))

    def after(module: nn.Module, __: object, result: object) -> None:
        place = given.get(calls["given"])
        calls["given"] += 1
        if place is not None:
            seen.given_at[place] = _last_text(one_stream(module, first_tensor(result)))

    return before, after


def _last_text(x: Tensor) -> Tensor:
    """The last text of a batch; layers that flatten one text give its tokens row by row."""
    return (x if x.ndim < 3 else x[-1]).detach()


def row_by_row(seen: WatchedPass, place: CallPlace | None, n_tokens: int) -> Numbers | None:
    """What a place read, where that is a row for each token."""
    found = None if place is None else seen.read(place)
    return found if found is not None and len(found) == n_tokens else None


@contextmanager
def norms_behind(
    seen: WatchedPass, places: Sequence[CallPlace], norms: Iterable[nn.Module]
) -> Iterator[dict[CallPlace, Tensor]]:
    """A table of what norms make of the very tensors that places give."""
    found: dict[CallPlace, Tensor] = {}

    def after(_: nn.Module, arguments: tuple[Any, ...], result: Tensor) -> None:
        for place in places:
            given = seen.given_at.get(place)
            if arguments and given is not None and given.data_ptr() == arguments[0].data_ptr():
                found[place] = _last_text(result)

    with ExitStack() as stack:
        for norm in norms:
            stack.callback(norm.register_forward_hook(after).remove)
        yield found


def is_norm_of(x: Numbers, read: Numbers, given: Numbers) -> bool:
    """Whether a norm is of rows such as those of x, and changes them."""
    return read.shape == given.shape == x.shape and not np.array_equal(read, given)


@contextmanager
def last_read(module: nn.Module | None) -> Iterator[list[Numbers]]:
    """A list that gets what a module reads, row by row."""
    kept: list[Numbers] = []

    def before(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments:
            kept.append(numbers_by_row(arguments[0].reshape(-1, arguments[0].shape[-1])))

    handle = None if module is None else module.register_forward_pre_hook(before)
    try:
        yield kept
    finally:
        if handle is not None:
            handle.remove()


@contextmanager
def found_weights(module: Transformer) -> Iterator[list[Tensor]]:
    """A list that gets the weights by which the next pass copies, [B, H, T, S]; nothing without heads."""
    kept: list[Tensor] = []

    def after(_: nn.Module, __: object, choices: dict[str, Any], ___: object) -> None:
        kept.extend(choices["found"])

    handle = module.decoder[-1].get_submodule("cross").register_forward_hook(after, with_kwargs=True)
    try:
        yield kept
    finally:
        handle.remove()


def learned_numbers(tensor: Tensor) -> Numbers:
    """What a model learned, float64."""
    numbers: Numbers = exact(tensor.detach()).cpu().numpy()
    return numbers


def numbers_of_text(tensor: Tensor) -> Numbers:
    """What was computed for one text, float64, without the axis of the batch."""
    numbers: Numbers = exact(known_finite(tensor.detach()))[0].cpu().numpy()
    return numbers


def numbers_by_row(tensor: Tensor) -> Numbers:
    """What was computed row by row, float64; −inf where a mask forbids a score."""
    numbers: Numbers = exact(tensor.detach()).cpu().numpy()
    return numbers


def known_finite(found: Tensor) -> Tensor:
    """What a part of the model computed; raises NotFiniteError where it is NaN or infinite."""
    if bool(torch.isfinite(found).all()):
        return found
    raise NotFiniteError(
        "What the model computes on this text is not finite: parts of it are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


def routes_of(result: Any, n_tokens: int) -> tuple[Numbers, Numbers]:
    """The weights of experts and p, both [n_tokens, n_experts], of what a router of the library gave.

    Most give logits, the weights of the k best and their numbers; Switch gives one-hot rows, of which those
    beyond an expert's capacity are 0, the weight, and logits.
    """
    first, second, third = result
    if third.is_floating_point():
        logits, weights = third, first.to(second.dtype) * second
    else:
        logits = first
        weights = torch.zeros_like(logits, dtype=second.dtype).scatter(-1, third, second)
    rows = [exact(one).reshape(-1, one.shape[-1])[-n_tokens:].cpu() for one in (weights, logits)]
    return known_finite(rows[0]).numpy(), known_finite(rows[1].softmax(dim=-1)).numpy()


@contextmanager
def routed(routers: Mapping[int, nn.Module]) -> Iterator[dict[int, Any]]:
    """What each router gives in the pass that follows; raises UserError for one that is not known."""
    seen: dict[int, Any] = {}

    def note(layer: int, module: nn.Module, result: Any) -> None:
        is_known = isinstance(result, tuple) and len(result) == 3
        if not is_known or not all(isinstance(one, Tensor) for one in result):
            raise UserError(
                f"How {type(module).__name__} chooses experts is not known.",
                expected="a router that gives its logits, weights and the chosen experts",
            )
        seen[layer] = tuple(one.detach() for one in result)

    with ExitStack() as stack:
        for layer, module in routers.items():
            hook = module.register_forward_hook(lambda part, _, out, at=layer: note(at, part, out))
            stack.callback(hook.remove)
        yield seen
