"""The way into a model of the library: `attach` finds its sites and proves that entering changed nothing."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.call_sites import Scout, SiteMap, map_sites, probing_calls
from attnscope.models.huggingface.eager import attach_eager, check_layout
from attnscope.models.huggingface.interface import NAME, register, watching
from attnscope.models.huggingface.proof import Example, check_equal, example_of, numbers_of, run_example
from attnscope.models.huggingface.switch import Switch
from attnscope.nn.attention import Probe
from attnscope.records.sites import Site, SiteKey


class Attached(Protocol):
    """A model whose attention can be looked at, and changed if it `has_gates`.

    `note` is what people must know about the maps, empty if nothing. `difference` is how far the model's
    outputs on a tiny input were from those with its own attention, relative to their largest number.
    """

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention module, in order."""
        ...

    @property
    def note(self) -> str:
        """What people must know about the maps."""
        ...

    @property
    def has_gates(self) -> bool:
        """Whether heads can be gated and edited."""
        ...

    @property
    def modules(self) -> Mapping[nn.Module, tuple[SiteKey, ...]]:
        """The sites of each module's calls in one pass; empty where modules are not known."""
        ...

    @property
    def difference(self) -> float:
        """How far outputs were from the model's own."""
        ...

    def probing(self, probe: Probe) -> AbstractContextManager[None]:
        """A context in which each pass of the model shows its attention to `probe`."""
        ...

    def detach(self) -> None:
        """Give the model its own attention back."""
        ...


def attach(model: Any, example: Example | None = None) -> Attached:
    """Enter a model of the transformers library; raises UserError, by name, when it cannot be honoured.

    `example` is a tiny input; without it one is made up. The model's weights and mode stay as they are.
    """
    register()
    check_layout(model)
    example = example_of(model) if example is None else example
    switch = Switch(model)
    with switch.at_reference():
        own = numbers_of(run_example(model, example), example)
    try:
        return _enter(model, example, own, switch)
    except BaseException:
        switch.restore()
        raise


def _enter(model: Any, example: Example, own: dict[str, Tensor], switch: Switch) -> Attached:
    scout = Scout()
    switch.set(NAME)
    reason = ""
    try:
        with watching(scout):
            output = run_example(model, example)
    except UserError as error:
        reason = error.happened.rstrip(".")
    try:
        if scout.calls and not reason:
            difference = check_equal(model, own, numbers_of(output, example))
            return _ThroughInterface(model, map_sites(model, scout.calls), difference, switch)
    except UserError as error:
        reason = error.happened.rstrip(".")
    switch.set("eager")
    return attach_eager(model, example, own, switch, reason)


class _ThroughInterface:
    """A model that calls our attention function."""

    has_gates = True

    def __init__(self, model: Any, found: SiteMap, difference: float, switch: Switch) -> None:
        self.sites, self.note, self.difference = found.sites, found.note, difference
        self.modules = found.of_module
        self._model, self._map, self._switch = model, found, switch

    @contextmanager
    def probing(self, probe: Probe) -> Iterator[None]:
        """See `Attached`."""
        with probing_calls(self._model, self._map, probe):
            yield

    def detach(self) -> None:
        """See `Attached`."""
        self._switch.restore()
