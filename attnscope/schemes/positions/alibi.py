"""Attention with linear biases: the scores of a head fall with distance (Press et al. 2022)."""

import math
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import BACK, BACK_NOTE, PositionScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class LinearBiases(PositionScheme):
    name, title, order = "alibi", "ALiBi", 5
    words, source = "scores fall with the distance, with a different slope in each head", "Press et al. 2022"
    formula = "s′_ij = s_ij − m_h |i − j|,   m_h = 2^(−8h/n) for n = 2^k heads"
    is_of_text = True
    falls = True
    is_compared = True

    def slopes(self, n_heads: int) -> "Tensor":
        return alibi_slopes(n_heads)

    def own(self, n: int, config: "ModelConfig") -> "tuple[Tensor, str, tuple[str, str]]":
        import torch

        slopes = alibi_slopes(config.n_heads)
        return -torch.arange(n)[:, None] * slopes, f"{self.title}. {BACK_NOTE}", BACK


def alibi_slopes(n_heads: int) -> "Tensor":
    """The slope of each head, float32 on the CPU (section 3, and their code).

    2^(−8/n), 2^(−16/n), … for n a power of 2; for other numbers those of the power below, and then every
    second one of the power above.
    """
    import torch

    n_even = 2 ** math.floor(math.log2(n_heads))
    slopes = _geometric(n_even) + _geometric(2 * n_even)[0::2]
    return torch.tensor(slopes[:n_heads], dtype=torch.float32)


def _geometric(n: int) -> list[float]:
    return [2.0 ** (-8.0 * (head + 1) / n) for head in range(n)]
