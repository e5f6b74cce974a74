"""KERPLE: a bias that falls with the logarithm of the distance (Chi et al. 2022, equation 7).

Each head learns two numbers above 0: b(i − j) = −r₁ · ln(1 + r₂ |i − j|). Here their logarithms are
learned, so that no step of training can make them negative.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from attnscope.nn import ModelConfig

_LEAST = 0.01


class LogarithmicBias(PositionScheme):
    name, title, order = "kerple", "KERPLE", 50
    words = "a bias that falls with the logarithm of the distance, two learned numbers a head"
    source = "Chi et al. 2022"
    formula = "s′_ij = s_ij − r₁ ln(1 + r₂ |i − j|),   r₁, r₂ > 0 learned"
    is_of_text = True
    bias_words = "−r₁ · ln(1 + r₂ · distance)"
    learned_part = "relative positions"

    def bias_shapes(self, config: "ModelConfig") -> dict[str, tuple[int, ...]]:
        return {"log_r1": (config.n_heads,), "log_r2": (config.n_heads,)}

    def fill_bias(
        self, learned: "Mapping[str, Tensor]", config: "ModelConfig", generator: "Generator"
    ) -> None:
        """r₁ from 0 to 2 and r₂ from 0 to 1, as in their initialisation, and neither below 0.01."""
        for name, most in (("log_r1", 2.0), ("log_r2", 1.0)):
            learned[name].uniform_(0.0, most, generator=generator).clamp_(min=_LEAST).log_()

    def bias(
        self, learned: "Mapping[str, Tensor]", distance: "Tensor", config: "ModelConfig", *, is_causal: bool
    ) -> "Tensor":
        r1, r2 = learned["log_r1"].exp(), learned["log_r2"].exp()
        return -r1[:, None] * (r2[:, None] * distance.abs()).log1p()
