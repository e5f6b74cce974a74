"""The one function through which all attention goes.

A *probe* on the call can record what a head's weights are made of, change single heads, and multiply
each head's output by a gate. Without a probe the call is the library's fused attention and nothing
else. With one, a pass that nobody waits for ends here, between two layers (`long_work.py`). Must not
import anything of the program but masks, scores, edits, dropping, cancellation and records.

    symbol   meaning                                        shape
    q        queries                                        [batch, n_heads, n_queries, d_head]
    k, v     keys and values                                [batch, n_kv_heads, n_keys, d_head]
    lse      log of the sum of exp(score) over seen keys    [batch, n_heads, n_queries]
    out      sum over keys of weight times v                [batch, n_heads, n_queries, d_head]

Letters: B batch, H heads, K key-value heads, G = H / K, Q queries, T keys, D d_head.
weight = exp(score − lse) (Vaswani et al. 2017, equation 1; with grouped heads Ainslie et al. 2023; the
score is made by `scores.py`). Query head h reads key-value head h // G. A query that sees no key has the
output 0 and the lse −inf, so that its weights are NaN and never look like numbers.

Linear attention (Katharopoulos et al. 2020, equations 5, 8 and 9) has weights q_i·k_j / Σ_j q_i·k_j, q and
k being φ of queries and keys, all above 0, as if exp(score) were q·k; its sums over keys are made once, so
that the cost grows with the text alone. On the CPU the fused operator gives the lse with the output; long
texts go through it in pieces, and between two pieces a pass that nobody waits for is given up.
"""

import math
from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.dropping import attend_dropping, drop, is_quick_on
from attnscope.nn.edits import Call, Edits, apply_edits
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.nn.masks import MaskRule, Sparse
from attnscope.nn.scores import ScoreRule, add_sinks, scores_of
from attnscope.records.sites import SiteKey

_CHUNK = 64


def attend_by_sums(
    q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, key_valid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output and lse; for a query that sees no key, 0 and −inf.

    A causal call has as many queries as keys. Keys and values may be fewer heads than queries.
    """
    dtype = v.dtype
    wide = torch.promote_types(q.dtype, torch.float32)
    n_groups = q.shape[1] // k.shape[1]
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    if n_groups > 1:
        k, v = k.repeat_interleave(n_groups, dim=1), v.repeat_interleave(n_groups, dim=1)
    if key_valid is not None:
        k = k * key_valid[:, None, :, None]
    v = torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)  # the last column sums the weights
    with torch.autocast(q.device.type, enabled=False):
        total = _causal_sums(q, k, v) if is_causal else q @ (k.transpose(-1, -2) @ v)  # [B, H, Q, Dv + 1]
    sums = total[..., -1]
    out = total[..., :-1] / sums.clamp(min=torch.finfo(wide).tiny)[..., None]
    lse = torch.where(sums > 0, sums.clamp(min=torch.finfo(wide).tiny).log(), -math.inf)
    return out.to(dtype), lse


def _causal_sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Σ_{j ≤ i} (q_i · k_j) v_j: within chunks cell by cell, for earlier ones from their running sum."""
    n_tokens = q.shape[2]
    q, k, v = (_chunked(x) for x in (q, k, v))  # [B, H, N, C, D]
    states = k.transpose(-1, -2) @ v  # [B, H, N, D, Dv]
    before = states.cumsum(dim=2) - states
    inside = (q @ k.transpose(-1, -2)).tril() @ v
    total: Tensor = (inside + q @ before).flatten(2, 3)
    return total[:, :, :n_tokens]


def _chunked(x: Tensor) -> Tensor:
    size = min(_CHUNK, max(1, x.shape[2]))
    padded = F.pad(x, (0, 0, 0, -x.shape[2] % size))
    return padded.view(*x.shape[:2], -1, size, x.shape[3])


STOP_CELLS = 2**26
"""Most cells of maps, 64 wide, that a thread works out between two places where a pass can be given up.

Two tenths of a second (0.22 s on an EPYC with AVX-512, torch 2.13).
"""
LEAST_ROWS = 1024
"""Fewer queries at a time are slower: the operator takes 256 of them together, for each thread."""


def attend_on_cpu(call: Call, bias: Tensor | None, *, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Output and lse from one operator; 0 and 0 for queries that see no key.

    A long text is taken head by head, which changes no digit, and where the causal rule holds and there are
    many rows, an output may differ in its last one.
    """
    batch, n_heads, n_queries = call.q.shape[:3]
    n_kv_heads = call.k.shape[1]
    if batch * n_heads * n_queries * call.k.shape[2] <= STOP_CELLS:
        return _operate(call, bias, is_causal=is_causal)
    texts = [
        [_attend_one(call, bias, text, head, is_causal=is_causal) for head in range(n_kv_heads)]
        for text in range(batch)
    ]
    outs, sums = (
        torch.cat([torch.cat([part[i] for part in heads], dim=1) for heads in texts]) for i in (0, 1)
    )
    return outs, sums


def _attend_one(
    call: Call, bias: Tensor | None, text: int, kv_head: int, *, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """One text of the batch and the query heads of one key-value head."""
    stop_if_unwanted()
    n_groups = call.q.shape[1] // call.k.shape[1]
    row, one = slice(text, text + 1), slice(kv_head, kv_head + 1)
    group = slice(kv_head * n_groups, (kv_head + 1) * n_groups)
    if bias is not None:
        bias = bias[row] if bias.shape[0] > 1 else bias
        bias = bias[:, group] if bias.shape[1] > 1 else bias
    part = replace(call, q=call.q[row, group], k=call.k[row, one], v=call.v[row, one])
    n_queries, n_rows = part.q.shape[2], _n_rows(part)
    # No gradient passes through the lse, by which the parts of causal rows are joined.
    if n_rows >= n_queries or torch.is_grad_enabled() or (is_causal and bias is not None):
        return _operate(part, bias, is_causal=is_causal)
    rows = [slice(start, min(start + n_rows, n_queries)) for start in range(0, n_queries, n_rows)]
    parts = [_attend_rows(part, bias, some, is_causal=is_causal) for some in rows]
    return torch.cat([out for out, _ in parts], dim=2), torch.cat([lse for _, lse in parts], dim=2)


def _n_rows(call: Call) -> int:
    n_cells = torch.get_num_threads() * STOP_CELLS * 64 // max(64, call.q.shape[3])
    return max(LEAST_ROWS, n_cells // (call.q.shape[1] * call.k.shape[2]))


def _attend_rows(call: Call, bias: Tensor | None, rows: slice, *, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Some queries; under the causal rule, those with all keys before them and with their own."""
    stop_if_unwanted()
    part = replace(call, q=call.q[:, :, rows])
    if not is_causal:
        if bias is not None and bias.shape[2] > 1:
            bias = bias[:, :, rows]
        return _operate(part, bias, is_causal=False)
    own = replace(part, k=call.k[:, :, rows], v=call.v[:, :, rows])
    found = _operate(own, None, is_causal=True)
    if rows.start == 0:
        return found
    before = replace(part, k=call.k[:, :, : rows.start], v=call.v[:, :, : rows.start])
    return _joined(found, _operate(before, None, is_causal=False))


def _joined(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention over two sets of keys from the attention over each (Rabe & Staats 2021, section 3)."""
    lse = torch.logaddexp(one[1], other[1])
    shares = [(part - lse).exp()[..., None] for _, part in (one, other)]
    out = one[0] * shares[0] + other[0] * shares[1]
    return out.to(one[0].dtype), lse


def _operate(call: Call, bias: Tensor | None, *, is_causal: bool) -> tuple[Tensor, Tensor]:
    out, lse = torch._scaled_dot_product_flash_attention_for_cpu(
        call.q, call.k, call.v, 0.0, is_causal, attn_mask=bias, scale=call.score.scale
    )
    return out, lse


BLOCK_BYTES = 32 * 2**20
"""Most memory that the scores or the mask of one row block may take."""
_GATHERED_ROWS, _LEAST_GATHERED = 64, 1024


class Probe(Protocol):
    """Observes an attention call, or changes it."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """Multipliers of the head outputs, [n_heads] or [batch, n_heads]; None for no change."""

    def edits(self, site: SiteKey) -> Edits | None:
        """Changes of single heads for the last text of the batch; None for no change."""

    def wants(self, site: SiteKey) -> bool:
        """Whether to call `record` for this site."""

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Observe one call, `out` before the gate; the tensors are views: copy what is kept."""
        ...


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rule: MaskRule,
    score: ScoreRule | float,
    dropout: float = 0.0,
    site: SiteKey | None = None,
    probe: Probe | None = None,
    is_training: bool = False,
) -> Tensor:
    """Attention of every head, edited and gated by the probe: [batch, n_heads, n_queries, d_head].

    `score` may be the scale alone. `dropout` acts on the weights and only when `is_training`; a record
    is of the call without it, except for `out`, which is what the model used.
    """
    if _is_better_wide(q, k, v):
        with torch.autocast("cpu", enabled=False):
            wide = attend(
                q.float(),
                k.float(),
                v.float(),
                rule=rule,
                score=score,
                dropout=dropout,
                site=site,
                probe=probe,
                is_training=is_training,
            )
        return wide.to(q.dtype)
    is_short = k.shape[2] < _FEW_KEYS and not is_training
    if is_short:
        v = v + (k - k).sum(dim=-1, keepdim=True)
    call = Call(q=q, k=k, v=v, rule=rule, score=ScoreRule(scale=score) if isinstance(score, float) else score)
    dropout = dropout if is_training and not call.score.is_kernel else 0.0  # sums have no single weights
    gate = None
    if probe is None or site is None:
        out = _attend_unseen(call, dropout)
    else:
        stop_if_unwanted()
        edits = probe.edits(site)
        if edits is None and not probe.wants(site):
            out = _attend_unseen(call, dropout)
        else:
            out, lse = _attend_with_lse(call, dropout)
            if edits is not None:
                call, out, lse = apply_edits(call, out, lse, edits)
            if probe.wants(site):
                probe.record(site, call, lse=lse, out=out, is_training=is_training)
            if edits is not None:
                out = edits.replace_by_mean(out)
        gate = probe.gate(site)
    if is_short:
        out = out + (q - q).sum(dim=-1, keepdim=True)
    return out if gate is None else out * gate.to(out).reshape(-1, q.shape[1], 1, 1)


_FEW_KEYS = 16
"""Fewer keys than fill a register of the CPU: there fused attention (torch 2.13) gives 0 to a row whose
scores are all NaN, and what is damaged would look healthy. Zeros that are NaN where a number is none go
into the output instead.
"""


def _is_better_wide(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a step of training is faster with float32 attention between its bfloat16 products.

    The fused CPU operator's backward takes 4.4 ms in bfloat16 and 1.0 ms in float32 for 12 × 4 heads of
    64 tokens, 32 wide (torch 2.13, EPYC with avx512_bf16); drop this when that is mended.
    """
    is_learning = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    return is_learning and q.device.type == "cpu" and q.dtype == torch.bfloat16


def row_lse(
    q: Tensor, k: Tensor, *, rule: MaskRule, score: ScoreRule | float, rows: slice = slice(None)
) -> Tensor:
    """The log-sum-exp of the scores of some queries, [B, H, rows], in float32 or better, in row blocks.

    Queries that see no key get −inf, or their head's sink. No gradient passes through it.
    """
    score = ScoreRule(scale=score) if isinstance(score, float) else score
    n_queries, n_keys = q.shape[2], k.shape[2]
    wanted = range(n_queries)[rows]
    row_bytes = 4 * q.shape[0] * q.shape[1] * n_keys
    n_rows = max(1, BLOCK_BYTES // max(1, row_bytes))
    with torch.no_grad():
        blocks = [
            scores_of(
                q, k, rule=rule, score=score, rows=slice(start, min(start + n_rows, wanted.stop))
            ).logsumexp(dim=-1)
            for start in range(wanted.start, wanted.stop, n_rows)
        ]
        lse = torch.cat(blocks, dim=2) if blocks else q.new_zeros(q.shape[0], q.shape[1], 0)
        return add_sinks(lse, score.sinks)


def _attend_unseen(call: Call, dropout: float) -> Tensor:
    if call.score.sinks is not None or not call.score.is_product:
        return _attend_with_lse(call, dropout)[0]
    if call.q.shape[3] > call.v.shape[3]:
        return _attend_unseen(_with_equal_widths(call), dropout)[..., : call.v.shape[3]]
    if call.score.bias is not None or not call.rule.is_simple or call.score.scale <= 0.0:
        return _attend_masked(call, dropout, has_lse=False)[0]
    q, k, v, rule, scale = call.q, call.k, call.v, call.rule, call.score.scale
    if rule.key_valid is not None and _fits_cpu_operator(call, dropout) and _is_aligned(call):
        return attend_on_cpu(call, rule.key_bias(q.dtype), is_causal=_is_causal(call))[0]
    if rule.key_valid is None and _is_aligned(call):
        return _product(q, k, v, None, dropout, is_causal=_is_causal(call), scale=scale)
    return _attend_masked(call, dropout, has_lse=False)[0]


def _attend_with_lse(call: Call, dropout: float) -> tuple[Tensor, Tensor]:
    """Output and lse of every row, sinks counted in."""
    score, rule = call.score, call.rule
    if score.sinks is not None:
        return _attend_with_sinks(call, dropout)
    if not score.is_product:
        is_sum = score.is_kernel and score.softcap is None and score.bias is None
        if is_sum and rule.is_simple and _is_aligned(call):
            return attend_by_sums(
                call.q, call.k, call.v, is_causal=_is_causal(call), key_valid=rule.key_valid
            )
        return _attend_by_weights(call, dropout)
    if call.q.shape[3] > call.v.shape[3]:
        out, lse = _attend_with_lse(_with_equal_widths(call), dropout)
        return out[..., : call.v.shape[3]], lse
    if score.bias is None and rule.is_simple and _is_aligned(call):
        if _fits_cpu_operator(call, dropout):
            out, lse = attend_on_cpu(call, rule.key_bias(call.q.dtype), is_causal=_is_causal(call))
            blind = rule.rows_without_keys(call.q.shape[2], call.k.shape[2])
            return out, lse if blind is None else lse.masked_fill(blind.to(lse.device), -math.inf)
        return _attend_unseen(call, dropout), row_lse(call.q, call.k, rule=rule, score=score)
    return _attend_masked(call, dropout, has_lse=True)


def _attend_with_sinks(call: Call, dropout: float) -> tuple[Tensor, Tensor]:
    """A sink takes exp(sink − lse) of each row without output: scale the output by the rest."""
    out, plain = _attend_with_lse(call.without_sinks(), dropout)
    lse = add_sinks(plain, call.score.sinks)
    return out * (plain - lse).exp().nan_to_num(nan=0.0)[..., None].to(out), lse


def _attend_masked(call: Call, dropout: float, *, has_lse: bool) -> tuple[Tensor, Tensor]:
    """Fused attention with mask and bias laid out in row blocks; keys outside a window are skipped.

    Without `has_lse` the second tensor is empty.
    """
    blocks = [_attend_block(call, rows, dropout, has_lse=has_lse) for rows in _row_blocks(call)]
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        return call.q.new_zeros(*call.q.shape[:3], call.v.shape[3]), call.q.new_zeros(call.q.shape[:3])
    return torch.cat([out for out, _ in blocks], dim=2), torch.cat([lse for _, lse in blocks], dim=-1)


def _attend_block(call: Call, rows: slice, dropout: float, *, has_lse: bool) -> tuple[Tensor, Tensor]:
    if not torch.is_grad_enabled():
        stop_if_unwanted()
    cols = _seen_columns(call, rows)
    mask, seeing = _lay_out(call, rows, cols)
    k, v = call.k[:, :, cols], call.v[:, :, cols]
    block = Call(q=call.q[:, :, rows], k=k, v=v, rule=_NO_RULE, score=call.score)
    is_learning = mask.requires_grad
    if has_lse and _fits_cpu_operator(block, dropout) and not is_learning:
        additive = mask if mask.is_floating_point() else _as_bias(mask, call.q.dtype)
        out, lse = attend_on_cpu(block, additive, is_causal=False)
    else:
        out = _product(block.q, block.k, block.v, mask, dropout, is_causal=False, scale=call.score.scale)
        lse = out.new_zeros(0)
        if has_lse:
            lse = row_lse(call.q, call.k, rule=call.rule, score=call.score, rows=rows)
    if has_lse:
        lse = lse if seeing is None else lse.masked_fill(~seeing[..., 0], -math.inf)
    return (out if seeing is None else out.masked_fill(~seeing, 0.0)), lse


def _product(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, *, is_causal: bool, scale: float
) -> Tensor:
    """The library's fused attention, or ours where it has none: with dropped weights on a CPU."""
    if dropout and is_quick_on(q):
        return attend_dropping(q, k, v, mask, is_causal=is_causal, share=dropout, scale=scale)
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )


def _lay_out(call: Call, rows: slice, cols: slice | Tensor) -> tuple[Tensor, Tensor | None]:
    """Mask or bias of a block, [B or 1, H or 1, rows, cols], and which rows see a key (None: all do).

    Rows that see nothing get every key here and zero afterwards: backends differ on such rows.
    """
    n_queries, n_keys = call.q.shape[2], call.k.shape[2]
    bias = call.score.bias
    if bias is not None and call.rule.is_empty and isinstance(cols, slice):
        return bias.part(n_queries, n_keys, rows, cols).to(call.q), None
    allowed = call.rule.allowed(n_queries, n_keys, rows, cols, device=call.q.device)
    seeing = _seeing_rows(call.rule, allowed, n_queries, n_keys)
    if seeing is not None:
        allowed = allowed | ~seeing
    if bias is None or not isinstance(cols, slice):
        return allowed, seeing
    return bias.part(n_queries, n_keys, rows, cols).to(call.q).masked_fill(~allowed, -math.inf), seeing


def _seeing_rows(rule: MaskRule, allowed: Tensor, n_queries: int, n_keys: int) -> Tensor | None:
    """Rows of a block that see a key, [B or 1, H or 1, rows, 1]; None if all do."""
    if rule.is_simple:
        is_blind = rule.rows_without_keys(n_queries, n_keys) is not None
        return allowed.any(dim=-1, keepdim=True) if is_blind else None
    seeing = allowed.any(dim=-1, keepdim=True)
    return None if seeing.device.type == "cpu" and bool(seeing.all()) else seeing


def _attend_by_weights(call: Call, dropout: float) -> tuple[Tensor, Tensor]:
    """Scores, weights and output laid out in row blocks, for scores without a fused operator."""
    outs, sums = [], []
    n_groups = call.q.shape[1] // call.k.shape[1]
    v = call.v if n_groups == 1 else call.v.repeat_interleave(n_groups, dim=1)
    for rows in _row_blocks(call):
        if not torch.is_grad_enabled():
            stop_if_unwanted()
        s = scores_of(call.q, call.k, rule=call.rule, score=call.score, rows=rows)
        lse = s.logsumexp(dim=-1)
        weights = (s - lse[..., None].clamp(min=torch.finfo(lse.dtype).min)).exp()
        outs.append(drop(weights.to(v.dtype), dropout) @ v)
        sums.append(lse)
    return torch.cat(outs, dim=2), torch.cat(sums, dim=2)


def _row_blocks(call: Call) -> list[slice]:
    """The queries in blocks whose scores or mask fit into BLOCK_BYTES."""
    batch, n_heads, n_queries = call.q.shape[:3]
    n_keys = call.k.shape[2]
    is_shared = call.score.bias is None and call.score.is_product and call.rule.removed is None
    row_bytes = 4 * (1 if is_shared else n_heads) * batch * n_keys
    n_rows = max(1, BLOCK_BYTES // max(1, row_bytes))
    window = call.rule.window
    if _is_gathered(call):
        n_rows = min(n_rows, _GATHERED_ROWS)
    if window is not None and window[0] is not None and (call.rule.is_causal or window[1] is not None):
        n_rows = min(n_rows, max(64, window[0] + (0 if call.rule.is_causal else window[1] or 0)))
    return [slice(start, min(start + n_rows, n_queries)) for start in range(0, n_queries, n_rows)]


def _seen_columns(call: Call, rows: slice) -> slice | Tensor:
    """The keys left to some rows by the causal rule, the window or a sparse pattern; at least one."""
    rule, n_queries, n_keys = call.rule, call.q.shape[2], call.k.shape[2]
    offset = n_keys - n_queries
    back, ahead = rule.window or (None, None)
    ahead = 0 if rule.is_causal else ahead
    start = 0 if back is None else max(0, rows.start + offset - back)
    stop = n_keys if ahead is None else min(n_keys, rows.stop + offset + ahead)
    start = max(0, min(start, n_keys - 1))
    stop = max(stop, start + 1)
    if _is_gathered(call) and isinstance(rule.pattern, Sparse):
        found = rule.pattern.columns(range(rows.start, rows.stop), stop)
        if found is not None and 2 * len(found) < stop:
            return found.to(call.k.device)
    return slice(start, stop)


def _is_gathered(call: Call) -> bool:
    """Whether the keys of a block of rows are gathered one by one: for long texts, where it pays."""
    rule = call.rule
    is_plain = call.score.bias is None and rule.removed is None and not rule.is_banded
    return is_plain and isinstance(rule.pattern, Sparse) and call.k.shape[2] >= _LEAST_GATHERED


def _with_equal_widths(call: Call) -> Call:
    """The same call with values as wide as queries, as fused operators require. Zeros change nothing.

    Those of GPUs want a multiple of 8 as well.
    """
    width = call.q.shape[3]
    width += 0 if call.q.device.type == "cpu" else -width % 8
    q, k, v = (F.pad(x, (0, width - x.shape[3])) for x in (call.q, call.k, call.v))
    return replace(call, q=q, k=k, v=v)


def _is_causal(call: Call) -> bool:
    """Whether the causal rule hides anything: a single query is the last, and sees every key."""
    return call.rule.is_causal and call.q.shape[2] > 1


def _is_aligned(call: Call) -> bool:
    """Whether the causal rule, if any, is the plain lower triangle."""
    return not _is_causal(call) or call.q.shape[2] == call.k.shape[2]


def _fits_cpu_operator(call: Call, dropout: float) -> bool:
    """Whether the fused CPU operator computes this call exactly, lse included."""
    q, k, v = call.q, call.k, call.v
    return (
        q.device.type == "cpu"
        and dropout == 0.0
        and call.score.scale > 0.0  # a causal mask is scaled with the scores
        and q.shape[3] == v.shape[3]
        and min(q.shape[2], k.shape[2]) > 0
        and q.stride(3) == k.stride(3) == v.stride(3) == 1
    )


def _as_bias(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, -math.inf)


_NO_RULE = MaskRule()
