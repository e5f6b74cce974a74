"""Positions as a bias on scores by distance: what a stack learns of it, laid out for a call.

    symbol     meaning                                               shape
    distance   key − query's own place; below 0 looks back           any
    values     what is added at each distance                        [n_heads, n_queries + n_keys − 1]

The formula is that of a position scheme (`schemes/positions`). None knows an end: a text longer than the
trained ones gets a bias as well.
"""

import torch
from torch import Generator, Tensor, nn

from attnscope.nn.config import ModelConfig
from attnscope.nn.scores import Bias, RelativeBias, SlopeBias
from attnscope.schemes.positions import POSITIONS

_MOST_LAID_OUT = 4_000_000


class DistanceBias(nn.Module):
    """What one stack learns of a bias by distance, shared by its layers."""

    def __init__(self, config: ModelConfig, *, is_causal: bool) -> None:
        super().__init__()
        self.config, self.is_causal = config, is_causal
        self.scheme = POSITIONS[config.position]
        self._names = tuple(self.scheme.bias_shapes(config))
        for name, shape in self.scheme.bias_shapes(config).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    @property
    def learned(self) -> dict[str, Tensor]:
        """What the scheme's formula reads, by name."""
        return {name: self.get_parameter(name) for name in self._names}

    @torch.no_grad()
    def fill(self, generator: Generator) -> None:
        """First values, those of the scheme."""
        self.scheme.fill_bias(self.learned, self.config, generator)

    def values(self, distance: Tensor) -> Tensor:
        """What is added at each distance [n], for each head: [n_heads, n]."""
        return self.scheme.bias(self.learned, distance, self.config, is_causal=self.is_causal)

    def bias(self, n_queries: int, n_keys: int) -> RelativeBias:
        """The bias of a call whose queries are the last of the keys; short ones are laid out at once."""
        device = self.get_parameter(self._names[0]).device
        distance = torch.arange(1 - n_queries, n_keys, device=device) - (n_keys - n_queries)
        values = self.values(distance).contiguous()  # [H, Q + T − 1]
        if values.shape[0] * n_queries * n_keys > _MOST_LAID_OUT:
            return RelativeBias(values=values)
        # Row i of the map is the window of values that begins at column Q − 1 − i.
        laid_out = values.unfold(1, n_keys, 1).flip(1)[None]  # [1, H, Q, T]
        return RelativeBias(values=values, laid_out=laid_out)


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
