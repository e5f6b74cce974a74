"""The parts of a Transformer, built from plain numbers.

    symbol   meaning                        shape
    x        the residual stream            [batch, n_tokens, d_model]
    memory   the encoder's last stream      [batch, n_source, d_model]

Letters: B batch, T tokens, S source tokens, H heads, K key-value heads, D d_head.

A norm is what its scheme learns and keeps (`schemes/norms`). Positions as a bias on scores by distance are
laid out for a call from what a stack learns of them (`schemes/positions`); none knows an end: a text longer
than the trained ones gets a bias as well.

    distance   key − query's own place; below 0 looks back           any
    values     what is added at each distance                        [H, T + S − 1]

Linformer: keys and values projected along the tokens to k ≪ T slots (Wang et al. 2020, equation 7).

    symbol   meaning                                            shape
    E, F     projections of keys and of values, of one layer    [n_projected, max_tokens]
    K, V     keys and values                                    [batch, n_kv_heads, n_tokens, d_head]

K' = E K and V' = F V, so that a head's map has n_projected columns, which are no tokens, and its cost grows
with the text and not with its square. All heads of a layer share E and F ("headwise sharing", section 4).
A text shorter than max_tokens uses the first columns of E and F; padding is made 0 before and adds nothing.

Inducing points: tokens read a few slots, which have read the tokens (Lee et al. 2019, section 3.1).

    symbol   meaning                                                shape
    I        learned points of a layer, the same for every text     [n_slots, d_model]
    h        norm(I + attention of I to the tokens)                 [batch, n_slots, d_model]
    x        what the layer reads                                   [batch, n_tokens, d_model]

The Set Transformer's ISAB(X) = MAB(X, MAB(I, X)): attention in two steps through a bottleneck, so that T
tokens cost T · n_slots cells each way in the place of T². The outer MAB's residual, norm and feed-forward
are those of the block; the inner one is without its feed-forward. Perceiver's latents (Jaegle et al. 2021)
read a text in the same way, but are carried on from layer to layer.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn.attention import Probe, attend
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.config import GATED, Activation, ModelConfig
from attnscope.nn.copying import Unseen
from attnscope.nn.kept_heads import HeadLayout, build_layout
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.nn.masks import Intervals, MaskRule
from attnscope.nn.scores import Bias, PlainScoring, RelativeBias, Rotary, Scoring, SlopeBias, SpanChoice
from attnscope.nn.self_masks import Segments
from attnscope.records.sites import SiteKey, Stack
from attnscope.schemes.masks import MASKS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES


class Norm(nn.Module):
    """A norm of the stream, with what its scheme learns; `weight` and `bias` are None where it does not.

    `valid` is what the stack reads now, for norms over the tokens of a batch; `running` are their numbers of
    batches past, by name.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, kind: str, d_model: int, *, epsilon: float, has_bias: bool) -> None:
        super().__init__()
        self.scheme, self.epsilon = NORMS[kind], epsilon
        self.valid: Tensor | None = None
        self._learned = self.scheme.learned(d_model, has_bias=has_bias)
        for name in dict.fromkeys(("weight", "bias", *self._learned)):
            n, first = self._learned.get(name, (0, 0.0))
            self.register_parameter(name, nn.Parameter(torch.full((n,), first)) if n else None)
        for name, first in self.scheme.running:
            self.register_buffer(name, torch.full((d_model,), first))

    @property
    def running(self) -> dict[str, Tensor]:
        """Running statistics of past batches, [d_model] each."""
        return {name: getattr(self, name) for name, _ in self.scheme.running}

    def fill(self) -> None:
        """First values, and no batch seen."""
        for name, (_, first) in self._learned.items():
            getattr(self, name).fill_(first)
        for name, first in self.scheme.running:
            getattr(self, name).fill_(first)

    def forward(self, x: Tensor) -> Tensor:
        """The stream after the norm."""
        return self.scheme.apply(x, self)


@contextmanager
def running_kept(module: nn.Module) -> Iterator[None]:
    """Restore the norms' running statistics afterwards: for trial steps."""
    kept = [tensor for m in module.modules() if isinstance(m, Norm) for tensor in m.running.values()]
    before = [tensor.clone() for tensor in kept]
    try:
        yield
    finally:
        for tensor, value in zip(kept, before, strict=True):
            tensor.copy_(value)


class Projection(nn.Module):
    """The two projections of one layer."""

    def __init__(self, n_projected: int, max_tokens: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.zeros(n_projected, max_tokens))
        self.values = nn.Parameter(torch.zeros(n_projected, max_tokens))

    def forward(self, k: Tensor, v: Tensor, rule: MaskRule) -> tuple[Tensor, Tensor, MaskRule]:
        """Keys and values of the slots, [B, K, n_projected, d_head], all visible."""
        valid = rule.key_valid
        n_tokens, n_most = k.shape[2], self.keys.shape[1]
        if n_tokens > n_most:
            raise ValueError(f"the projection has {n_most} columns, the text {n_tokens} tokens")
        if valid is not None:
            k, v = (x.masked_fill(~valid[:, None, :, None], 0.0) for x in (k, v))
        return self.keys[:, :n_tokens].to(k) @ k, self.values[:, :n_tokens].to(v) @ v, MaskRule()

    def fill(self, generator: torch.Generator) -> None:
        """Initialise: normal, so that a slot of the longest text has the variance of one of its keys."""
        for weight in (self.keys, self.values):
            weight.normal_(std=weight.shape[1] ** -0.5, generator=generator)


class NoProjection:
    """Leaves keys and values of the tokens unchanged."""

    def __call__(self, k: Tensor, v: Tensor, rule: MaskRule) -> tuple[Tensor, Tensor, MaskRule]:
        return k, v, rule


_MOST_LAID_OUT = 4_000_000


class DistanceBias(nn.Module):
    """The learned bias by distance of one stack, shared by its layers."""

    def __init__(self, config: ModelConfig, *, is_causal: bool) -> None:
        super().__init__()
        self.config, self.is_causal = config, is_causal
        self.scheme = POSITIONS[config.position]
        self._names = tuple(self.scheme.bias_shapes(config))
        for name, shape in self.scheme.bias_shapes(config).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    @property
    def learned(self) -> dict[str, Tensor]:
        """Parameters of the scheme's formula, by name."""
        return {name: self.get_parameter(name) for name in self._names}

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """Initialise as the scheme does."""
        self.scheme.fill_bias(self.learned, self.config, generator)

    def values(self, distance: Tensor) -> Tensor:
        """Bias at each distance [n], for each head: [n_heads, n]."""
        return self.scheme.bias(self.learned, distance, self.config, is_causal=self.is_causal)

    def bias(self, n_queries: int, n_keys: int) -> RelativeBias:
        """The bias of a call whose queries are the last of the keys; short ones are laid out at once."""
        device = self.get_parameter(self._names[0]).device
        distance = torch.arange(1 - n_queries, n_keys, device=device) - (n_keys - n_queries)
        values = self.values(distance).contiguous()  # [H, Q + T − 1]
        if values.shape[0] * n_queries * n_keys > _MOST_LAID_OUT:
            return RelativeBias(values=values)
        # Row i of the map is the window of values that begins at column Q − 1 − i.
        laid_out = values.unfold(1, n_keys, 1).flip(1)[None]  # [1, H, Q, T]
        return RelativeBias(values=values, laid_out=laid_out)


def bias_of_heads(bias: Bias, heads: tuple[int, ...]) -> Bias:
    """The bias of some heads of a stack, by their original numbers."""
    chosen = list(heads)
    match bias:
        case RelativeBias() if len(bias.values) != len(heads):
            laid_out = None if bias.laid_out is None else bias.laid_out[:, chosen]
            return RelativeBias(values=bias.values[chosen], laid_out=laid_out)
        case SlopeBias() if len(bias.slopes) != len(heads):
            return SlopeBias(slopes=bias.slopes[chosen])
        case _:
            return bias


_OF_GATES: dict[Activation, Activation] = {"reglu": "relu", "geglu": "gelu", "swiglu": "swish"}


def activate(x: Tensor, activation: Activation) -> Tensor:
    """The activation; for gated ones the first half of the columns gates the second (Shazeer 2020)."""
    if activation in GATED:
        gate, value = x.chunk(2, dim=-1)
        gate = gate.sigmoid() if activation == "glu" else activate(gate, _OF_GATES[activation])
        return gate * value
    if activation == "relu":
        return F.relu(x)
    if activation == "swish":
        return F.silu(x)
    return F.gelu(x, approximate="tanh" if activation == "gelu-tanh" else "none")


def make_norm(config: ModelConfig) -> Norm:
    return Norm(config.norm, config.d_model, epsilon=config.norm_epsilon, has_bias=config.bias)


def make_scoring(config: ModelConfig, n_heads: int, stack: Stack) -> Scoring | PlainScoring:
    """The score of a site; `n_heads` is smaller if it lost some of its heads."""
    score, positions = SCORES[config.score], POSITIONS[config.position]
    reads_itself = stack in ("encoder", "decoder")
    reach = config.max_distance if reads_itself and positions.scores_distances else 0
    span_limit = config.span_limit if reads_itself else 0
    if score.is_plain and not reach and not span_limit:
        return PlainScoring(score, scale=1.0 / math.sqrt(config.head_width))
    return Scoring.made(
        score,
        scale=score.scale(config),
        n_heads=n_heads,
        d_head=config.head_width,
        d_model=config.d_model,
        positions=positions,
        reach=reach,
        span=SpanChoice(
            limit=span_limit, kind=config.span_kind, ramp=config.span_ramp, start=config.span_start
        ),
    )


def make_projection(config: ModelConfig, stack: Stack) -> "Projection | NoProjection":
    """Module that projects keys and values to slots, in an encoder that has them."""
    is_projected = config.n_projected and stack == "encoder" and not config.has_latents
    return Projection(config.n_projected, config.max_tokens) if is_projected else NoProjection()


def full_layout(config: ModelConfig) -> HeadLayout:
    """The heads of a site that has lost none."""
    return build_layout(tuple(range(config.n_heads)), n_heads=config.n_heads, n_kv_heads=config.kv_heads)


def segments_of(config: ModelConfig) -> Segments | None:
    """The segments in which a text is read; None if it is read whole."""
    recalls = MASKS[config.mask].recalls
    return Segments(size=config.segment_tokens, memory=config.segment_memory) if recalls else None


class SelfAttention(nn.Module):
    """Attention of a sequence to itself, with one product for queries, keys and values.

    The rows of `qkv` are all query heads, then all key heads, then all value heads.
    """

    def __init__(self, config: ModelConfig, site: SiteKey, layout: HeadLayout) -> None:
        super().__init__()
        self.site, self.layout = site, layout
        self.n_heads, self.n_kv_heads = layout.n_heads, layout.n_kv_heads
        self.d_head = config.head_width
        self.dropout, self.segments = config.weight_dropout, segments_of(config)
        n_rows = (self.n_heads + 2 * self.n_kv_heads) * self.d_head
        self.qkv = nn.Linear(config.d_model, n_rows, bias=config.bias)
        self.projection = make_projection(config, site[0])
        self.scoring = make_scoring(config, self.n_heads, site[0])
        self.output = nn.Linear(self.n_heads * self.d_head, config.d_model, bias=config.bias)

    def forward(
        self,
        x: Tensor,
        *,
        rule: MaskRule,
        rotary: Rotary | None = None,
        bias: Bias | None = None,
        probe: Probe | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attend, including to the cache, and project: [B, T, d_model]. `bias` is of all heads."""
        q, k, v = self._read(x, rotary)
        if not torch.is_grad_enabled():
            stop_if_unwanted()
        k, v, rule = self.projection(k, v, rule)
        bias = None if bias is None else bias_of_heads(bias, self.layout.heads)
        segments = self._learned_segments(rule, x.shape[1], probe)
        if segments is not None:
            remembered = self._read(x.detach(), rotary)[1:] if segments.memory else (k, v)
            (q, k, v), rule, bias = segments.fold((q, k, v), remembered, rule, bias)
        q, score = self.scoring.asked(q, bias)
        k, v = for_each_head(self.scoring.keys(k), v, self.layout)
        if cache is not None:
            k, v = cache.extend(self.site, k, v)
        out = attend(
            q,
            k,
            v,
            rule=rule,
            score=score,
            dropout=self.dropout,
            site=self.site,
            probe=None if segments is not None else probe,
            is_training=self.training,
        )
        if segments is not None:
            out = segments.unfold(out, *x.shape[:2])
            gate = None if probe is None else probe.gate(self.site)
            out = out if gate is None else out * gate.to(out).reshape(-1, self.n_heads, 1, 1)
        projected: Tensor = self.output(out.transpose(1, 2).flatten(2))  # [B, T, d_model]
        return projected

    def _learned_segments(self, rule: MaskRule, n_tokens: int, probe: Probe | None) -> Segments | None:
        """The segments that must be laid out, so that no gradient goes into a memory; None otherwise."""
        is_learning = self.training and torch.is_grad_enabled() and isinstance(rule.pattern, Intervals)
        if self.segments is None or not is_learning or n_tokens <= self.segments.size:
            return None
        is_seen = probe is not None and (probe.wants(self.site) or probe.edits(self.site) is not None)
        return None if is_seen else self.segments

    def _read(self, x: Tensor, rotary: Rotary | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of all heads, [B, ·, T, D], rotated to their positions."""
        heads = self.qkv(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # [B, H + 2K, T, D]
        qk, v = heads[:, : -self.n_kv_heads], heads[:, -self.n_kv_heads :]
        if rotary is None:
            return self.scoring.turn(qk[:, : self.n_heads]), qk[:, self.n_heads :], v
        return *self.scoring.rotated(qk, self.n_heads, rotary), v


class CrossAttention(nn.Module):
    """Attention of the decoder to the encoder's output; rows of `kv` are all keys, then all values."""

    def __init__(self, config: ModelConfig, site: SiteKey, layout: HeadLayout) -> None:
        super().__init__()
        self.site, self.layout = site, layout
        self.n_heads, self.n_kv_heads = layout.n_heads, layout.n_kv_heads
        self.d_head = config.head_width
        self.dropout = config.weight_dropout
        self.query = nn.Linear(config.d_model, self.n_heads * self.d_head, bias=config.bias)
        self.kv = nn.Linear(config.d_model, 2 * self.n_kv_heads * self.d_head, bias=config.bias)
        self.scoring = make_scoring(config, self.n_heads, site[0])
        self.output = nn.Linear(self.n_heads * self.d_head, config.d_model, bias=config.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        rule: MaskRule,
        bias: Bias | None = None,
        read: tuple[Tensor, Tensor] | None = None,
        probe: Probe | None = None,
        cache: KeyValueCache | None = None,
        found: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend from `x` to `memory` and project: [B, T, d_model]. A cache reads the memory once.

        `read` are the memory's keys and values where the caller has them (`read_memory`). To `found` the
        weights are added that gates and edits leave, [B, H, T, S], where somebody copies by them.
        """
        q = self.query(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # [B, H, T, D]
        k, v = self.read_memory(memory, len(x), cache) if read is None else read
        q, score = self.scoring.asked(self.scoring.turn(q), bias)
        out = attend(
            q,
            k,
            v,
            rule=rule,
            score=score,
            dropout=self.dropout,
            site=self.site,
            probe=probe,
            is_training=self.training,
        )
        if found is not None:
            unseen = None if probe is None else Unseen(probe)
            each = torch.eye(k.shape[2], dtype=v.dtype, device=v.device).expand(*k.shape[:2], -1, -1)
            found.append(attend(q, k, each, rule=rule, score=score, site=self.site, probe=unseen))
        projected: Tensor = self.output(out.transpose(1, 2).flatten(2))  # [B, T, d_model]
        return projected

    def read_memory(
        self, memory: Tensor, n_sequences: int, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory for so many sequences, [B, K, S, D]."""
        found = None if cache is None else cache.find(self.site, n_sequences)
        if found is not None:
            return found
        kv = self.kv(memory).unflatten(-1, (-1, self.d_head)).transpose(1, 2)  # [B, 2K, S, D]
        k, v = kv.split(self.n_kv_heads, dim=1)
        k, v = for_each_head(self.scoring.keys(k), v, self.layout)
        if cache is not None:
            cache.keep(self.site, k, v)
        return k, v


AttentionKind = TypeVar("AttentionKind", SelfAttention, CrossAttention)


class NoHeads(nn.Module):
    """Replaces an attention that lost all its heads: only the bias of its output.

    Takes whatever the attention took, and looks at nothing of it but the shape of the stream. A cache is
    told how many tokens went by, since no other site may be there to tell it.
    """

    def __init__(self, config: ModelConfig, site: SiteKey) -> None:
        super().__init__()
        self.site = site
        self.bias = nn.Parameter(torch.zeros(config.d_model)) if config.bias else None

    def read_memory(self, *_inputs: object) -> None:
        """Nothing: no head reads it."""

    def forward(
        self, x: Tensor, *_inputs: object, cache: KeyValueCache | None = None, **_choices: object
    ) -> Tensor:
        """The bias for every token: [B, T, d_model]."""
        if cache is not None and self.site[0] != "cross":
            nothing = x.new_empty(x.shape[0], 0, x.shape[1], 0)
            cache.extend(self.site, nothing, nothing)
        return torch.zeros_like(x) if self.bias is None else self.bias.expand_as(x)


def for_each_head(k: Tensor, v: Tensor, layout: HeadLayout) -> tuple[Tensor, Tensor]:
    """Keys and values as `attend` expects them, [B, K, T, D].

    Where key-value heads serve unequal numbers of query heads, since some of those were removed, each
    query head gets its own view of them and K becomes H; otherwise nothing is done.
    """
    if layout.is_even:
        return k, v
    k, v = (torch.stack([kv[:, group] for group in layout.groups], dim=1) for kv in (k, v))
    return k, v


class FeedForward(nn.Module):
    """Two linear layers; for gated activations the rows of `up` are all gates, then all values."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation: Activation = config.activation
        n_rows = config.d_ff * (2 if config.activation in GATED else 1)
        self.up = nn.Linear(config.d_model, n_rows, bias=config.bias)
        self.down = nn.Linear(config.d_ff, config.d_model, bias=config.bias)

    @property
    def parts(self) -> "list[FeedForward]":
        """Itself; a layer with experts has several."""
        return [self]

    def forward(self, x: Tensor) -> Tensor:
        """Widen, activate, narrow: [B, T, d_model]; a cancelled pass ends here."""
        if not torch.is_grad_enabled():
            stop_if_unwanted()
        wide = self.up(x)
        if not torch.is_grad_enabled():
            stop_if_unwanted()
        narrow = activate(wide, self.activation)
        if not torch.is_grad_enabled():
            stop_if_unwanted()
        projected: Tensor = self.down(narrow)
        return projected


def make_attention(
    kind: type[AttentionKind], config: ModelConfig, site: SiteKey, layout: HeadLayout | None
) -> AttentionKind | NoHeads:
    """The attention of a site, or its replacement if it lost all its heads."""
    layout = layout or full_layout(config)
    return kind(config, site, layout) if layout.heads else NoHeads(config, site)


class InducedAttention(nn.Module):
    """One layer: points read the tokens (site read-in), and tokens read the points (site encoder)."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        layout = full_layout(config)
        self.points = nn.Parameter(torch.zeros(config.n_projected, config.d_model))
        self.read_in = CrossAttention(config, ("read-in", layer), layout)
        self.norm = make_norm(config)
        self.read_out = CrossAttention(config, ("encoder", layer), layout)

    @property
    def output(self) -> nn.Linear:
        """Output projection of the heads to the stream."""
        return self.read_out.output

    def forward(self, x: Tensor, *, rule: MaskRule, probe: Probe | None = None, **_: object) -> Tensor:
        """Attend through the points and project: [batch, n_tokens, d_model]; padding is not read."""
        points = self.points.to(x.dtype).expand(len(x), -1, -1)
        found = self.read_in(points, x, rule=MaskRule(key_valid=rule.key_valid), probe=probe)
        slots = self.norm(points + found)
        out: Tensor = self.read_out(x, slots, rule=MaskRule(), probe=probe)
        return out

    def fill(self, generator: Generator) -> None:
        """Initialise the points: normal, of the size of tokens after a norm."""
        self.points.normal_(generator=generator)


# Perceiver's latents: a few learned rows read the tokens, and one another (Jaegle et al. 2021, section 3.1).
#
#     symbol   meaning                                              shape
#     L        learned latents, the same for every text             [n_slots, d_model]
#     x        the embedded tokens, normed once                     [batch, n_tokens, d_model]
#     z        the stream of the encoder's layers, L at first       [batch, n_slots, d_model]
#
# A layer is z + attention of z to x (site read-in, M × T), then z + attention of z to z (site latents,
# M × M), then feed-forward: T tokens cost T · M cells a layer in the place of T². A label is told from the
# last z. Each layer reads the tokens anew, with weights of its own unless layers are shared.


class Latents(nn.Module):
    """Initial vectors of a stack of latents."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.rows = nn.Embedding(
            config.n_projected, config.d_model, _weight=torch.empty(config.n_projected, config.d_model)
        )
        self.norm = make_norm(config)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The latents, [B, n_slots, d_model], and the tokens as read, [B, n_tokens, d_model]."""
        return self.rows.weight.to(x.dtype).expand(len(x), -1, -1), self.norm(x)
