"""What one head did on one text, in six numbers.

| symbol | meaning                                              | shape                       |
|--------|------------------------------------------------------|-----------------------------|
| a      | weights, rows sum to 1; NaN where the mask forbids   | [n_heads, n_queries, n_keys]|
| n_i    | number of keys that query i may see                  | [n_queries]                 |

Means run over the queries that see a key; special tokens stay in as keys and nothing is renormalised.

- entropy: mean_i −Σ_j a_ij ln a_ij / ln n_i, over queries that see two keys or more (one key: nothing to
  choose). 0 is one key, 1 is all alike. Never divided by ln n on causal rows.
- distance: mean_i Σ_j a_ij · |i − j|, in tokens; self-attention only.
- confidence: mean_i max_j a_ij with the end token's column left out (Voita et al. 2019, section 5.1).
- previous, diagonal: mean weight on token i − 1 (over i ≥ 1) and on token i; self-attention only.
- first: mean weight on the first key.
  These three leave out the rows of special tokens in self-attention: many heads rest there.

The sums are those of `head_sums.py`, in blocks of rows: a text of any length needs no more memory.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attnscope.analysis.facts import Facts, build_facts, facts_of_site
from attnscope.analysis.head_sums import BLOCK_CELLS, HeadSums, sum_site
from attnscope.analysis.row_sample import FEWEST_ROWS, SAMPLED, estimate_rows
from attnscope.errors import of_wrong_kind
from attnscope.nn.scores import log_weights
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.records.axes import is_self_attention
from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.sites import Site, Stack
from attnscope.records.tokens import Token
from attnscope.trace.thumbnails import grid_of_logs
from attnscope.trace.trace import Trace

MAX_CELLS = 64_000_000
"""Longer traces are estimated from rows with so many cells in all (less than a second)."""

_NAMES = ("entropy", "distance", "confidence", "previous", "first", "diagonal")


def measure(trace: Trace, *, max_cells: int | None = MAX_CELLS) -> tuple[HeadMeasures, ...]:
    """The measures of every head of a trace, in the order of its sites.

    Of maps of more than `max_cells` cells in all, entropy, distance and confidence are estimated from some of
    the rows, always the same: the records say how many, with standard errors (`entropy_error` …). None reads
    every row, whatever time it takes.
    """
    if not isinstance(trace, Trace):
        action = "Of a model measure(model.trace(text)) measures a text, measure_texts(model, texts) many."
        raise of_wrong_kind(trace, "what to measure", "a trace", action)
    found: list[HeadMeasures] = []
    most = None if max_cells is None else max_cells // max(1, len(trace.sites))
    for site in trace.sites:
        record = trace.records[site.key]
        n_rows = math.inf if most is None else most // max(1, site.n_heads * record.n_keys)
        if max(FEWEST_ROWS, n_rows) < record.n_queries:
            found += _estimated(trace, site, max(FEWEST_ROWS, int(n_rows)))
        else:
            found += _named(site, site_sums(trace, site, has_detectors=False).values())
    return tuple(found)


def measured_grids(trace: Trace, max_px: int) -> tuple[tuple[SiteGrid, ...], tuple[HeadMeasures, ...]]:
    """`trace.grids` and `measure` at once: maps that can be laid out whole are laid out once for both."""
    grids: list[SiteGrid] = []
    found: list[HeadMeasures] = []
    facts: dict[Stack, Facts] = {}
    records = [trace.records[site.key] for site in trace.sites]
    if any(len(one.q) * one.n_queries * one.n_keys > BLOCK_CELLS for one in records):
        return trace.grids(max_px), measure(trace)
    for site, record in zip(trace.sites, records, strict=True):
        stop_if_unwanted()
        if site.stack not in facts:
            facts[site.stack] = _facts_of(trace, site)
        q, k, rule = record.q[None], record.k[None], record.rule
        logs = log_weights(q, k, record.lse[None], rule=rule, score=record.score)
        grids.append(grid_of_logs(site, record, logs[0], max_px))
        allowed = rule.allowed(record.n_queries, record.n_keys, device=q.device).to(q.device)
        sums = HeadSums(facts[site.stack], site.n_heads, has_detectors=False)
        sums.add(logs, allowed, slice(0, record.n_queries), slice(0, record.n_keys))
        found += _named(site, sums.values())
    return tuple(grids), tuple(found)


def _facts_of(trace: Trace, site: Site) -> Facts:
    targets = None if trace.target is None else [trace.target]
    return facts_of_site(site, [trace.source], targets, device=trace.records[site.key].q.device)


def _estimated(trace: Trace, site: Site, n_rows: int) -> list[HeadMeasures]:
    values, errors, n_read = estimate_rows(trace, site, n_rows)
    found = []
    for head, one in enumerate(_named(site, values)):
        entropy, distance, confidence = (float(errors[name][head]) for name in SAMPLED)
        found.append(
            replace(
                one,
                n_rows=n_read,
                n_all_rows=trace.records[site.key].n_queries,
                entropy_error=entropy,
                distance_error=distance,
                confidence_error=confidence,
            )
        )
    return found


def site_sums(trace: Trace, site: Site, *, has_detectors: bool = True) -> HeadSums:
    """The sums behind every measure of a site of a trace, as a batch of one text; see `sum_site`."""
    record = trace.records[site.key]
    return sum_site(
        record.q[None],
        record.k[None],
        rule=record.rule,
        score=record.score,
        lse=record.lse[None],
        facts=_facts_of(trace, site),
        has_detectors=has_detectors,
    )


def measure_heads(
    weights: Tensor, site: Site, *, keys: tuple[Token, ...] = (), first_head: int = 0
) -> list[HeadMeasures]:
    """The measures of heads whose weights are given, [n_heads, n_queries, n_keys].

    `keys` names the end token for the confidence; without them every column counts.
    """
    n_heads, n_queries, n_keys = weights.shape
    is_self = is_self_attention(site) and n_queries == n_keys
    plain = [Token(id=0, piece="")] * max(n_queries, n_keys)
    columns: Sequence[Token] = keys if len(keys) == n_keys else plain[:n_keys]
    facts = build_facts([plain[:n_queries]], [columns], is_self=is_self)
    sums = HeadSums(facts, n_heads, has_detectors=False)
    if n_keys:
        logs = weights.float().nan_to_num(nan=0.0).log()[None]
        sums.add(logs, ~weights.isnan()[None], slice(0, n_queries), slice(0, n_keys))
    return _named(site, sums.values(), first_head)


def row_entropy(a: Tensor) -> Tensor:
    """−Σ_j a_ij ln a_ij of each row in nats; 0 · ln 0 is 0."""
    logs: Tensor = torch.special.xlogy(a, a)
    return -logs.sum(dim=-1)


def _named(site: Site, values: Mapping[str, Tensor], first_head: int = 0) -> list[HeadMeasures]:
    """Records from values [1, n_heads] by name."""
    lists = {name: values[name][0].tolist() for name in _NAMES if name in values}
    n_heads = len(lists["confidence"])
    return [
        HeadMeasures(
            head=site.heads[first_head + head],
            entropy=lists["entropy"][head],
            distance=lists["distance"][head] if "distance" in lists else math.nan,
            confidence=lists["confidence"][head],
            previous=lists["previous"][head] if "previous" in lists else math.nan,
            first=lists["first"][head],
            diagonal=lists["diagonal"][head] if "diagonal" in lists else math.nan,
        )
        for head in range(n_heads)
    ]
