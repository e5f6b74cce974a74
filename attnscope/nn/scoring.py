"""How a query scores a key at one site: a score of `schemes/scores`, with what it learns there.

Of a score that is a product fused attention computes everything, and what a probe records is all there is
to know. With some positions a query also scores distances, as Shaw's (2018): q·a_(j − i). Shaw et al. add
vectors to the values as well; that part is left out (their table 3 finds no gain), since an output would no
longer be a mean of values. Letters: B batch, H heads, K key-value heads, T tokens, D d_head.
"""

from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from attnscope.nn.hard_concrete import START_LOG_ALPHA, open_probability
from attnscope.nn.scores import Bias, OffsetBias, ScoreRule
from attnscope.nn.spans import PACE, GateBias, SpanBias, drawn_mask, hard_mask
from attnscope.schemes.positions import PositionScheme
from attnscope.schemes.scores import Score

Rotary = tuple[Tensor, Tensor]
"""Cosines and signed sines of the angles of positions."""


def apply_rotary(x: Tensor, cosines: Tensor, signed_sines: Tensor) -> Tensor:
    """Turn queries or keys `x` [..., n_tokens, d_head] by the angle of their position."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)
    return torch.addcmul(x * cosines.to(x.dtype), swapped, signed_sines.to(x.dtype))


class SpanChoice(NamedTuple):
    """How far heads learn to look, up to `limit` tokens, 0: as far as there are any.

    By `kind` the mask falls over `ramp` tokens or opens at offsets (`nn/spans.py`). Spans begin with `start`.
    """

    limit: int = 0
    kind: str = "ramp"
    ramp: int = 1
    start: int = 0


NO_SPAN = SpanChoice()


class PlainScoring:
    """The scaled product alone: nothing is learned, and queries and keys are read as they are."""

    learned: Tensor | None = None

    def __init__(self, kind: Score, *, scale: float) -> None:
        self.kind, self.scale = kind, scale

    def keys(self, k: Tensor) -> Tensor:
        return k

    turn = keys

    def rotated(self, qk: Tensor, n_heads: int, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Queries and keys [B, H + K, T, D] turned to their places, in one go."""
        turned = apply_rotary(qk, *rotary)
        return turned[:, :n_heads], turned[:, n_heads:]

    def asked(self, q: Tensor, bias: Bias | None) -> tuple[Tensor, ScoreRule | float]:
        """Queries as `attend` reads them, and its rule for them."""
        return q, self.scale if bias is None else ScoreRule(scale=self.scale, bias=bias)


class Scoring(nn.Module):
    """One site's score, and what it learns for it.

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
        """The scoring whose heads look as `span` says."""
        of_span = {one.name: one for one in (RampScoring, OffsetScoring)}
        return (of_span[span.kind] if span.limit else cls)(kind, span=span, **sizes)

    def learn_spans(self, n_heads: int) -> None:
        """Make what heads learn of how far they look."""

    @property
    def learned(self) -> Tensor | None:
        """What the score learns, [H, …]."""
        return self.of_score.get(self.kind.learned)

    @property
    def of_score(self) -> dict[str, Tensor]:
        """The same by its name; empty where nothing is learned."""
        return {name: self.get_parameter(name) for name in filter(None, (self.kind.learned,))}

    @property
    def of_positions(self) -> dict[str, Tensor]:
        """What the positions learn here, by name; empty where no distance is scored."""
        return {name: self.get_parameter(name) for name in self._of_positions}

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """First values: those of the score, and of the positions."""
        for learned in self.of_score.values():
            self.kind.fill(learned, generator)
        if self.reach:
            self.positions.fill_site(self.of_positions, generator)

    def spans(self) -> Tensor:
        """The span z of each head in tokens, or how many offsets are open as far as a penalty counts them,
        [H]; raises ValueError where none is learned.
        """
        raise ValueError("the heads of this site learn no span")

    def keep_spans(self) -> None:
        """Put what the optimiser pushed out of the range back to its end, from where it may return."""

    def turn(self, q: Tensor) -> Tensor:
        """Queries [B, H, T, D] through the site's own matrix, where there is one; before any rotation."""
        learned = self.learned
        return q if learned is None or learned.ndim != 3 else self.kind.turned(q, learned)

    def rotated(self, qk: Tensor, n_heads: int, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Queries and keys [B, H + K, T, D], through the site's own matrix and turned to their places."""
        return apply_rotary(self.turn(qk[:, :n_heads]), *rotary), apply_rotary(qk[:, n_heads:], *rotary)

    def queries(self, q: Tensor) -> Tensor:
        """Queries as `attend` reads them."""
        q = self.kind.queries(q)
        return self.positions.site_queries(self.of_positions, q) if self.reach else q

    def keys(self, k: Tensor) -> Tensor:
        """Keys [B, K, T, D] as `attend` reads them."""
        return self.kind.keys(k)

    def bias(self, q: Tensor, bias: Bias | None) -> Bias | None:
        """What is added to scores: scored distances or a span in the place of the stack's `bias`."""
        if not self.reach:
            return bias
        products = self.positions.score_distances(self.of_positions, q, self.reach)
        return OffsetBias(values=self.scale * products)  # [B, H, T, 2 · reach + 1]

    def asked(self, q: Tensor, bias: Bias | None) -> tuple[Tensor, ScoreRule]:
        """Queries as `attend` reads them, and its rule for them."""
        q = self.queries(q)
        return q, self.rule(q, bias)

    def rule(self, q: Tensor, bias: Bias | None = None) -> ScoreRule:
        """The rule for queries as `queries` gives them."""
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
        """The mask m at the offsets 0 … limit, [H, limit + 1]: a draw where it learns, else hard."""
        is_drawn = self.training and torch.is_grad_enabled()
        return drawn_mask(self.log_alpha()) if is_drawn else hard_mask(self.log_alpha())

    def log_alpha(self) -> Tensor:
        """What decides on the offsets 1 … limit, [H, limit]."""
        return PACE * self.open_at.to(torch.promote_types(self.open_at.dtype, torch.float32))

    def bias(self, q: Tensor, bias: Bias | None) -> Bias | None:
        return GateBias(values=self.mask())


def sites_with_spans(module: nn.Module) -> dict[str, Scoring]:
    """Every site whose heads learn a span, as its stack and layer, `decoder L0`."""
    found = {}
    for name, part in module.named_modules():
        if isinstance(part, Scoring) and part.span_limit:
            stack, layer = name.split(".")[:2]
            found[f"{stack} L{layer}"] = part
    return found
