"""Linear attention: a product of positive features in place of exp (Katharopoulos et al. 2020)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.scores.score import Score

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class Kernel(Score):
    name, title, order = "kernel", "kernel", 6
    formula, source = "ln(φ(q)·φ(k))", "Katharopoulos et al. 2020"
    comparison = "kernel"
    is_bilinear = False

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.attention_dropout:
            yield (
                "attention_dropout",
                "0 or nothing: the score kernel has sums, and no single weights to drop",
            )

    def queries(self, q: "Tensor") -> "Tensor":
        return features(q)

    def keys(self, k: "Tensor") -> "Tensor":
        return features(k)

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        return 7 * n


def features(x: "Tensor") -> "Tensor":
    """φ(x) = elu(x) + 1 (equation 7), written so that it stays above 0: exp(x) below 0, x + 1 above."""
    import torch

    return torch.where(x > 0, x + 1.0, x.clamp(max=0.0).exp())
