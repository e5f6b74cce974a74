"""The measures of very long maps: what lies in few columns of all rows, the others from some of the rows.

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
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from attnscope.analysis.head_sums import LEAST_LOG
from attnscope.analysis.token_masks import Facts, facts_of_site
from attnscope.nn.scores import log_weights
from attnscope.records.sites import Site
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES, AtFirst, AtOffset, Block
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
    block = Block(facts, a[None], logs[None], seen=seen[None], valid=seen[None] > 0, rows=rows, cols=cols)
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
