"""The way into a model of the library: `attach` finds its sites and proves that entering changed nothing.

Sites are found by watching a tiny text go through: a call whose queries and keys differ in number is
cross attention, one that never looks ahead belongs to a decoder, any other to an encoder. Its layer is the
module's own `layer_idx` where that names every call of the stack, else the order of the calls, so that one
module that serves all layers (ALBERT) has as many sites as calls.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.eager import AttentionSwitch, attach_eager, check_layout
from attnscope.models.huggingface.interface import NAME, register, watching
from attnscope.models.huggingface.proof import Example, check_equal, example_of, numbers_of, run_example
from attnscope.nn.attention import Probe
from attnscope.nn.edits import Call
from attnscope.records.sites import STACKS, Site, SiteKey, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenCall:
    """One attention call of a pass, in words and numbers."""

    module: nn.Module
    stack: Stack
    n_heads: int
    n_kv_heads: int


class _Scout:
    """Takes down every call of a pass and probes none."""

    probe: Probe | None = None

    def __init__(self) -> None:
        self.calls: list[_SeenCall] = []

    def site(self, module: nn.Module, call: Call) -> None:
        seen = _SeenCall(
            module=module,
            stack=_stack_of(call),
            n_heads=call.q.shape[1],
            n_kv_heads=call.k.shape[1],
        )
        self.calls.append(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SiteMap:
    """The sites of a model, and for each module the sites of its calls in their order."""

    sites: tuple[Site, ...]
    of_module: Mapping[nn.Module, tuple[SiteKey, ...]]
    parts: Mapping[nn.Module, tuple[nn.Module, ...]]
    """What the library counts as a model of its own, the whole among them, and what attends in each."""
    note: str


def _map_sites(model: Any, calls: list[_SeenCall]) -> _SiteMap:
    names = {module: name for name, module in model.named_modules()}
    sites: list[Site] = []
    of_module: dict[nn.Module, list[SiteKey]] = {}
    notes = [_missing_layers(model, calls, names), _tower_note(calls, names)]
    for stack in STACKS:
        own = [call for call in calls if call.stack == stack]
        layers = [getattr(call.module, "layer_idx", None) for call in own]
        is_named = all(isinstance(layer, int) for layer in layers) and len(set(layers)) == len(layers)
        if not is_named:
            notes.append(_order_note(stack, [names.get(call.module, "") for call in own]))
        for place, (call, layer) in enumerate(zip(own, layers, strict=True)):
            number = layer if is_named and layer is not None else place
            site = Site(stack=stack, layer=number, n_heads=call.n_heads, n_kv_heads=call.n_kv_heads)
            sites.append(site)
            of_module.setdefault(call.module, []).append(site.key)
    sites.sort(key=lambda site: (STACKS.index(site.stack), site.layer))
    return _SiteMap(
        sites=tuple(sites),
        of_module={module: tuple(keys) for module, keys in of_module.items()},
        parts={
            part: tuple(module for module in part.modules() if module in of_module)
            for part in model.modules()
            if part is model or hasattr(part, "main_input_name")
        },
        note=" ".join(note for note in notes if note),
    )


class SitePass:
    """Names the site of each call while a model runs; counts the calls of each module from pass to pass."""

    def __init__(self, found: _SiteMap, probe: Probe) -> None:
        self.probe: Probe | None = probe
        self._map = found
        self._n_calls: Counter[nn.Module] = Counter()

    def begin(self, part: nn.Module) -> None:
        for module in self._map.parts[part]:
            self._n_calls.pop(module, None)

    def site(self, module: nn.Module, call: Call) -> SiteKey:
        """The site of this call; raises UserError for one that was not seen when the model was entered."""
        keys = self._map.of_module.get(module, ())
        count = self._n_calls[module]
        if count >= len(keys):
            raise UserError(
                f"{type(module).__name__} attends more often on this input than on the small test input.",
                expected=f"{len(keys)} calls in one pass",
                action="This input cannot be traced.",
            )
        self._n_calls[module] += 1
        return keys[count]


@contextmanager
def _probing_calls(found: _SiteMap, probe: Probe) -> Iterator[None]:
    """Show the sites of every pass through a model, or through a part of it, to `probe`.

    A pass is the outermost call of a part that the library counts as a model of its own.
    """
    watcher = SitePass(found, probe)
    depth = 0

    def enter(part: nn.Module, _: Any) -> None:
        nonlocal depth
        if depth == 0:
            watcher.begin(part)
        depth += 1

    def leave(*_: Any) -> None:
        nonlocal depth
        depth -= 1

    hooks = [part.register_forward_pre_hook(enter, prepend=True) for part in found.parts]
    hooks += [part.register_forward_hook(leave, always_call=True) for part in found.parts]
    try:
        with watching(watcher):
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _stack_of(call: Call) -> Stack:
    n_queries, n_keys = call.q.shape[2], call.k.shape[2]
    if n_queries != n_keys:
        return "cross"
    allowed = call.rule.allowed(n_queries, n_keys, device=call.q.device)
    return "encoder" if n_queries == 1 or bool(allowed.triu(diagonal=1).any()) else "decoder"


def _order_note(stack: Stack, names: list[str]) -> str:
    """What the layers of a stack are when several parts of the model share it, or layers attend twice."""
    kinds = [re.sub(r"\d+", "#", name) for name in names]
    how = f"In the stack '{stack}' layers are counted in the order of their calls"
    if len(set(kinds)) < 2:
        return f"{how}: some attend more than once." if 1 < len(set(names)) < len(names) else ""
    parts = []
    start = 0
    for place in range(1, len(kinds) + 1):
        if place == len(kinds) or kinds[place] != kinds[start]:
            label = f"L{start}" if place - start == 1 else f"L{start}–L{place - 1}"
            parts.append(f"{label} {kinds[start].split('.#')[0]}")
            start = place
    return f"{how}: {', '.join(parts)}."


def _tower_note(calls: list[_SeenCall], names: Mapping[nn.Module, str]) -> str:
    """Which part is which stack where a model reads with several, none looking at another."""
    parts = {call.stack: names.get(call.module, "").split(".")[0] for call in reversed(calls)}
    if "cross" in parts or len(parts) < 2:
        return ""
    named = ", ".join(f"'{stack}' is {part}" for stack, part in sorted(parts.items()))
    return f"The model has parts that do not attend to each other: {named}."


def _missing_layers(model: Any, calls: list[_SeenCall], names: Mapping[nn.Module, str]) -> str:
    """What should attend and never did so through the library's interface.

    The decoder of a model that writes nothing may look ahead and is then found among the encoders.
    """
    stacks = Counter(call.stack for call in calls)
    if model.config.is_encoder_decoder:
        is_among = any("decoder" in names.get(call.module, "") for call in calls if call.stack == "encoder")
        stacks["decoder"] += is_among
        missing = [stack for stack in ("encoder", "decoder", "cross") if not stacks[stack]]
        named = " and ".join(f"'{stack}'" for stack in missing)
        return f"The attention of {named} is computed in a way that cannot be shown." if missing else ""
    n_layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    n_found = max(stacks["encoder"], stacks["decoder"])
    if not isinstance(n_layers, int) or n_found >= n_layers:
        return ""
    return f"Of {n_layers} layers {n_found} attend in a way that can be shown; the others use something else."


class Attached(Protocol):
    """A model whose attention can be looked at, and changed if it `has_gates`.

    `note` is what people must know about the maps, empty if nothing. `difference` is how far the model's
    outputs on a tiny input were from those with its own attention, relative to their largest number.
    """

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention module, in order."""

    @property
    def note(self) -> str:
        """What people must know about the maps."""

    @property
    def has_gates(self) -> bool:
        """Whether heads can be gated and edited."""

    @property
    def modules(self) -> Mapping[nn.Module, tuple[SiteKey, ...]]:
        """The sites of each module's calls in one pass; empty where modules are not known."""

    @property
    def difference(self) -> float:
        """How far outputs were from the model's own."""

    def probing(self, probe: Probe, *, is_one_pass: bool = False) -> AbstractContextManager[None]:
        """A context in which each pass of the model shows its attention to `probe`.

        With `is_one_pass` there will be one, of the model or of a part, and nothing is hooked onto modules.
        """

    def detach(self) -> None:
        """Give the model its own attention back."""


def attach(model: Any, example: Example | None = None) -> Attached:
    """Enter a model of the transformers library; raises UserError, by name, when it cannot be honoured.

    `example` is a tiny input; without it one is made up. The model's weights and mode stay as they are.
    """
    register()
    check_layout(model)
    example = example_of(model) if example is None else example
    switch = AttentionSwitch(model)
    with switch.at_reference():
        own = numbers_of(run_example(model, example), example)
    try:
        return _enter(model, example, own, switch)
    except BaseException:
        switch.restore()
        raise


def _enter(model: Any, example: Example, own: dict[str, Tensor], switch: AttentionSwitch) -> Attached:
    scout = _Scout()
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
            return _ThroughInterface(_map_sites(model, scout.calls), difference, switch)
    except UserError as error:
        reason = error.happened.rstrip(".")
    switch.set("eager")
    return attach_eager(model, example, own, switch, reason)


class _ThroughInterface:
    """A model that calls our attention function."""

    has_gates = True

    def __init__(self, found: _SiteMap, difference: float, switch: AttentionSwitch) -> None:
        self.sites, self.note, self.difference = found.sites, found.note, difference
        self.modules = found.of_module
        self._map, self._switch = found, switch

    def probing(self, probe: Probe, *, is_one_pass: bool = False) -> AbstractContextManager[None]:
        if is_one_pass:  # it begins with nothing counted
            return watching(SitePass(self._map, probe))
        return _probing_calls(self._map, probe)

    def detach(self) -> None:
        self._switch.restore()
