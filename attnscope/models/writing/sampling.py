"""From logits to the probabilities a token is drawn with, and the draw.

| symbol | meaning                                          | shape        |
|--------|--------------------------------------------------|--------------|
| logits | one number per piece                             | [vocab_size] |
| p      | probabilities after temperature, top-k and top-p | [vocab_size] |

The order is that of the literature: logits / temperature, then the k most probable (Fan et al. 2018),
then of those the fewest that hold top-p of the probability (Holtzman et al. 2020, section 3.1). Of equal
tokens the one with the smaller id comes first, so that nothing depends on the machine.
"""

import torch
from torch import Generator, Tensor

from attnscope.records.generation import WriteSettings


def draw_probabilities(logits: Tensor, settings: WriteSettings) -> Tensor:
    """What each token is drawn with: float64 on the CPU, sums to 1; one-hot where nothing is left open."""
    wide = logits.detach().cpu().double()
    if settings.mode != "sample" or settings.temperature == 0.0:
        p = torch.zeros_like(wide)
        p[int(wide.argmax())] = 1.0
        return p
    p = (wide / settings.temperature).softmax(dim=-1)
    if settings.top_k:
        p = keep_top_k(p, settings.top_k)
    if settings.top_p < 1.0:
        p = keep_top_p(p, settings.top_p)
    return p


def keep_top_k(p: Tensor, k: int) -> Tensor:
    """The k most probable tokens, their probabilities made to sum to 1 again."""
    order = p.argsort(descending=True, stable=True)
    return _only(p, order[: max(k, 1)])


def keep_top_p(p: Tensor, share: float) -> Tensor:
    """The fewest most probable tokens that together hold at least `share`; one at least."""
    order = p.argsort(descending=True, stable=True)
    held = p[order].cumsum(dim=-1)
    n_kept = int((held < share).sum()) + 1
    return _only(p, order[:n_kept])


def draw(p: Tensor, generator: Generator) -> int:
    """One id, drawn by inverting the distribution: one number from `generator` a token."""
    cumulative = p.cumsum(dim=-1)
    at = torch.rand((), generator=generator, dtype=torch.float64) * cumulative[-1]
    # right: the first id whose sum lies above; ids with probability 0 are never that.
    found = int(torch.searchsorted(cumulative, at, right=True))
    return min(found, int(p.nonzero()[-1]))


def _only(p: Tensor, kept: Tensor) -> Tensor:
    result = torch.zeros_like(p)
    result[kept] = p[kept]
    return result / result.sum()
