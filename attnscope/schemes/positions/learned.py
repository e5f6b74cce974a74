"""A learned vector for each position (Gehring et al. 2017, Devlin et al. 2018): none beyond the last one."""

from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig

_STD = 0.02


class LearnedPositions(PositionScheme):
    name, title, order = "learned", "learned", 1
    words = "a learned vector is added for each position, and there is none beyond the last"
    source = "Gehring et al. 2017"
    formula = "x_t = e_t + p_t,   p_t learned"
    learns_table = True
    learned_part = "position embeddings"
    page_title = "Learned (untrained)"
    is_compared = True

    def n_learned(self, config: "ModelConfig") -> int:
        return config.max_tokens * config.d_model

    def page_matrix(self, n: int, width: int) -> "tuple[Tensor, str]":
        import torch

        matrix = torch.randn(n, width, generator=torch.Generator().manual_seed(0)) * _STD
        return matrix, "Untrained: random numbers, before any learning."
