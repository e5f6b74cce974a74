"""A configuration's masks of self-attention, as rules for calls of any size.

What a query sees under each of them stands in `schemes/masks`, how random blocks are drawn in `masks.py`.
A decoder's rule is causal besides, but for the prefix. Nothing here is of the size of a map.

Segment recurrence: each layer reads its own segment and remembers tokens before it (Dai et al. 2019).

    symbol   meaning                                                              shape
    L, M     tokens of a segment, and tokens remembered from before it            numbers
    h        what a layer reads                                                   [B, T, d_model]
    SG       what its argument is, without a gradient
    k, v     of [SG(h of the M tokens before the segment); h of the segment]      [B, K, M + L, D]

Section 3.2: keys and values of a segment come from both parts, queries from the segment alone. All segments
of a text are read by one pass: the numbers are those of the whole text under a mask (`Segments.seen`), so
that maps are of whole texts, and while a model learns the segments are laid into the batch, where the memory
has no gradient. Letters: B batch, H heads, K key-value heads, T tokens, S segments, D d_head.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.config import ModelConfig
from attnscope.nn.masks import (
    Intervals,
    MaskRule,
    Pattern,
    Sparse,
    build_rule,
    draw_earlier_links,
    draw_links,
)
from attnscope.nn.scores import Bias, RelativeBias
from attnscope.schemes.masks import MASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """`size` is L, at least 1, and `memory` is M, 0 for none."""

    size: int
    memory: int

    def seen(self, n_queries: int, n_keys: int, device: torch.device | None = None) -> Intervals:
        """Keys that a query sees, ignoring causality; the queries are the last of the keys."""
        place = torch.arange(n_keys - n_queries, n_keys, device=device)[None]
        start = torch.div(place, self.size, rounding_mode="floor") * self.size
        last = (start + self.size - 1).clamp(max=n_keys - 1)
        return Intervals(first=(start - self.memory).clamp(min=0), last=last)

    def count(self, n_tokens: int) -> int:
        """Number of open cells in a square map, ignoring causality."""
        seen = self.seen(n_tokens, n_tokens)
        return int((seen.last - seen.first + 1).sum())

    def fold(
        self,
        of_segment: tuple[Tensor, Tensor, Tensor],
        of_memory: tuple[Tensor, Tensor],
        rule: MaskRule,
        bias: Bias | None,
    ) -> tuple[tuple[Tensor, Tensor, Tensor], MaskRule, Bias | None]:
        """A text's queries, keys and values [B, ·, T, D] as S segments, with rule and bias.

        `of_memory` are keys and values again, without a gradient into the stream. Queries become
        [B · S, H, L, D], keys and values [B · S, K, M + L, D]; M is cut to what can stand before the last
        segment.
        """
        q, k, v = of_segment
        n_tokens = q.shape[2]
        n_segments = -(-n_tokens // self.size)
        memory = min(self.memory, (n_segments - 1) * self.size)
        short = n_segments * self.size - n_tokens
        parts = [self._windows(x, 0, short) for x in (q, k, v)]
        if memory:
            before = [self._windows(x, memory, short) for x in of_memory]
            parts[1:] = [torch.cat(two, dim=2) for two in zip(before, parts[1:], strict=True)]
        valid = rule.key_valid
        valid = torch.ones(len(q), n_tokens, dtype=torch.bool, device=q.device) if valid is None else valid
        valid = F.pad(valid, (memory, short)).unfold(1, memory + self.size, self.size).flatten(0, 1)
        return (
            (parts[0], parts[1], parts[2]),
            MaskRule(is_causal=rule.is_causal, key_valid=valid),
            self._near(bias, n_tokens, memory, short),
        )

    def unfold(self, out: Tensor, n_texts: int, n_tokens: int) -> Tensor:
        """Rearrange segments [B · S, H, L, D] into whole texts, [B, H, T, D]."""
        parts = out.view(n_texts, -1, *out.shape[1:]).transpose(1, 2)  # [B, H, S, L, D]
        return parts.flatten(2, 3)[:, :, :n_tokens]

    def _windows(self, x: Tensor, memory: int, short: int) -> Tensor:
        """The tokens of each segment, or with a `memory` those before it, [B · S, ·, L or M, D]."""
        width, n_segments = memory or self.size, (x.shape[2] + short) // self.size
        windows = F.pad(x, (0, 0, memory, short)).unfold(2, width, self.size)[:, :, :n_segments]
        return windows.permute(0, 2, 1, 4, 3).flatten(0, 1)  # from [B, ·, S, D, width]

    def _near(self, bias: Bias | None, n_tokens: int, memory: int, short: int) -> Bias | None:
        """The bias of one segment and its memory; one by slopes is the same for any call."""
        if not isinstance(bias, RelativeBias):
            return bias
        values = F.pad(bias.values, (short, short))  # distances that only padding has
        first = n_tokens + short - self.size - memory
        return RelativeBias(values=values[:, first : first + memory + 2 * self.size - 1])


_NO_LINKS = torch.zeros(0, 0, dtype=torch.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelfMask:
    """The parts of a configuration's mask, for texts up to some length."""

    config: ModelConfig
    links: Tensor
    _elsewhere: dict[torch.device, Tensor] = field(default_factory=dict)

    def rule(
        self,
        n_queries: int,
        n_keys: int,
        *,
        is_causal: bool,
        key_valid: Tensor | None = None,
        pattern: Pattern | None = None,
        prefix: Tensor | None = None,
        device: torch.device | None = None,
    ) -> MaskRule:
        """The rule of a call whose queries are the last of the keys.

        `pattern` is a mask that the caller gives instead of the configuration's; `prefix` is the length of
        each text's prefix, int64 [batch], instead of `prefix_tokens`.
        """
        config = self.config
        mask = MASKS[config.mask]
        plain = build_rule(is_causal=is_causal, key_valid=key_valid)
        if pattern is None and mask.is_full and prefix is None:
            return plain
        is_prefix = pattern is None and (mask.has_prefix or prefix is not None)
        reach = config.window * mask.step(config)
        is_banded = mask.is_band and pattern is None and not is_prefix
        if is_prefix:
            pattern = self._prefix(n_queries, n_keys, prefix, device)
        elif pattern is None and mask.recalls:
            pattern = self._segments.seen(n_queries, n_keys, device)
        elif pattern is None and mask.is_sparse:
            pattern = self._described(n_keys - n_queries, device)
        return MaskRule(
            is_causal=is_causal and not is_prefix,
            key_valid=plain.key_valid,
            window=(reach, reach) if is_banded else None,
            pattern=pattern,
        )

    def count(self, n_tokens: int) -> int:
        """Number of open cells in a square map, ignoring causality and prefixes."""
        mask = MASKS[self.config.mask]
        if mask.is_full or mask.has_prefix:
            return n_tokens * n_tokens
        if mask.recalls:
            return self._segments.count(n_tokens)
        return self._described(0).count(n_tokens)

    @property
    def _segments(self) -> Segments:
        return Segments(size=self.config.segment_tokens, memory=self.config.segment_memory)

    def _described(self, offset: int, device: torch.device | None = None) -> Sparse:
        config, mask = self.config, MASKS[self.config.mask]
        numbers = [config.window, mask.step(config), mask.n_global(config), config.mask_block, offset]
        is_one_way, stride = bool(self.links.shape[1]) and config.random_links == "each", mask.stride(config)
        numbers += [int(is_one_way), stride] if stride else [1] if is_one_way else []
        return Sparse(
            numbers=torch.tensor(numbers, dtype=torch.int64),
            links=self.links,
            links_there=self._links_on(device),
        )

    def _links_on(self, device: torch.device | None) -> Tensor | None:
        """The links on another device, copied there once; None if there are none, or it is the CPU."""
        if device is None or device.type == "cpu" or not self.links.shape[1]:
            return None
        if device not in self._elsewhere:
            self._elsewhere[device] = self.links.to(device)
        return self._elsewhere[device]

    def _prefix(
        self, n_queries: int, n_keys: int, prefix: Tensor | None, device: torch.device | None
    ) -> Intervals:
        place = torch.arange(n_keys - n_queries, n_keys, device=device)[None]
        length = torch.full((1,), self.config.prefix_tokens, device=device) if prefix is None else prefix
        last = torch.maximum(place, length.to(place)[:, None] - 1).clamp(max=n_keys - 1)  # [batch or 1, Q]
        return Intervals(first=torch.zeros_like(last), last=last)


def build_self_mask(config: ModelConfig, n_tokens: int) -> SelfMask:
    """The mask of a configuration for texts of up to `n_tokens`."""
    if not MASKS[config.mask].draws_links:
        return SelfMask(config=config, links=_NO_LINKS)
    block = config.mask_block
    draw = draw_links if config.random_links == "each" else draw_earlier_links
    links = draw(
        -(-n_tokens // block),
        config.random_blocks,
        first=-(-config.global_tokens // block),
        near=-(-config.window // block),
        seed=config.mask_seed,
    )
    return SelfMask(config=config, links=links)
