"""The masks of self-attention that a configuration names, made into rules for calls of any size.

What a query sees under each of them stands in `schemes/masks`, how random blocks are drawn in `patterns.py`.
A decoder's rule is causal besides, but for the prefix. Nothing here is of the size of a map.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnscope.nn.config import ModelConfig
from attnscope.nn.masks import MaskRule, build_rule
from attnscope.nn.patterns import Intervals, Pattern, Sparse, draw_earlier_links, draw_links
from attnscope.nn.recall import Segments
from attnscope.schemes.masks import MASKS

_NO_LINKS = torch.zeros(0, 0, dtype=torch.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelfMask:
    """What a configuration's mask needs for texts up to some length."""

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
        """How many cells the mask leaves open in a square map; causality and prefixes are not counted."""
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
        """The links on another device, copied there once; None where there are none, or it is the CPU."""
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
