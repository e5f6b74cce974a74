"""The bits of the position, 0 or 1, added to the embeddings."""

from typing import TYPE_CHECKING

from attnscope.schemes.positions.scheme import PositionScheme

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class Binary(PositionScheme):
    name, title, order = "binary", "binary", 3
    words = "the bits of the position are added to the embeddings"
    source = "Kazemnejad 2019"
    formula = "PE(t, i) = ⌊t/2^i⌋ mod 2"
    page_title = "Binary"

    def width(self, config: "ModelConfig") -> int:
        return config.d_model

    def table(self, n_positions: int, d_model: int) -> "Tensor":
        return binary_table(n_positions, d_model)

    def page_matrix(self, n: int, width: int) -> "tuple[Tensor, str]":
        return binary_table(n, width), "Position 0 is a zero vector without direction."


def binary_table(n_tokens: int, d_model: int) -> "Tensor":
    """Each position written in binary, lowest bit in column 0: float32 on the CPU."""
    import torch

    position = torch.arange(n_tokens, dtype=torch.int64, device="cpu")[:, None]
    bit = torch.arange(d_model, dtype=torch.int64, device="cpu")
    # A shift by 64 or more is undefined in C; no position reaches bit 62.
    return ((position >> bit.clamp(max=62)) & 1).float()
