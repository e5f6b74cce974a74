"""The norms of heads' outputs: ‖a·f(x)‖ instead of the weight a alone (Kobayashi et al. 2020).

Known where a network's value and output matrices are; elsewhere the measures have no value.
"""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure, share_of

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.analysis.measures import HeadSums


class NormMeasure(Measure):
    name = "norm"
    title = "norm"
    order = 140
    unit = "length"
    limits = (0.0, math.inf)
    definition = "Σ ‖a·f(x)‖ of a row, f(x) what the head writes for a key. (Kobayashi et al. 2020)"

    def value(self, sums: "HeadSums") -> "Tensor | None":
        return None if sums.written is None else share_of(sums.written.sum(dim=-1), sums.n_rows)


class NormOnFirst(Measure):
    name = "norm_first"
    title = "norm, first"
    order = 150
    unit = "share of the norm"
    definition = "The share of the value norm that comes from the first key. (Kobayashi et al. 2020)"

    def value(self, sums: "HeadSums") -> "Tensor | None":
        written = sums.written
        return None if written is None else share_of(sums.on_first(written), written.sum(dim=-1))


class NormOnSeparators(Measure):
    name = "norm_separator"
    title = "norm, sep."
    order = 160
    unit = "share of the norm"
    definition = (
        "The share of the value norm that comes from special tokens other than the first key."
        " (Kobayashi et al. 2020)"
    )

    def value(self, sums: "HeadSums") -> "Tensor | None":
        written = sums.written
        if written is None or sums.facts.specials != "kept":
            return None
        return share_of(sums.on_separators(written), written.sum(dim=-1))
