"""Shared by all norms: their effect on the stream, their parameters and their state.

Letters: B batch, T tokens, d d_model.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig
    from attnscope.nn.layers import Norm


class NormScheme(Scheme):
    """A norm; by default with a gain for each column and, if `has_bias`, a bias."""

    words: ClassVar[str] = ""
    """Description for the user."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of a configuration that it reads."""
    is_nothing: ClassVar[bool] = False
    """Whether there is no norm at all."""
    has_bias: ClassVar[bool] = True
    """Whether it learns a bias in a model that has biases."""
    is_centred: ClassVar[bool] = False
    """Whether the mean over the columns of a token is taken away."""
    is_of_batch: ClassVar[bool] = False
    """Whether in training a token's numbers depend on the other tokens of its batch."""
    running: ClassVar[tuple[tuple[str, float], ...]] = ()
    """State kept over batches, a number for each column: name and first value."""
    warning: ClassVar[str] = ""
    """Advice to the user before training, one sentence."""

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        """Keys of a Transformer that conflict with this norm, with what is expected."""
        yield from ()

    def apply(self, x: "Tensor", norm: "Norm") -> "Tensor":
        """The normalised stream [B, T, d]; `norm` has what is `learned`, `epsilon`, `valid` and `running`."""
        return x

    def scale(self, x: "Tensor", norm: "Norm") -> "Tensor":
        """Factor of a token's row x [d] that depends on that row, 1/σ."""
        raise NotImplementedError

    def gain(self, norm: "Norm") -> "Tensor | None":
        """Factor of every token's columns, [d]; None if there is none."""
        return norm.weight

    def added(self, norm: "Norm") -> "Tensor | None":
        """Vector added to every token, [d]; None if there is none."""
        return norm.bias

    def learned(self, d_model: int, *, has_bias: bool) -> dict[str, tuple[int, float]]:
        """Parameters of one norm of a model, by name in its file: count and initial value.

        `weight` and `bias` may be missing, and are None then; others are there as well.
        """
        gain, bias = {"weight": (d_model, 1.0)}, {"bias": (d_model, 0.0)}
        return gain | bias if has_bias and self.has_bias else gain

    def n_learned(self, d_model: int, *, has_bias: bool) -> int:
        """Parameters of one norm of a model."""
        return sum(n for n, _ in self.learned(d_model, has_bias=has_bias).values())

    def n_kept(self, d_model: int) -> int:
        """Numbers kept of one token for the backward pass."""
        return d_model + 2
