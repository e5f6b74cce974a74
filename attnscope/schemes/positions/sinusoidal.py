"""Sines and cosines added to the embeddings (Vaswani et al. 2017, section 3.5)."""

from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class Sinusoidal(PositionScheme):
    name, title, order = "sinusoidal", "sinusoidal", 0
    words, source = "sines and cosines are added to the embeddings", "Vaswani et al. 2017"
    formula = "PE(t, 2i) = sin(t/10000^(2i/d)),   PE(t, 2i+1) = cos(t/10000^(2i/d))"
    page_title = "Sinusoidal"
    is_compared = True

    def width(self, config: "ModelConfig") -> int:
        return config.d_model

    def table(self, n_positions: int, d_model: int) -> "Tensor":
        return sinusoidal_table(n_positions, d_model)


def sinusoidal_table(n_tokens: int, d_model: int) -> "Tensor":
    """Sines in even columns, cosines in odd ones: computed in float64, given in float32 on the CPU."""
    import torch

    position = torch.arange(n_tokens, dtype=torch.float64, device="cpu")[:, None]
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / max(1, d_model)
    angle = position / 10000.0**exponent  # [n_tokens, ceil(d_model / 2)]
    table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
    return table[:, :d_model].float()
