"""The attention distance of a head (Vig & Belinkov 2019)."""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure, OnText, RowBlock

if TYPE_CHECKING:
    from torch import Tensor


class Distance(Measure):
    name = "distance"
    title = "distance"
    order = 130
    unit = "tokens"
    limits = (0.0, math.inf)
    is_self_only = True
    terminal = 3
    is_estimated = True
    sums = (RowBlock.distance,)
    definition = "Σ a·|i − j|, averaged over rows i. (Vig & Belinkov 2019)"
    on_text = OnText(
        order=20,
        title="distance",
        definition="How far the head looks: Σ a·|i − j|, averaged over rows i. (Vig & Belinkov 2019)",
        digits=1,
    )

    def of_rows(self, block: RowBlock) -> "Tensor":
        return (block.a * block.away()).sum(dim=-1)
