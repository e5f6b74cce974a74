"""A learned bias for each head and bucket of distances (Raffel et al. 2020, section 2.1)."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class Buckets(PositionScheme):
    name, title, order = "t5", "T5", 4
    words, source = "a learned bias on scores for each head and bucket of distances", "Raffel et al. 2020"
    formula = "s′_ij = s_ij + b_h(bucket(j − i)),   b_h learned"
    choices = ("n_buckets", "max_distance")
    is_of_text = True
    bias_words = "T5's buckets"
    learned_part = "relative positions"
    is_compared = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.n_buckets % 2:
            yield "n_buckets", "an even number: half of them count ahead"
        if config.max_distance <= config.n_buckets // 2:
            yield "max_distance", f"more than half of n_buckets, which is {config.n_buckets}"

    def bias_shapes(self, config: "ModelConfig") -> dict[str, tuple[int, ...]]:
        return {"weight": (config.n_buckets, config.n_heads)}

    def bias(
        self, learned: "Mapping[str, Tensor]", distance: "Tensor", config: "ModelConfig", *, is_causal: bool
    ) -> "Tensor":
        bucket = relative_buckets(
            distance, n_buckets=config.n_buckets, max_distance=config.max_distance, is_causal=is_causal
        )
        return learned["weight"][bucket].T


def relative_buckets(distance: "Tensor", *, n_buckets: int, max_distance: int, is_causal: bool) -> "Tensor":
    """The bucket of each distance: single ones nearby, ever wider ones up to `max_distance`, then the last.

    Raffel et al. 2020, section 2.1; logarithms in float32 as in their models, so that borders agree. Where
    not causal, the upper half of the buckets is for keys ahead.
    """
    import torch

    if is_causal:
        bucket, away = torch.zeros_like(distance), (-distance).clamp(min=0)
    else:
        n_buckets //= 2
        bucket, away = (distance > 0) * n_buckets, distance.abs()
    n_single = n_buckets // 2
    share = torch.log(away.clamp(min=1).float() / n_single) / math.log(max_distance / n_single)
    wide = (n_single + (share * (n_buckets - n_single)).long()).clamp(max=n_buckets - 1)
    return bucket + torch.where(away < n_single, away, wide)
