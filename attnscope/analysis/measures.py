"""What one head did on one text, in a few numbers; `schemes/measures` defines them.

| symbol  | meaning                                             | shape                       |
|---------|-----------------------------------------------------|-----------------------------|
| weights | softmax of the scores; NaN where the mask forbids   | [n_heads, n_queries, n_keys]|

Means run over the queries that see a key; special tokens stay in as keys and nothing is renormalised.
Weights on the previous token, the token itself and the first key leave out the rows of special tokens in
self-attention: many heads rest there.

The sums are those of `head_sums.py`, in blocks of rows: a text of any length needs no more memory.

The measures of very long maps: what lies in few columns of all rows, the others from some of the rows.

Weights at an offset and on the first token are read in every row. The M measures of `ESTIMATED` need whole
rows: the first rows are all read, for there they change fastest; the others are cut into strata of `width`
neighbouring rows, and of each one row is read, at a place drawn anew for every `_TOGETHER` strata.

| symbol | meaning                                                 | shape             |
|--------|---------------------------------------------------------|-------------------|
| x      | measures of rows; NaN where one does not apply           | [M, H, n_rows]    |
| N      | rows that a read row stands for: 1 or `width`            | [n_rows]          |
| e      | x − mean, 0 where x is NaN, of the strata in their order | [M, H, n_strata]  |

    mean             Σ N x / Σ N over the rows with a number
    standard error   width √((1 − 1/width) s/(s − 1) Σ_t (e_{t+1} − e_t)² / 2) / Σ N

from successive differences of the s strata (Wolter 2007, section 8.2: v₂), which a trend along the text
hardly widens. The draws are the same for every trace of a length.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from attnscope.analysis.head_sums import (
    BLOCK_CELLS,
    LEAST_LOG,
    Facts,
    HeadSums,
    build_facts,
    facts_of_site,
    sum_site,
)
from attnscope.errors import of_wrong_kind
from attnscope.nn.computing import map_products, threads_for
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.nn.scores import log_weights
from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.sites import HeadRef, Site, SiteKey, Stack, is_self_attention
from attnscope.records.tokens import Token
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES, AtFirst, AtOffset, RowBlock
from attnscope.trace.pyramid import grids_of_logs
from attnscope.trace.record import SiteRecord
from attnscope.trace.trace import Trace

FEWEST_ROWS = 64
_TOGETHER = 8
_BAND_ROWS = 64
_FIRST_SHARE = 4
"""Of the rows that may be read, one in so many is among the first."""


def estimate_rows(trace: Trace, site: Site, n_rows: int) -> tuple[dict[str, Tensor], dict[str, Tensor], int]:
    """Every measure [1, n_heads] by name, the standard errors [n_heads] of ESTIMATED, and the rows read."""
    record = trace.records[site.key]
    n_first, width = cut_strata(record.n_queries, n_rows)
    facts = facts_of_site(site, [trace.source], None if trace.target is None else [trace.target])
    parts = [_row_values(record, facts, rows) for rows in _blocks(record.n_queries, n_first, width)]
    x = torch.cat(parts, dim=2).double()
    stands_for = torch.ones(x.shape[2], dtype=torch.float64, device=x.device)
    stands_for[n_first:] = width
    total = (~x.isnan() * stands_for).sum(dim=2)
    mean = (x.nan_to_num(nan=0.0) * stands_for).sum(dim=2) / total  # nothing known: 0 / 0 is NaN
    e = torch.where(x.isnan(), 0.0, x - mean[..., None])[..., n_first:]
    n_strata = e.shape[2]
    squares = e.diff(dim=2).square().sum(dim=2) / 2
    error = width * (squares * (1 - 1 / width) * n_strata / max(1, n_strata - 1)).sqrt() / total
    values = dict(zip(ESTIMATED, mean[:, None], strict=True)) | _exact_means(record, facts)
    return values, dict(zip(ESTIMATED, error, strict=True)), x.shape[2]


def cut_strata(n_queries: int, n_rows: int) -> tuple[int, int]:
    """How many first rows are all read, and the width of the strata that the others fall into evenly."""
    n_first = min(n_queries, n_rows // _FIRST_SHARE)
    width = max(1, -(-(n_queries - n_first) // max(2, n_rows - n_first)))
    return n_first + (n_queries - n_first) % width, width


def _blocks(n_queries: int, n_first: int, width: int) -> Iterator[slice]:
    """Rows to read: the first ones, then one of each stratum, some strata in one slice with a step."""
    for start in range(0, n_first, _TOGETHER):
        yield slice(start, min(start + _TOGETHER, n_first))
    random = np.random.default_rng(n_queries)
    for start in range(n_first, n_queries, width * _TOGETHER):
        yield slice(start + int(random.integers(width)), min(start + width * _TOGETHER, n_queries), width)


def _row_values(record: SiteRecord, facts: Facts, rows: slice) -> Tensor:
    """The measures of each row by its definition: [M, n_heads, n_rows]."""
    n_queries, n_keys = record.n_queries, record.n_keys
    last = int(facts.places[:n_queries][rows][-1])
    stop = last + 1 + n_keys - n_queries if record.rule.is_causal else n_keys
    cols = slice(0, min(n_keys, max(1, stop)))
    logs = _logs(record, rows, cols)
    allowed = record.rule.allowed(n_queries, n_keys, rows, cols, device=logs.device)[0].to(logs.device)
    seen = allowed.sum(dim=-1).expand(logs.shape[:2])  # [H, rows]
    a = logs.exp()
    logs.clamp_(min=torch.finfo(logs.dtype).min)
    block = RowBlock(facts, a[None], logs[None], seen=seen[None], valid=seen[None] > 0, rows=rows, cols=cols)
    nothing = torch.full_like(a[..., 0], math.nan)
    found = [
        one.of_rows(block)[0] if facts.is_self or not one.is_self_only else nothing
        for one in ESTIMATED.values()
    ]
    return torch.stack(found).masked_fill(seen == 0, math.nan)


def _exact_means(record: SiteRecord, facts: Facts) -> dict[str, Tensor]:
    """The mean weights of rows of words on the first token and at offsets, each [1, n_heads].

    Between two texts every row counts.
    """
    n_queries, n_keys = record.n_queries, record.n_keys
    blind = record.rule.rows_without_keys(n_queries, n_keys)
    on_first = _logs(record, slice(None), slice(0, 1)).exp()[..., 0]  # [H, Q]
    counts = torch.ones_like(on_first, dtype=torch.bool)
    if blind is not None:
        counts &= ~blind[0].to(counts.device)
    if facts.is_self:
        counts &= ~facts.is_special[0].to(counts.device)
    found = {one.name: _mean(on_first, counts) for one in TEXT_MEASURES.values() if isinstance(one, AtFirst)}
    offsets = {one.name: one.offset for one in TEXT_MEASURES.values() if isinstance(one, AtOffset)}
    if not facts.is_self or not offsets:
        return found
    weights = {name: torch.zeros_like(on_first) for name in offsets}
    before, after = min(0, *offsets.values()), max(0, *offsets.values())
    for start in range(0, n_queries, _BAND_ROWS):
        rows = slice(start, min(start + _BAND_ROWS, n_queries))
        cols = slice(max(0, start + before), min(n_keys, rows.stop + after))
        a = _logs(record, rows, cols).exp()
        for name, offset in offsets.items():
            first = max(start, -offset)
            band = a[:, first - start :].diagonal(first + offset - cols.start, dim1=1, dim2=2)
            weights[name][:, first : first + band.shape[1]] = band
    for name, offset in offsets.items():
        with_key = slice(max(0, -offset), max(0, n_keys - offset))
        found[name] = _mean(weights[name][:, with_key], counts[:, with_key])
    return found


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    total = torch.where(counts, values, 0.0).double().sum(dim=-1)
    return (total / counts.sum(dim=-1))[None]


def _logs(record: SiteRecord, rows: slice, cols: slice) -> Tensor:
    """Logarithms of weights, [n_heads, n_rows, n_cols]."""
    lse = record.lse[None, :, rows]
    found = log_weights(
        record.q[None], record.k[None], lse, rule=record.rule, score=record.score, rows=rows, cols=cols
    )
    logs = found[0]
    return logs.masked_fill_(logs < LEAST_LOG, -math.inf)


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
    records = trace.records.values()
    most = max((len(record.q) * record.n_queries * record.n_keys for record in records), default=0)
    with threads_for(map_products(most)):
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
