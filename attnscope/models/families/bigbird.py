"""BigBird: sparse blocks, some at random, for long texts; full attention for others (Zaheer et al. 2020).

The library reads a text by blocks where it has more than (5 + 2 r) b tokens, r random blocks of b tokens a
row of blocks, and with full attention otherwise. The weights that it gives out for blocks lose those of the
first block, so that longer texts are cut there.
"""

from collections.abc import Mapping
from typing import Any

from attnscope.models.families.family import Family


class BigBird(Family):
    name, title = "big_bird", "BigBird"

    def most_tokens(self, values: Mapping[str, Any]) -> int | None:
        if values.get("attention_type", "block_sparse") != "block_sparse":
            return None
        n_random, block = values.get("num_random_blocks", 3), values.get("block_size", 64)
        return (5 + 2 * n_random) * block if isinstance(n_random, int) and isinstance(block, int) else None


class BigBirdPegasus(BigBird):
    name, title = "bigbird_pegasus", "BigBird-Pegasus"
