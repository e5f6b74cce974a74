"""Models that compute attention by themselves: their own weights, as they give them out.

Where a model does not use the library's attention interface, its plain ("eager") form still returns the
weights of every layer. A record of such a site has queries and keys of width 0 and the logarithm of the
weights as a bias, so that everything that reads records works; nothing can be gated or edited, and the
weights are kept whole, which limits the text.

Which attention a model of the library uses, changed and given back.

The library keeps the name of the attention in the configuration of each part of a model and looks it
up at every call.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.families import Family, family_named
from attnscope.models.families.family import Handle, Seen
from attnscope.models.huggingface.proof import Example, check_equal, numbers_of, run_example
from attnscope.models.huggingface.rule_finding import find_rule_of
from attnscope.nn.attention import Probe
from attnscope.nn.edits import Call
from attnscope.nn.masks import Dense, MaskRule
from attnscope.nn.scores import DenseBias, ScoreRule
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
        """Let every part use the attention of this name."""
        for config, _ in self._own:
            setattr(config, _FIELD, name)

    def restore(self) -> None:
        """Let every part use what it used at first."""
        for config, own in self._own:
            setattr(config, _FIELD, own)

    @contextmanager
    def at_reference(self) -> Iterator[None]:
        """The model's own attention; where that needs a special device, the library's usual one.

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
    """Every configuration that a module of the model holds, and their parts, each once."""
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
    """Enter a model through the weights that it gives out itself; raises UserError when they are no maps."""
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
    """Raise UserError for an architecture whose weights are no map of tokens on tokens."""
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
        """Show the weights of each pass to `probe`; raises UserError when it gates or edits a head.

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
    """How many tokens a pass was given; 0 where it reads something else."""
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
    """The rule of the cells that no head gives weight to, where they follow one; else every cell counts.

    A weight can be 0 by itself; cells without order are therefore no mask, but rows without any weight are.
    """
    seen = (weights > 0).any(dim=1, keepdim=True)
    rule = find_rule_of(seen, *weights.shape[2:])
    if not isinstance(rule.pattern, Dense):
        return rule
    has_row = seen.any(dim=-1, keepdim=True)
    return MaskRule() if bool(has_row.all()) else MaskRule(pattern=Dense(cells=has_row.expand_as(seen)))


def _maps_of(output: Any, sites: tuple[Site, ...] | None) -> Maps:
    """The weights of every layer in an output; stacks as they were found before, where they were."""
    if not isinstance(output, Mapping):
        return {}
    known = {site.layer: site.stack for site in sites or () if site.stack != "cross"}
    maps: Maps = {}
    for field, stack in _FIELDS.items():
        for layer, weights in enumerate(output.get(field) or ()):
            if isinstance(weights, Tensor) and weights.ndim == 4:
                own = stack or known.get(layer) or _stack_of(weights)
                maps[own, layer] = weights.detach().float()
    return maps


def _stack_of(weights: Tensor) -> Stack:
    return "encoder" if bool((weights.triu(diagonal=1) > 0).any()) else "decoder"


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
