"""Every measure of all heads of a site from one reading of its weights, in blocks of rows.

| symbol  | meaning                                        | shape                             |
|---------|------------------------------------------------|-----------------------------------|
| logs    | ln a: scores minus lse; −inf = not allowed     | [batch, n_heads, n_rows, n_cols]  |
| a       | weights                                        | [batch, n_heads, n_rows, n_cols]  |
| seen    | number of keys a row may look at               | [batch, 1 or n_heads, n_rows]     |
| columns | Σ_i a_ij, the weight a key gets in all         | [batch, n_heads, n_keys]          |

Weights on one place (previous, diagonal, first, separator) are means over rows of words: in self-attention
many heads rest while they read a special token, which says nothing about what they do with words. Rows
between two texts all count.

All that is linear in `a` (patterns, shares, norms) comes from `columns` or from one product of the
weights with the patterns laid flat; |a − P| too, because |a − P| = a + P − 2aP for P in {0, 1} and a in
0…1. Nothing larger than BLOCK_CELLS weights is held, and what is read is never written to.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnscope.analysis.facts import Facts
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import ScoreRule, log_weights
from attnscope.records.measures import OFFSET_REACH

BLOCK_CELLS = 2_000_000
"""At most so many weights are held at a time (8 MB), padding and all heads counted."""
LEAST_LOG = -87.0
"""Smaller weights are 0: float32 holds them as denormal numbers only."""


class HeadSums:
    """Sums over the rows of a batch of maps, from which every measure follows.

    Without `has_detectors` only the measures of one text are summed up, which is quicker.
    """

    def __init__(self, facts: Facts, n_heads: int, *, has_detectors: bool = True) -> None:
        self.facts, self.has_detectors = facts, has_detectors and facts.is_self
        shape, device = (len(facts.end), n_heads), facts.end.device

        def zeros(*more: int) -> Tensor:
            return torch.zeros(*shape, *more, device=device)

        self.n_rows, self.n_choosing, self.n_previous = zeros(), zeros(), zeros()
        self.entropy, self.entropy_share, self.confidence = zeros(), zeros(), zeros()
        self.distance, self.diagonal, self.previous = zeros(), zeros(), zeros()
        self.n_words, self.n_words_after = zeros(), zeros()  # rows of words; those with a token before
        self.at_previous, self.word_columns = zeros(), zeros(facts.n_keys)  # Σ a over rows of words
        self.columns = zeros(facts.n_keys)
        self.found, self.wanted = zeros(2), zeros(2)  # duplicate and induction: Σ a∘P and Σ P
        self.offsets = zeros(2 * OFFSET_REACH + 3)  # rows of words whose largest weight lies there
        self.at_offsets = zeros(2 * OFFSET_REACH + 1)  # Σ a there

    def add(self, logs: Tensor, allowed: Tensor, rows: slice, cols: slice) -> None:
        """Take a block; `logs` is overwritten, `allowed` [B or 1, H or 1, rows, cols] is the mask's."""
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
        a = logs.clamp(min=LEAST_LOG).exp_().mul_((logs >= LEAST_LOG).to(logs.dtype))
        self.n_rows += valid.sum(dim=-1)
        self._add_entropy(a, logs, seen, valid)
        is_word = valid & ~facts.is_special[:, None, rows] if facts.is_self else valid
        self.n_words += is_word.sum(dim=-1)
        gained = torch.stack([valid, is_word], dim=-2).to(a.dtype) @ a  # [B, H, 2, cols]
        self.columns[..., cols] += gained[:, :, 0]
        self.word_columns[..., cols] += gained[:, :, 1]
        if facts.is_self:
            self._add_places(a, valid, is_word, rows, cols)
        tops = a.max(dim=-1) if self.has_detectors else None
        if tops is not None:
            self._add_patterns(a, valid, rows, cols)
            self._add_offsets(tops.indices, is_word & (seen > 1), rows, cols)
            self._add_offset_weights(a, is_word, rows, cols)
        if tops is not None and not facts.has_ends:
            self.confidence += tops.values.sum(dim=-1)
        else:
            self._add_confidence(a, cols)

    def values(self, norms: Tensor | None = None) -> dict[str, Tensor]:
        """Every measure that one text gives, [batch, n_heads]; NaN where it does not apply.

        `norms` [batch, n_heads, n_keys] are the lengths ‖f(x_j)‖ of what each head writes for each key.
        """
        facts, n = self.facts, self.n_rows
        first = facts.key_counts.to(torch.int64).argmax(dim=1)  # the first key that counts
        separators = facts.is_special & facts.key_counts
        separators[torch.arange(len(first), device=first.device), first] = False
        found = {
            "entropy": self.entropy_share / _or_nan(self.n_choosing),
            "entropy_nats": self.entropy / _or_nan(n),
            "confidence": self.confidence / _or_nan(n),
            "first": _column(self.word_columns, first) / _or_nan(self.n_words),
            "rare": self._rare(),
        }
        if facts.specials == "kept":
            found["separator"] = _sum_where(self.word_columns, separators) / _or_nan(self.n_words)
        if facts.is_self:
            found |= self._self_values()
        if norms is not None:
            written = self.columns * norms
            total = written.sum(dim=-1)
            found["norm"] = total / _or_nan(n)
            found["norm_first"] = _column(written, first) / _or_nan(total)
            if facts.specials == "kept":
                found["norm_separator"] = _sum_where(written, separators) / _or_nan(total)
        return found

    def offset_shares(self) -> Tensor:
        """The share of the weight of rows of words at each offset, [batch, n_heads, 2 · OFFSET_REACH + 1]."""
        n_words = self.n_words * self.has_detectors  # two texts have no offsets
        return self.at_offsets / _or_nan(n_words)[..., None]

    def _self_values(self) -> dict[str, Tensor]:
        n, total = self.n_rows, self.columns.sum(dim=-1)
        found = {
            "distance": self.distance / _or_nan(n),
            "diagonal": self.diagonal / _or_nan(self.n_words),
            "previous": self.at_previous / _or_nan(self.n_words_after),
        }
        if not self.has_detectors:
            return found
        names = ("previous", "duplicate", "induction")
        inside = (self.previous, self.found[..., 0], self.found[..., 1])
        ones = (self.n_previous, self.wanted[..., 0], self.wanted[..., 1])
        for name, weight, n_ones in zip(names, inside, ones, strict=True):
            found[f"{name}_mul"] = weight / _or_nan(total * (n_ones > 0))  # nothing to find: no score
            found[f"{name}_abs"] = 1 - (total + n_ones - 2 * weight) / _or_nan(n * (n_ones > 0))
        return found

    def _rare(self) -> Tensor:
        """1 where the word that gets most weight is a rare one, else 0; NaN without rare words."""
        facts = self.facts
        words = facts.key_counts & ~facts.is_special
        top = self.columns.masked_fill(~words[:, None], -1.0).argmax(dim=-1)  # [B, H]
        is_rare = facts.is_rare.gather(1, top).to(self.columns.dtype)
        return is_rare.masked_fill(~facts.is_rare.any(dim=1, keepdim=True), math.nan)

    def _add_entropy(self, a: Tensor, logs: Tensor, seen: Tensor, valid: Tensor) -> None:
        logs.clamp_(min=torch.finfo(logs.dtype).min)  # 0 · ln 0 is 0
        entropy = -(logs.mul_(a)).sum(dim=-1)  # [B, H, rows]
        choosing = ((seen > 1) & valid).to(a.dtype)
        most = seen.clamp(min=2).to(a.dtype).log()
        self.entropy += entropy.sum(dim=-1)
        self.entropy_share += (entropy * (choosing / most)).sum(dim=-1)
        self.n_choosing += choosing.sum(dim=-1)

    def _add_places(self, a: Tensor, valid: Tensor, is_word: Tensor, rows: slice, cols: slice) -> None:
        i = torch.arange(rows.start, rows.stop, device=a.device)
        j = torch.arange(cols.start, cols.stop, device=a.device)
        away = (i[:, None] - j[None, :]).abs().to(a.dtype)
        self.distance += a.flatten(2) @ away.flatten()
        self.diagonal += (a.diagonal(rows.start - cols.start, dim1=2, dim2=3) * is_word).sum(dim=-1)
        has_previous = (self.facts.key_counts[:, (i - 1).clamp(min=0)] & (i > 0))[:, None]  # [B, 1, rows]
        start = max(0, 1 - rows.start)  # the first row of all has nothing before it
        previous = a[..., start:, :].diagonal(rows.start + start - 1 - cols.start, dim1=2, dim2=3)
        self.previous += previous.sum(dim=-1)
        self.at_previous += (previous * is_word[..., start:]).sum(dim=-1)
        self.n_previous += (valid & has_previous).sum(dim=-1)
        self.n_words_after += (is_word & has_previous).sum(dim=-1)

    def _add_patterns(self, a: Tensor, valid: Tensor, rows: slice, cols: slice) -> None:
        facts = self.facts
        i = torch.arange(rows.start, rows.stop, device=a.device)[:, None]
        j = torch.arange(cols.start, cols.stop, device=a.device)[None, :]
        queries, keys = facts.query_ids[:, rows, None], facts.key_ids[:, None]  # [B, rows, 1], [B, 1, n_keys]
        before = keys.roll(1, dims=-1)[..., cols]
        patterns = torch.stack(
            [(queries == keys[..., cols]) & (j < i), (queries == before) & (j >= 1) & (j <= i)], dim=1
        )  # [B, 2, rows, cols]
        patterns = (patterns & facts.key_counts[:, None, None, cols]).to(a.dtype)
        self.found += a.flatten(2) @ patterns.flatten(2).transpose(1, 2)
        n_ones = patterns.sum(dim=-1)  # [B, 2, rows]
        self.wanted += valid.to(a.dtype) @ n_ones.transpose(1, 2)  # [B, H or 1, 2]

    def _add_offsets(self, tops: Tensor, choosing: Tensor, rows: slice, cols: slice) -> None:
        i = torch.arange(rows.start, rows.stop, device=tops.device)
        offset = (tops + cols.start - i).clamp_(-OFFSET_REACH - 1, OFFSET_REACH + 1) + (OFFSET_REACH + 1)
        self.offsets.scatter_add_(2, offset, choosing.to(self.offsets.dtype).expand(offset.shape))

    def _add_offset_weights(self, a: Tensor, is_word: Tensor, rows: slice, cols: slice) -> None:
        """The weight at every offset, over the rows of words; 0 where there is no token."""
        offsets = torch.arange(-OFFSET_REACH, OFFSET_REACH + 1, device=a.device)
        i = torch.arange(rows.start, rows.stop, device=a.device)
        j = i[:, None] + offsets - cols.start  # [rows, offsets]
        is_there = ((j >= 0) & (j < a.shape[3])).to(a.dtype)
        near = a.gather(3, j.clamp(0, a.shape[3] - 1).expand(*a.shape[:2], -1, -1))
        counts = (is_word.to(a.dtype)[..., None] * is_there).expand_as(near)
        self.at_offsets += (near * counts).sum(dim=2)

    def _add_confidence(self, a: Tensor, cols: slice) -> None:
        """The largest weights without the end token's column; the last reading of `a`, which is changed."""
        facts = self.facts
        if facts.has_ends:
            inside = torch.nonzero((facts.end >= cols.start) & (facts.end < cols.stop))[:, 0]
            a[inside, :, :, facts.end[inside] - cols.start] = 0.0
        self.confidence += a.amax(dim=-1).sum(dim=-1)


def sum_site(
    q: Tensor,
    k: Tensor,
    *,
    rule: MaskRule,
    score: ScoreRule,
    lse: Tensor,
    facts: Facts,
    has_detectors: bool = True,
) -> HeadSums:
    """The sums of a site from its queries [B, H, Q, D], keys [B, K, T, D] and lse [B, H, Q]."""
    sums = HeadSums(facts, q.shape[1], has_detectors=has_detectors)
    n_queries, n_keys = q.shape[2], k.shape[2]
    if not n_keys:
        return sums
    n_maps = q.shape[0] * q.shape[1]
    for rows, cols in _blocks(n_maps, n_queries, n_keys, is_causal=rule.is_causal):
        logs = log_weights(q, k, lse[:, :, rows], rule=rule, score=score, rows=rows, cols=cols)
        allowed = rule.allowed(n_queries, n_keys, rows, cols, device=q.device).to(q.device)
        sums.add(logs, allowed, rows, cols)
    return sums


def _blocks(n_maps: int, n_queries: int, n_keys: int, *, is_causal: bool) -> Iterator[tuple[slice, slice]]:
    """Rows that fit into BLOCK_CELLS, with the columns that they may see."""
    n_rows = max(1, BLOCK_CELLS // max(1, n_maps * n_keys))
    for start in range(0, n_queries, n_rows):
        stop = min(start + n_rows, n_queries)
        last = min(n_keys, stop + n_keys - n_queries) if is_causal else n_keys
        yield slice(start, stop), slice(0, max(1, last))


def _or_nan(n: Tensor) -> Tensor:
    """A divisor that makes NaN of what was never counted."""
    return n.masked_fill(n == 0, math.nan)


def _column(columns: Tensor, index: Tensor) -> Tensor:
    """One key of each text, `index` [batch], of [batch, n_heads, n_keys]."""
    return columns.gather(2, index[:, None, None].expand(-1, columns.shape[1], 1))[..., 0]


def _sum_where(columns: Tensor, chosen: Tensor) -> Tensor:
    """The sum over chosen keys, `chosen` [batch, n_keys], of [batch, n_heads, n_keys]."""
    return (columns * chosen[:, None]).sum(dim=-1)
