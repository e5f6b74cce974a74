"""The spread of a map's rows, as a share of the largest entropy and in nats.

Never divided by ln n on causal rows, but by ln of the keys that the row may see; a row with one key has
nothing to choose. 0 is one key, 1 is all alike.
"""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure, OnText, RowBlock

if TYPE_CHECKING:
    from torch import Tensor


class Entropy(Measure):
    name = "entropy"
    title = "entropy"
    order = 110
    unit = "of the largest possible"
    terminal = 1
    is_estimated = True
    sums = (RowBlock.entropy_share, RowBlock.choosing)
    definition = (
        "−Σ a·ln a of a row over ln of the keys it may see; rows with two keys or more. (Clark et al. 2019)"
    )
    on_text = OnText(
        order=10,
        title="entropy",
        definition="How spread out the weights of a row are: −Σ a·ln a divided by ln of the keys the row may"
        " see, averaged over rows. 0: one key takes all. 1: all keys alike. (Clark et al. 2019)",
    )

    def of_rows(self, block: RowBlock) -> "Tensor":
        share = block.entropies / block.seen.clamp(min=2).log()
        return share.masked_fill(block.seen < 2, math.nan)


class EntropyInNats(Measure):
    name = "entropy_nats"
    title = "entropy, nats"
    order = 170
    is_further = True
    unit = "nats"
    limits = (0.0, math.inf)
    sums = (RowBlock.entropy,)
    definition = "−Σ a·ln a, averaged over rows. (Clark et al. 2019)"
