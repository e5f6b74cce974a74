"""Places of a model where something reads the stream or the heads, and changing what is read there.

A *place* is a module and the number of its call in one pass, since one module may serve several layers. Hooks
live only while a `with` block lasts; no weight is touched.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """One call of a module in a pass."""

    module: nn.Module
    call: int = 0


Change = Callable[[Tensor], Tensor]
"""Gives another tensor of the same shape for one that passes by."""


@contextmanager
def changed_reads(changes: Sequence[tuple[CallPlace, Change]]) -> Iterator[None]:
    """Let places read `change` of their stream; calls are counted from here on."""
    with ExitStack() as stack:
        for module in dict.fromkeys(place.module for place, _ in changes):
            of_calls = {place.call: change for place, change in changes if place.module is module}
            hook = _ReadHook(of_calls)
            handle = module.register_forward_pre_hook(hook.before, with_kwargs=True)
            stack.callback(handle.remove)
        yield


class _ReadHook:
    """Changes what a module reads, by the number of the call."""

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
