"""Rotary positions: queries and keys are rotated by an angle for each pair of columns (Su et al. 2021)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.errors import UserError
from attnscope.schemes.positions.scheme import PLAIN_AXES, PositionScheme
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig

_BASE = 10000.0


class Rotary(PositionScheme):
    name, title, order = "rotary", "rotary", 2
    words, source = "queries and keys are rotated by an angle that grows with the position", "Su et al. 2021"
    formula = "s_ij = (R_i q)·(R_j k) = q·R_(j−i) k,   R_t turns pair n by t·base^(−2n/d)"
    choices = ("rope_base",)
    is_of_text = True
    is_turn = True
    page_title = "Rotary"
    is_compared = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.head_width % 2:
            name = "d_model / n_heads" if config.d_head is None else "d_head"
            yield "position", f"an even {name}, which is {config.head_width}"
        if SCORES[config.score].comparison == "additive":
            told = f"another position: the score {config.score} has no product to rotate"
            yield "position", told

    def width(self, config: "ModelConfig") -> int:
        return config.head_width

    def turns(self, n_positions: int, config: "ModelConfig") -> "tuple[Tensor, Tensor]":
        return rotary_tables(n_positions, config.head_width, config.rope_base)

    def n_kept(self, config: "ModelConfig", n: int, k: int, *, is_wide: bool) -> int:
        return 0 if is_wide else n + k

    def own(self, n: int, config: "ModelConfig") -> "tuple[Tensor, str, tuple[str, str]]":
        import torch

        width, base = config.head_width, config.rope_base
        pairs = torch.arange(0, width, 2, dtype=torch.float64)
        note = rotary_note(width, "dimensions of one head", f", base {base:g}")
        return rotated(n, base ** (-pairs / width)), note, PLAIN_AXES

    def first_wave(self, width: int) -> tuple[int, int]:
        return 0, width // 2

    def page_matrix(self, n: int, width: int) -> "tuple[Tensor, str]":
        import torch

        if width % 2:
            raise UserError(
                f"Rotary positions rotate pairs of dimensions, and {width} is odd.",
                expected="an even number",
                action="Change it by one.",
            )
        inv_freq = _BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        return rotated(n, inv_freq), rotary_note(width, "dimensions", f", base {_BASE:g}")


def rotary_angles(n_tokens: int, d_head: int, base: float = _BASE) -> "Tensor":
    """Angle of each position and pair of columns (equation 15), float64 [n_tokens, d_head / 2]."""
    import torch

    position = torch.arange(n_tokens, dtype=torch.float64, device="cpu")[:, None]
    exponent = torch.arange(0, d_head, 2, dtype=torch.float64, device="cpu") / d_head
    return position / base**exponent


def rotary_tables(n_tokens: int, d_head: int, base: float = _BASE) -> "tuple[Tensor, Tensor]":
    """Cosines and signed sines for `apply_rotary`, each float32 [n_tokens, d_head].

    Column i is paired with column i + d_head / 2, as in Llama; the sign of the turn is folded into the
    first half of the sines.
    """
    import torch

    angle = rotary_angles(n_tokens, d_head, base)
    cosines = torch.cat((angle.cos(), angle.cos()), dim=-1)
    signed_sines = torch.cat((-angle.sin(), angle.sin()), dim=-1)
    return cosines.float(), signed_sines.float()


def rotated(n: int, inv_freq: "Tensor") -> "Tensor":
    """The vector of equal parts and length 1, rotated for each of n positions; [n, 2 · pairs], float64.

    `inv_freq` [pairs] is the radians that each pair of dimensions turns by at each token. Pairs are the first
    and the second half of the dimensions (equation 34).
    """
    import torch

    angles = torch.arange(n, dtype=torch.float64)[:, None] * inv_freq.cpu().double()  # [n, pairs]
    cosines, sines = angles.cos(), angles.sin()
    turned: Tensor = torch.cat((cosines - sines, cosines + sines), dim=1) * (2 * len(inv_freq)) ** -0.5
    return turned


def rotary_note(width: int, what: str, base: str) -> str:
    """Meaning of a rotary encoding's matrix."""
    turned = "The vector of equal parts and length 1, rotated by each position"
    return f"{turned}; {width} {what}{base}."
