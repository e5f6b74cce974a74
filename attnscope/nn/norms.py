"""The module of a norm: what its scheme learns and keeps (`schemes/norms`).

symbol   meaning                        shape
x        the residual stream            [batch, n_tokens, d_model]
valid    False where a token is padding [batch, n_tokens], bool
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnscope.schemes.norms import NORMS


class Norm(nn.Module):
    """A norm of the stream; `weight` is absent where there is none, `bias` where it learns none.

    `valid` is what the stack reads now, for norms over the tokens of a batch; `running` are their numbers of
    batches past, by name.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, kind: str, d_model: int, *, epsilon: float, has_bias: bool) -> None:
        super().__init__()
        self.scheme, self.epsilon = NORMS[kind], epsilon
        self.valid: Tensor | None = None
        is_there = not self.scheme.is_nothing
        has_bias = is_there and has_bias and self.scheme.has_bias
        self.weight = nn.Parameter(torch.ones(d_model)) if is_there else None
        self.bias = nn.Parameter(torch.zeros(d_model)) if has_bias else None
        for name, first in self.scheme.running:
            self.register_buffer(name, torch.full((d_model,), first))

    @property
    def running(self) -> dict[str, Tensor]:
        """What is kept of batches past, [d_model] each."""
        return {name: getattr(self, name) for name, _ in self.scheme.running}

    def fill(self) -> None:
        """First values: gains 1, biases 0, and no batch seen."""
        if self.weight is not None:
            self.weight.fill_(1.0)
        if self.bias is not None:
            self.bias.zero_()
        for name, first in self.scheme.running:
            getattr(self, name).fill_(first)

    def forward(self, x: Tensor) -> Tensor:
        """The stream after the norm."""
        return self.scheme.apply(x, self)


@contextmanager
def running_kept(module: nn.Module) -> Iterator[None]:
    """What norms keep of batches past is afterwards as it was: for steps that are only tried."""
    kept = [tensor for m in module.modules() if isinstance(m, Norm) for tensor in m.running.values()]
    before = [tensor.clone() for tensor in kept]
    try:
        yield
    finally:
        for tensor, value in zip(kept, before, strict=True):
            tensor.copy_(value)
