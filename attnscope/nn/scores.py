"""How a query and a key give a score, kept as a rule so that any part of a map can be recomputed.

    symbol   meaning                                              shape
    s        scale · q·k, capped, plus bias                       [batch, n_heads, rows, columns]
    v        instead of q·k: v · tanh(q + k)                      [n_heads, d_head] (Bahdanau et al. 2014)
    kernel   instead of q·k: ln(q·k), with q and k above 0        (Katharopoulos et al. 2020)
    c        softcap: s = c · tanh(scale · q·k / c)               number (Gemma 2, Riviere et al. 2024)
    b        bias added after the cap                             [batch or 1, n_heads or 1, rows, columns]
    sink     a logit that takes weight and gives no value         [n_heads] (gpt-oss, OpenAI 2025)

weight_ij = exp(s_ij − lse_i), lse_i = ln(exp(sink) + Σ_j exp(s_ij)) over the allowed keys. The additive
score never holds a vector for each cell of a map: v · tanh(W [q; k]) with W [q; k] = W_q q + W_k k
(Bahdanau et al. 2014, appendix A.1.2) are the projections of queries and keys that a head has anyway; its
backward pass computes the tanh again. Must not import attention.

How a query scores a key at one site: a score of `schemes/scores`, with what it learns there.

Of a score that is a product fused attention computes everything, and what a probe records is all there is
to know. With some positions a query also scores distances, as Shaw's (2018): q·a_(j − i). Shaw et al. add
vectors to the values as well; that part is left out (their table 3 finds no gain), since an output would no
longer be a mean of values. Letters: B batch, H heads, K key-value heads, T tokens, D d_head.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.autograd.function import once_differentiable

from attnscope.nn.masks import CentredBias, MaskRule
from attnscope.nn.spans import (
    PACE,
    START_LOG_ALPHA,
    GateBias,
    SpanBias,
    drawn_mask,
    hard_mask,
    open_probability,
)
from attnscope.schemes.positions import PositionScheme
from attnscope.schemes.scores import Score

BLOCK_BYTES = 16 * 2**20
"""Most memory that the sums of one block of rows may take."""


def additive_scores(q: Tensor, k: Tensor, vector: Tensor) -> Tensor:
    """The score of every query and key, [batch, n_heads, rows, columns], differentiable once."""
    scores: Tensor = _Additive.apply(q, k, vector)  # type: ignore[no-untyped-call]
    return scores


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, vector: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, vector)
        s = q.new_empty(*q.shape[:3], k.shape[2])
        for rows in _row_blocks(q, k):
            torch.sum(_tanh(q, k, rows) * vector[:, None, None], dim=-1, out=s[:, :, rows])
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """∂s/∂v = tanh, ∂s/∂q = ∂s/∂k = v · (1 − tanh²)."""
        q, k, vector = ctx.saved_tensors
        q_gradient, k_gradient = torch.empty_like(q), torch.zeros_like(k)
        vector_gradient = torch.zeros_like(vector)
        for rows in _row_blocks(q, k):
            tanh = _tanh(q, k, rows)  # [B, H, rows, T, D]
            weighted = gradient[:, :, rows, :, None] * tanh
            vector_gradient += weighted.sum(dim=(0, 2, 3))
            inner = (gradient[:, :, rows, :, None] - weighted * tanh) * vector[:, None, None]
            q_gradient[:, :, rows] = inner.sum(dim=3)
            k_gradient += inner.sum(dim=2)
        return q_gradient, k_gradient, vector_gradient


def _tanh(q: Tensor, k: Tensor, rows: slice) -> Tensor:
    return (q[:, :, rows, None] + k[:, :, None]).tanh_()


def _row_blocks(q: Tensor, k: Tensor) -> list[slice]:
    row_bytes = q.element_size() * q.shape[0] * q.shape[1] * k.shape[2] * q.shape[3]
    n_rows = max(1, BLOCK_BYTES // max(1, row_bytes))
    return [slice(start, start + n_rows) for start in range(0, q.shape[2], n_rows)]


class Bias(Protocol):
    """Numbers added to scores; any rectangle can be requested."""

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        """The bias of some rows and columns, [batch or 1, n_heads or 1, n_rows, n_columns]."""

    def last_text(self) -> "Bias":
        """The bias of the last text of the batch."""

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, by field name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelativeBias:
    """A learned number for each head and distance (Raffel et al. 2020, section 2.1).

    `values` is [n_heads, n_queries + n_keys − 1]; column j − i + n_queries − 1 is for query i and key j.
    `laid_out` is the same cell by cell where a model has it anyway, [1, n_heads, n_queries, n_keys]: it
    saves time during the pass and is never kept.
    """

    values: Tensor
    laid_out: Tensor | None = None

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        if self.laid_out is not None and self.laid_out.shape[2:] == (n_queries, n_keys):
            return self.laid_out[:, :, rows, cols]
        if self.values.shape[1] != n_queries + n_keys - 1:
            raise ValueError(f"{self.values.shape[1]} distances, expected {n_queries + n_keys - 1}")
        i = torch.arange(n_queries, device=self.values.device)[rows]
        j = torch.arange(n_keys, device=self.values.device)[cols]
        return self.values[:, j[None, :] - i[:, None] + n_queries - 1][None]

    def last_text(self) -> "RelativeBias":
        if self.laid_out is None and not self.values.requires_grad:
            return self
        return RelativeBias(values=_without_graph(self.values))

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlopeBias:
    """−slope · distance to the query's own position, for each head (ALiBi, Press et al. 2022); [n_heads]."""

    slopes: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        device = self.slopes.device
        place = torch.arange(n_queries, device=device)[rows] + (n_keys - n_queries)
        j = torch.arange(n_keys, device=device)[cols]
        distance = (place[:, None] - j[None, :]).abs().to(self.slopes.dtype)
        return -self.slopes[None, :, None, None] * distance

    def last_text(self) -> "SlopeBias":
        return self

    def tensors(self) -> dict[str, Tensor]:
        return {"slopes": self.slopes}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetBias:
    """A number for each query and clipped distance (Shaw et al. 2018, equation 5: scale · q_i · a_(j − i)).

    `values` is [batch, n_heads, n_queries, 2c + 1], c the distance beyond which all are alike; the column
    c is that of the query's own place, later keys stand to its right.
    """

    values: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        if self.values.ndim != 4 or self.values.shape[2] != n_queries or self.values.shape[3] % 2 == 0:
            raise ValueError(f"the bias is {list(self.values.shape)}, expected [.., .., {n_queries}, odd]")
        device, reach = self.values.device, self.values.shape[3] // 2
        place = torch.arange(n_queries, device=device)[rows] + (n_keys - n_queries)
        offset = torch.arange(n_keys, device=device)[cols][None, :] - place[:, None]
        column = offset.clamp(-reach, reach) + reach  # [rows, columns]
        chosen = self.values[:, :, rows]
        return chosen.gather(3, column.expand(*chosen.shape[:2], -1, -1))

    def last_text(self) -> "OffsetBias":
        return OffsetBias(values=_without_graph(self.values[-1:]))

    def tensors(self) -> dict[str, Tensor]:
        return {"values": self.values}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseBias:
    """A bias given cell by cell, [batch or 1, n_heads or 1, n_queries, n_keys]: for short texts only."""

    cells: Tensor

    def part(self, n_queries: int, n_keys: int, rows: slice, cols: slice) -> Tensor:
        if self.cells.ndim != 4 or self.cells.shape[2:] != (n_queries, n_keys):
            raise ValueError(
                f"the bias is {list(self.cells.shape)}, expected [.., .., {n_queries}, {n_keys}]"
            )
        return self.cells[:, :, rows, cols]

    def last_text(self) -> "DenseBias":
        return DenseBias(cells=self.cells[-1:])

    def tensors(self) -> dict[str, Tensor]:
        return {"cells": self.cells}


BIASES: dict[
    str,
    type[RelativeBias]
    | type[SlopeBias]
    | type[OffsetBias]
    | type[CentredBias]
    | type[DenseBias]
    | type[SpanBias]
    | type[GateBias],
] = {
    "relative": RelativeBias,
    "slope": SlopeBias,
    "offset": OffsetBias,
    "centred": CentredBias,
    "dense": DenseBias,
    "span": SpanBias,
    "gates": GateBias,
}
"""Every kind by the name it has in files."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreRule:
    """The score of one attention call; see the module's legend."""

    scale: float
    softcap: float | None = None
    bias: Bias | None = None
    sinks: Tensor | None = None
    vector: Tensor | None = None
    is_kernel: bool = False

    @property
    def is_product(self) -> bool:
        """Whether the score is scale · q·k with at most a bias, which fused attention supports."""
        return self.softcap is None and self.vector is None and not self.is_kernel

    @property
    def is_plain(self) -> bool:
        """Whether the score is scale · q·k and nothing else."""
        return self.is_product and self.bias is None and self.sinks is None

    def last_text(self) -> "ScoreRule":
        """The rule of the last text of the batch, to be kept: without a graph, and not trained."""
        if self.bias is None and self.vector is None:
            return self
        return replace(
            self,
            bias=None if self.bias is None else self.bias.last_text(),
            vector=None if self.vector is None else self.vector.detach().clone(),
        )


ALL = slice(None)


def scores_of(
    q: Tensor,
    k: Tensor,
    *,
    rule: MaskRule,
    score: ScoreRule,
    heads: slice = ALL,
    rows: slice = ALL,
    cols: slice = ALL,
) -> Tensor:
    """Scores of some heads, rows and columns, −inf where the mask forbids: float32 or better.

    `q` [B, H, Q, D] and `k` [B, K, T, D] are whole; key-value head h // (H / K) serves head h. Shape:
    [B, n_heads chosen, n_rows, n_columns].
    """
    n_queries, n_keys = q.shape[2], k.shape[2]
    s = score.scale * _compared(q, k, score.vector, heads, rows, cols)
    if score.is_kernel:
        s = s.clamp(min=torch.finfo(s.dtype).tiny).log()
    if score.softcap is not None:
        s = score.softcap * torch.tanh(s / score.softcap)
    if score.bias is not None:
        s = s + _of_heads(score.bias.part(n_queries, n_keys, rows, cols), heads).to(s)
    if not rule.is_empty:
        allowed = rule.allowed(n_queries, n_keys, rows, cols, device=q.device)
        s = s.masked_fill(~_of_heads(allowed, heads).to(s.device), -math.inf)
    return s


def log_weights(
    q: Tensor,
    k: Tensor,
    lse: Tensor,
    *,
    rule: MaskRule,
    score: ScoreRule,
    heads: slice = ALL,
    rows: slice = ALL,
    cols: slice = ALL,
    forbidden: float = -math.inf,
) -> Tensor:
    """Logarithms of weights, scores − lse, with `forbidden` where the mask forbids; shaped like `scores_of`.

    `lse` [B, n_heads chosen, n_rows] is that of the chosen rows. The plain score takes one fused operation.
    """
    n_queries, n_keys = q.shape[2], k.shape[2]
    if not score.is_plain:
        s = scores_of(q, k, rule=rule, score=score, heads=heads, rows=rows, cols=cols)
        logs = s - lse.to(s)[..., None]
        return logs.masked_fill_(s.isneginf(), forbidden)  # −∞ − −∞ of a row that sees nothing is NaN
    wide = torch.promote_types(q.dtype, torch.float32)
    queries, n_groups = q[:, heads, rows].to(wide), q.shape[1] // k.shape[1]
    keys = k[:, :, cols].to(wide)
    if heads != ALL:
        keys = for_heads(keys, n_groups, range(q.shape[1])[heads]) if n_groups > 1 else keys[:, heads]
        n_groups = 1
    batch, n_heads, n_rows, width = queries.shape
    n_maps, n_cols = batch * keys.shape[1], keys.shape[2]
    logs = torch.baddbmm(  # heads of a group read the same keys: their rows stand below each other
        -lse.to(wide).reshape(n_maps, n_groups * n_rows, 1),
        queries.reshape(n_maps, n_groups * n_rows, width),
        keys.reshape(n_maps, n_cols, width).transpose(1, 2),
        alpha=score.scale,
    ).view(batch, n_heads, n_rows, n_cols)
    if not rule.is_empty:
        allowed = rule.allowed(n_queries, n_keys, rows, cols, device=q.device)
        logs.masked_fill_(~_of_heads(allowed, heads).to(logs.device), forbidden)
    return logs


def _compared(q: Tensor, k: Tensor, vector: Tensor | None, heads: slice, rows: slice, cols: slice) -> Tensor:
    """q·k, or v · tanh(q + k), of some heads, rows and columns."""
    wide = torch.promote_types(q.dtype, torch.float32)
    queries = q[:, heads, rows].to(wide)
    keys = k[:, :, cols].to(wide)  # [B, K, cols, D]
    n_groups = q.shape[1] // k.shape[1]
    if heads == ALL and n_groups > 1 and vector is None:
        grouped = queries.reshape(len(q), k.shape[1], n_groups, *queries.shape[2:])  # [B, K, G, rows, D]
        product: Tensor = (grouped @ keys.transpose(-1, -2)[:, :, None]).flatten(1, 2)  # [B, H, rows, cols]
        return product
    if n_groups > 1:
        keys = for_heads(keys, n_groups, range(q.shape[1])[heads])
    elif heads != ALL:
        keys = keys[:, heads]
    if vector is not None:
        return additive_scores(queries, keys, vector[heads].to(wide))
    compared: Tensor = queries @ keys.transpose(-1, -2)  # [B, h, rows, cols]
    return compared


def for_heads(kv: Tensor, n_groups: int, heads: range) -> Tensor:
    """The keys or values of some neighbouring heads, one for each: [B, h, T, D] from [B, K, T, D]."""
    first = heads.start // n_groups
    repeated = kv[:, first : (heads.stop - 1) // n_groups + 1].repeat_interleave(n_groups, dim=1)
    return repeated[:, heads.start - first * n_groups :][:, : len(heads)]


def _of_heads(cells: Tensor, heads: slice) -> Tensor:
    return cells if cells.shape[1] == 1 else cells[:, heads]


def _without_graph(tensor: Tensor) -> Tensor:
    return tensor.detach() if tensor.requires_grad else tensor


def add_sinks(lse: Tensor, sinks: Tensor | None) -> Tensor:
    """The log-sum-exp [B, H, rows] including each head's sink."""
    if sinks is None:
        return lse
    return torch.logaddexp(lse, sinks.to(lse)[None, :, None])


Rotary = tuple[Tensor, Tensor]
"""Cosines and signed sines of the angles of positions."""


def apply_rotary(x: Tensor, cosines: Tensor, signed_sines: Tensor) -> Tensor:
    """Rotate queries or keys `x` [..., n_tokens, d_head] by the angle of their position."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)
    return torch.addcmul(x * cosines.to(x.dtype), swapped, signed_sines.to(x.dtype))


class SpanChoice(NamedTuple):
    """Learned spans of heads, up to `limit` tokens, 0: as far as there are any.

    By `kind` the mask falls over `ramp` tokens or opens at offsets (`nn/spans.py`). Spans begin with `start`.
    """

    limit: int = 0
    kind: str = "ramp"
    ramp: int = 1
    start: int = 0


NO_SPAN = SpanChoice()


class PlainScoring:
    """The scaled product alone: no parameters, and queries and keys are read unchanged."""

    learned: Tensor | None = None

    def __init__(self, kind: Score, *, scale: float) -> None:
        self.kind, self.scale = kind, scale

    def keys(self, k: Tensor) -> Tensor:
        return k

    turn = keys

    def rotated(self, qk: Tensor, n_heads: int, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Queries and keys [B, H + K, T, D] rotated to their positions, in one go."""
        turned = apply_rotary(qk, *rotary)
        return turned[:, :n_heads], turned[:, n_heads:]

    def asked(self, q: Tensor, bias: Bias | None) -> tuple[Tensor, ScoreRule | float]:
        """Queries as `attend` expects them, and the rule for them."""
        return q, self.scale if bias is None else ScoreRule(scale=self.scale, bias=bias)


class Scoring(nn.Module):
    """One site's score, with its parameters.

    `reach` is the distance up to which queries score `positions` besides keys, 0 where they do not. `made` is
    one whose heads learn how far they look, or at which offsets, where its `span` has a limit.
    """

    def __init__(
        self,
        kind: Score,
        *,
        scale: float,
        n_heads: int,
        d_head: int,
        d_model: int = 0,
        positions: PositionScheme | None = None,
        reach: int = 0,
        span: SpanChoice = NO_SPAN,
    ) -> None:
        super().__init__()
        self.span_limit, self.span_ramp, self.span_start = span.limit, span.ramp, span.start
        self.learn_spans(n_heads)
        self.kind, self.scale, self.reach = kind, scale, reach
        self.positions = PositionScheme() if positions is None else positions
        if kind.learned:
            shape = (n_heads, *kind.learned_shape(d_head))
            self.register_parameter(kind.learned, nn.Parameter(torch.empty(shape)))
        sizes = {"n_heads": n_heads, "d_head": d_head, "d_model": d_model, "reach": reach}
        shapes = self.positions.site_shapes(**sizes) if reach else {}
        self._of_positions = tuple(shapes)
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    @classmethod
    def made(cls, kind: Score, *, span: SpanChoice, **sizes: Any) -> "Scoring":
        """The scoring for heads with this kind of `span`."""
        of_span = {one.name: one for one in (RampScoring, OffsetScoring)}
        return (of_span[span.kind] if span.limit else cls)(kind, span=span, **sizes)

    def learn_spans(self, n_heads: int) -> None:
        """Create the parameters of the spans."""

    @property
    def learned(self) -> Tensor | None:
        """Parameters of the score, [H, …]."""
        return self.of_score.get(self.kind.learned)

    @property
    def of_score(self) -> dict[str, Tensor]:
        """Parameters of the score by name; empty if there are none."""
        return {name: self.get_parameter(name) for name in filter(None, (self.kind.learned,))}

    @property
    def of_positions(self) -> dict[str, Tensor]:
        """Position parameters at this site, by name; empty if no distance is scored."""
        return {name: self.get_parameter(name) for name in self._of_positions}

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """Initialise the score and the positions."""
        for learned in self.of_score.values():
            self.kind.fill(learned, generator)
        if self.reach:
            self.positions.fill_site(self.of_positions, generator)

    def spans(self) -> Tensor:
        """The span z of each head in tokens, or the number of open offsets as counted by the penalty, [H];
        raises ValueError if none is learned.
        """
        raise ValueError("the heads of this site learn no span")

    def keep_spans(self) -> None:
        """Clip parameters that the optimiser pushed out of range to its end, from which they may return."""

    def turn(self, q: Tensor) -> Tensor:
        """Multiply queries [B, H, T, D] by the site's own matrix, if there is one; before any rotation."""
        learned = self.learned
        return q if learned is None or learned.ndim != 3 else self.kind.turned(q, learned)

    def rotated(self, qk: Tensor, n_heads: int, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Queries and keys [B, H + K, T, D], through the site's own matrix and rotated to their positions."""
        return apply_rotary(self.turn(qk[:, :n_heads]), *rotary), apply_rotary(qk[:, n_heads:], *rotary)

    def queries(self, q: Tensor) -> Tensor:
        """Queries as `attend` expects them."""
        q = self.kind.queries(q)
        return self.positions.site_queries(self.of_positions, q) if self.reach else q

    def keys(self, k: Tensor) -> Tensor:
        """Keys [B, K, T, D] as `attend` expects them."""
        return self.kind.keys(k)

    def bias(self, q: Tensor, bias: Bias | None) -> Bias | None:
        """Bias added to scores: scored distances or a span instead of the stack's `bias`."""
        if not self.reach:
            return bias
        products = self.positions.score_distances(self.of_positions, q, self.reach)
        return OffsetBias(values=self.scale * products)  # [B, H, T, 2 · reach + 1]

    def asked(self, q: Tensor, bias: Bias | None) -> tuple[Tensor, ScoreRule]:
        """Queries as `attend` expects them, and the rule for them."""
        q = self.queries(q)
        return q, self.rule(q, bias)

    def rule(self, q: Tensor, bias: Bias | None = None) -> ScoreRule:
        """The rule for queries from `queries`."""
        comparison = self.kind.comparison
        return ScoreRule(
            scale=self.scale,
            bias=self.bias(q, bias),
            vector=self.learned if comparison == "additive" else None,
            is_kernel=comparison == "kernel",
        )


class RampScoring(Scoring):
    """Each head learns how far back it looks; the mask falls over `span_ramp` tokens (`nn/spans.py`)."""

    name = "ramp"
    span: nn.Parameter

    def learn_spans(self, n_heads: int) -> None:
        self.span = nn.Parameter(torch.empty(n_heads))

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        super().fill(generator)
        self.span.fill_(self.span_start / self.span_limit)

    def spans(self) -> Tensor:
        return self.span_limit * self.span.clamp(0.0, 1.0)

    @torch.no_grad()
    def keep_spans(self) -> None:
        self.span.clamp_(0.0, 1.0)

    def bias(self, q: Tensor, bias: Bias | None) -> Bias | None:
        z = self.spans().to(torch.promote_types(q.dtype, torch.float32))
        return SpanBias(values=torch.stack((z, torch.full_like(z, self.span_ramp)), dim=1))


class OffsetScoring(Scoring):
    """Each head learns at which offsets it looks, up to `span_limit` (`nn/spans.py`)."""

    name = "offsets"
    open_at: nn.Parameter

    def learn_spans(self, n_heads: int) -> None:
        self.open_at = nn.Parameter(torch.empty(n_heads, self.span_limit))

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        super().fill(generator)
        self.open_at.fill_(START_LOG_ALPHA / PACE)

    def spans(self) -> Tensor:
        return open_probability(self.log_alpha()).sum(dim=1)

    def mask(self) -> Tensor:
        """The mask m at the offsets 0 … limit, [H, limit + 1]: sampled in training, else hard."""
        is_drawn = self.training and torch.is_grad_enabled()
        return drawn_mask(self.log_alpha()) if is_drawn else hard_mask(self.log_alpha())

    def log_alpha(self) -> Tensor:
        """Parameters that determine the offsets 1 … limit, [H, limit]."""
        return PACE * self.open_at.to(torch.promote_types(self.open_at.dtype, torch.float32))

    def bias(self, q: Tensor, bias: Bias | None) -> Bias | None:
        return GateBias(values=self.mask())


def sites_with_spans(module: nn.Module) -> dict[str, Scoring]:
    """Every site whose heads learn a span, by stack and layer, `decoder L0`."""
    found = {}
    for name, part in module.named_modules():
        if isinstance(part, Scoring) and part.span_limit:
            stack, layer = name.split(".")[:2]
            found[f"{stack} L{layer}"] = part
    return found
