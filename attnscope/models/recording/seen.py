"""One attention call of somebody's module, brought to one form whichever function was called.

| symbol | meaning                                        | shape                                   |
|--------|------------------------------------------------|-----------------------------------------|
| q      | queries of the chosen row of the batch         | [1, n_heads, n_queries, d_head]         |
| k, v   | keys and values                                | [1, n_kv_heads, n_keys, d]              |
| out    | what the call gave: head outputs, or projected | [1, n_heads, n_queries, d], [Q, d_model]|
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.counting import counted
from attnscope.errors import UserError
from attnscope.models.huggingface.masks_given import GivenMask
from attnscope.nn.attention import attend
from attnscope.nn.masks import MaskRule
from attnscope.nn.patterns import Intervals
from attnscope.nn.scores import ScoreRule
from attnscope.records.sites import NO_GATES, Site
from attnscope.trace.probe import TraceProbe
from attnscope.trace.record import SiteRecord

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
    """The record of a call: what it attended with, proved against what it gave, every row of it."""
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
    """Max |recomputed − given|, less what the rounding of a half-precision call explains.

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
    """What PyTorch means by `is_causal`: query i sees keys 0 to i, counted from the first of both."""
    if n_queries == n_keys:
        return MaskRule(is_causal=True)
    last = torch.arange(n_queries).clamp(max=n_keys - 1)[None]
    return MaskRule(pattern=Intervals(first=torch.zeros_like(last), last=last))


def chosen_row(lead: Sequence[int], row: int | None, name: str) -> tuple[int, ...]:
    """Where row `row` of a batch with the axes `lead` stands; raises UserError where one must be chosen."""
    n_rows = 1
    for size in lead:
        n_rows *= size
    if n_rows == 0:
        raise UserError(f"{name} was called with an empty batch.", expected="at least one row")
    if row is None and n_rows > 1:
        raise UserError(
            f"{name} was called with {n_rows} batch rows at once, and a map is of one.",
            expected=f"one of the rows 0 to {n_rows - 1}",
            action="Choose one when recording: attnscope.record(module, row=0).",
        )
    row = row or 0
    if not -n_rows <= row < n_rows:
        raise UserError(
            f"{name} was called with {counted(n_rows, 'batch row')}; there is no row {row}.",
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
    """Raise UserError for tensors that hold no numbers of one text that could be read."""
    for tensor in tensors:
        kind = ""
        if tensor.is_nested:
            kind = "nested tensors (texts of several lengths in one)"
        elif tensor.is_meta:
            kind = "tensors without numbers (device meta)"
        elif torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            kind = "tensors inside vmap or another transform"
        if kind:
            raise UserError(
                f"{name} was called with {kind}.",
                expected="plain tensors",
                action="Call the module by itself, with one padded batch.",
            )
