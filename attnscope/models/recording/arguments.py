"""Converts one attention call of a foreign module to a common form (`SeenCall`), whichever function was
called.

Follows `torch.nn.functional` (2.6 to 2.13): `scaled_dot_product_attention` counts `is_causal` from the first
query and key, True in a bool mask means "may be seen"; `multi_head_attention_forward` means the opposite by
True, joins `bias_k` and a zero key to the keys, and takes `is_causal` as a hint about its mask.

| symbol | meaning                                        | shape                                   |
|--------|------------------------------------------------|-----------------------------------------|
| q      | queries of the chosen row of the batch         | [1, n_heads, n_queries, d_head]         |
| k, v   | keys and values                                | [1, n_kv_heads, n_keys, d]              |
| out    | what the call gave: head outputs, or projected | [1, n_heads, n_queries, d], [Q, d_model]|
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.huggingface.interface import GivenMask, read_mask
from attnscope.models.recording.placing import Groups
from attnscope.nn import Intervals, MaskRule, ScoreRule, attend
from attnscope.records.sites import NO_GATES, Site
from attnscope.trace.record import SiteRecord, TraceProbe

_SITE = Site(stack="encoder", layer=0, n_heads=0, n_kv_heads=0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeenCall:
    """The facts of one call; see the module's legend.

    `project` makes of head outputs what the call gave; None: it gave the head outputs. `is_self` says that
    queries and keys were made of one text for sure. `extra` names keys that are no tokens.
    """

    function: str
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    given: GivenMask
    scale: float
    dropout: float = 0.0
    project: Callable[[Tensor], Tensor] | None = None
    is_self: bool = False
    extra: tuple[str, ...] = ()


@torch.no_grad()
def record_seen(call: SeenCall) -> SiteRecord:
    """The record of a call: its inputs to the attention, checked against its output, every row."""
    wide = torch.promote_types(call.q.dtype, torch.float32)
    q, k, v = (tensor.detach().to(wide) for tensor in (call.q, call.k, call.v))
    probe = TraceProbe((_SITE,), NO_GATES)
    # Nobody else who watches torch's functions is to see the calls that prove this one.
    with torch._C.DisableTorchFunction(), torch.autocast(q.device.type, enabled=False):
        score = ScoreRule(scale=call.scale, bias=call.given.bias)
        own = attend(q, k, v, rule=call.given.rule, score=score, site=_SITE.key, probe=probe)
        record = probe.records[_SITE.key]
        error = 0.0 if call.dropout else _difference(call, own, record.lse)
    proof = replace(
        record.proof,
        output_error=max(record.proof.output_error, error),
        is_training=call.dropout > 0.0,
    )
    return replace(
        record, q=record.q.to(call.q.dtype), k=record.k.to(call.k.dtype), proof=proof
    )  # the narrow numbers are the same: they were only widened


def _difference(call: SeenCall, own: Tensor, lse: Tensor) -> float:
    """Max |recomputed − given|, minus what the rounding of a half-precision call explains.

    Queries that see no key are left out where the call gave 0 or no number for them.
    """
    theirs = call.out.detach().to(own.dtype)
    if call.project is None:
        blind = lse.isneginf()[None, ..., None]
        theirs = torch.where(blind, theirs.nan_to_num(0.0), theirs)
    else:
        blind = lse.isneginf().any(dim=0)[:, None]
        own = call.project(own)
        theirs = torch.where(blind, own, theirs)
    if not own.numel():
        return 0.0
    error = float((own - theirs).abs().max())
    if call.out.dtype.itemsize < 4:
        error = max(0.0, error - 4.0 * torch.finfo(call.out.dtype).eps * float(theirs.abs().max()))
    return error if error == error else float("inf")


def causal_from_start(n_queries: int, n_keys: int) -> MaskRule:
    """PyTorch's meaning of `is_causal`: query i sees keys 0 to i, counted from the first of both."""
    if n_queries == n_keys:
        return MaskRule(is_causal=True)
    last = torch.arange(n_queries).clamp(max=n_keys - 1)[None]
    return MaskRule(pattern=Intervals(first=torch.zeros_like(last), last=last))


def chosen_row(lead: Sequence[int], row: int | None, name: str) -> tuple[int, ...]:
    """Index of row `row` of a batch with the axes `lead`; raises UserError if one must be chosen."""
    n_rows = 1
    for size in lead:
        n_rows *= size
    if n_rows == 0:
        raise UserError(f"{name} was called with an empty batch.", expected="at least one row")
    if row is None and n_rows > 1:
        raise UserError(
            f"{name} was called with {n_rows} batch rows at once, but a map shows one.",
            expected=f"one of the rows 0 to {n_rows - 1}",
            action="Choose one when recording: attnscope.record(module, row=0).",
        )
    row = row or 0
    if not -n_rows <= row < n_rows:
        raise UserError(
            f"{name} was called with {plural(n_rows, 'batch row')}; there is no row {row}.",
            expected=f"0 to {n_rows - 1}",
            action="Choose another row when recording.",
        )
    place: list[int] = []
    rest = row % n_rows
    for size in reversed(lead):
        place.insert(0, rest % size)
        rest //= size
    return tuple(place)


def check_numbers(tensors: Sequence[Tensor], name: str) -> None:
    """Raise UserError for tensors without readable numbers of one text."""
    for tensor in tensors:
        kind = ""
        if tensor.is_nested:
            kind = "nested tensors (texts of several lengths in one)"
        elif tensor.is_meta or _is_fake(tensor):
            kind = "tensors without numbers (device meta, or fake)"
        elif torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            kind = "tensors inside vmap or another transform"
        if kind:
            raise UserError(
                f"{name} was called with {kind}.",
                expected="plain tensors",
                action="Call the module by itself, with one padded batch.",
            )


def _is_fake(tensor: Tensor) -> bool:
    """Whether a tensor has no data, in `FakeTensorMode`, as for torch.export."""
    fake: Any = sys.modules.get("torch._subclasses.fake_tensor")
    return fake is not None and isinstance(tensor, fake.FakeTensor)


PRODUCT, LAYER = "scaled_dot_product_attention", "multi_head_attention_forward"


class Masks:
    """Cache of masks read, so that a tensor shared by all layers is examined once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[tuple[Tensor, ...], GivenMask]] = {}

    def read(
        self,
        tensors: tuple[Tensor, ...],
        about: tuple[object, ...],
        lay_out: Callable[[], Tensor],
        n_queries: int,
        n_keys: int,
    ) -> GivenMask:
        """The rule behind `lay_out()`, which depends on `tensors`: held, so that their ids stay valid."""
        versions = ((id(t), -1 if t.is_inference() else t._version) for t in tensors)
        key = (*versions, *about, n_queries, n_keys)
        if key not in self._known:
            self._known[key] = tensors, read_mask(lay_out(), n_queries, n_keys)
        return self._known[key][1]


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """The arguments of `scaled_dot_product_attention`, in its order."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = field(default=None, kw_only=True)
    enable_gqa: bool = field(default=False, kw_only=True)


def see_product(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Tensor,
    row: int | None,
    masks: Masks,
    groups: Groups | None = None,
) -> SeenCall:
    """Read a call of `scaled_dot_product_attention`; raises UserError for one that cannot be shown.

    `groups` is what the calling module says of its heads.
    """
    call = _Product(*args, **kwargs)
    query, attn_mask = call.query, call.attn_mask
    if groups is not None and groups.is_packed(query):
        query, out = groups.unpacked(query), groups.unpacked(out)
        attn_mask = None if attn_mask is None else groups.unpacked_mask(attn_mask)
    tensors = [_with_heads(tensor) for tensor in (query, call.key, call.value, out)]
    check_numbers(tensors, PRODUCT)
    lead = _lead_of(tensors)
    place = chosen_row(lead, row, PRODUCT)
    q, k, v, given_out = (tensor.expand(*lead, *tensor.shape[-3:])[place][None] for tensor in tensors)
    n_heads = given_out.shape[1]
    q = q.expand(-1, n_heads, -1, -1)
    if v.shape[1] != k.shape[1]:
        k, v = (x if x.shape[1] > 1 else x.expand(-1, max(k.shape[1], v.shape[1]), -1, -1) for x in (k, v))
    if groups is not None:
        k, v = groups.without_copies(k, v)
    size = q.shape[2], k.shape[2]
    if call.is_causal:
        given = GivenMask(rule=causal_from_start(*size))
    elif attn_mask is None:
        given = GivenMask(rule=MaskRule())
    else:
        given = _product_mask(attn_mask, size, lead, place, masks, has_heads=query.ndim != 3)
    return SeenCall(
        function=PRODUCT,
        q=q,
        k=k,
        v=v,
        out=given_out,
        given=given,
        scale=max(1, query.shape[-1]) ** -0.5 if call.scale is None else float(call.scale),
        dropout=float(call.dropout_p),
    )


def _product_mask(
    mask: Tensor,
    size: tuple[int, int],
    lead: torch.Size,
    place: tuple[int, ...],
    masks: Masks,
    *,
    has_heads: bool,
) -> GivenMask:
    """The mask of one row of a batch; without `has_heads` a mask of three axes is also a batch."""
    is_first = _counts_from_first(mask)
    if is_first is not None:
        return GivenMask(rule=causal_from_start(*size) if is_first else MaskRule(is_causal=True))

    def lay_out() -> Tensor:
        own = mask.detach()
        own = own.unsqueeze(-3) if own.ndim == 3 and not has_heads else own
        return own.expand(*lead, *own.shape[-3:])[place] if own.ndim > 3 else own

    return masks.read((mask,), (PRODUCT, place, has_heads), lay_out, *size)


def _counts_from_first(mask: Tensor) -> bool | None:
    """Whether a `CausalBias` of PyTorch counts from the first query and key; None for any other mask.

    Its module, which loads the compiler, is there once somebody has made one.
    """
    bias: Any = sys.modules.get("torch.nn.attention.bias")
    if bias is None or not isinstance(mask, bias.CausalBias):
        return None
    return bool(mask.variant == bias.CausalVariant.UPPER_LEFT)


def _lead_of(tensors: Sequence[Tensor]) -> torch.Size:
    lead: torch.Size = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        *(tensor.shape[:-3] for tensor in tensors)
    )
    return lead


def _with_heads(tensor: Tensor) -> Tensor:
    """At least [batch, heads, tokens, width]: three axes are a batch with one head, two one text."""
    if tensor.ndim == 2:
        return tensor[None, None]
    return tensor.unsqueeze(-3) if tensor.ndim == 3 else tensor


_SIGNATURE = signature(F.multi_head_attention_forward)


def see_layer(
    args: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Tensor, Any], row: int | None, masks: Masks
) -> SeenCall:
    """Read a call of `multi_head_attention_forward`, which `nn.MultiheadAttention` makes."""
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    batched = [t if t.ndim == 3 else t[:, None] for t in (given["query"], given["key"], given["value"])]
    check_numbers(batched, LAYER)
    n_rows = batched[0].shape[1]
    (chosen,) = chosen_row((n_rows,), row, "nn.MultiheadAttention")
    is_self = _is_same(given["query"], given["key"])
    query, key, value = (tensor[:, chosen] for tensor in batched)
    heads, extra = _heads_of(query, key, value, given, n_rows, chosen)
    n_queries, n_keys = heads[0].shape[2], heads[1].shape[2]
    weight, bias = given["out_proj_weight"], given["out_proj_bias"]

    def project(own: Tensor) -> Tensor:
        joined = own[0].transpose(0, 1).flatten(1)  # [Q, H · d]
        return F.linear(joined, weight.to(joined), None if bias is None else bias.to(joined))

    whole = out[0] if out[0].ndim == 3 else out[0][:, None]
    return SeenCall(
        function="nn.MultiheadAttention",
        q=heads[0],
        k=heads[1],
        v=heads[2],
        out=whole[:, chosen],
        given=_layer_mask(given, n_rows, chosen, (n_queries, n_keys), len(extra), masks),
        scale=1.0 / math.sqrt(heads[0].shape[3]),
        dropout=float(given["dropout_p"]) if given["training"] else 0.0,
        project=project,
        is_self=is_self,
        extra=extra,
    )


def _heads_of(
    query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any], n_rows: int, row: int
) -> tuple[list[Tensor], tuple[str, ...]]:
    """Queries, keys and values head by head, and the meaning of keys that are not tokens."""
    n_heads = int(given["num_heads"])
    q, k, v = _project_in(query, key, value, given)
    for name, text in (("static_k", k), ("static_v", v)):
        static = given[name]
        if static is not None:  # [batch · n_heads, n_keys, d_head], in the place of what was projected
            own = static.detach().view(n_rows, n_heads, *static.shape[1:])[row].transpose(0, 1).flatten(1)
            k, v = (own if text is x else x for x in (k, v))
    k, v, extra = _with_more_keys(k, v, given)
    return [_split(x, n_heads) for x in (q, k, v)], extra


def _is_same(query: Tensor, key: Tensor) -> bool:
    return query is key or (query.shape == key.shape and torch.equal(query, key))


@torch.no_grad()
def _project_in(query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> tuple[Tensor, ...]:
    """Queries, keys and values of one text, [n_tokens, d_model]."""
    if given["use_separate_proj_weight"]:
        weights = [given[f"{name}_proj_weight"] for name in "qkv"]
    else:
        weights = list(given["in_proj_weight"].chunk(3))
    bias = given["in_proj_bias"]
    biases = [None] * 3 if bias is None else list(bias.chunk(3))
    texts = (query, key, value)
    return tuple(F.linear(x, w, b) for x, w, b in zip(texts, weights, biases, strict=True))


def _with_more_keys(k: Tensor, v: Tensor, given: dict[str, Any]) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Keys and values with the learned key and the zero key that a layer may add, and their meaning."""
    extra: tuple[str, ...] = ()
    if given["bias_k"] is not None:
        k = torch.cat([k, given["bias_k"].detach().reshape(1, -1).to(k)])
        v = torch.cat([v, given["bias_v"].detach().reshape(1, -1).to(v)])
        extra = (*extra, "bias key")
    if given["add_zero_attn"]:
        k, v = (torch.cat([x, x.new_zeros(1, x.shape[1])]) for x in (k, v))
        extra = (*extra, "zero key")
    return k, v, extra


def _split(x: Tensor, n_heads: int) -> Tensor:
    """[n_tokens, n_heads · d] to [1, n_heads, n_tokens, d]."""
    return x.view(len(x), n_heads, x.shape[1] // n_heads).transpose(0, 1)[None]


def _layer_mask(
    given: dict[str, Any], n_rows: int, row: int, size: tuple[int, int], n_extra: int, masks: Masks
) -> GivenMask:
    cells = cast("Tensor | None", given["attn_mask"])
    padding = cast("Tensor | None", given["key_padding_mask"])
    is_hint_used = given["is_causal"] and padding is None and not given["need_weights"]
    if is_hint_used:  # then the layer leaves the mask aside and lets the fused operator be causal
        return GivenMask(rule=causal_from_start(*size))
    tensors = tuple(tensor for tensor in (cells, padding) if tensor is not None)
    if not tensors:
        return GivenMask(rule=MaskRule())

    def lay_out() -> Tensor:
        parts = []
        if cells is not None:
            own = cells.detach()
            parts.append(
                own[None, None] if own.ndim == 2 else own.view(n_rows, -1, *own.shape[1:])[row][None]
            )
        if padding is not None:
            own = padding.detach()
            parts.append((own if own.ndim == 1 else own[row])[None, None, None])
        if len(parts) == 1 and parts[0].dtype == torch.bool:
            return F.pad(~parts[0], (0, n_extra), value=True)
        return F.pad(sum(map(_as_numbers, parts), torch.zeros(())), (0, n_extra))

    return masks.read(tensors, (LAYER, row), lay_out, *size)


def _as_numbers(mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill_(mask, -math.inf)
    return mask.float()


def check_softmax(weights: Tensor, dim: object, *, is_of_attention: bool) -> bool:
    """Whether a softmax may be attention: over the last axis of a tensor with three axes or more.

    With two, [batch, n_keys], it is one query in a module whose name tells of attention; else it is a
    classifier's.
    """
    is_last = isinstance(dim, int) and dim in (-1, weights.ndim - 1)
    return is_last and weights.ndim >= (2 if is_of_attention else 3)


def row_of_weights(weights: Tensor, row: int | None) -> Tensor:
    """The weights of one row of a batch, [n_heads, n_queries, n_keys]; raises UserError for several."""
    whole = weights[:, None, None] if weights.ndim == 2 else _with_heads(weights)
    check_numbers([whole], "softmax")
    place = chosen_row(whole.shape[:-3], row, "softmax")
    found: Tensor = whole[place].detach()
    if not found.is_floating_point():
        raise UserError("Only a softmax of floating-point numbers can be shown.")
    return found


def n_rows_of(kind: str, found: Any) -> int:
    """Batch rows of a call, according to its result."""
    if kind == "layer":
        return int(found[0].shape[1]) if found[0].ndim == 3 else 1
    if kind == "softmax":
        lead = found.shape[:1] if found.ndim == 2 else _with_heads(found).shape[:-3]
    else:
        lead = _with_heads(found).shape[:-3]
    return math.prod(lead)
