"""How alike heads attend: Jensen–Shannon divergences over many texts.

| symbol | meaning                                              | shape                       |
|--------|------------------------------------------------------|-----------------------------|
| a      | weights, 0 where the mask forbids                    | [n_heads, n_queries, n_keys]|
| JS     | H((a + a')/2) − (H(a) + H(a'))/2, nats, of one row   | [n_heads, n_heads]          |

Clark et al. 2019, section 6: Σ_i JS(a_h[i] ‖ a_h'[i]) over the tokens of a corpus. Heads of one stack are
compared with each other; those of another read other tokens.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.batches import Sample, slices_of
from attnscope.analysis.measures import row_entropy
from attnscope.counting import there_are
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.nn.computing import exact
from attnscope.records.importance import PartsDone
from attnscope.records.redundancy import HeadPairs
from attnscope.records.sites import HeadRef, Stack
from attnscope.trace.record import weights_to_sum
from attnscope.trace.trace import Trace

_BLOCK_CELLS = 4_000_000


class HeadDivergences:
    """Sums of Jensen–Shannon divergences between the heads of one stack, text by text."""

    def __init__(self, heads: Sequence[HeadRef]) -> None:
        self.heads = tuple(heads)
        self.n_queries = self.n_texts = 0
        self.total = np.zeros((len(self.heads), len(self.heads)))

    def add(self, trace: Trace, stack: Stack) -> None:
        weights = [weights_to_sum(trace.records[site.key]) for site in trace.sites if site.stack == stack]
        self.add_weights(torch.cat(weights))

    def add_weights(self, weights: Tensor) -> None:
        """Take in weights [n_heads, n_queries, n_keys]. NaN or 0 is forbidden; blind rows do not count."""
        a = weights.nan_to_num(nan=0.0)
        seeing = (a > 0).any(dim=-1).all(dim=0)
        a = a[:, seeing]
        self.total += divergence_sums(a).cpu().numpy()
        self.n_queries += int(seeing.sum())
        self.n_texts += 1

    def mean(self) -> NDArray[np.float64]:
        """The mean divergence of each pair of heads, nats: 0 for heads that attend alike, at most ln 2."""
        return self.total / max(1, self.n_queries)

    def pairs(self, stack: Stack) -> HeadPairs:
        """What was summed so far, of the heads of one stack."""
        return HeadPairs(
            stack=stack,
            heads=self.heads,
            divergences=self.mean(),
            n_queries=self.n_queries,
            n_texts=self.n_texts,
        )


def divergence_sums(a: Tensor) -> Tensor:
    """Σ_i JS(a_h[i] ‖ a_h'[i]) of every pair of heads, float64 [n_heads, n_heads]; a [n_heads, n, keys]."""
    n_heads, n_queries, n_keys = a.shape
    total = torch.zeros(n_heads, n_heads, dtype=torch.float64)
    for rows in slices_of(n_queries, max(1, _BLOCK_CELLS // max(1, n_heads * n_keys))):
        part = a[:, rows]
        entropy = row_entropy(part)  # [n_heads, rows]
        for h in range(n_heads - 1):
            mixed = row_entropy((part[h] + part[h + 1 :]) / 2)
            js = (mixed - (entropy[h] + entropy[h + 1 :]) / 2).clamp(min=0.0)
            total[h, h + 1 :] += exact(js).sum(dim=-1).cpu()
    return total + total.T


def head_pairs(
    model: Model, samples: Sequence[Sample], stack: Stack | None = None
) -> Iterator[PartsDone | HeadPairs]:
    """Progress after each text, then how alike the heads of a stack (None: the first) attend.

    Raises UserError for a stack with fewer than two heads.
    """
    stack = stack or model.sites[0].stack
    heads = [head for site in model.sites if site.stack == stack for head in site.heads]
    if len(heads) < 2:
        raise UserError(
            f"{there_are(len(heads), 'head')} in the stack '{stack}'.",
            expected="at least two to compare",
            action="Choose another stack or model.",
        )
    sums = HeadDivergences(heads)
    for n_done, trace in enumerate(_traces(model, samples), start=1):
        sums.add(trace, stack)
        yield PartsDone(n_done=n_done, n_total=len(samples), about="comparing heads")
    yield sums.pairs(stack)


def _traces(model: Model, samples: Iterable[Sample]) -> Iterator[Trace]:
    for sample in samples:
        if isinstance(sample, str):
            yield model.trace(sample)
        elif isinstance(sample, tuple):
            yield model.trace(*sample)
        else:
            yield model.trace(sample.source, sample.target)
