"""The modules behind mixers that are not attention (`schemes/mixers`)."""

from typing import Protocol

from torch import Generator, Tensor, nn

from attnscope.nn.convolution import Convolution
from attnscope.nn.layers import BlockShape, Rotary
from attnscope.nn.recurrences import Retention, SelectiveSpace

_MADE = {"retention": Retention, "selective": SelectiveSpace, "convolution": Convolution}


class MixerModule(Protocol):
    """What each of them can do besides being called as `SelfAttention` is."""

    output: nn.Linear

    def unrolled(self, x: Tensor, *, rotary: Rotary | None = None) -> tuple[Tensor, Tensor | None]:
        """Its weights, and the same products in a softmax where it has some: both [B, H, T, T]."""

    def fill(self, generator: Generator) -> None:
        """First values of what is no linear layer."""


def make_mixer(shape: BlockShape, layer: int) -> nn.Module:
    """The module of a decoder's layer."""
    return _MADE[shape.mixer](shape, layer)
