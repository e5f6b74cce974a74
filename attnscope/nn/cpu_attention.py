"""The fused operator of the CPU, which gives the lse with the output; long texts in pieces.

Between two pieces a pass that nobody waits for is given up (`stopping.py`). Must not import anything of the
program but edits and stopping.

    symbol   meaning                                        shape
    q        queries                                        [batch, n_heads, n_queries, d_head]
    k, v     keys and values                                [batch, n_kv_heads, n_keys, d_head]
    lse      log of the sum of exp(score) over seen keys    [batch, n_heads, n_queries]
"""

from dataclasses import replace

import torch
from torch import Tensor

from attnscope.nn.cancellation import stop_if_unwanted
from attnscope.nn.edits import Call

STOP_CELLS = 2**26
"""Most cells of maps, 64 wide, that a thread works out between two places where a pass can be given up.

Two tenths of a second (0.22 s on an EPYC with AVX-512, torch 2.13).
"""
LEAST_ROWS = 1024
"""Fewer queries at a time are slower: the operator takes 256 of them together, for each thread."""


def attend_on_cpu(call: Call, bias: Tensor | None, *, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Output and lse from one operator; queries that see no key get the output 0 and the lse 0.

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
    """So many queries at a time."""
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
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        call.q, call.k, call.v, 0.0, is_causal, attn_mask=bias, scale=call.score.scale
    )
    return out, lse
