"""The record of one site on one text, and how it is built from the calls that a probe saw.

| symbol | meaning                                          | shape                        |
|--------|--------------------------------------------------|------------------------------|
| q      | queries                                          | [n_heads, n_queries, d_head] |
| k      | keys                                             | [n_kv_heads, n_keys, d_head] |
| v      | values, kept on request                          | [n_kv_heads, n_keys, d_value]|
| lse    | log-sum-exp of each row's allowed scores         | [n_heads, n_queries]         |
| out    | weights · v before the gate, kept on request     | [n_heads, n_queries, d_value]|

Probes: recording what attention did, changing single heads, multiplying head outputs by gates.

Attention weights recomputed from what a probe recorded, for any rectangle of any map.

    weight_ij = exp(score_ij − lse_i)

(softmax with its normaliser already known; Vaswani et al. 2017, equation 1; `nn/scores.py`). NaN stands
wherever the mask forbids, so that "not allowed" never looks like "weight 0".

| symbol  | meaning                             | shape                      |
|---------|-------------------------------------|----------------------------|
| weights | after softmax; NaN = not allowed    | [n_heads, n_rows, n_cols]  |
| pooled  | one value for each cell of a tile   | [height, width]            |
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.errors import NotFiniteError
from attnscope.nn import stop_if_unwanted
from attnscope.nn.edits import Call, Edits, QuietProbe
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import ALL, ScoreRule, log_weights
from attnscope.records.interventions import Interventions
from attnscope.records.models import Recorded
from attnscope.records.outputs import Output
from attnscope.records.sites import Gates, Site, SiteKey, check_heads
from attnscope.records.tokens import Tokens
from attnscope.trace.check import SiteProof, SiteTensors, prove


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteRecord(SiteTensors):
    """One site's record on one text; the tensors have no batch axis and are never written to.

    `k` may have one row for each head where the heads of a group were changed apart. `proof` is what
    was checked against the model's own output while its values were at hand.
    """

    proof: SiteProof

    @property
    def n_queries(self) -> int:
        return self.q.shape[1]

    @property
    def n_keys(self) -> int:
        return self.k.shape[1]

    @property
    def n_bytes(self) -> int:
        """Memory of the record; tables shared by layers are counted for each."""
        tensors = [self.q, self.k, self.lse, self.v, self.out, self.rule.key_valid]
        tensors += [self.score.sinks, self.score.vector]
        tensors += [] if self.score.bias is None else list(self.score.bias.tensors().values())
        tensors += [] if self.rule.pattern is None else list(self.rule.pattern.tensors().values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextRecord:
    """The records of all sites on one text: a trace, as it is stored in a file.

    `recorded` says where attention without a model comes from, and is None for a model's. `said` is what the
    model made of the text, where a file kept it: the last of its predictions.
    """

    sites: tuple[Site, ...]
    gates: Gates
    source: Tokens
    target: Tokens | None
    records: Mapping[SiteKey, SiteRecord]
    logits: Tensor | None = None
    interventions: Interventions = ()
    recorded: Recorded | None = None
    said: Output | None = None

    def __post_init__(self) -> None:
        missing = [site.key for site in self.sites if site.key not in self.records]
        if missing:
            raise ValueError(f"no record of the sites {missing}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """One call as a probe saw it, cut to the last text of its batch."""

    site: SiteKey
    q: Tensor
    k: Tensor
    v: Tensor
    lse: Tensor
    out: Tensor
    rule: MaskRule
    score: ScoreRule
    is_training: bool

    @property
    def kind(self) -> tuple[object, ...]:
        """Key shared by calls that can be checked together."""
        score = self.score
        biases = () if score.bias is None else tuple(score.bias.tensors().values())
        tensors = map(id, (score.sinks, score.vector, *biases))
        numbers = (score.scale, score.softcap, score.is_kernel, *tensors)
        shapes = (self.q.shape, self.k.shape, self.v.shape, self.q.dtype, self.lse.dtype)
        return (*shapes, *numbers, self.rule.kind, self.site[0] == "decoder", self.is_training)


class Pending:
    """Calls waiting to become records; similar ones are copied and checked together."""

    def __init__(self, *, keep_values: bool) -> None:
        self._keep_values = keep_values
        self._seen: list[_Seen] = []

    def add(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Take one call; its last text counts."""
        parts = (call.q, call.k, call.v, lse, out)
        q, k, v, lse, out = ((part.detach() if part.requires_grad else part)[-1] for part in parts)
        self._seen.append(
            _Seen(
                site=site,
                q=q,
                k=k,
                v=v,
                lse=lse,
                out=out,
                rule=call.rule.last_text(),
                score=call.score.last_text(),
                is_training=is_training,
            )
        )

    def finish(self) -> dict[SiteKey, SiteRecord]:
        """Every call taken as a record, in their order; nothing waits afterwards."""
        seen, self._seen = self._seen, []
        groups: dict[tuple[object, ...], list[_Seen]] = {}
        for call in seen:
            groups.setdefault(call.kind, []).append(call)
        found: dict[SiteKey, SiteRecord] = {}
        for group in groups.values():
            found |= _records_of(group, keep_values=self._keep_values)
        return {call.site: found[call.site] for call in seen}


def _records_of(group: list[_Seen], *, keep_values: bool) -> dict[SiteKey, SiteRecord]:
    """Records in memory of their own: queries and keys are often views of one product."""
    first = group[0]
    q, k, lse = (torch.stack([getattr(call, name) for call in group]) for name in ("q", "k", "lse"))
    v, out = (tuple(getattr(call, name) for call in group) for name in ("v", "out"))  # only looked at
    sites = SiteTensors(q=q, k=k, lse=lse, rule=first.rule, score=first.score)
    is_causal_site = first.site[0] == "decoder"
    proofs = prove(sites, is_causal_site=is_causal_site, is_training=first.is_training, seen=(v, out))
    return {
        call.site: SiteRecord(
            q=q[index],
            k=k[index],
            lse=lse[index],
            rule=call.rule,
            score=call.score,
            proof=proofs[index],
            v=v[index].clone() if keep_values else None,
            out=out[index].clone() if keep_values else None,
        )
        for index, call in enumerate(group)
    }


PENDING_CELLS = 1_000_000
"""Sites with maps up to this size are put in order together after the pass: their cost is that of calls."""


class GateProbe(QuietProbe):
    """Multiplies head outputs by gates, applies edits, and records nothing.

    With `is_paired` the batch holds two copies of a text: the first is left alone, the second gated
    and edited, so that before and after come from one pass.
    """

    def __init__(
        self,
        sites: tuple[Site, ...],
        gates: Gates,
        *,
        is_paired: bool = False,
        edits: Mapping[SiteKey, Edits] | None = None,
    ) -> None:
        check_heads(map(itemgetter(0), gates.values), sites)
        self._edits = dict(edits or {})
        self._gates: dict[SiteKey, Tensor] = {}
        for site in sites if gates else ():
            gate = _gate_of(site, gates, is_paired)
            if gate is not None:
                self._gates[site.key] = gate

    def gate(self, site: SiteKey) -> Tensor | None:
        """Multipliers [n_heads] or [2, n_heads], or None when every gate of the site is 1."""
        return self._gates.get(site)

    def edits(self, site: SiteKey) -> Edits | None:
        """Changes at the site, or None."""
        return self._edits.get(site)


class TraceProbe(GateProbe):
    """Gates head outputs and records every site, or the `wanted` ones; of a batch, its last text.

    Values and outputs are let go once they have proved the weights, unless `keep_values`. Of long texts
    `hear` gets what is recorded, after each site.
    """

    def __init__(
        self,
        sites: tuple[Site, ...],
        gates: Gates,
        *,
        wanted: frozenset[SiteKey] | None = None,
        is_paired: bool = False,
        edits: Mapping[SiteKey, Edits] | None = None,
        keep_values: bool = False,
        hear: Callable[[Mapping[SiteKey, SiteRecord]], object] = lambda _records: None,
    ) -> None:
        super().__init__(sites, gates, is_paired=is_paired, edits=edits)
        self._hear = hear
        self._wanted = frozenset(map(attrgetter("key"), sites)) if wanted is None else wanted
        self._pending = Pending(keep_values=keep_values)
        self._records: dict[SiteKey, SiteRecord] = {}

    @property
    def records(self) -> dict[SiteKey, SiteRecord]:
        """Records so far, in the order of the calls."""
        self._records |= self._pending.finish()
        return self._records

    def keep(self, records: Mapping[SiteKey, SiteRecord]) -> None:
        """Take earlier records of the wanted sites."""
        self._records |= {site: record for site, record in records.items() if self.wants(site)}

    def wants(self, site: SiteKey) -> bool:
        return site in self._wanted

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep one call of a wanted site; a site that is called again is recorded anew."""
        self._pending.add(site, call, lse=lse, out=out, is_training=is_training)
        if call.q.shape[1] * call.q.shape[2] * call.k.shape[2] > PENDING_CELLS:
            self._records |= self._pending.finish()
            if not torch.is_grad_enabled():
                stop_if_unwanted()
            self._hear(self._records)


def _gate_of(site: Site, gates: Gates, is_paired: bool) -> Tensor | None:
    values = [gates.value(head) for head in site.heads]
    if all(value == 1.0 for value in values):
        return None
    gated = torch.tensor(values, dtype=torch.float32)
    return torch.stack((torch.ones_like(gated), gated)) if is_paired else gated


Reduction = Literal["max", "mean"]
BLOCK_CELLS = 2_000_000
"""At most so many weights are held at a time while a tile is pooled (8 MB)."""


def site_weights(
    record: SiteRecord,
    heads: slice = ALL,
    rows: slice = ALL,
    cols: slice = ALL,
    *,
    forbidden: float = math.nan,
) -> Tensor:
    """Weights of some heads, rows and columns of a site: float32 [n_heads, n_rows, n_cols].

    `forbidden` is the logarithm that stands where the mask forbids. Raises Stopped where nobody waits for
    what they are worked out for.
    """
    return _site_logs(record, heads, rows, cols, forbidden=forbidden).exp_().float()


def _site_logs(
    record: SiteRecord, heads: slice, rows: slice = ALL, cols: slice = ALL, *, forbidden: float = -math.inf
) -> Tensor:
    """Log-weights of some heads, rows and columns, [n_heads, n_rows, n_cols]."""
    stop_if_unwanted()
    return log_weights(
        record.q[None],
        record.k[None],
        record.lse[None, heads, rows],
        rule=record.rule,
        score=record.score,
        heads=heads,
        rows=rows,
        cols=cols,
        forbidden=forbidden,
    )[0]


def weights_to_sum(record: SiteRecord, heads: slice = ALL, rows: slice = ALL, cols: slice = ALL) -> Tensor:
    """The same with 0 where the mask forbids, to be summed or multiplied.

    Raises NotFiniteError where the model's own weights are no numbers: summed as 0 they would look right.
    """
    return finite_weights(site_weights(record, heads, rows, cols, forbidden=-math.inf))


def finite_weights(weights: Tensor) -> Tensor:
    """Weights, 0 where the mask forbids; raises NotFiniteError if any is NaN or infinite."""
    if bool(torch.isfinite(weights.sum())):
        return weights
    raise NotFiniteError(
        "The attention weights of the model are not finite on this text: they are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


def pooled_tile(
    record: SiteRecord, head: int, rows: range, cols: range, size: tuple[int, int], reduce: Reduction
) -> Tensor:
    """A rectangle of one map reduced to at most `size` (height, width) cells: float32.

    Each cell stands for the weights of rows floor(r·R/h) … ceil((r+1)·R/h) − 1 and of the columns
    likewise: their maximum, or their mean over the allowed ones; NaN where none is allowed. A
    rectangle that fits within `size` comes back exactly, one cell for one weight.
    """
    height, width = min(size[0], len(rows)), min(size[1], len(cols))
    block = max(1, BLOCK_CELLS // max(1, len(cols)))
    strips = [
        _pool_columns(_tile_block(record, head, rows[start : start + block], cols), width, reduce)
        for start in range(0, len(rows), block)
    ]
    values = torch.cat([value for value, _ in strips]) if strips else torch.zeros(0, width)
    allowed = torch.cat([share for _, share in strips]) if strips else torch.zeros(0, width)
    values, allowed = _pool_rows(values, height, reduce), _pool_rows(allowed, height, reduce)
    return torch.where(allowed > 0, values if reduce == "max" else values / allowed, math.nan)


def _tile_block(record: SiteRecord, head: int, rows: range, cols: range) -> Tensor:
    return site_weights(
        record, slice(head, head + 1), slice(rows.start, rows.stop), slice(cols.start, cols.stop)
    )[0]


def poolable(values: Tensor) -> Tensor:
    """The values on a device where adaptive pooling is reliable: the CPU instead of MPS.

    There windows of unequal sizes are silently wrong (pytorch/pytorch issue 190064, torch 2.13; drop when the
    oldest torch that is supported has it mended).
    """
    return values if values.device.type in ("cpu", "cuda") else values.cpu()


def _pool_columns(weights: Tensor, width: int, reduce: Reduction) -> tuple[Tensor, Tensor]:
    """Pooled values, and the share of allowed cells behind each (for `max`: whether there is any)."""
    allowed = (~weights.isnan()).float()
    values = weights.nan_to_num(nan=0.0)
    if weights.shape[1] == width:
        return values, allowed
    values, allowed = poolable(values), poolable(allowed)
    pool = F.adaptive_max_pool1d if reduce == "max" else F.adaptive_avg_pool1d
    return pool(values[:, None], width)[:, 0], pool(allowed[:, None], width)[:, 0]


def _pool_rows(strip: Tensor, height: int, reduce: Reduction) -> Tensor:
    if strip.shape[0] == height:
        return strip
    pool = F.adaptive_max_pool1d if reduce == "max" else F.adaptive_avg_pool1d
    return pool(poolable(strip).T[:, None], height)[:, 0].T.contiguous()


def pooled_levels(record: SiteRecord, max_px: int) -> tuple[Tensor, Tensor]:
    """Thumbnails of every head of a site as bytes, and the largest weight of each head.

    Level 0 is "not allowed or no data", 1 + 254 · weight / peak the maximum over a cell's weights.
    Shapes: uint8 [n_heads, height, width], float32 [n_heads].
    """
    n_heads, n_rows, n_cols = record.q.shape[0], record.n_queries, record.n_keys
    size = (min(n_rows, max_px), min(n_cols, max_px))
    n_together = BLOCK_CELLS // max(1, n_rows * n_cols)
    if n_together:
        parts = [slice(start, start + n_together) for start in range(0, n_heads, n_together)]
        pooled = torch.cat([_pool_logs(_site_logs(record, part), size) for part in parts])
    else:
        tiles = [
            pooled_tile(record, head, range(n_rows), range(n_cols), size, "max") for head in range(n_heads)
        ]
        pooled = torch.stack(tiles).nan_to_num(nan=-1.0, posinf=-1.0)
    return _levels_of(pooled)


def levels_of_logs(logs: Tensor, max_px: int) -> tuple[Tensor, Tensor]:
    """The same from logarithms already laid out: [n_heads, n_rows, n_cols], −inf = forbidden."""
    return _levels_of(_pool_logs(logs, (min(logs.shape[1], max_px), min(logs.shape[2], max_px))))


def _pool_logs(logs: Tensor, size: tuple[int, int]) -> Tensor:
    """The largest weight of each cell, −1 if it has none: [n_heads, height, width].

    It is that of the largest logarithm, so that the exponential is taken of few.
    """
    if not logs.numel():
        return logs.new_zeros((len(logs), *size), dtype=torch.float32)
    pooled = _largest(_largest(logs, 1, size[0]), 2, size[1])
    if not bool((pooled < _MOST_LOG).all()):  # what is no number counts as no data, not its neighbours
        return _pool_heads(logs.masked_fill(logs.isneginf(), math.nan).exp().float(), size)
    return pooled.clamp(min=-87.0).exp_().masked_fill_(pooled.isneginf(), -1.0).float()


_MOST_LOG = 88.0
"""Of a number that float32 holds."""


def _levels_of(pooled: Tensor) -> tuple[Tensor, Tensor]:
    if pooled.numel() == 0:
        return torch.zeros(pooled.shape, dtype=torch.uint8), torch.zeros(len(pooled))
    peaks = pooled.amax(dim=(1, 2)).clamp_(min=0.0)
    relative = pooled / peaks.clamp(min=torch.finfo(torch.float32).tiny)[:, None, None]
    levels = torch.where(pooled >= 0, relative * 254.0 + 1.5, 0.0).to(torch.uint8)  # .5 rounds
    return levels, peaks


def _pool_heads(weights: Tensor, size: tuple[int, int]) -> Tensor:
    values = weights.nan_to_num_(nan=-1.0, posinf=-1.0)
    if values.numel() == 0:
        return values.new_zeros((len(values), *size))
    if values.shape[1:] == size:
        return values
    return _largest(_largest(values, 1, size[0]), 2, size[1])


_LARGE_PART = 8192
"""Cells from which on a call for each part takes less than passes over all of them that write as much."""


def _largest(values: Tensor, dim: int, n_parts: int) -> Tensor:
    """The largest of each part of an axis, divided as in adaptive pooling, at a third of its cost.

    Large parts of rows are looked through one by one, small ones all together.
    """
    n = values.shape[dim]
    if n == n_parts:
        return values
    starts = [part * n // n_parts for part in range(n_parts)]
    stops = [-(-(part + 1) * n // n_parts) for part in range(n_parts)]
    if dim < values.dim() - 1 and values.numel() >= _LARGE_PART * n_parts:
        found = values.new_empty((*values.shape[:dim], n_parts, *values.shape[dim + 1 :]))
        for part, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            torch.amax(values.narrow(dim, start, stop - start), dim=dim, out=found.select(dim, part))
        return found
    least = min((stop - start for start, stop in zip(starts, stops, strict=True)), default=0)
    reach = 1  # cell i is the largest of `reach` cells from i on; no part is longer than two of these
    while 2 * reach <= least:
        n_left = values.shape[dim] - reach
        values = torch.maximum(values.narrow(dim, 0, n_left), values.narrow(dim, reach, n_left))
        reach *= 2
    places = torch.tensor([starts, [stop - reach for stop in stops]], device=values.device)
    first, last = (values.index_select(dim, row) for row in places)
    return torch.maximum(first, last, out=first)
