"""The number of keys over which a row is spread: exp of its entropy, the Hill number of order 1 (Hill 1973).

k keys of equal weight give k, whatever the number of keys that the row may see; it is the perplexity of the
row.
"""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure, OnText, RowBlock

if TYPE_CHECKING:
    from torch import Tensor


def n_effective(block: RowBlock) -> "Tensor":
    """exp(−Σ_j a_ij ln a_ij) of each row; 0 for rows that see no key."""
    return block.entropy().exp() * block.valid


class EffectiveKeys(Measure):
    name = "effective_keys"
    title = "effective keys"
    order = 230
    unit = "keys"
    limits = (0.0, math.inf)
    is_estimated = True
    sums = (n_effective,)
    definition = (
        "exp(−Σ a·ln a) of a row, its perplexity: k keys of equal weight give k. Averaged over rows."
        " (Hill 1973)"
    )
    on_text = OnText(
        order=15,
        title="effective keys",
        definition="How many keys a row is spread over: exp(−Σ a·ln a), the perplexity of the row, averaged"
        " over rows. 1: one key takes all. k keys of equal weight give k. (Hill 1973)",
        digits=1,
    )

    def of_rows(self, block: RowBlock) -> "Tensor":
        return n_effective(block).masked_fill(~block.valid, math.nan)
