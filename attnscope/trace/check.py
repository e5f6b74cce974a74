"""The self-check: a trace is checked against the model's own computation.

Weights are recomputed apart from the model, multiplied by the values, and compared with the head
outputs that the model itself used. A mask lost on the way, a wrong normaliser or dropout shows here.
It is done while the pass runs, so that values and outputs need not be kept.

| symbol  | meaning                                        | shape                              |
|---------|------------------------------------------------|------------------------------------|
| weights | recomputed; 0 where the mask forbids           | [n_sites, n_heads, n_rows, n_keys] |
| sink    | weight that a head's sink takes from each row  | [n_heads, n_rows]                  |
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from attnscope.codec import At
from attnscope.nn.machine import map_products, threads_for
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import DenseBias, ScoreRule, log_weights, scores_of
from attnscope.records.maps import SelfCheck

MAX_CELLS = 16_000
"""Longer maps are checked on rows spread evenly, so many cells a site."""
READ_CELLS, READ_BLOCK_CELLS = 16_000_000, 500_000
"""Of a site that was read from a file so many cells are checked, and so many at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProof:
    """The result of one site's check, on `n_rows` of its `n_queries` rows.

    `row_sum_error` is max |Σ_j a_ij + sink_i − 1|, `forbidden_weight` the largest weight on a later
    token of a decoder whatever its rule claims, `output_error` max |weights · v − the model's own output|. A
    mask or a padding that the model had and the rule lacks, or the other way round, shows in the last.
    `is_given`: the weights were given as they are, so that there is no output to compare with. `is_read`:
    they were read from a file without values, so that `output_error` is what the file says of itself.
    """

    row_sum_error: float
    forbidden_weight: float
    output_error: float
    n_rows: int
    n_queries: int
    is_training: bool
    is_given: bool = False
    is_read: Annotated[bool, At(None)] = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteTensors:
    """The tensors kept of one site on one text; for shapes see `record.py`."""

    q: Tensor
    k: Tensor
    lse: Tensor
    rule: MaskRule
    score: ScoreRule
    v: Tensor | None = None
    out: Tensor | None = None


OfSites = Tensor | tuple[Tensor, ...]
"""One tensor whose first axis is that of sites, or a tensor for each site."""


@torch.no_grad()
def prove(
    sites: SiteTensors,
    *,
    is_causal_site: bool,
    is_training: bool,
    seen: tuple[OfSites, OfSites] | None = None,
) -> list[SiteProof]:
    """Check sites that share their rules; the tensors have an axis of sites first.

    Values and outputs are those of `sites`, or `seen`. What cannot be computed counts as infinite.
    """
    q, k = sites.q, sites.k
    v, out = (sites.v, sites.out) if seen is None else seen
    if v is None or out is None:
        raise ValueError("sites are checked with their values and outputs")
    n_heads, n_queries, n_keys = q.shape[1], q.shape[2], k.shape[2]
    step = max(1, -(-n_heads * n_queries * n_keys // MAX_CELLS))
    rows = slice((n_queries - 1) % step if n_queries else 0, n_queries, step)  # the last row among them
    n_rows = len(range(n_queries)[rows])
    with threads_for(map_products(len(q) * n_heads * n_rows * n_keys)):
        numbers = _prove_rows(sites, v, out, rows, is_causal_site=is_causal_site)
    return [
        SiteProof(
            row_sum_error=_finite(row_sum),
            forbidden_weight=_finite(forbidden),
            output_error=_finite(output),
            n_rows=n_rows,
            n_queries=n_queries,
            is_training=is_training,
            is_given=not v[0].shape[-1],
        )
        for row_sum, forbidden, output in numbers.T.tolist()
    ]


def merge_proofs(proofs: Iterable[SiteProof]) -> SelfCheck:
    """The worst numbers of several sites."""
    found = tuple(proofs)
    return SelfCheck(
        row_sum_error=max((proof.row_sum_error for proof in found), default=0.0),
        forbidden_weight=max((proof.forbidden_weight for proof in found), default=0.0),
        output_error=max((proof.output_error for proof in found), default=0.0),
        is_evaluation_mode=not any(proof.is_training for proof in found),
        n_rows=sum(proof.n_rows for proof in found),
        n_all_rows=sum(proof.n_queries for proof in found),
        is_empty=not found,
        is_given=any(proof.is_given for proof in found),
        is_read=any(proof.is_read for proof in found),
    )


@torch.no_grad()
def prove_again(
    claimed: SiteProof, site: SiteTensors, *, is_causal_site: bool, max_cells: int = READ_CELLS
) -> SiteProof:
    """Check a site that was read from a file, whatever the file claims.

    Every row is summed anew, of maps over `max_cells` rows spread evenly, and outputs are compared where the
    file has them. What cannot be looked at again is never better than it was claimed to be.
    """
    rule, n_heads, n_queries, n_keys = site.rule, len(site.q), site.q.shape[1], site.k.shape[1]
    step = max(1, -(-n_heads * n_queries * n_keys // max_cells))
    per_block = max(1, READ_BLOCK_CELLS // max(1, n_heads * n_keys)) * step
    worst = torch.zeros(3)
    for start in range((n_queries - 1) % step if n_queries else 0, n_queries, per_block):
        rows = slice(start, min(start + per_block, n_queries), step)
        found = _rows_again(site, rows)
        worst = torch.stack((worst, found)).nan_to_num(nan=math.inf, posinf=math.inf).amax(dim=0)
    row_sum, future, output = worst.tolist()
    is_bare = is_causal_site and not rule.is_causal and rule.pattern is None
    is_read = site.out is None and not claimed.is_given
    is_rounded = claimed.is_given and claimed.row_sum_error == 0.0 and row_sum <= _rounding(site.score)
    return replace(
        claimed,
        row_sum_error=0.0 if is_rounded else row_sum,
        forbidden_weight=future if is_bare else _not_less(claimed.forbidden_weight),
        output_error=_not_less(claimed.output_error) if site.out is None else output,
        n_rows=len(range((n_queries - 1) % step, n_queries, step)) if n_queries else 0,
        n_queries=n_queries,
        is_read=is_read,
    )


def _rows_again(site: SiteTensors, rows: slice) -> Tensor:
    """Errors of row sums, the largest weight on a later token, errors of outputs: [3]."""
    q, k, v, out, score = site.q, site.k, site.v, site.out, site.score
    s = scores_of(q[None], k[None], rule=site.rule, score=score, rows=rows)[0]  # [H, rows, T]
    sees = ~s.isneginf().all(dim=-1)
    own_lse = site.lse[:, rows].to(s)
    weights = torch.where(s.isneginf(), 0.0, (s - own_lse[..., None]).exp())
    sums = weights.sum(dim=-1)
    if score.sinks is not None:
        sums = sums + (score.sinks.to(sums)[:, None] - own_lse).exp()
    off = [torch.where(sees, sums - 1.0, 0.0), weights.new_zeros(1), weights.new_zeros(1)]
    n_queries, n_keys = q.shape[1], k.shape[1]
    off[1] = _weight_on_the_future(weights[None], rows, n_queries) if n_queries <= n_keys else off[1]
    if v is not None and out is not None:
        values = v.to(weights).repeat_interleave(len(q) // len(v), dim=0)
        difference = weights @ values - out[:, rows].to(weights)
        off[2] = torch.where(sees[..., None], difference, 0.0)
    return torch.stack([_worst(part[None])[0] for part in off]).float()


def _rounding(score: ScoreRule) -> float:
    """Tolerance for sums of given weights that were once half as wide: each of them shows it."""
    if not isinstance(score.bias, DenseBias):
        return 0.0
    weights = score.bias.cells.exp()
    for dtype in (torch.float16, torch.bfloat16):
        if torch.allclose(weights.to(dtype).to(weights), weights, rtol=1e-5, atol=1e-7):
            return torch.finfo(dtype).eps
    return 0.0


def _not_less(claim: float) -> float:
    return claim if claim >= 0.0 else math.inf


def _values(v: Tensor, n_groups: int, dtype: torch.dtype) -> Tensor:
    """The values [n_heads, n_keys, d_head] of every head of a site whose heads may share them."""
    v = v.to(dtype)
    return v if n_groups == 1 else v.repeat_interleave(n_groups, dim=0)


def _prove_rows(
    sites: SiteTensors,
    v: OfSites,
    out: OfSites,
    rows: slice,
    *,
    is_causal_site: bool,
) -> Tensor:
    """The three numbers of each site, [3, n_sites]; NaN if something could not be computed."""
    q, k, rule, score = sites.q, sites.k, sites.rule, sites.score
    n_queries, n_keys = q.shape[2], k.shape[2]
    own_lse = sites.lse[:, :, rows]
    may_be_blind = not rule.is_simple or rule.key_valid is not None or n_queries > n_keys
    blind = own_lse.isneginf() if may_be_blind else None
    if blind is not None:
        own_lse = own_lse.masked_fill(blind, 0.0)
    weights = log_weights(q, k, own_lse, rule=rule, score=score, rows=rows).exp_()  # [sites, H, rows, T]
    sums = weights.sum(dim=-1)
    if score.sinks is not None:
        sums = sums + (score.sinks.to(sums)[:, None] - own_lse).exp()
    if blind is not None:
        sums = sums.masked_fill(blind, 1.0)
    n_groups = q.shape[1] // v[0].shape[0]
    worst = [
        _worst((of_site @ _values(own_v, n_groups, weights.dtype) - own_out[:, rows])[None])
        for of_site, own_v, own_out in zip(weights, v, out, strict=True)
    ]
    forbidden = sums.new_zeros(len(q))
    if is_causal_site and not rule.is_causal and rule.pattern is None:
        forbidden = _weight_on_the_future(weights, rows, n_queries)
    return torch.stack([_worst(sums - 1.0), forbidden, torch.cat(worst)])


def _weight_on_the_future(weights: Tensor, rows: slice, n_queries: int) -> Tensor:
    """The largest weight on a later token, in decoders whose rule does not forbid it.

    A rule with a pattern of its own (a prefix that all may see) may allow later tokens.
    """
    n_keys = weights.shape[3]
    place = torch.arange(n_queries, device=weights.device)[rows] + (n_keys - n_queries)
    key = torch.arange(n_keys, device=weights.device)
    return _worst(weights * (key[None, :] > place[:, None]))


def _worst(values: Tensor) -> Tensor:
    """The largest magnitude of each site; NaN if it contains one."""
    flat = values.flatten(1)
    if flat.shape[1] == 0:
        return values.new_zeros(len(values))
    return flat.abs().amax(dim=1)  # the norm of order infinity takes 15 times as long (torch 2.13)


def _finite(value: float) -> float:
    return value if value == value else float("inf")
