"""Whether the word with the largest weight is a rare one."""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.analysis.measures import HeadSums


class Rare(Measure):
    name = "rare"
    title = "rare"
    order = 100
    unit = "share of texts"
    terminal = 10
    definition = (
        "Texts in which the word that gets most weight is one of the two least frequent; special tokens may"
        " get more. (after Voita et al. 2019)"
    )

    def value(self, sums: "HeadSums") -> "Tensor":
        facts = sums.facts
        words = facts.key_counts & ~facts.is_special
        top = sums.columns.masked_fill(~words[:, None], -1.0).argmax(dim=-1)  # [batch, n_heads]
        is_rare = facts.is_rare.gather(1, top).to(sums.columns.dtype)
        has_words = facts.is_rare.any(dim=1, keepdim=True)
        return is_rare.masked_fill(~has_words | sums.columns.isnan().any(dim=-1), math.nan)
