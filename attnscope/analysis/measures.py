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
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor

from attnscope.analysis.head_sums import BLOCK_CELLS, HeadSums, sum_site
from attnscope.analysis.row_sample import FEWEST_ROWS, estimate_rows
from attnscope.analysis.token_masks import Facts, build_facts, facts_of_site
from attnscope.errors import of_wrong_kind
from attnscope.nn.cancellation import stop_if_unwanted
from attnscope.nn.scores import log_weights
from attnscope.records.axes import is_self_attention
from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.sites import HeadRef, Site, SiteKey, Stack
from attnscope.records.tokens import Token
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.trace.thumbnails import grids_of_logs
from attnscope.trace.trace import Trace

MAX_CELLS = 64_000_000
"""Longer traces are estimated from rows with so many cells in all (less than a second)."""
_TOGETHER_CELLS = 50_000
"""Sites with larger maps gain nothing from being read together."""


def measure(trace: Trace, *, max_cells: int | None = MAX_CELLS) -> tuple[HeadMeasures, ...]:
    """The measures of every head of a trace, in the order of its sites.

    Of maps of more than `max_cells` cells in all, measures that need whole rows (entropy, distance …) are
    estimated from some of the rows, always the same ones: the records say how many, with standard errors
    (`entropy_error` …). With None every row is read, however long it takes.
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
    """`trace.grids` and `measure` at once: maps that can be laid out whole are laid out once for both.

    Small maps of the layers of a stack are read together: their cost is that of calls.
    """
    groups = _alike(trace)
    if groups is None:
        return trace.grids(max_px), measure(trace)
    facts: dict[Stack, Facts] = {}
    small: dict[SiteKey, SiteGrid] = {}
    measured: dict[SiteKey, list[HeadMeasures]] = {}
    for sites in groups:
        stop_if_unwanted()
        stack = sites[0].stack
        heads: list[HeadRef] = []
        laid_out: list[Tensor] = []
        if stack not in facts:
            facts[stack] = _facts_of(trace, sites[0])
        for site in sites:
            record = trace.records[site.key]
            q, k, lse = record.q[None], record.k[None], record.lse[None]
            laid_out.append(log_weights(q, k, lse, rule=record.rule, score=record.score))
            heads += site.heads
        logs = laid_out[0] if len(sites) == 1 else torch.cat(laid_out, dim=1)  # [1, heads of all, Q, T]
        rule, n_queries, n_keys = record.rule, record.n_queries, record.n_keys
        small |= grids_of_logs(sites, n_queries, n_keys, logs[0], max_px)
        allowed = rule.allowed(n_queries, n_keys, device=logs.device).to(logs.device)
        sums = HeadSums(facts[stack], len(heads), has_offsets=False)
        sums.add(logs, allowed, slice(0, n_queries), slice(0, n_keys))
        named = iter(_named(heads, sums.values()))
        for site in sites:
            measured[site.key] = [*islice(named, site.n_heads)]
    grids: list[SiteGrid] = []
    found: list[HeadMeasures] = []
    for site in trace.sites:
        grids.append(small[site.key])
        found += measured[site.key]
    return tuple(grids), tuple(found)


def _alike(trace: Trace) -> Iterable[list[Site]] | None:
    """The sites, those together whose small maps have the same rows and columns under the same mask.

    None where a map is too large to be laid out whole.
    """
    groups: dict[tuple[object, ...], list[Site]] = {}
    for site in trace.sites:
        record = trace.records[site.key]
        n_cells = len(record.q) * record.n_queries * record.n_keys
        if n_cells > BLOCK_CELLS:
            return None
        size = (record.n_queries, record.n_keys, record.q.dtype, record.q.device, record.rule.kind)
        is_small = n_cells <= _TOGETHER_CELLS and record.rule.removed is None
        groups.setdefault((site.stack, *size) if is_small else (site.key,), []).append(site)
    return groups.values()


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
