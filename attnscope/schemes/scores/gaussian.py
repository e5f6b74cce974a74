"""The Gaussian kernel of the distance, as in kernel regression (Nadaraya 1964, Watson 1964).

−‖q − k‖² / 2σ² is the product of [q, −‖q‖²/2, 1] and [k, 1, −‖k‖²/2], divided by σ².
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscope.schemes.scores.score import Score

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class Gaussian(Score):
    name, title, order = "gaussian", "Gaussian", 4
    formula, source = "−‖q − k‖² / 2σ²", "Nadaraya 1964, Watson 1964"
    choices = ("sigma",)
    is_bilinear = False
    n_more_columns = 2
    samples_formula = "s = −‖q − k‖² / 2σ²"

    def ranges(self, config: "ModelConfig") -> Iterator[tuple[str, bool, str]]:
        sigma = config.sigma
        yield "sigma", sigma is None or 1e-3 <= sigma <= 1e3, "a number from 0.001 to 1,000, or nothing"

    def scale(self, config: "ModelConfig") -> float:
        """By default the width is the fourth root of d_head, as wide as the scaled product."""
        width: float = config.head_width**0.25 if config.sigma is None else config.sigma
        return width**-2

    def queries(self, q: "Tensor") -> "Tensor":
        import torch

        return torch.cat((q, _half_square(q), torch.ones_like(q[..., :1])), dim=-1)  # [.., T, D + 2]

    def keys(self, k: "Tensor") -> "Tensor":
        import torch

        return torch.cat((k, torch.ones_like(k[..., :1]), _half_square(k)), dim=-1)  # [.., T, D + 2]

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        return 4 * (n + 2 * n_heads)

    def on_samples(self, queries: NDArray[np.float64], keys: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.sum((queries[:, None] - keys[None, :]) ** 2, axis=2) / 2)


def _half_square(x: "Tensor") -> "Tensor":
    return x.square().sum(dim=-1, keepdim=True) / -2.0
