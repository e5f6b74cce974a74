"""How a model is told where a token stands.

    symbol       meaning                                   shape
    sinusoidal   sines and cosines added to embeddings     [n_tokens, d_model]
    rotary       angles by which q and k are turned        [n_tokens, d_head / 2]
    binary       the bits of the position, 0 or 1          [n_tokens, d_model]

Learned positions are a plain embedding and live in transformer.py. All tables are computed in float64
and returned in float32 on the CPU.
"""

import torch
from torch import Tensor


def sinusoidal_table(n_tokens: int, d_model: int) -> Tensor:
    """The table of Vaswani et al. 2017, section 3.5: sines in even columns, cosines in odd ones."""
    position = torch.arange(n_tokens, dtype=torch.float64, device="cpu")[:, None]
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / max(1, d_model)
    angle = position / 10000.0**exponent  # [n_tokens, ceil(d_model / 2)]
    table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
    return table[:, :d_model].float()


def binary_table(n_tokens: int, d_model: int) -> Tensor:
    """Each position written in binary, lowest bit in column 0."""
    position = torch.arange(n_tokens, dtype=torch.int64, device="cpu")[:, None]
    bit = torch.arange(d_model, dtype=torch.int64, device="cpu")
    # A shift by 64 or more is undefined in C; no position reaches bit 62.
    return ((position >> bit.clamp(max=62)) & 1).float()


def rotary_angles(n_tokens: int, d_head: int, base: float = 10000.0) -> Tensor:
    """Angle of each position and pair of columns (Su et al. 2021, equation 15), float64."""
    position = torch.arange(n_tokens, dtype=torch.float64, device="cpu")[:, None]
    exponent = torch.arange(0, d_head, 2, dtype=torch.float64, device="cpu") / d_head
    return position / base**exponent


def rotary_tables(n_tokens: int, d_head: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines for `apply_rotary`, each [n_tokens, d_head].

    Column i is paired with column i + d_head / 2, as in Llama; the sign of the turn is folded into the
    first half of the sines.
    """
    angle = rotary_angles(n_tokens, d_head, base)
    cosines = torch.cat((angle.cos(), angle.cos()), dim=-1)
    signed_sines = torch.cat((-angle.sin(), angle.sin()), dim=-1)
    return cosines.float(), signed_sines.float()


def apply_rotary(x: Tensor, cosines: Tensor, signed_sines: Tensor) -> Tensor:
    """Turn queries or keys `x` [..., n_tokens, d_head] by the angle of their position."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)
    return torch.addcmul(x * cosines.to(x.dtype), swapped, signed_sines.to(x.dtype))
