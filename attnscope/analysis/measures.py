"""Every measure of all heads of a site from one reading of its weights, in blocks of rows.

| symbol  | meaning                                        | shape                             |
|---------|------------------------------------------------|-----------------------------------|
| logs    | ln a: scores minus lse; −inf = not allowed     | [batch, n_heads, n_rows, n_cols]  |
| a       | weights                                        | [batch, n_heads, n_rows, n_cols]  |
| seen    | number of keys a row may look at               | [batch, 1 or n_heads, n_rows]     |
| columns | Σ_i a_ij, the weight a key gets in all         | [batch, n_heads, n_keys]          |

What is summed up, each measure says (`schemes/measures`). Weights on one place (previous, diagonal, first,
separator) are means over rows of words: in self-attention many heads rest while they read a special token,
which says nothing about what they do with words. Rows between two texts all count.

Nothing larger than BLOCK_CELLS weights is held, and what is read is never written to.

What the measures must know of the queries and keys of a batch: padding, special and rare tokens.

| symbol        | meaning                                         | shape                |
|---------------|-------------------------------------------------|----------------------|
| query_ids     | token ids of the rows, 0 where padded           | [batch, n_queries]   |
| key_ids       | token ids of the columns                        | [batch, n_keys]      |
| query_counts  | rows that are measured                          | [batch, n_queries]   |
| key_counts    | columns whose weights are measured              | [batch, n_keys]      |
| is_special    | special tokens among the keys                   | [batch, n_keys]      |
| is_rare       | the two least frequent tokens among the keys    | [batch, n_keys]      |
| end           | place of a last special token, −1 without one   | [batch]              |
| places        | 0, 1, 2 …: the numbers of rows and of columns   | [the longer of both] |

What one head did on one text is one batch of it: means run over the queries that see a key; special tokens
stay in as keys and nothing is renormalised.

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
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.errors import of_wrong_kind
from attnscope.nn import MaskRule, ScoreRule, log_weights, map_products, stop_if_unwanted, threads_for
from attnscope.records.maps import HeadMeasures, SiteGrid
from attnscope.records.measures import OFFSET_REACH, SpecialTokens
from attnscope.records.sites import HeadRef, Site, SiteKey, Stack, axes_of, is_self_attention, tokens_of_site
from attnscope.records.tokens import Token, Tokens
from attnscope.schemes.measures import (
    ESTIMATED,
    MEASURES,
    TEXT_MEASURES,
    AtFirst,
    AtOffset,
    Measure,
    RowBlock,
)
from attnscope.schemes.measures.measure import Reading, share_of
from attnscope.trace import SiteRecord, Trace, grids_of_logs

N_RARE = 2
"""Voita et al. 2019 (section 5.3) count the two least frequent tokens of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """The rows and columns of a batch of maps; see the module's legend."""

    query_ids: Tensor
    key_ids: Tensor
    query_counts: Tensor
    key_counts: Tensor
    is_special: Tensor
    is_rare: Tensor
    end: Tensor
    places: Tensor
    is_self: bool
    has_ends: bool
    is_whole: bool
    specials: SpecialTokens

    @property
    def n_keys(self) -> int:
        """Columns, padding included."""
        return self.key_ids.shape[1]


def build_facts(
    queries: Sequence[Sequence[Token]],
    keys: Sequence[Sequence[Token]],
    *,
    is_self: bool,
    specials: SpecialTokens = "kept",
    frequencies: Mapping[int, int] | None = None,
    device: torch.device | str = "cpu",
) -> Facts:
    """The facts of a batch, each text padded on the right to the longest.

    `frequencies` counts ids in a corpus; without it no token is rare. A text of nothing but special
    tokens keeps no row when they are dropped.
    """
    drops = specials != "kept"
    n_queries, n_keys = max(map(len, queries)), max(map(len, keys))
    rows, columns = _kept(queries, drops), _kept(keys, drops)
    special = [[token.is_mark for token in one] for one in keys]
    rare = [_rare(one, frequencies) for one in keys]
    ends = [len(one) - 1 if len(one) > 1 and one[-1].is_mark else -1 for one in keys]
    has_one_length = min(map(len, rows)) == n_queries and min(map(len, columns)) == n_keys
    return Facts(
        query_ids=_padded([[token.id for token in one] for one in queries], n_queries, device),
        key_ids=_padded([[token.id for token in one] for one in keys], n_keys, device),
        query_counts=_padded(rows, n_queries, device).bool(),
        key_counts=_padded(columns, n_keys, device).bool(),
        is_special=_padded(special, n_keys, device).bool(),
        is_rare=_padded(rare, n_keys, device).bool(),
        end=torch.tensor(ends, device=device),
        places=torch.arange(max(n_queries, n_keys), device=device),
        is_self=is_self,
        has_ends=max(ends) >= 0,
        is_whole=has_one_length and all(map(all, (*rows, *columns))),
        specials=specials,
    )


def facts_of_site(
    site: Site,
    sources: Sequence[Tokens],
    targets: Sequence[Tokens] | None,
    *,
    specials: SpecialTokens = "kept",
    source_frequencies: Mapping[int, int] | None = None,
    target_frequencies: Mapping[int, int] | None = None,
    device: torch.device | str = "cpu",
) -> Facts:
    """The facts of one kind of site: the tokens at its rows and columns, and how often they occur."""
    pairs: Sequence[Tokens | None] = [None] * len(sources) if targets is None else targets
    both = [tokens_of_site(site, source, target) for source, target in zip(sources, pairs, strict=True)]
    columns = axes_of(site.stack, (site,), has_target=targets is not None)[1]
    counted = {"source": source_frequencies, "target": target_frequencies}
    return build_facts(
        [queries for queries, _ in both],
        [keys for _, keys in both],
        is_self=is_self_attention(site),
        specials=specials,
        frequencies=counted.get(columns),
        device=device,
    )


def _kept(texts: Sequence[Sequence[Token]], drops_special: bool) -> list[list[bool]]:
    return [[not (drops_special and token.is_mark) for token in one] for one in texts]


def _rare(tokens: Sequence[Token], frequencies: Mapping[int, int] | None) -> list[bool]:
    """The two least frequent words, without special tokens; none in texts of two words.

    Of equally frequent words the one of the larger id counts as rarer: vocabularies are made in the order
    of frequency in what the tokenizer was trained on.
    """
    ids = {token.id for token in tokens if not token.is_special}
    if frequencies is None or len(ids) <= N_RARE:
        return [False] * len(tokens)
    rare = set(sorted(ids, key=lambda id: (frequencies.get(id, 0), -id))[:N_RARE])
    return [not token.is_special and token.id in rare for token in tokens]


def _padded(rows: Sequence[Sequence[int]], length: int, device: torch.device | str) -> Tensor:
    filled = [[*map(int, row)] + [0] * (length - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64, device=device).reshape(len(rows), length)


BLOCK_CELLS = 2_000_000
"""At most so many weights are held at a time (8 MB), padding and all heads counted."""
LEAST_LOG = -87.0
"""Smaller weights are 0: float32 holds them as denormal numbers only."""
_FAR = 1e38
"""So many times a difference of weights is more than any number of keys."""
_LEAST_WEIGHT = 1.0001 * math.exp(LEAST_LOG)


class HeadSums:
    """Sums over the rows of a batch of maps, from which every measure follows.

    Without `has_offsets` only the measures of one text are summed up, nothing by offset, which is quicker.
    """

    def __init__(self, facts: Facts, n_heads: int, *, has_offsets: bool = True) -> None:
        self.facts, self.has_offsets = facts, has_offsets and facts.is_self
        self._measures, self._readings = _wanted(facts.is_self, is_of_text=not has_offsets)
        self.total: dict[Reading, Tensor] = {}
        shape = (len(facts.end), n_heads)
        self.columns = torch.zeros(*shape, facts.n_keys, device=facts.end.device)
        self.word_columns = torch.zeros_like(self.columns)  # Σ_i a_ij over rows of words
        self.n_rows, self.n_words = self.columns.new_zeros(2, *shape)
        self.written: Tensor | None = None
        # Rows of words whose largest weight lies at an offset, and Σ a there.
        self.offsets = self.columns.new_zeros(*shape, 2 * OFFSET_REACH + 3)
        self.at_offsets = self.columns.new_zeros(*shape, 2 * OFFSET_REACH + 1)

    def add(self, logs: Tensor, allowed: Tensor, rows: slice, cols: slice) -> None:
        """Add a block; `logs` is overwritten, `allowed` [B or 1, H or 1, rows, cols] is the mask's."""
        facts = self.facts
        if not facts.is_whole:
            allowed = allowed & facts.key_counts[:, None, None, cols]
        seen = allowed.sum(dim=-1)  # [B or 1, H or 1, rows]
        valid = (seen > 0) & facts.query_counts[:, None, rows]  # [B, H or 1, rows]
        # Looking whether it changes anything would wait for a device that is not the CPU.
        if not facts.is_whole or valid.device.type != "cpu" or not bool(valid.all()):
            logs.masked_fill_(~(allowed & valid[..., None]), -math.inf)
        if facts.specials == "renormalised":
            logs -= logs.logsumexp(dim=-1, keepdim=True).clamp_(min=torch.finfo(logs.dtype).min)
        # exp of −inf, or towards a denormal number, takes five to forty times as long (torch 2.13).
        a = logs.clamp_(min=LEAST_LOG).exp()  # and 0 · ln 0 is 0
        F.threshold(a, _LEAST_WEIGHT, 0.0, inplace=True)
        largest = a.amax(dim=-1) if self.has_offsets else None
        block = RowBlock(facts, a, logs, seen=seen, valid=valid, rows=rows, cols=cols, largest=largest)
        for reading in self._readings:
            found = reading(block)
            found = (found.sum(dim=-1) if found.dim() == 3 else found).to(self.columns.dtype)
            self.total[reading] = self.total[reading] + found if reading in self.total else found
        is_word = block.is_word
        self.n_rows += valid.sum(dim=-1)
        self.n_words += is_word.sum(dim=-1)
        gained = torch.stack([valid, is_word], dim=-2).to(a.dtype) @ a  # [B, H, 2, cols]
        self.columns[..., cols] += gained[:, :, 0]
        self.word_columns[..., cols] += gained[:, :, 1]
        if largest is not None:
            self._add_offsets(a - largest[..., None], is_word & (seen > 1), rows, cols)
            self._add_offset_weights(a, is_word, rows, cols)

    def values(self, norms: Tensor | None = None) -> dict[str, Tensor]:
        """Every measure that one text gives, [batch, n_heads]; NaN where it does not apply.

        `norms` [batch, n_heads, n_keys] are the lengths ‖f(x_j)‖ of what each head writes for each key.
        """
        self.written = None if norms is None else self.columns * norms
        found: dict[str, Tensor] = {}
        for measure in self._measures if self.total else ():
            value = measure.value(self)
            if value is not None:
                found[measure.name] = value
        return found

    def offset_shares(self) -> Tensor:
        """The share of the weight of rows of words at each offset, [batch, n_heads, 2 · OFFSET_REACH + 1]."""
        n_words = self.n_words * self.has_offsets  # two texts have no offsets
        return share_of(self.at_offsets, n_words[..., None])

    def on_first(self, columns: Tensor) -> Tensor:
        """Weight on the first key that counts, of [batch, n_heads, n_keys]."""
        index = self.facts.key_counts.to(torch.int64).argmax(dim=1)
        return columns.gather(2, index[:, None, None].expand(-1, columns.shape[1], 1))[..., 0]

    def on_separators(self, columns: Tensor) -> Tensor:
        """Weight on special tokens other than the first key, of [batch, n_heads, n_keys]."""
        facts = self.facts
        first = facts.key_counts.to(torch.int64).argmax(dim=1, keepdim=True)
        separators = (facts.is_special & facts.key_counts).scatter(1, first, False)
        return (columns * separators[:, None]).sum(dim=-1)

    def _add_offsets(self, below: Tensor, choosing: Tensor, rows: slice, cols: slice) -> None:
        """Count the offset of the first of the largest weights of each row, where `below` is 0.

        `max` and `argmax` take three times as long on a CPU (torch 2.13).
        """
        i, j = (torch.arange(one.start, one.stop, device=below.device) for one in (rows, cols))
        tops = -torch.add(-j.to(below.dtype), below, alpha=_FAR).amax(dim=-1)  # [B, H, rows]
        offset = (tops - i).nan_to_num_().clamp_(-OFFSET_REACH - 1, OFFSET_REACH + 1) + (OFFSET_REACH + 1)
        choosing = choosing & ~tops.isnan()
        self.offsets.scatter_add_(2, offset.long(), choosing.to(self.offsets.dtype))

    def _add_offset_weights(self, a: Tensor, is_word: Tensor, rows: slice, cols: slice) -> None:
        """The weight at every offset, over the rows of words; 0 if there is no token."""
        offsets = torch.arange(-OFFSET_REACH, OFFSET_REACH + 1, device=a.device)
        i = torch.arange(rows.start, rows.stop, device=a.device)
        j = i[:, None] + offsets - cols.start  # [rows, offsets]
        is_there = ((j >= 0) & (j < a.shape[3])).to(a.dtype)
        near = a.gather(3, j.clamp(0, a.shape[3] - 1).expand(*a.shape[:2], -1, -1))
        counts = (is_word.to(a.dtype)[..., None] * is_there).expand_as(near)
        self.at_offsets += (near * counts).sum(dim=2)


@cache
def _wanted(is_self: bool, *, is_of_text: bool) -> tuple[tuple[Measure, ...], tuple[Reading, ...]]:
    """The measures computed from rows, and the sums they need, each once."""
    among = TEXT_MEASURES if is_of_text else MEASURES
    found = tuple(one for one in among.values() if not one.like and (is_self or not one.is_self_only))
    return found, tuple(dict.fromkeys(reading for one in found for reading in one.sums))


def sum_site(
    q: Tensor,
    k: Tensor,
    *,
    rule: MaskRule,
    score: ScoreRule,
    lse: Tensor,
    facts: Facts,
    has_offsets: bool = True,
) -> HeadSums:
    """The sums of a site from its queries [B, H, Q, D], keys [B, K, T, D] and lse [B, H, Q]."""
    sums = HeadSums(facts, q.shape[1], has_offsets=has_offsets)
    n_queries, n_keys = q.shape[2], k.shape[2]
    if not n_keys:
        return sums
    n_maps = q.shape[0] * q.shape[1]
    with threads_for(map_products(min(BLOCK_CELLS, n_maps * n_queries * n_keys))):
        for rows, cols in _blocks(n_maps, n_queries, n_keys, is_causal=rule.is_causal):
            logs = log_weights(q, k, lse[:, :, rows], rule=rule, score=score, rows=rows, cols=cols)
            allowed = rule.allowed(n_queries, n_keys, rows, cols, device=q.device).to(q.device)
            sums.add(logs, allowed, rows, cols)
    return sums


def _blocks(n_maps: int, n_queries: int, n_keys: int, *, is_causal: bool) -> Iterator[tuple[slice, slice]]:
    """Row blocks of at most BLOCK_CELLS, with their visible columns."""
    n_rows = max(1, BLOCK_CELLS // max(1, n_maps * n_keys))
    for start in range(0, n_queries, n_rows):
        stop = min(start + n_rows, n_queries)
        last = min(n_keys, stop + n_keys - n_queries) if is_causal else n_keys
        yield slice(start, stop), slice(0, max(1, last))


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
    parts = [_row_values(record, facts, rows) for rows in _sampled_rows(record.n_queries, n_first, width)]
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
    """Number of first rows that are all read, and the width of the strata over the others."""
    n_first = min(n_queries, n_rows // _FIRST_SHARE)
    width = max(1, -(-(n_queries - n_first) // max(2, n_rows - n_first)))
    return n_first + (n_queries - n_first) % width, width


def _sampled_rows(n_queries: int, n_first: int, width: int) -> Iterator[slice]:
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


def measure(trace: Trace, *texts: object, max_cells: int | None = MAX_CELLS) -> tuple[HeadMeasures, ...]:
    """The measures of every head of a trace, in the order of its sites.

    Of maps of more than `max_cells` cells in all, measures that need whole rows (entropy, distance …) are
    estimated from some of the rows, always the same ones: the records say how many, with standard errors
    (`entropy_error` …). With None every row is read, however long it takes.
    Raises UserError for anything but a trace: a model and `texts` are for `measure_texts`.
    """
    if texts or not isinstance(trace, Trace):
        action = "Of a model measure(model.trace(text)) measures a text, measure_texts(model, texts) many."
        wrong = texts[0] if isinstance(trace, Trace) else trace
        raise of_wrong_kind(wrong, "what to measure", "a trace", action)
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
    """`trace.grids` and `measure` at once: small maps are expanded only once for both.

    Small maps of the layers of a stack are read together: their cost is that of calls.
    """
    groups = _alike(trace) if trace.check().is_good else None
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
    """The sites, grouped if their small maps have the same rows and columns under the same mask.

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
    """The measures of heads with given weights, [n_heads, n_queries, n_keys].

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
