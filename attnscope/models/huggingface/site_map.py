"""Attaching to a library model: `attach` finds its sites and checks that it changed nothing.

Sites are found by watching a tiny text go through: a call whose queries and keys differ in number is
cross attention, one that never looks ahead belongs to a decoder, any other to an encoder. Its layer is the
module's own `layer_idx` where that names every call of the stack, else the order of the calls, so that one
module that serves all layers (ALBERT) has as many sites as calls.

Models that compute attention by themselves: their own weights, as they give them out.

Where a model does not use the library's attention interface, its plain ("eager") form still returns the
weights of every layer. A record of such a site has queries and keys of width 0 and the logarithm of the
weights as a bias, so that everything that reads records works; nothing can be gated or edited, and the
weights are kept whole, which limits the text.

Which attention a model of the library uses, changed and given back.

The library keeps the name of the attention in the configuration of each part of a model and looks it
up at every call.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.families import Family, family_named
from attnscope.models.families.family import Handle, Seen
from attnscope.models.huggingface.interface import NAME, register, watching
from attnscope.models.huggingface.proof import Example, check_equal, example_of, numbers_of, run_example
from attnscope.models.huggingface.rule_finding import find_rule_of
from attnscope.models.passes import hooked
from attnscope.nn import Call, Dense, DenseBias, MaskRule, Probe, ScoreRule
from attnscope.records.sites import STACKS, Site, SiteKey, Stack

_PLAIN = ("sdpa", "eager")
_FIELD = "_attn_implementation_internal"


class AttentionSwitch:
    """The attention of every part of one model."""

    def __init__(self, model: Any) -> None:
        self._is_fused = bool(getattr(model, "_supports_sdpa", False))
        self._own = [(config, getattr(config, _FIELD)) for config in _configs(model)]
        if not self._own:
            raise UserError(
                f"{type(model).__name__} does not say which attention it uses.",
                expected="a model of the transformers library, version 5.3 or later",
                action="This model cannot be opened.",
            )

    def set(self, name: str) -> None:
        """Make every part use the attention of this name."""
        for config, _ in self._own:
            setattr(config, _FIELD, name)

    def restore(self) -> None:
        """Make every part use its original attention."""
        for config, own in self._own:
            setattr(config, _FIELD, own)

    @contextmanager
    def at_reference(self) -> Iterator[None]:
        """Use the model's own attention; if that needs a special device, the library's usual one.

        Fused attention of older versions leaves soft-caps out without a word: there the plain one is right.
        """
        usual = "sdpa" if self._is_fused else "eager"
        for config, own in self._own:
            is_capped = getattr(config, "attn_logit_softcapping", None) is not None
            setattr(config, _FIELD, "eager" if is_capped else own if own in _PLAIN else usual)
        try:
            yield
        finally:
            self.restore()


def _configs(model: Any) -> list[Any]:
    """Every configuration held by a module of the model, with their parts, each once."""
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    found: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if id(config) in found or not hasattr(config, _FIELD):
            continue
        found[id(config)] = config
        parts = (getattr(config, name, None) for name in getattr(config, "sub_configs", {}))
        waiting.extend(part for part in parts if part is not None)
    return list(found.values())


MAX_CELLS = 2**28
"""The most weights of one text that are kept whole, over all sites (1 GB)."""

ROW_SUM_TOLERANCE = 2e-2
"""How far rows may be from 1: enough for float16, far too little for a window or a sparse layout."""

_FIELDS: dict[str, Stack | None] = {
    "attentions": None,
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
}

Maps = dict[SiteKey, Tensor]


def attach_eager(
    model: Any, example: Example, own: dict[str, Tensor], switch: AttentionSwitch, reason: str
) -> "EagerModel":
    """Attach to a model through the weights that it returns itself; raises UserError if they are not maps."""
    name = type(model).__name__
    family = _family_of(model)
    seen: Seen = []
    hooks = family.watch(model, seen)
    try:
        output = run_example(model, example, output_attentions=True)
    finally:
        _remove(hooks)
    difference = check_equal(model, own, numbers_of(output, example), attention="the library's plain")
    if isinstance(output, Mapping):
        n_tokens = max(_lengths(example, "input_ids"), default=0)
        output = family.laid_out(output, n_tokens, config=model.config, seen=seen)
    _check_axes(name, output)
    maps = _maps_of(output, None)
    if not maps:
        raise _refusal(name, reason or "it neither calls the library's attention nor returns its weights")
    sizes = set(_lengths(example, "input_ids", "decoder_input_ids"))
    for key, weights in maps.items():
        _check_map(name, key, weights, sizes, has_empty_rows=family.has_empty_rows)
    return EagerModel(model, maps, difference, switch, reason)


def check_layout(model: Any) -> None:
    """Raise UserError for an architecture whose weights are not a map from tokens to tokens."""
    layout = _family_of(model).not_a_map
    if layout:
        raise _refusal(type(model).__name__, layout)


def _family_of(model: Any) -> Family:
    return family_named(getattr(model.config, "model_type", ""))


class EagerModel:
    """A model whose own weights are shown; see `Attached`."""

    has_gates = False
    modules: Mapping[nn.Module, tuple[SiteKey, ...]] = MappingProxyType({})

    def __init__(
        self, model: Any, maps: Maps, difference: float, switch: AttentionSwitch, reason: str
    ) -> None:
        sites = [
            Site(stack=stack, layer=layer, n_heads=weights.shape[1], n_kv_heads=weights.shape[1])
            for (stack, layer), weights in maps.items()
        ]
        self.sites = tuple(sorted(sites, key=lambda site: (STACKS.index(site.stack), site.layer)))
        self.difference = difference
        self.note = (
            f"{type(model).__name__} computes attention in its own code: the maps are the weights it "
            "returns, kept whole and not checked against its values; heads cannot be gated or edited."
        )
        if reason:
            self.note += f" ({reason}.)"
        self._model, self._switch = model, switch

    @contextmanager
    def probing(self, probe: Probe, *, is_one_pass: bool = False) -> Iterator[None]:
        """Show the weights of each pass to `probe`; raises UserError if it gates or edits a head.

        `is_one_pass` changes nothing: weights come back through hooks in any case.
        """
        self._check_untouched(probe)

        seen: Seen = []
        n_read = 0

        def ask(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            nonlocal n_read
            seen.clear()
            n_read = _n_tokens_of(args, kwargs)
            self._check_room(n_read)
            return args, {**kwargs, "output_attentions": True, "return_dict": True}

        def tell(part: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            self._record(part, output, probe, n_tokens=_n_tokens_of(args, kwargs), seen=seen)

        hooks: list[Handle] = [
            *_family_of(self._model).watch(self._model, seen),
            self._model.register_forward_pre_hook(ask, with_kwargs=True),
            self._model.register_forward_hook(tell, with_kwargs=True),
        ]
        try:
            yield
        except (RuntimeError, IndexError) as error:
            if not _family_of(self._model).fails_when_short:
                raise
            raise UserError(
                f"The library's {type(self._model).__name__} pools tokens in pairs, block after block, and "
                f"cannot read a text of {plural(n_read, 'token')}.",
                expected="a longer text",
                action="Add some words.",
            ) from error
        finally:
            _remove(hooks)

    def detach(self) -> None:
        self._switch.restore()

    def _check_untouched(self, probe: Probe) -> None:
        for site in self.sites:
            if probe.gate(site.key) is not None or probe.edits(site.key) is not None:
                raise UserError(
                    f"{type(self._model).__name__} computes attention in its own code, so its heads cannot "
                    "be gated or edited.",
                    expected="no gates and no edits",
                    action="Set all gates of this model to 1.",
                )

    def _check_room(self, n_tokens: int) -> None:
        """Raise UserError before too many weights are laid out; a decoder's text is not known here."""
        is_pair = getattr(self._model.config, "is_encoder_decoder", False)
        read = [site for site in self.sites if site.stack == "encoder" or not is_pair]
        self._check_cells(n_tokens**2 * sum(site.n_heads for site in read))

    def _record(self, model: Any, output: Any, probe: Probe, *, n_tokens: int, seen: Seen) -> None:
        laid_out = _family_of(model).laid_out(output, n_tokens, config=model.config, seen=seen)
        maps = _maps_of(laid_out, self.sites)
        self._check_cells(sum(weights[-1].numel() for weights in maps.values()))
        for key, weights in maps.items():
            if probe.wants(key):
                _record_map(probe, key, weights, is_training=model.training)

    def _check_cells(self, n_cells: int) -> None:
        if n_cells > MAX_CELLS:
            raise UserError(
                f"{type(self._model).__name__} returns {n_cells} weights for this text.",
                expected=f"at most {MAX_CELLS}, since they are kept whole",
                action="Use a shorter text.",
            )


def _remove(hooks: list[Handle]) -> None:
    for hook in hooks:
        hook.remove()


def _n_tokens_of(args: Any, kwargs: dict[str, Any]) -> int:
    """Number of tokens in a pass; 0 if it reads something else."""
    ids = args[0] if args else kwargs.get("input_ids")
    return ids.shape[1] if isinstance(ids, Tensor) and ids.ndim == 2 else 0


def _record_map(probe: Probe, key: SiteKey, weights: Tensor, *, is_training: bool) -> None:
    batch, n_heads, n_queries, n_keys = weights.shape
    rule = _rule_of(weights[-1:])
    call = Call(
        q=weights.new_zeros(batch, n_heads, n_queries, 0),
        k=weights.new_zeros(batch, n_heads, n_keys, 0),
        v=weights.new_zeros(batch, n_heads, n_keys, 0),
        rule=rule,
        score=ScoreRule(scale=1.0, bias=DenseBias(cells=weights.log())),
    )
    lse = weights.new_zeros(batch, n_heads, n_queries)
    lse.masked_fill_(weights.amax(dim=-1) == 0, -torch.inf)  # a row without any weight sees no key
    probe.record(key, call, lse=lse, out=call.q, is_training=is_training)


def _rule_of(weights: Tensor) -> MaskRule:
    """The rule of the cells without weight in any head, if they follow one; else every cell counts.

    A weight can be 0 by itself; cells without order are therefore no mask, but rows without any weight are.
    """
    seen = (weights > 0).any(dim=1, keepdim=True)
    rule = find_rule_of(seen, *weights.shape[2:])
    if not isinstance(rule.pattern, Dense):
        return rule
    has_row = seen.any(dim=-1, keepdim=True)
    return MaskRule() if bool(has_row.all()) else MaskRule(pattern=Dense(cells=has_row.expand_as(seen)))


def _maps_of(output: Any, sites: tuple[Site, ...] | None) -> Maps:
    """The weights of every layer in an output, in their known stacks if they were found before."""
    if not isinstance(output, Mapping):
        return {}
    known = {site.layer: site.stack for site in sites or () if site.stack != "cross"}
    maps: Maps = {}
    for field, stack in _FIELDS.items():
        for layer, weights in enumerate(output.get(field) or ()):
            if isinstance(weights, Tensor) and weights.ndim == 4:
                own = stack or known.get(layer) or ("encoder" if (weights.triu(1) > 0).any() else "decoder")
                maps[own, layer] = weights.detach().float()
    return maps


def _lengths(example: Example, *names: str) -> Iterator[int]:
    for name in names:
        if isinstance(example.get(name), Tensor):
            yield example[name].shape[1]


def _check_axes(name: str, output: Any) -> None:
    for field in _FIELDS if isinstance(output, Mapping) else ():
        for layer, weights in enumerate(output.get(field) or ()):
            if isinstance(weights, Tensor) and weights.ndim != 4:
                raise _refusal(name, f"layer {layer} of its {field} is of shape {list(weights.shape)}")


def _check_map(
    name: str, key: SiteKey, weights: Tensor, sizes: set[int], *, has_empty_rows: bool = False
) -> None:
    label = f"{key[0]} L{key[1]}"
    n_queries, n_keys = weights.shape[2:]
    is_square = key[0] == "cross" or n_queries == n_keys
    if not is_square or (sizes and not {n_queries, n_keys} <= sizes):
        texts = f" for texts of {sorted(sizes)} tokens" if sizes else ""
        raise _refusal(name, f"the weights of {label} are {n_queries} × {n_keys}{texts}")
    if not bool(torch.isfinite(weights).all()):
        raise _refusal(name, f"the weights of {label} are not all numbers")
    sums = weights[:1].sum(dim=-1)
    is_counted = sums > 0 if has_empty_rows else torch.ones_like(sums, dtype=torch.bool)
    error = float((sums[is_counted] - 1.0).abs().max()) if bool(is_counted.any()) else 1.0
    if error > ROW_SUM_TOLERANCE:
        raise _refusal(name, f"the rows of {label} do not sum to 1 but differ by {error:.2g}")


def _refusal(name: str, reason: str) -> UserError:
    return UserError(
        f"The attention of {name} cannot be shown: {reason}.",
        expected="a model that attends through the library's interface, or returns its weights",
        action="Open another model.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenCall:
    """One attention call of a pass, in words and numbers."""

    module: nn.Module
    stack: Stack
    n_heads: int
    n_kv_heads: int


class _Scout:
    """Records every call of a pass and probes none."""

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
        """The site of this call; raises UserError for one not seen when the model was attached."""
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
    with hooked(hooks), watching(watcher):
        yield


def _stack_of(call: Call) -> Stack:
    n_queries, n_keys = call.q.shape[2], call.k.shape[2]
    if n_queries != n_keys:
        return "cross"
    allowed = call.rule.allowed(n_queries, n_keys, device=call.q.device)
    return "encoder" if n_queries == 1 or bool(allowed.triu(diagonal=1).any()) else "decoder"


def _order_note(stack: Stack, names: list[str]) -> str:
    """Note on a stack's layers if several parts of the model share it, or if layers attend twice."""
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
    """Note on the parts behind each stack, if a model reads with several that do not attend to each other."""
    parts = {call.stack: names.get(call.module, "").split(".")[0] for call in reversed(calls)}
    if "cross" in parts or len(parts) < 2:
        return ""
    named = ", ".join(f"'{stack}' is {part}" for stack, part in sorted(parts.items()))
    return f"The model has parts that do not attend to each other: {named}."


def _missing_layers(model: Any, calls: list[_SeenCall], names: Mapping[nn.Module, str]) -> str:
    """Layers that should attend but never did so through the library's interface.

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
    """A model whose attention can be observed, and changed if it `has_gates`.

    `note` is what people must know about the maps, empty if nothing. `difference` is how far the model's
    outputs on a tiny input were from those with its own attention, relative to their largest number.
    """

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention module, in order."""

    @property
    def note(self) -> str:
        """Note for the user about the maps."""

    @property
    def has_gates(self) -> bool:
        """Whether heads can be gated and edited."""

    @property
    def modules(self) -> Mapping[nn.Module, tuple[SiteKey, ...]]:
        """The sites of each module's calls in one pass; empty if modules are unknown."""

    @property
    def difference(self) -> float:
        """Largest difference from the model's own outputs."""

    def probing(self, probe: Probe, *, is_one_pass: bool = False) -> AbstractContextManager[None]:
        """A context in which each pass of the model shows its attention to `probe`.

        With `is_one_pass` there will be one, of the model or of a part, and nothing is hooked onto modules.
        """

    def detach(self) -> None:
        """Restore the model's own attention."""


def attach(model: Any) -> Attached:
    """Attach to a model of the transformers library; raises UserError if that is not possible exactly.

    The model's weights and mode stay as they are.
    """
    register()
    check_layout(model)
    example = example_of(model)
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
