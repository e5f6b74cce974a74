"""What one head did on one text, in a few numbers; `schemes/measures` defines them.

| symbol  | meaning                                             | shape                       |
|---------|-----------------------------------------------------|-----------------------------|
| weights | softmax of the scores; NaN where the mask forbids   | [n_heads, n_queries, n_keys]|

Means run over the queries that see a key; special tokens stay in as keys and nothing is renormalised.
Weights on the previous token, the token itself and the first key leave out the rows of special tokens in
self-attention: many heads rest there.

The sums are those of `head_sums.py`, in blocks of rows: a text of any length needs no more memory.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attnscope.analysis.facts import Facts, build_facts, facts_of_site
from attnscope.analysis.head_sums import BLOCK_CELLS, HeadSums, sum_site
from attnscope.analysis.row_sample import FEWEST_ROWS, estimate_rows
from attnscope.errors import of_wrong_kind
from attnscope.nn.scores import log_weights
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.records.axes import is_self_attention
from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.sites import HeadRef, Site, Stack
from attnscope.records.tokens import Token
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.trace.thumbnails import grid_of_logs
from attnscope.trace.trace import Trace

MAX_CELLS = 64_000_000
"""Longer traces are estimated from rows with so many cells in all (less than a second)."""


def measure(trace: Trace, *, max_cells: int | None = MAX_CELLS) -> tuple[HeadMeasures, ...]:
    """The measures of every head of a trace, in the order of its sites.

    Of maps of more than `max_cells` cells in all, measures that need whole rows (entropy, distance …) are
    estimated from some of the rows, always the same: the records say how many, with standard errors
    (`entropy_error` …). None reads every row, whatever time it takes.
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
            found += _named(site.heads, site_sums(trace, site, has_offsets=False).values())
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
        sums = HeadSums(facts[site.stack], site.n_heads, has_offsets=False)
        sums.add(logs, allowed, slice(0, record.n_queries), slice(0, record.n_keys))
        found += _named(site.heads, sums.values())
    return tuple(grids), tuple(found)


def _facts_of(trace: Trace, site: Site) -> Facts:
    targets = None if trace.target is None else [trace.target]
    return facts_of_site(site, [trace.source], targets, device=trace.records[site.key].q.device)


def _estimated(trace: Trace, site: Site, n_rows: int) -> list[HeadMeasures]:
    values, errors, n_read = estimate_rows(trace, site, n_rows)
    numbers = values | {f"{name}_error": error[None] for name, error in errors.items()}
    return _named(site.heads, numbers, n_rows=n_read, n_all_rows=trace.records[site.key].n_queries)


def site_sums(trace: Trace, site: Site, *, has_offsets: bool = True) -> HeadSums:
    """The sums behind every measure of a site of a trace, as a batch of one text; see `sum_site`."""
    record = trace.records[site.key]
    return sum_site(
        record.q[None],
        record.k[None],
        rule=record.rule,
        score=record.score,
        lse=record.lse[None],
        facts=_facts_of(trace, site),
        has_offsets=has_offsets,
    )


def measure_heads(
    weights: Tensor, site: Site, *, keys: tuple[Token, ...] = (), first_head: int = 0
) -> list[HeadMeasures]:
    """The measures of heads whose weights are given, [n_heads, n_queries, n_keys].

    `keys` names the end token, which is left out of the largest weights; without them every column counts.
    """
    n_heads, n_queries, n_keys = weights.shape
    is_self = is_self_attention(site) and n_queries == n_keys
    plain = [Token(id=0, piece="")] * max(n_queries, n_keys)
    columns: Sequence[Token] = keys if len(keys) == n_keys else plain[:n_keys]
    facts = build_facts([plain[:n_queries]], [columns], is_self=is_self)
    sums = HeadSums(facts, n_heads, has_offsets=False)
    if n_keys:
        logs = weights.float().nan_to_num(nan=0.0).log()[None]
        sums.add(logs, ~weights.isnan()[None], slice(0, n_queries), slice(0, n_keys))
    return _named(site.heads[first_head : first_head + n_heads], sums.values())


def row_entropy(a: Tensor) -> Tensor:
    """−Σ_j a_ij ln a_ij of each row in nats; 0 · ln 0 is 0."""
    logs: Tensor = torch.special.xlogy(a, a)
    return -logs.sum(dim=-1)


def _named(
    heads: Sequence[HeadRef], values: Mapping[str, Tensor], *, n_rows: int = 0, n_all_rows: int = 0
) -> list[HeadMeasures]:
    """Records from values [1, n_heads] by name; a measure without a value is NaN."""
    columns = dict.fromkeys(TEXT_MEASURES, [math.nan] * len(heads))
    columns |= {name: found[0].tolist() for name, found in values.items()}
    rows = zip(heads, zip(*columns.values(), strict=True), strict=True)
    return [
        HeadMeasures(head=head, n_rows=n_rows, n_all_rows=n_all_rows, **dict(zip(columns, row, strict=True)))
        for head, row in rows
    ]
