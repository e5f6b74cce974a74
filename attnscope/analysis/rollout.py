"""Attention across layers: how the levels of a network read each other, and rollout.

| symbol | meaning                                                 | shape                |
|--------|---------------------------------------------------------|----------------------|
| a      | mean over a site's heads; 0 where the mask forbids      | [n_queries, n_keys]  |
| A_l    | ½ a + ½ I, rows summing to 1                            | [n_queries, n_keys]  |
| R_l    | rollout: R_1 = A_1, R_l = A_l R_(l−1)                   | [n_queries, n_keys]  |

Rollout: Abnar and Zuidema 2020, section 3, equation 1 (upper layers multiply from the left). Our own
extension to the form encoder–decoder: cross-attention is one more level, of which half is the target
token's own stream and half the encoder's last level; the inputs are source tokens and target tokens.

A query that attends to nothing keeps its stream whole: its row of A is that of I. A key that no query may
see, such as padding, has no influence on any. Heads count in the mean by their gates, so that removed heads
have no say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.nn.computing import exact
from attnscope.records.causes import InfluenceMap
from attnscope.records.sites import Site, Stack, require_heads
from attnscope.records.tokens import Token
from attnscope.trace.record import weights_to_sum
from attnscope.trace.trace import Trace

_BLOCK_CELLS = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamLevel:
    """The tokens after one attention module.

    `parts` are (lower level, weights [n_tokens, its n_tokens]); none at the bottom. Over all parts the rows
    sum to 1.
    """

    name: str
    tokens: tuple[Token, ...]
    parts: tuple[tuple[int, Tensor], ...] = ()


def trace_levels(trace: Trace, stack: Stack | None = None) -> tuple[StreamLevel, ...]:
    """The levels under the last layer of a stack, bottom first; without a name, of the one that predicts.

    The last level is the stack's last layer.
    """
    form = {site.stack for site in trace.sites}
    if form == {"cross"}:
        raise UserError(
            "No layer of this model reads its own text through attention: there is nothing to follow.",
            expected="self-attention in the encoder or the decoder",
            action="Look at the maps of the cross-attention themselves.",
        )
    _require_tokens(trace)
    if stack is None:
        stack = "decoder" if "decoder" in form else "encoder"
    if stack == "encoder" or (stack == "decoder" and "cross" not in form):
        return tuple(_self_levels(trace, stack, start=0))
    if stack != "decoder":
        raise UserError(
            f"Layers of '{stack}' do not follow one another.",
            expected="encoder or decoder",
            action="Choose one of these.",
        )
    levels = _self_levels(trace, "encoder", start=0)
    memory = len(levels) - 1
    return (*levels, *_self_levels(trace, "decoder", start=len(levels), memory=memory))


def with_stream(mean: Tensor) -> Tensor:
    """A = ½ a + ½ I with rows that sum to 1; float64."""
    wide = exact(mean)
    both = wide + torch.eye(*wide.shape, dtype=wide.dtype, device=wide.device)
    return both / both.sum(dim=-1, keepdim=True)


def roll_out(levels: Sequence[StreamLevel]) -> list[Tensor]:
    """The rollout of every level, [its n_tokens, n_inputs]; inputs are all bottom levels in order."""
    starts = _input_starts(levels)
    n_inputs = sum(len(level.tokens) for level in levels if not level.parts)
    rolled: list[Tensor] = []
    for index, level in enumerate(levels):
        if level.parts:
            rolled.append(sum_of([weights @ rolled[lower] for lower, weights in level.parts]))
        else:
            own = torch.zeros(len(level.tokens), n_inputs, dtype=torch.float64, device=_device(levels))
            start = starts[index]
            own[:, start : start + len(level.tokens)] = torch.eye(len(level.tokens), dtype=torch.float64)
            rolled.append(own)
    return rolled


def rollout(trace: Trace, stack: Stack | None = None, layer: int | None = None) -> InfluenceMap:
    """Rollout from the inputs to the last layer of a stack, or to `layer`, which counts from 0."""
    levels = trace_levels(trace, stack)
    top = _find_level(levels, layer)
    return influence_map("rollout", levels, top, roll_out(levels[: top + 1])[top])


def raw_attention(trace: Trace, stack: Stack | None = None, layer: int | None = None) -> InfluenceMap:
    """The mean attention of one layer of a stack (None: the last) as if it read the inputs themselves."""
    only_stacks = {site.stack for site in trace.sites}
    chosen = stack or ("cross" if only_stacks == {"cross"} else trace_levels(trace)[-1].name.split()[0])
    sites = [site for site in trace.sites if site.stack == chosen]
    site = sites[-1] if layer is None else next((s for s in sites if s.layer == layer), None)
    if site is None:
        raise _no_layer(layer)
    queries, keys = trace.tokens(site)
    weights = mean_weights(trace, site).float().cpu().numpy()
    return InfluenceMap(
        method="raw", queries=queries, keys=keys, weights=weights, about=f"layer {site.layer}"
    )


def influence_map(
    method: str, levels: Sequence[StreamLevel], top: int, weights: Tensor, about: str = ""
) -> InfluenceMap:
    """The record of one level's influence; `weights` is [n_tokens, n_inputs]."""
    inputs = [level for level in levels[: top + 1] if not level.parts]
    return InfluenceMap(
        method=method,  # type: ignore[arg-type]
        queries=levels[top].tokens,
        keys=tuple(token for level in inputs for token in level.tokens),
        weights=weights.float().cpu().numpy(),
        n_source=len(inputs[0].tokens) if len(inputs) > 1 else 0,
        about=about or levels[top].name,
    )


def mean_weights(trace: Trace, site: Site) -> Tensor:
    """The mean over a site's heads, by their gates; float32 [n_queries, n_keys], 0 where forbidden.

    A few heads at a time, so that a long text needs no more memory than a few maps. When every head is
    off, all is 0. Raises NotFiniteError for weights that are no numbers.
    """
    record = trace.records[site.key]
    gates = [trace.gates.value(head) for head in site.heads]
    n_cells = max(1, record.n_queries * record.n_keys)
    size = max(1, _BLOCK_CELLS // n_cells)
    total = torch.zeros(record.n_queries, record.n_keys, device=record.q.device)
    for start in range(0, site.n_heads, size):
        heads = slice(start, min(start + size, site.n_heads))
        if any(gates[heads]):
            share = torch.tensor(gates[heads], device=total.device)
            total += torch.einsum("h,hqk->qk", share, weights_to_sum(record, heads))
    return total / (sum(gates) or 1.0)


def sum_of(tensors: Sequence[Tensor]) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def _self_levels(trace: Trace, stack: Stack, *, start: int, memory: int | None = None) -> list[StreamLevel]:
    """The inputs of a stack and a level for each of its sites; cross-attention reads level `memory`."""
    has_cross = memory is not None
    sites = [s for s in trace.sites if s.stack == stack or (has_cross and s.stack == "cross")]
    sites.sort(key=lambda site: (site.layer, site.stack == "cross"))
    tokens = trace.source.tokens if stack == "encoder" or trace.target is None else trace.target.tokens
    levels = [StreamLevel(name=f"{stack} input", tokens=tokens)]
    for site in sites:
        below, mean = start + len(levels) - 1, mean_weights(trace, site)
        if site.stack != "cross":
            parts: tuple[tuple[int, Tensor], ...] = ((below, with_stream(mean)),)
        else:
            wide = exact(mean)
            sums = 1.0 + wide.sum(dim=-1, keepdim=True)
            parts = ((below, torch.diag(1.0 / sums[:, 0])), (memory or 0, wide / sums))
        levels.append(StreamLevel(name=f"{site.stack} {site.layer}", tokens=tokens, parts=parts))
    return levels


def _require_tokens(trace: Trace) -> None:
    """Raise UserError where the layers cannot be followed from token to token."""
    require_heads(trace.sites)
    if any(site.keys == "slots" for site in trace.sites):
        raise UserError(
            "Keys are projected to slots here: no weight leads from a token to a token.",
            expected="a model without n_projected",
            action="Look at the maps themselves.",
        )
    if any(site.stack == "second" for site in trace.sites):
        raise UserError(
            "Two texts are matched here after their last layers: there is no one stream to follow.",
            expected="a model that reads one text, or writes its target",
            action="Look at the maps of 'cross' and 'back' themselves.",
        )


def _input_starts(levels: Sequence[StreamLevel]) -> dict[int, int]:
    starts, n = {}, 0
    for index, level in enumerate(levels):
        if not level.parts:
            starts[index] = n
            n += len(level.tokens)
    return starts


def _find_level(levels: Sequence[StreamLevel], layer: int | None) -> int:
    """The last level, or the last one of a layer of the top stack."""
    if layer is None:
        return len(levels) - 1
    stack = levels[-1].name.split()[0]
    names = [f"cross {layer}", f"decoder {layer}"] if stack != "encoder" else [f"encoder {layer}"]
    for index in range(len(levels) - 1, -1, -1):
        if levels[index].name in names:
            return index
    raise _no_layer(layer)


def _no_layer(layer: int | None) -> UserError:
    return UserError(
        f"There is no layer {layer} in this stack.", action="Choose a layer that exists; layers count from 0."
    )


def _device(levels: Sequence[StreamLevel]) -> torch.device:
    for level in levels:
        for _, weights in level.parts:
            return weights.device
    return torch.device("cpu")
