"""What the tests' second device computes in its own way, by operators that it has; see `second_device`."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_ATEN = torch.ops.aten


def own_kernels() -> dict[Any, Callable[..., Any]]:
    """Attention, and recurrent cells, by operator."""
    found: dict[Any, Callable[..., Any]] = {_ATEN.scaled_dot_product_attention.default: _attend}
    for kind in ("gru", "lstm", "rnn_tanh"):
        found[getattr(_ATEN, kind).input] = _stack(kind)
        found[getattr(_ATEN, f"{kind}_cell").default] = _one_cell(kind)
    return found


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention by the operator that torch would choose on the CPU."""
    raws = [getattr(t, "raw", t) for t in (q, k, v, attn_mask)]
    choice = torch._fused_sdp_choice(*raws, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if choice == 1 and not (attn_mask is not None and attn_mask.requires_grad):
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -torch.inf).to(q.dtype)
        fused = _ATEN._scaled_dot_product_flash_attention_for_cpu.default
        return fused(q, k, v, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
    plain = _ATEN._scaled_dot_product_attention_math.default
    return plain(q, k, v, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def _step(kind: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """One token through one layer of cells: torch has fused ones for CUDA and none for a device like this."""
    w_ih, w_hh, *biases = weights
    b_ih, b_hh = biases or (None, None)
    h, given, kept = states[0], F.linear(x, w_ih, b_ih), F.linear(states[0], w_hh, b_hh)
    if kind == "rnn_tanh":
        return ((given + kept).tanh(),)
    if kind == "gru":
        (gr, gz, gn), (kr, kz, kn) = given.chunk(3, -1), kept.chunk(3, -1)
        new = (gn + (gr + kr).sigmoid() * kn).tanh()
        return (new + (gz + kz).sigmoid() * (h - new),)
    i, f, g, o = (given + kept).chunk(4, -1)
    c = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _stack(kind: str) -> Callable[..., Any]:
    def run(
        x: Tensor,
        hx: Any,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        x = x.transpose(0, 1) if batch_first else x
        starts, lasts = hx if kind == "lstm" else [hx], []
        n_each, n_ways = 4 if has_biases else 2, 2 if bidirectional else 1
        for layer in range(num_layers):
            outs = []
            for way in range(n_ways):
                at = layer * n_ways + way
                weights = params[at * n_each : (at + 1) * n_each]
                states, rows = tuple(start[at] for start in starts), []
                for token in x.unbind(0)[:: -1 if way else 1]:
                    states = _step(kind, token, states, weights)
                    rows.append(states[0])
                outs.append(torch.stack(rows[:: -1 if way else 1]))
                lasts.append(states)
            x = torch.cat(outs, -1)
            if dropout and train and layer + 1 < num_layers:
                x = F.dropout(x, dropout)
        found = x.transpose(0, 1) if batch_first else x
        return (found, *(torch.stack(state) for state in zip(*lasts, strict=True)))

    return run


def _one_cell(kind: str) -> Callable[..., Any]:
    def run(x: Tensor, hx: Any, *weights: Tensor | None) -> Any:
        states = tuple(hx) if kind == "lstm" else (hx,)
        found = _step(kind, x, states, [weight for weight in weights if weight is not None])
        return found if kind == "lstm" else found[0]

    return run
