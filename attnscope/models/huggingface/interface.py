"""The functions that the library calls on our behalf: attention, and its mask.

The attention function that the library calls in our name; every such call ends in `attend`.

Follows what the library's own `sdpa` function means by its arguments: without a mask a module that says
`is_causal` lets a query see the keys up to its own number, and keys beyond the last query are cut off.
Unknown arguments that would change the result are rejected with an explanation.

    symbol             meaning                     shape
    query              queries                     [batch, n_heads, n_queries, d_head]
    key, value         keys and values             [batch, n_kv_heads, n_keys, d_head]
    (returned)         head outputs                [batch, n_queries, n_heads, d_value]

The mask function that the library calls in our name: it gives back a rule and lays nothing out.

The library's masks are functions of (batch, head, query, key) with the queries counted from `q_offset` and
the keys from `kv_offset`; a MaskRule lets both end together, so their difference must be n_keys − n_queries.
Causality and windows of the library's own making are recognised and compared on some rows; any other
function is compared with its rule cell by cell, in row blocks.

The library carries the rule around in the dress of a tensor: a `RuleMask` looks to it like a bool mask
[batch, 1, n_queries, n_keys] of stride 0, one byte in memory, and brings the `MaskRule` to the attention
function. It may be moved and sliced; a model that computes with its mask gets the true cells.

What a model hands to its attention besides queries and keys, turned into rules.

Masks: ours (`RuleMask`), or laid out by the model itself, bool (True: may be seen) or numbers added to
the scores. Biases: T5's distances and the like. A laid-out tensor is looked at once and remembered for
as long as it lives, since a model gives the same one to all its layers.

    symbol   meaning                                       shape
    mask     as the library broadcasts it                  [batch or 1, n_heads or 1, n_queries or 1, n_keys]
    bias     added to the scores                           likewise
"""

import importlib
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.huggingface.rule_finding import DENSE_CELLS, Cells, find_rule, find_rule_of
from attnscope.nn import (
    Bias,
    Call,
    DenseBias,
    Intervals,
    MaskRule,
    Probe,
    RelativeBias,
    ScoreRule,
    attend,
    build_rule,
)
from attnscope.records.sites import SiteKey

_FULL = slice(None)


class RuleMask(Tensor):
    """A mask without memory: `rule` is of the whole map, `rows` and `cols` are the part that it shows."""

    rule: MaskRule
    n_queries: int
    n_keys: int
    rows: range
    cols: range

    @staticmethod
    def of(
        rule: MaskRule,
        n_queries: int,
        n_keys: int,
        *,
        batch: int,
        device: torch.device,
        rows: range | None = None,
        cols: range | None = None,
    ) -> "RuleMask":
        """A mask that shows the rows and columns (None: all) of a rule."""
        rows, cols = rows or range(n_queries), cols or range(n_keys)
        cell = torch.ones((), dtype=torch.bool, device=device)
        mask = cell.expand(batch, 1, len(rows), len(cols)).as_subclass(RuleMask)
        mask.rule, mask.n_queries, mask.n_keys, mask.rows, mask.cols = rule, n_queries, n_keys, rows, cols
        return mask

    @property
    def is_whole(self) -> bool:
        """Whether every row and column is shown."""
        return (len(self.rows), len(self.cols)) == (self.n_queries, self.n_keys)

    def lay_out(self) -> Tensor:
        """The cells as a plain bool tensor of this shape."""
        rows = slice(self.rows.start, self.rows.stop)
        cols = slice(self.cols.start, self.cols.stop)
        allowed = self.rule.allowed(self.n_queries, self.n_keys, rows, cols, device=self.device)
        return allowed.to(self.device).expand(self.shape[0], -1, -1, -1).contiguous()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer shape and the like directly, slices as rules, anything else on the laid-out cells."""
        kwargs = kwargs or {}
        if func in _metadata():
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        mask = args[0] if args else None
        if isinstance(mask, RuleMask):
            if func in _moves():
                moved = func(torch.ones((), dtype=torch.bool, device=mask.device), *args[1:], **kwargs)
                if moved.dtype == torch.bool:
                    return mask._like(moved.device, mask.rows, mask.cols)
            if func is Tensor.__getitem__ and (part := _part_of(mask, args[1])) is not None:
                return mask._like(mask.device, *part)
        return func(*_laid_out(args), **_laid_out(kwargs))

    def _like(self, device: torch.device, rows: range, cols: range) -> "RuleMask":
        return RuleMask.of(
            self.rule, self.n_queries, self.n_keys, batch=self.shape[0], device=device, rows=rows, cols=cols
        )


@cache
def _metadata() -> frozenset[Any]:
    names = ("shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_cpu", "requires_grad", "is_meta")
    getters = [getattr(Tensor, name).__get__ for name in names]
    methods = [Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.is_floating_point]
    return frozenset([*getters, *methods, Tensor.is_inference, Tensor.__len__, Tensor.__hash__])


@cache
def _moves() -> frozenset[Any]:
    return frozenset([Tensor.to, Tensor.bool, Tensor.contiguous, Tensor.clone, Tensor.detach, Tensor.cpu])


def _part_of(mask: RuleMask, index: Any) -> tuple[range, range] | None:
    """The rows and columns selected by an index that cuts nothing else; None for any other index."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [part for part in parts if not isinstance(part, Tensor)]:
        place = parts.index(Ellipsis)
        parts[place : place + 1] = [_FULL] * (5 - len(parts))
    parts += [_FULL] * (4 - len(parts))
    if len(parts) != 4 or not all(isinstance(part, slice) for part in parts):
        return None
    whole = all(
        range(size)[part] == range(size) for size, part in zip(mask.shape[:2], parts[:2], strict=True)
    )
    rows, cols = mask.rows[parts[2]], mask.cols[parts[3]]
    return (rows, cols) if whole and rows.step == cols.step == 1 and rows and cols else None


def _laid_out(value: Any) -> Any:
    if isinstance(value, RuleMask):
        return value.lay_out()
    if isinstance(value, (tuple, list)):
        return type(value)(_laid_out(part) for part in value)
    if isinstance(value, dict):
        return {name: _laid_out(part) for name, part in value.items()}
    return value


MaskFunction = Callable[..., Tensor]
_N_SAMPLED_ROWS = 6


def build_mask(
    batch_size: int,
    kv_length: int,
    q_length: int | None = None,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: MaskFunction | None = None,
    attention_mask: Tensor | None = None,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    cache_position: Tensor | None = None,
    **_: Any,
) -> RuleMask | None:
    """The mask function registered with the library; gives None only for a map without any mask.

    Before 5.5 or so the library says `cache_position` [n_queries] instead of `q_length` and `q_offset`.
    """
    if cache_position is not None:
        q_length, q_offset, device = len(cache_position), int(cache_position[0]), cache_position.device
    if q_length is None:
        raise ValueError("the mask function was told neither q_length nor cache_position")
    function = mask_function or _masking().causal_mask_function
    place = _Place(q_length, kv_length, int(q_offset), int(kv_offset), torch.device(device))
    key_valid = _padding_of(attention_mask, place, batch_size)
    rule = _recognise(function, place, key_valid)
    if rule is None:
        cells = _cells_of(function, place, batch_size, use_vmap)
        rule = replace(find_rule(cells, q_length, kv_length, has_padding=False), key_valid=key_valid)
    if rule.is_empty and allow_is_bidirectional_skip:
        return None
    return RuleMask.of(rule, q_length, kv_length, batch=batch_size, device=place.device)


class _Place:
    """Positions of one call's queries and keys in the text."""

    def __init__(
        self, n_queries: int, n_keys: int, q_offset: int, kv_offset: int, device: torch.device
    ) -> None:
        self.n_queries, self.n_keys, self.device = n_queries, n_keys, device
        self.q_offset, self.kv_offset = q_offset, kv_offset

    @property
    def ends_together(self) -> bool:
        """Whether the last query is at the last key."""
        return self.q_offset + self.n_queries == self.kv_offset + self.n_keys


def _padding_of(attention_mask: Tensor | None, place: _Place, batch_size: int) -> Tensor | None:
    if attention_mask is None:
        return None
    stop = place.kv_offset + place.n_keys
    valid = attention_mask.to(device=place.device, dtype=torch.bool)
    missing = stop - valid.shape[-1]
    if missing > 0:
        valid = torch.nn.functional.pad(valid, (0, missing))
    valid = valid[:, place.kv_offset : stop].expand(batch_size, -1)
    return build_rule(is_causal=False, key_valid=valid).key_valid


def _recognise(function: MaskFunction, place: _Place, key_valid: Tensor | None) -> MaskRule | None:
    """Recognise the library's own causality and windows, compared with the function on some rows."""
    band = _band_of(function)
    if band is None:
        return None
    back, ahead = band
    if (back, ahead) != (None, None):
        is_proved = function is _masking().causal_mask_function and _is_causal_as_named()
        if not place.ends_together or not (is_proved or _fits_band(function, place, back, ahead)):
            return None
    if back is not None and back >= place.n_keys - 1:
        back = None
    if ahead == 0:
        window = None if back is None else (back, None)
        return MaskRule(is_causal=True, key_valid=key_valid, window=window)
    if ahead is not None and ahead >= place.n_keys - 1:
        ahead = None
    return MaskRule(key_valid=key_valid, window=None if back is None and ahead is None else (back, ahead))


@cache
def _is_causal_as_named() -> bool:
    """Whether the library's function of that name is plain causality, checked once."""
    function = _masking().causal_mask_function
    places = [_Place(n, n + before, before, 0, torch.device("cpu")) for n, before in ((6, 0), (1, 9), (4, 3))]
    return all(_fits_band(function, place, None, 0) for place in places)


def _fits_band(function: MaskFunction, place: _Place, back: int | None, ahead: int | None) -> bool:
    n_rows = min(place.n_queries, _N_SAMPLED_ROWS)
    sampled = torch.linspace(0, place.n_queries - 1, n_rows).round().long().to(place.device)
    q = (sampled + place.q_offset)[None, None, :, None]
    k = (torch.arange(place.n_keys, device=place.device) + place.kv_offset)[None, None, None]
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=place.device)
    theirs = function(zero, zero, q, k).expand(1, 1, n_rows, place.n_keys)
    ours = torch.ones(1, 1, n_rows, place.n_keys, dtype=torch.bool, device=place.device)
    if ahead is not None:
        ours = ours & (k <= q + ahead)
    if back is not None:
        ours = ours & (k >= q - back)
    return bool((theirs == ours).all())


Band = tuple[int | None, int | None]


def _band_of(function: Any) -> Band | None:
    """Largest distance back and ahead that a function of the library allows; None if unknown."""
    masking = _masking()
    if function is masking.causal_mask_function:
        return (None, 0)
    if function is masking.bidirectional_mask_function:
        return (None, None)
    if getattr(function, "__module__", "") != masking.__name__ or not inspect.isfunction(function):
        return None
    held = inspect.getclosurevars(function).nonlocals
    size = held.get("sliding_window")
    match function.__qualname__.split(".")[0]:
        case "sliding_window_overlay" if isinstance(size, int) and size > 0:
            return (size - 1, None)
        case "sliding_window_bidirectional_overlay" if isinstance(size, int) and size >= 0:
            return (size, size)
        case "and_masks":
            return _narrowest([_band_of(part) for part in held.get("mask_functions", [None])])
        case _:
            return None


def _narrowest(bands: list[Band | None]) -> Band | None:
    known = [band for band in bands if band is not None]
    if len(known) != len(bands):
        return None
    backs = [back for back, _ in known if back is not None]
    aheads = [ahead for _, ahead in known if ahead is not None]
    return (min(backs, default=None), min(aheads, default=None))


def _cells_of(function: MaskFunction, place: _Place, batch_size: int, use_vmap: bool) -> Cells:
    """Any rows of the library's own bool mask, without padding."""
    sdpa_mask = _masking().sdpa_mask
    says_length = "q_length" in inspect.signature(sdpa_mask).parameters

    def cells(rows: slice) -> Tensor:
        start, n_rows = place.q_offset + rows.start, rows.stop - rows.start
        if says_length:
            queries: dict[str, Any] = {"q_length": n_rows, "q_offset": start, "device": place.device}
        else:
            queries = {"cache_position": torch.arange(start, start + n_rows, device=place.device)}
        mask: Tensor = sdpa_mask(
            batch_size=batch_size,
            kv_length=place.n_keys,
            kv_offset=place.kv_offset,
            mask_function=function,
            allow_is_causal_skip=False,
            use_vmap=use_vmap,
            **queries,
        )
        return mask

    return cells


@cache
def _masking() -> Any:
    return importlib.import_module("transformers.masking_utils")


FORBIDDING = -9999.0
"""Numbers up to this, added to a score, forbid the key: exp of it is 0 in every precision."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenMask:
    """A mask as a rule, and the numbers added to the scores of allowed cells."""

    rule: MaskRule
    bias: Bias | None = None


def read_mask(mask: Tensor, n_queries: int, n_keys: int) -> GivenMask:
    """The rule behind any mask of a model; raises UserError for one that cannot be applied exactly."""
    if isinstance(mask, RuleMask):
        return GivenMask(rule=_rule_of(mask, n_queries, n_keys))
    return _remembered(mask, ("mask", n_queries, n_keys), lambda: _read_cells(mask, n_queries, n_keys))


def read_bias(bias: Tensor, n_queries: int, n_keys: int) -> Bias | None:
    """A bias as numbers for each distance if possible, None if it is all 0, else unchanged."""
    return _remembered(bias, ("bias", n_queries, n_keys), lambda: _read_bias(bias, n_queries, n_keys))


def add_biases(one: Bias | None, other: Bias | None, n_queries: int, n_keys: int) -> Bias | None:
    """The sum of two biases, either of which may be missing."""
    if one is None or other is None:
        return other if one is None else one
    everything = slice(None)
    parts = [bias.part(n_queries, n_keys, everything, everything) for bias in (one, other)]
    return DenseBias(cells=parts[0] + parts[1])


def _rule_of(mask: RuleMask, n_queries: int, n_keys: int) -> MaskRule:
    if mask.is_whole and (mask.n_queries, mask.n_keys) == (n_queries, n_keys):
        return mask.rule  # nearly always; a subclass of Tensor is slow to tell its shape
    if mask.shape[3] > n_keys:
        mask = mask[:, :, :, :n_keys]  # type: ignore[assignment]
    if mask.shape[2:] != (n_queries, n_keys):
        raise _wrong_size(mask, n_queries, n_keys)
    return find_rule_of(mask.lay_out(), n_queries, n_keys)


def _read_cells(mask: Tensor, n_queries: int, n_keys: int) -> GivenMask:
    cells = _four_axes(mask, n_queries, n_keys)
    if cells.dtype == torch.bool:
        return GivenMask(rule=find_rule_of(cells, n_queries, n_keys))
    if not cells.is_floating_point():
        raise UserError(
            f"The model's mask is made of {str(cells.dtype).removeprefix('torch.')} numbers.",
            expected="true and false, or numbers added to the scores",
        )
    rule = find_rule_of(cells > FORBIDDING, n_queries, n_keys)
    numbers = cells.masked_fill(cells <= FORBIDDING, 0.0)
    return GivenMask(rule=rule, bias=_read_bias(numbers, n_queries, n_keys))


def _read_bias(bias: Tensor, n_queries: int, n_keys: int) -> Bias | None:
    cells = _four_axes(bias, n_queries, n_keys)
    if not bool(cells.any()):
        return None
    cells = cells.expand(-1, -1, n_queries, n_keys)
    if (cells.shape[0] == 1 or cells.stride(0) == 0) and _is_by_distance(cells):
        before = cells[0, :, 1:, 0].flip(-1)  # distances −(n_queries − 1) … −1
        values = torch.cat([before, cells[0, :, 0]], dim=-1).contiguous()
        return RelativeBias(values=values, laid_out=cells[:1])
    if cells[0].numel() > DENSE_CELLS:
        raise UserError(
            f"The model adds a number of its own to each of {n_queries} × {n_keys} scores.",
            expected=f"at most {DENSE_CELLS} numbers for one text",
            action="Use a shorter text with this model.",
        )
    return DenseBias(cells=cells)


def _is_by_distance(cells: Tensor) -> bool:
    """Whether each number depends on j − i alone: every diagonal is constant."""
    if cells.shape[2] <= 1 or cells.shape[3] <= 1:
        return True
    return bool((cells[:1, :, 1:, 1:] == cells[:1, :, :-1, :-1]).all())


def _four_axes(tensor: Tensor, n_queries: int, n_keys: int) -> Tensor:
    """The tensor with four axes, without keys beyond the last one, as in the library."""
    if tensor.ndim > 4:
        raise _wrong_size(tensor, n_queries, n_keys)
    tensor = tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape))
    tensor = tensor[..., :n_keys]
    if tensor.shape[2] not in (1, n_queries) or tensor.shape[3] not in (1, n_keys):
        raise _wrong_size(tensor, n_queries, n_keys)
    return tensor


def _wrong_size(tensor: Tensor, n_queries: int, n_keys: int) -> UserError:
    return UserError(
        f"The model's mask or bias is of shape {list(tensor.shape)}.",
        expected=f"[batch, n_heads, {n_queries}, {n_keys}]",
        action="This model cannot be traced.",
    )


_Key = tuple[str, int, int]
_memory: dict[tuple[int, _Key], tuple["weakref.ref[Tensor]", int, object]] = {}


def _remembered(tensor: Tensor, key: _Key, find: Callable[[], _Found]) -> _Found:
    """Earlier result for the same, unchanged tensor, or else a new result of `find`."""
    version = -1 if tensor.is_inference() else tensor._version
    entry = _memory.get((id(tensor), key))
    if entry is not None and entry[0]() is tensor and entry[1] == version:
        return entry[2]  # type: ignore[return-value]
    found = find()
    for old in [place for place, (alive, _, _) in _memory.items() if alive() is None]:
        del _memory[old]
    _memory[id(tensor), key] = (weakref.ref(tensor), version, found)
    return found


NAME = "attnscope"
"""The library's name for our attention."""

_HARMLESS = frozenset(
    {
        "attention_mask",
        "cache_position",
        "deterministic",
        "labels",
        "layer_idx",
        "layer_type",
        "logits_to_keep",
        "mm_token_type_ids",
        "num_items_in_batch",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "past_key_values",
        "position_embeddings",
        "position_ids",
        "return_dict",
        "token_type_ids",
        "use_cache",
    }
)
"""Arguments that models pass along and that change nothing here."""


class Watcher(Protocol):
    """Observer of a pass's calls."""

    @property
    def probe(self) -> Probe | None:
        """The probe for `attend`."""

    def site(self, module: nn.Module, call: Call) -> SiteKey | None:
        """The site of this call; None if it is not to be probed."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("attnscope_watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Show every attention call of this thread to `watcher`."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@cache
def register() -> None:
    """Register our attention function and our mask function with the library, under one name."""
    modeling = importlib.import_module("transformers.modeling_utils")
    masking = importlib.import_module("transformers.masking_utils")
    modeling.AttentionInterface.register(NAME, attend_module)
    masking.AttentionMaskInterface.register(NAME, build_mask)


def attend_module(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """One attention call of a model, as the library's attention interface requires."""
    name = type(module).__name__
    _check_shapes(name, query, key, value)
    _check_others(name, others)
    position_bias: Tensor | None = others.get("position_bias")
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    if attention_mask is None and is_causal and 1 < query.shape[2] < key.shape[2]:
        n_queries = query.shape[2]
        key, value = key[:, :, :n_queries], value[:, :, :n_queries]
        position_bias = None if position_bias is None else position_bias[..., :n_queries]
    n_queries, n_keys = query.shape[2], key.shape[2]
    if attention_mask is None:
        given = _unmasked(n_queries, n_keys, is_causal, query.device)
        _check_window(name, others.get("sliding_window"), n_keys)
    else:
        given = read_mask(attention_mask, n_queries, n_keys)
    score = _score(name, query, given, scaling, position_bias, others, n_keys)
    if query.shape[0] != key.shape[0]:
        query = query.expand(key.shape[0], -1, -1, -1)
    call = Call(q=query, k=key, v=value, rule=given.rule, score=score)
    watcher = _WATCHER.get()
    site = None if watcher is None else watcher.site(module, call)
    out = attend(
        call.q,
        call.k,
        call.v,
        rule=call.rule,
        score=call.score,
        dropout=dropout,
        site=site,
        probe=None if watcher is None else watcher.probe,
        is_training=module.training or dropout > 0.0,
    )
    return out.transpose(1, 2).contiguous(), None


def _unmasked(n_queries: int, n_keys: int, is_causal: bool, device: torch.device) -> GivenMask:
    """The mask that the library means by none: causality counted from the first query and key."""
    if not is_causal or n_queries == 1:
        return GivenMask(rule=MaskRule())
    if n_queries == n_keys:
        return GivenMask(rule=MaskRule(is_causal=True))
    last = torch.arange(n_queries, device=device).clamp(max=n_keys - 1)[None]
    return GivenMask(rule=MaskRule(pattern=Intervals(first=torch.zeros_like(last), last=last)))


def _score(
    name: str,
    query: Tensor,
    given: GivenMask,
    scaling: float | None,
    position_bias: Tensor | None,
    others: Mapping[str, Any],
    n_keys: int,
) -> ScoreRule:
    n_queries, d_head = query.shape[2:]
    bias = None if position_bias is None else read_bias(position_bias, n_queries, n_keys)
    bias = add_biases(bias, given.bias, n_queries, n_keys)
    softcap, sinks = others.get("softcap"), others.get("s_aux")
    if softcap is not None and bias is not None:
        raise _refusal(name, "softcap together with a bias")
    if sinks is not None and sinks.shape != (query.shape[1],):
        raise _refusal(name, f"s_aux of shape {list(sinks.shape)}")
    return ScoreRule(
        scale=float(d_head**-0.5 if scaling is None else scaling),
        softcap=None if softcap is None else float(softcap),
        bias=bias,
        sinks=sinks,
    )


def _check_shapes(name: str, query: Tensor, key: Tensor, value: Tensor) -> None:
    fits = (
        query.ndim == key.ndim == value.ndim == 4
        and query.shape[3] == key.shape[3]
        and key.shape[:3] == value.shape[:3]
        and query.shape[0] in (1, key.shape[0])
        and key.shape[1] > 0
        and query.shape[1] % key.shape[1] == 0
    )
    if not fits:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in (query, key, value))
        raise UserError(
            f"{name} attends with queries, keys and values of shapes {shapes}.",
            expected="[batch, heads, tokens, width], heads shared by whole groups",
            action="This model cannot be traced.",
        )


def _check_others(name: str, others: Mapping[str, Any]) -> None:
    understood = {"position_bias", "softcap", "s_aux", "sliding_window"}
    for argument, value in others.items():
        if value is None or value is False or argument in _HARMLESS or argument in understood:
            continue
        raise _refusal(name, argument)


def _check_window(name: str, window: int | None, n_keys: int) -> None:
    """Without a mask the library would omit a window that the module requests."""
    if window is not None and window > 0 and n_keys > window:
        raise _refusal(name, f"sliding_window={window} without a mask")


def _refusal(name: str, what: str) -> UserError:
    return UserError(
        f"{name} asks its attention for {what}, which AttnScope does not support.",
        expected="a mask, a scale, a position bias, a soft-cap or sinks",
        action="This model cannot be traced: its maps would be wrong.",
    )
