"""Positional encodings as tables: the matrix, and how alike its positions are.

| symbol    | meaning                                    | shape                        |
|-----------|--------------------------------------------|------------------------------|
| matrix    | one row for each position                  | [n_positions, d_model]       |
| cosine    | cosine similarity of each pair             | [n_positions, n_positions]   |
| by_offset | mean over all pairs at offset 0, 1, …      | [n_positions]                |

The row of a position that is a zero vector (binary position 0) has no direction: its cosine is NaN.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from attnscope.analysis.own_positions import own_matrix
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.records.positions import PositionTable
from attnscope.schemes.positions import POSITIONS

NAMES = (*(scheme.name for scheme in POSITIONS.values() if scheme.page_title), "model")
MAX_POSITIONS = 4096
MAX_WIDTH = 16_384


def position_tables(
    names: Iterable[str], n_positions: int, d_model: int, model: Model | None = None
) -> tuple[PositionTable, ...]:
    """One table for each name, in order; `model` among the names is the given model's own encoding.

    Raises UserError for an unknown name, an impossible size, or a model without positions.
    """
    _check_size("positions", n_positions, MAX_POSITIONS)
    _check_size("dimensions", d_model, MAX_WIDTH)
    return tuple(_named_table(name, n_positions, d_model, model) for name in names)


def encoding_table(name: str, matrix: Tensor, note: str = "") -> PositionTable:
    """The record of one encoding, from its matrix [n_positions, d_model]; computed in float64."""
    exact = matrix.detach().cpu().double()
    lengths = exact.norm(dim=1)
    dots = exact @ exact.T
    pairs = lengths[:, None] * lengths[None, :]
    cosine = torch.where(pairs > 0, dots / pairs, torch.nan)
    return PositionTable(
        name=name,
        matrix=exact.float().numpy(),
        cosine=cosine.clamp(-1.0, 1.0).float().numpy(),
        by_offset=_by_offset(cosine).float().numpy(),
        dot_by_offset=_by_offset(dots).float().numpy(),
        note=note,
    )


def _named_table(name: str, n: int, d_model: int, model: Model | None) -> PositionTable:
    if name == "model":
        if model is None:
            raise UserError("No model is open.", action="Open a model to see its own positions.")
        matrix, note, axes = own_matrix(n, model)
        return replace(encoding_table(name, matrix, note), axes=axes)
    scheme = POSITIONS.get(name)
    if scheme is None or not scheme.page_title:
        raise UserError(f"There is no positional encoding {name!r}.", expected=", ".join(NAMES))
    return encoding_table(name, *scheme.page_matrix(n, d_model))


def _by_offset(pairs: Tensor) -> Tensor:
    """Mean of each diagonal over the pairs that have a number; NaN where none has."""
    return torch.stack([pairs.diagonal(offset).nanmean() for offset in range(pairs.shape[0])])


def _check_size(what: str, n: int, most: int) -> None:
    if not 1 <= n <= most:
        raise UserError(
            f"{n} {what} cannot be shown.", expected=f"1 to {most:,}", action="Choose a number in that range."
        )
