"""How well a map fits a 0/1 pattern P, by two scores (Nanda & Bloom 2022).

    mul   Σ(a∘P) / Σa: how much of all weight lies on the pattern
    abs   1 − n · mean|a − P|: how near the map is to one with all weight there

P is 1 on the previous token; on earlier tokens equal to the query ("duplicate"); or on tokens that followed
one ("induction"). Tokens are equal where the model reads the same id, as it does for all unknown words.
|a − P| = a + P − 2aP for P in {0, 1} and a in 0…1, so that Σ(a∘P), ΣP and Σa are enough.
"""

import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes.measures.measure import Measure, RowBlock, share_of

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.analysis.measures import HeadSums


def repeats(block: RowBlock) -> "Tensor":
    """Σ(a∘P) and ΣP with P on equal tokens and on the tokens after them: [batch, n_heads, 2, 2]."""
    facts, a, cols = block.facts, block.a, block.cols
    i, j = facts.places[block.rows][:, None], facts.places[cols]
    queries, keys = facts.query_ids[:, block.rows, None], facts.key_ids[:, None]
    before = keys.roll(1, dims=-1)[..., cols]
    counts = facts.key_counts[:, None, cols]
    patterns = a.new_empty(len(a), 2, *a.shape[2:])
    patterns[:, 0] = (queries == keys[..., cols]) & (j < i) & counts
    patterns[:, 1] = (queries == before) & (j >= 1) & (j <= i) & counts
    found = a.flatten(2) @ patterns.flatten(2).transpose(1, 2)
    wanted = block.valid.to(a.dtype) @ patterns.sum(dim=-1).transpose(1, 2)  # [batch, 1 or n_heads, 2]
    both = a.new_empty(*a.shape[:2], 2, 2)
    both[:, :, 0], both[:, :, 1] = found, wanted
    return both


class _Pattern(Measure):
    is_self_only = True
    is_absolute: ClassVar[bool] = False

    def value(self, sums: "HeadSums") -> "Tensor":
        n, total = sums.n_rows, sums.columns.sum(dim=-1)
        weight, n_ones = self.weight_and_ones(sums)
        has_ones = n_ones > 0  # nothing to find: no score
        if self.is_absolute:
            return 1 - share_of(total + n_ones - 2 * weight, n * has_ones)
        return share_of(weight, total * has_ones)

    def weight_and_ones(self, sums: "HeadSums") -> "tuple[Tensor, Tensor]":
        """Σ(a∘P) and ΣP of the whole map."""
        raise NotImplementedError


class _Share(_Pattern):
    unit = "share of all weight"


class _Nearness(_Pattern):
    unit = "score up to 1"
    limits = (-math.inf, 1.0)
    is_absolute = True
    is_further = True


_ON_PREVIOUS = partial(RowBlock.at_offset, offset=-1, of_words=False)
_N_PREVIOUS = partial(RowBlock.n_at_offset, offset=-1, of_words=False)


class _OnPrevious(_Pattern):
    sums = (_ON_PREVIOUS, _N_PREVIOUS)

    def weight_and_ones(self, sums: "HeadSums") -> "tuple[Tensor, Tensor]":
        return sums.total[_ON_PREVIOUS], sums.total[_N_PREVIOUS]


class _OnRepeats(_Pattern):
    sums = (repeats,)
    pattern: ClassVar[int]

    def weight_and_ones(self, sums: "HeadSums") -> "tuple[Tensor, Tensor]":
        weight, n_ones = sums.total[repeats][..., self.pattern].unbind(dim=-1)
        return weight, n_ones


class DuplicateShare(_OnRepeats, _Share):
    name = "duplicate_mul"
    title = "duplicates"
    order = 60
    terminal = 7
    pattern = 0
    definition = (
        "How much of all weight lies on earlier tokens equal to the query: Σ(a∘P)/Σa with P on these; texts"
        " that have any; unknown words count as equal. (Nanda & Bloom 2022)"
    )


class InductionShare(_OnRepeats, _Share):
    name = "induction_mul"
    title = "induction, mul"
    order = 70
    terminal = 8
    pattern = 1
    definition = (
        "How much of all weight lies on tokens that followed an earlier token equal to the query: Σ(a∘P)/Σa"
        " with P on these; texts that have any; unknown words count as equal. (Nanda & Bloom 2022)"
    )


class PreviousShare(_OnPrevious, _Share):
    name = "previous_mul"
    title = "previous, mul"
    order = 180
    is_further = True
    definition = (
        "How much of all weight lies on the previous token: Σ(a∘P)/Σa with P on it. (Nanda & Bloom 2022)"
    )


class PreviousNearness(_OnPrevious, _Nearness):
    name = "previous_abs"
    title = "previous, abs"
    order = 190
    definition = (
        "How near the map is to one with all weight on the previous token: 1 − n·mean|a − P| with P on it."
        " (Nanda & Bloom 2022)"
    )


class DuplicateNearness(_OnRepeats, _Nearness):
    name = "duplicate_abs"
    title = "duplicate, abs"
    order = 200
    pattern = 0
    definition = (
        "How near the map is to one with all weight on earlier tokens equal to the query: 1 − n·mean|a − P|"
        " with P on these; texts that have any; unknown words count as equal. (Nanda & Bloom 2022)"
    )


class InductionNearness(_OnRepeats, _Nearness):
    name = "induction_abs"
    title = "induction, abs"
    order = 210
    pattern = 1
    definition = (
        "How near the map is to one with all weight on tokens that followed an earlier token equal to the"
        " query: 1 − n·mean|a − P| with P on these; texts that have any; unknown words count as equal."
        " (Nanda & Bloom 2022)"
    )
