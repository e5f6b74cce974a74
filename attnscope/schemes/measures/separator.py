"""The weight on special tokens other than the first key."""

from typing import TYPE_CHECKING

from attnscope.schemes.measures.measure import Measure, share_of

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.analysis.measures import HeadSums


class Separator(Measure):
    name = "separator"
    title = "separators"
    order = 40
    terminal = 5
    rests = True
    definition = (
        "The weight on special tokens other than the first key; in self-attention of rows of words."
        " (Clark et al. 2019)"
    )

    def value(self, sums: "HeadSums") -> "Tensor | None":
        if sums.facts.specials != "kept":
            return None
        return share_of(sums.on_separators(sums.word_columns), sums.n_words)
