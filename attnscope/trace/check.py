"""The self-check: a trace proves itself against what the model computed.

Weights are recomputed apart from the model, multiplied by the values, and compared with the head
outputs that the model itself used. A mask lost on the way, a wrong normaliser or dropout shows here.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from attnscope.records.maps import SelfCheck
from attnscope.records.sites import Site, SiteKey
from attnscope.trace.probe import SiteRecord
from attnscope.trace.weights import site_weights

MAX_CELLS = 1_000_000
"""Longer maps are checked on rows spread evenly, so many cells a site."""


def check_records(sites: tuple[Site, ...], records: Mapping[SiteKey, SiteRecord]) -> SelfCheck:
    """The worst numbers over all sites; a value that cannot be computed counts as infinite."""
    row_sum = forbidden = output = 0.0
    for site in sites:
        record = records[site.key]
        for rows in _checked_rows(record):
            numbers = _check_rows(record, rows, is_causal=site.stack == "decoder")
            row_sum, forbidden, output = (
                max(old, new) for old, new in zip((row_sum, forbidden, output), numbers, strict=True)
            )
    return SelfCheck(
        row_sum_error=row_sum,
        forbidden_weight=forbidden,
        output_error=output,
        is_evaluation_mode=not any(record.is_training for record in records.values()),
    )


def _checked_rows(record: SiteRecord) -> list[slice]:
    n_heads, n_queries = record.q.shape[0], record.n_queries
    if n_heads * n_queries * record.n_keys <= MAX_CELLS:
        return [slice(0, n_queries)]
    n_rows = max(1, MAX_CELLS // (n_heads * record.n_keys))
    step = max(1, n_queries // n_rows)
    return [slice(row, row + 1) for row in range(n_queries - 1, -1, -step)]


def _check_rows(record: SiteRecord, rows: slice, *, is_causal: bool) -> tuple[float, float, float]:
    weights = site_weights(record, rows=rows)  # [H, rows, T]
    blind = _rows_without_keys(record, rows).to(weights.device)
    forbidden = _weight_on_the_future(weights, rows, record) if is_causal else 0.0
    allowed = weights if record.rule.is_empty else weights.nan_to_num(nan=0.0)
    n_groups = record.q.shape[0] // record.v.shape[0]
    v = record.v.float()
    v = v if n_groups == 1 else v.repeat_interleave(n_groups, dim=0)
    difference = (allowed @ v - record.out[:, rows].float()).abs()
    sums = torch.where(blind, 0.0, allowed.sum(dim=-1) - 1.0).abs()
    return _worst(sums), forbidden, _worst(difference)


def _rows_without_keys(record: SiteRecord, rows: slice) -> Tensor:
    blind = record.rule.rows_without_keys(record.n_queries, record.n_keys)
    if blind is None:
        return torch.zeros((), dtype=torch.bool)
    return blind[0] if blind.shape[-1] == 1 else blind[0][:, rows]


def _weight_on_the_future(weights: Tensor, rows: slice, record: SiteRecord) -> float:
    """The largest weight on a later token: a decoder has none, whatever its mask claims."""
    query = torch.arange(rows.start, rows.stop, device=weights.device) + record.n_keys - record.n_queries
    key = torch.arange(record.n_keys, device=weights.device)
    future = weights.masked_fill(key[None, :] <= query[:, None], 0.0)
    return _worst(future.nan_to_num(nan=0.0))


def _worst(values: Tensor) -> float:
    if values.numel() == 0:
        return 0.0
    worst = float(values.max())
    return worst if worst == worst else float("inf")
