"""A learned bias for each head and bucket of distances (Raffel et al. 2020, section 2.1)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig


class Buckets(PositionScheme):
    name, title, order = "t5", "T5", 4
    words, source = "a learned bias on scores for each head and bucket of distances", "Raffel et al. 2020"
    choices = ("n_buckets", "max_distance")
    is_of_text = True
    learns_buckets = True
    learned_part = "relative positions"
    is_compared = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.n_buckets % 2:
            yield "n_buckets", "an even number: half of them count ahead"
        if config.max_distance <= config.n_buckets // 2:
            yield "max_distance", f"more than half of n_buckets, which is {config.n_buckets}"

    def n_learned(self, config: "ModelConfig") -> int:
        return config.n_buckets * config.n_heads
