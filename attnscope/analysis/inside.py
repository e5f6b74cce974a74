"""Stepping through one head on one query: every number from q and k to the head's output.

    dot = Σ_d q_d k_d        score = scale · dot, capped, plus bias
    weight = exp(score − lse)        output = Σ weight · v

(Vaswani et al. 2017, equation 1; other scores as in `nn/scores.py`; the view after Vig 2019's neuron view.)
Everything is computed again in float64 from what a probe recorded, so that the output, compared with the
model's own, proves the numbers in between.

| symbol | meaning                          | shape    |
|--------|----------------------------------|----------|
| row    | weights of one query on all keys | [n_keys] |
| chosen | places of the keys shown         | [n]      |
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.nn.scores import ALL, ScoreRule
from attnscope.records.maps import MAX_SHOWN, N_STRONGEST, HeadInside, Numbers
from attnscope.records.sites import HeadRef, check_heads
from attnscope.records.tokens import Token
from attnscope.schemes.scores import Comparison
from attnscope.trace.record import SiteRecord, site_weights
from attnscope.trace.trace import Trace

_BLOCK_KEYS = 16_384


def look_inside(trace: Trace, head: HeadRef, query: int) -> HeadInside:
    """The inside of one head on one query of a trace made with `keep_values`, or of `Model.trace_site`.

    Raises UserError for a head or query that is not there, and for a trace without values.
    """
    check_heads((head,), trace.sites)
    queries, keys = trace.tokens(head.site_key)
    record, gate = trace.records[head.site_key], trace.gates.value(head)
    return inside_of_record(record, head, query, queries=queries, keys=keys, gate=gate)


@torch.no_grad()
def inside_of_record(
    record: SiteRecord,
    head: HeadRef,
    query: int,
    *,
    queries: Sequence[Token],
    keys: Sequence[Token],
    gate: float = 1.0,
) -> HeadInside:
    """`look_inside` for a site's record; of more than MAX_SHOWN keys it shows the N_STRONGEST."""
    v, own = _values_of(record, head, query)
    row = site_weights(record, slice(head.head, head.head + 1), slice(query, query + 1))[0, 0]
    row = row.cpu().double()
    chosen = _chosen_keys(row)
    steps = _steps(record, head.head, query, chosen)
    numbers: dict[str, Any] = {name: _numbers(step) for name, step in steps.items()}
    lse = float(record.lse[head.head, query])
    weight = (steps["score"] - lse).exp().masked_fill(steps["score"].isneginf(), math.nan)
    sink = None if record.score.sinks is None else float(record.score.sinks[head.head])
    total = float(row.nansum())
    places = tuple(chosen.tolist())
    return HeadInside(
        head=head,
        query=query,
        n_queries=record.n_queries,
        query_token=queries[query],
        n_keys=record.n_keys,
        n_allowed=int(_allowed(record, head.head, query).sum()),
        keys=places,
        key_tokens=tuple(keys[place] for place in places),
        comparison=_comparison(record.score),
        scale=record.score.scale,
        softcap=record.score.softcap,
        sink=sink,
        lse=lse,
        gate=gate,
        **numbers,
        weight=_numbers(weight),
        **_output_numbers(row, v, _wide(own[head.head, query]), weight, chosen),
        row_sum_error=_row_sum_error(total, lse, sink),
        rest_weight=max(0.0, total - float(row[chosen].nansum())) if len(places) < len(row) else 0.0,
    )


def _steps(record: SiteRecord, head: int, query: int, chosen: Tensor) -> dict[str, Tensor]:
    """One row of scores for the chosen keys, each step that there is by its name in `HeadInside`.

    float64 on the CPU.
    """
    score, group = record.score, record.q.shape[0] // record.k.shape[0]
    q, k = _wide(record.q[head, query]), _wide(record.k[head // group, chosen.to(record.k.device)])
    products = q * k if score.vector is None else _wide(score.vector[head]) * torch.tanh(q + k)
    dot = products.sum(dim=-1)
    s = score.scale * dot
    found = {"q": q, "k": k, "products": products, "dot": dot, "scaled": s}
    if score.is_kernel:
        found["logged"] = s = s.clamp(min=torch.finfo(torch.float32).tiny).log()
    if score.softcap is not None:
        found["capped"] = s = score.softcap * torch.tanh(s / score.softcap)
    if score.bias is not None:
        rows = slice(query, query + 1)
        bias = score.bias.part(record.n_queries, record.n_keys, rows, ALL)[-1]  # [n_heads or 1, 1, n_keys]
        found["bias"] = _wide(bias[head if len(bias) > 1 else 0, 0])[chosen]
        s = s + found["bias"]
    found["score"] = s.masked_fill(~_allowed(record, head, query)[chosen], -math.inf)
    return found


def _values_of(record: SiteRecord, head: HeadRef, query: int) -> tuple[Tensor, Tensor]:
    """The values of a head and the site's output; what is not there is refused."""
    if record.v is None or record.out is None:
        raise UserError(
            "This trace holds no values.",
            expected="a trace made with keep_values",
            action="Trace the text again with keep_values=True.",
        )
    for what, index, n in (("head", head.head, record.q.shape[0]), ("query", query, record.n_queries)):
        if not 0 <= index < n:
            raise UserError(
                f"There is no {what} {index} here.",
                expected=f"0 to {n - 1}" if n else "a text that is not empty",
                action=f"Choose a {what} that exists.",
            )
    return record.v[head.head // (record.q.shape[0] // record.v.shape[0])], record.out


def _output_numbers(
    row: Tensor, v: Tensor, own_output: Tensor, weight: Tensor, chosen: Tensor
) -> dict[str, Any]:
    """The values of the chosen keys and the output over all keys, by their names in `HeadInside`."""
    shown_v = _wide(v[chosen.to(v.device)])
    output = _weighted_sum(row.nan_to_num(nan=0.0), v)
    return {
        "v": _numbers(shown_v),
        "value_norms": _numbers(shown_v.norm(dim=-1)),
        "weighted": _numbers(weight.nan_to_num(nan=0.0)[:, None] * shown_v),
        "output": _numbers(output),
        "own_output": _numbers(own_output),
        "output_error": _worst(output - own_output),
    }


def _allowed(record: SiteRecord, head: int, query: int) -> Tensor:
    """Which keys the mask lets one query of a head see, bool [n_keys]."""
    rows = slice(query, query + 1)
    allowed = record.rule.allowed(record.n_queries, record.n_keys, rows, device=record.q.device)[-1]
    return allowed[head if len(allowed) > 1 else 0, 0].cpu()


def _chosen_keys(row: Tensor) -> Tensor:
    """The places of the keys to show, ascending: all, or the strongest that the mask allows."""
    if len(row) <= MAX_SHOWN:
        return torch.arange(len(row), device=row.device)
    return row.nan_to_num(nan=-1.0).topk(N_STRONGEST).indices.sort().values


def _weighted_sum(row: Tensor, v: Tensor) -> Tensor:
    """Σ weight · v over all keys, in blocks: float64 values of long texts are large."""
    total = torch.zeros(v.shape[1], dtype=torch.float64)
    for start in range(0, len(row), _BLOCK_KEYS):
        part = slice(start, start + _BLOCK_KEYS)
        total += row[part] @ _wide(v[part])
    return total


def _comparison(score: ScoreRule) -> Comparison:
    if score.vector is not None:
        return "additive"
    return "kernel" if score.is_kernel else "product"


def _row_sum_error(total: float, lse: float, sink: float | None) -> float:
    """|Σ weight + sink's weight − 1|; 0 for a query that sees no key."""
    if lse == -math.inf:
        return 0.0
    error = abs(total + (0.0 if sink is None else math.exp(sink - lse)) - 1.0)
    return error if math.isfinite(error) else math.inf


def _worst(difference: Tensor) -> float:
    worst = float(difference.abs().max()) if difference.numel() else 0.0
    return worst if math.isfinite(worst) else math.inf


def _wide(tensor: Tensor) -> Tensor:
    return tensor.cpu().double()


def _numbers(tensor: Tensor) -> Numbers:
    found: Numbers = tensor.float().numpy()
    return found
