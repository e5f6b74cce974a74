"""The largest weight of a row (Voita et al. 2019, section 5.1: "the average of its maximum attention weight
excluding the end of sentence symbol").
"""

from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure, OnText, RowBlock

if TYPE_CHECKING:
    from torch import Tensor


class Confidence(Measure):
    name = "confidence"
    title = "confidence"
    order = 120
    terminal = 2
    is_estimated = True
    sums = (RowBlock.largest,)
    definition = (
        "The largest weight of a row, the end token's column left out: a row that rests on it counts with"
        " what it gives the other keys. (Voita et al. 2019)"
    )
    on_text = OnText(
        order=30,
        title="confidence",
        definition="The largest weight of a row, averaged over all rows. The column of an end token is left"
        " out: a row that rests on it counts with what it gives the other keys, so that this can be 0.8 where"
        " the map's rows each hold a 1. (Voita et al. 2019)",
    )

    def of_rows(self, block: RowBlock) -> "Tensor":
        return block.largest()
