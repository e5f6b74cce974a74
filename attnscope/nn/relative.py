"""Positions as a bias on scores: learned for buckets of distances, or a slope for each head.

    symbol     meaning                                               shape
    distance   key − query's own place; below 0 looks back           any
    bucket     which learned number a distance has                   as distance
    slopes     how much a head's scores fall for each token          [n_heads]

Neither knows an end: a text longer than the trained ones gets a bias as well.
"""

import math

import torch
from torch import Generator, Tensor, nn

from attnscope.nn.scores import Bias, RelativeBias, SlopeBias

_MOST_LAID_OUT = 4_000_000


class RelativeTable(nn.Module):
    """T5's positions of one stack, shared by its layers (Raffel et al. 2020, section 2.1)."""

    def __init__(self, n_heads: int, *, n_buckets: int, max_distance: int, is_causal: bool) -> None:
        super().__init__()
        self.max_distance, self.is_causal = max_distance, is_causal
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads))

    @torch.no_grad()
    def fill(self, d_model: int, generator: Generator) -> None:
        """First values, as T5's."""
        self.weight.normal_(std=d_model**-0.5, generator=generator)

    def bias(self, n_queries: int, n_keys: int) -> RelativeBias:
        """The bias of a call whose queries are the last of the keys; short ones are laid out at once."""
        n_earlier = n_keys - n_queries
        distance = torch.arange(1 - n_queries, n_keys, device=self.weight.device) - n_earlier
        bucket = relative_buckets(
            distance,
            n_buckets=len(self.weight),
            max_distance=self.max_distance,
            is_causal=self.is_causal,
        )
        values = self.weight[bucket].T.contiguous()  # [H, Q + T − 1]
        if values.shape[0] * n_queries * n_keys > _MOST_LAID_OUT:
            return RelativeBias(values=values)
        # Row i of the map is the window of values that begins at column Q − 1 − i.
        laid_out = values.unfold(1, n_keys, 1).flip(1)[None]  # [1, H, Q, T]
        return RelativeBias(values=values, laid_out=laid_out)


def relative_buckets(distance: Tensor, *, n_buckets: int, max_distance: int, is_causal: bool) -> Tensor:
    """The bucket of each distance: single ones near by, ever wider ones up to `max_distance`, then the last.

    Raffel et al. 2020, section 2.1; logarithms in float32 as in their models, so that borders agree. Where
    not causal, the upper half of the buckets is for keys ahead.
    """
    if is_causal:
        bucket, away = torch.zeros_like(distance), (-distance).clamp(min=0)
    else:
        n_buckets //= 2
        bucket, away = (distance > 0) * n_buckets, distance.abs()
    n_single = n_buckets // 2
    share = torch.log(away.clamp(min=1).float() / n_single) / math.log(max_distance / n_single)
    wide = (n_single + (share * (n_buckets - n_single)).long()).clamp(max=n_buckets - 1)
    return bucket + torch.where(away < n_single, away, wide)


def bias_of_heads(bias: Bias, heads: tuple[int, ...]) -> Bias:
    """The bias of some heads of a stack, by the numbers they had when there were all."""
    chosen = list(heads)
    match bias:
        case RelativeBias() if len(bias.values) != len(heads):
            laid_out = None if bias.laid_out is None else bias.laid_out[:, chosen]
            return RelativeBias(values=bias.values[chosen], laid_out=laid_out)
        case SlopeBias() if len(bias.slopes) != len(heads):
            return SlopeBias(slopes=bias.slopes[chosen])
        case _:
            return bias
