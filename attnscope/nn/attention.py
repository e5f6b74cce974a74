"""The one function through which all attention goes.

A *probe* on the call can record what a head's weights are made of and multiply each head's output
by a gate. Without a probe the call is the library's fused attention and nothing else. Must not
import anything of the program but masks and records.

    symbol   meaning                                        shape
    q        queries                                        [batch, n_heads, n_queries, d_head]
    k, v     keys and values                                [batch, n_kv_heads, n_keys, d_head]
    lse      log of the sum of exp(score) over seen keys    [batch, n_heads, n_queries]
    out      sum over keys of weight times v                [batch, n_heads, n_queries, d_head]

Letters: B batch, H heads, K key-value heads, G = H / K, Q queries, T keys, D d_head.
score = scale · q·k, weight = exp(score − lse) (Vaswani et al. 2017, equation 1; with grouped heads
Ainslie et al. 2023). Query head h reads key-value head h // G. A query that sees no key has the output 0
and the lse −inf, so that its weights are NaN and never look like numbers.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.masks import MaskRule
from attnscope.records.sites import SiteKey

LSE_BLOCK_BYTES = 32 * 2**20
"""Most memory that the scores of one row block may take when the lse is computed apart."""


class Probe(Protocol):
    """What may look at an attention call, or change it."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """Multipliers of the head outputs, [n_heads] or [batch, n_heads]; None leaves them alone."""
        ...

    def wants(self, site: SiteKey) -> bool:
        """Whether `record` is to be called for this site."""
        ...

    def record(
        self,
        site: SiteKey,
        *,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rule: MaskRule,
        scale: float,
        lse: Tensor,
        out: Tensor,
        is_training: bool,
    ) -> None:
        """Take the facts of one call, `out` before the gate; the tensors are views: copy what is kept."""
        ...


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rule: MaskRule,
    scale: float,
    dropout: float = 0.0,
    site: SiteKey | None = None,
    probe: Probe | None = None,
    is_training: bool = False,
) -> Tensor:
    """Attention of every head, gated by the probe: [batch, n_heads, n_queries, d_head].

    `dropout` acts on the weights and only when `is_training`; a record is of the call without it, except
    for `out`, which is what the model used.
    """
    dropout = dropout if is_training else 0.0
    if probe is None or site is None:
        return _attend_unseen(q, k, v, rule, scale, dropout)
    if probe.wants(site):
        out, lse = _attend_with_lse(q, k, v, rule, scale, dropout)
        probe.record(site, q=q, k=k, v=v, rule=rule, scale=scale, lse=lse, out=out, is_training=is_training)
    else:
        out = _attend_unseen(q, k, v, rule, scale, dropout)
    gate = probe.gate(site)
    if gate is None:
        return out
    return out * gate.to(out).reshape(-1, q.shape[1], 1, 1)


def row_lse(q: Tensor, k: Tensor, *, rule: MaskRule, scale: float, rows: slice = slice(None)) -> Tensor:
    """The log-sum-exp of the scores of some queries, [B, H, rows], in float32 or better, in row blocks.

    Queries that see no key get −inf. No gradient passes through it.
    """
    n_queries, n_keys = q.shape[2], k.shape[2]
    wanted = range(n_queries)[rows]
    row_bytes = 4 * q.shape[0] * q.shape[1] * n_keys
    n_rows = max(1, LSE_BLOCK_BYTES // max(1, row_bytes))
    blocks = [
        _block_lse(q, k, rule, scale, slice(start, min(start + n_rows, wanted.stop)))
        for start in range(wanted.start, wanted.stop, n_rows)
    ]
    return torch.cat(blocks, dim=2)


@torch.no_grad()
def _block_lse(q: Tensor, k: Tensor, rule: MaskRule, scale: float, rows: slice) -> Tensor:
    n_groups = q.shape[1] // k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    queries = q[:, :, rows].to(wide)
    grouped = queries.view(q.shape[0], k.shape[1], n_groups, *queries.shape[2:])  # [B, K, G, rows, D]
    scores = grouped @ k.to(wide).transpose(-1, -2)[:, :, None] * scale  # [B, K, G, rows, T]
    scores = scores.flatten(1, 2)  # [B, H, rows, T]
    if not rule.is_empty:
        allowed = rule.allowed(q.shape[2], k.shape[2], rows, device=q.device)
        scores = scores.masked_fill(~allowed, -math.inf)
    lse: Tensor = scores.logsumexp(dim=-1)
    return lse


def _attend_unseen(q: Tensor, k: Tensor, v: Tensor, rule: MaskRule, scale: float, dropout: float) -> Tensor:
    if rule.key_valid is not None and _fits_cpu_operator(q, k, v, rule, dropout):
        return _attend_on_cpu(q, k, v, rule, scale)[0]
    has_groups = q.shape[1] != k.shape[1]
    n_queries, n_keys = q.shape[2], k.shape[2]
    if rule.key_valid is None and (not rule.is_causal or n_queries in (1, n_keys)):
        is_causal = rule.is_causal and n_queries > 1
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=is_causal, scale=scale, enable_gqa=has_groups
        )
    # Rows that see nothing get every key here and zero afterwards: backends differ on such rows.
    allowed = rule.allowed(n_queries, n_keys, device=q.device)
    blind = rule.rows_without_keys(n_queries, n_keys)
    if blind is not None:
        blind = blind.to(q.device)[..., None]  # [B or 1, 1, Q or 1, 1]
        allowed = allowed | blind
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=dropout, scale=scale, enable_gqa=has_groups
    )
    return out if blind is None else out.masked_fill(blind, 0.0)


def _attend_with_lse(
    q: Tensor, k: Tensor, v: Tensor, rule: MaskRule, scale: float, dropout: float
) -> tuple[Tensor, Tensor]:
    if _fits_cpu_operator(q, k, v, rule, dropout):
        out, lse = _attend_on_cpu(q, k, v, rule, scale)
        blind = rule.rows_without_keys(q.shape[2], k.shape[2])
        return out, lse if blind is None else lse.masked_fill(blind, -math.inf)
    out = _attend_unseen(q, k, v, rule, scale, dropout)
    return out, row_lse(q, k, rule=rule, scale=scale)


def _fits_cpu_operator(q: Tensor, k: Tensor, v: Tensor, rule: MaskRule, dropout: float) -> bool:
    """Whether the fused CPU operator computes this call exactly, lse included."""
    return (
        q.device.type == "cpu"
        and dropout == 0.0
        and q.shape[3] == v.shape[3]
        and (not rule.is_causal or q.shape[2] == k.shape[2])
        and q.stride(3) == k.stride(3) == v.stride(3) == 1
    )


def _attend_on_cpu(q: Tensor, k: Tensor, v: Tensor, rule: MaskRule, scale: float) -> tuple[Tensor, Tensor]:
    """Output and lse from one operator; queries that see no key get the output 0 and the lse 0."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, rule.is_causal, attn_mask=rule.key_bias(q.dtype), scale=scale
    )
    return out, lse
