"""The measures of very long maps: what lies in few columns of all rows, the others from some of the rows.

Weights on the previous token, the first token and the token itself are read in every row. Entropy, distance
and confidence need whole rows, and are estimated: the first rows are all read, for there they change
fastest; the others are cut into strata of `width` neighbouring rows, and of each one row is read, at a
place drawn anew for every `_TOGETHER` strata.

| symbol | meaning                                                 | shape             |
|--------|---------------------------------------------------------|-------------------|
| x      | measures of rows; NaN where one does not apply           | [3, H, n_rows]    |
| N      | rows that a read row stands for: 1 or `width`            | [n_rows]          |
| e      | x − mean, 0 where x is NaN, of the strata in their order | [3, H, n_strata]  |

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

from attnscope.analysis.facts import facts_of_site
from attnscope.analysis.head_sums import LEAST_LOG
from attnscope.nn.scores import log_weights
from attnscope.records.axes import is_self_attention
from attnscope.records.sites import Site
from attnscope.trace.record import SiteRecord
from attnscope.trace.trace import Trace

SAMPLED = ("entropy", "distance", "confidence")
FEWEST_ROWS = 64
_TOGETHER = 8
_BAND_ROWS = 64
_FIRST_SHARE = 4
"""Of the rows that may be read, one in so many is among the first."""


def estimate_rows(trace: Trace, site: Site, n_rows: int) -> tuple[dict[str, Tensor], dict[str, Tensor], int]:
    """Every measure [1, n_heads] by name, the standard errors [n_heads] of SAMPLED, and the rows read."""
    record = trace.records[site.key]
    n_first, width = cut_strata(record.n_queries, n_rows)
    facts = facts_of_site(site, [trace.source], None if trace.target is None else [trace.target])
    end = int(facts.end[0])
    parts = [_row_values(record, site, rows, end) for rows in _blocks(record.n_queries, n_first, width)]
    x = torch.cat(parts, dim=2).double()
    stands_for = torch.ones(x.shape[2], dtype=torch.float64, device=x.device)
    stands_for[n_first:] = width
    total = (~x.isnan() * stands_for).sum(dim=2)
    mean = (x.nan_to_num(nan=0.0) * stands_for).sum(dim=2) / total  # nothing known: 0 / 0 is NaN
    e = torch.where(x.isnan(), 0.0, x - mean[..., None])[..., n_first:]
    n_strata = e.shape[2]
    squares = e.diff(dim=2).square().sum(dim=2) / 2
    error = width * (squares * (1 - 1 / width) * n_strata / max(1, n_strata - 1)).sqrt() / total
    values = dict(zip(SAMPLED, mean[:, None], strict=True)) | _exact_means(record, site, facts.is_special[0])
    return values, dict(zip(SAMPLED, error, strict=True)), x.shape[2]


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


def _row_values(record: SiteRecord, site: Site, rows: slice, end: int) -> Tensor:
    """The measures of each row by its definition (see `measures.py`): [3, n_heads, n_rows]."""
    n_queries, n_keys = record.n_queries, record.n_keys
    i = torch.arange(n_queries, device=record.q.device)[rows]
    stop = int(i[-1]) + 1 + n_keys - n_queries if record.rule.is_causal else n_keys
    cols = slice(0, min(n_keys, max(1, stop)))
    logs = _logs(record, rows, cols)
    allowed = record.rule.allowed(n_queries, n_keys, rows, cols, device=logs.device)[0].to(logs.device)
    seen = allowed.sum(dim=-1).expand(logs.shape[:2])  # [H, rows]
    a = logs.exp()
    entropy = -(logs.clamp_(min=torch.finfo(logs.dtype).min) * a).sum(dim=-1) / seen.clamp(min=2).log()
    distance = torch.full_like(entropy, math.nan)
    if is_self_attention(site):
        j = torch.arange(a.shape[2], device=a.device)
        distance = (a * (i[:, None] - j).abs()).sum(dim=-1)
    if 0 <= end < a.shape[2]:
        a[..., end] = 0.0
    values = torch.stack([entropy, distance, a.amax(dim=-1)])
    values[:, seen == 0] = math.nan
    values[0, seen < 2] = math.nan
    return values


def _exact_means(record: SiteRecord, site: Site, is_special: Tensor) -> dict[str, Tensor]:
    """The mean weights of rows of words on the first token, the previous one and the token itself, each
    [1, n_heads]; between two texts of all rows.
    """
    n_queries, n_keys = record.n_queries, record.n_keys
    blind = record.rule.rows_without_keys(n_queries, n_keys)
    first = _logs(record, slice(None), slice(0, 1)).exp()[..., 0]  # [H, Q]
    counts = torch.ones_like(first, dtype=torch.bool)
    if blind is not None:
        counts &= ~blind[0].to(counts.device)
    if not is_self_attention(site):
        return {"first": _mean(first, counts)}
    counts &= ~is_special.to(counts.device)
    diagonal, previous = torch.zeros_like(first), torch.zeros_like(first)
    for start in range(0, n_queries, _BAND_ROWS):
        rows = slice(start, min(start + _BAND_ROWS, n_queries))
        before = max(0, start - 1)
        a = _logs(record, rows, slice(before, rows.stop)).exp()
        diagonal[:, rows] = a.diagonal(start - before, dim1=1, dim2=2)
        previous[:, max(1, start) : rows.stop] = a.diagonal(0 if start else -1, dim1=1, dim2=2)[
            :, : rows.stop - max(1, start)
        ]
    return {
        "first": _mean(first, counts),
        "diagonal": _mean(diagonal, counts),
        "previous": _mean(previous[:, 1:], counts[:, 1:]),
    }


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
