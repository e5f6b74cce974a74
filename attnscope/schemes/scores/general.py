"""The bilinear score, with a matrix for each head (Luong et al. 2015, section 3.1)."""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.scores.score import Score

if TYPE_CHECKING:
    from torch import Generator, Tensor


class General(Score):
    name, title, order = "general", "general", 2
    formula, source = "q W k", "Luong et al. 2015"
    learned = "bilinear"
    samples_formula = "s = q·W k / σ²"

    def learned_shape(self, d_head: int) -> tuple[int, ...]:
        return d_head, d_head

    def fill(self, learned: "Tensor", generator: "Generator") -> None:
        """Start as the scaled product."""
        import torch

        d_head = learned.shape[-1]
        learned.copy_(torch.eye(d_head) / math.sqrt(d_head))

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        return 3 * n
