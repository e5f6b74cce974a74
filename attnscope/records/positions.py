"""Positional encodings at display size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTable:
    """One positional encoding: its matrix and how alike its positions are.

    `matrix` [n_positions, d_model]; `cosine` [n_positions, n_positions] in −1…1; `by_offset` and
    `dot_by_offset` [n_positions]: mean cosine and mean dot product of all pairs at offset 0, 1, ….
    For rotary encodings the matrix holds the rotation of a fixed unit vector; `note` says so. `axes` are what
    its columns and rows are: of biases by distance (T5, ALiBi) heads and tokens back.
    """

    name: str
    matrix: NDArray[np.float32]
    cosine: NDArray[np.float32]
    by_offset: NDArray[np.float32]
    dot_by_offset: NDArray[np.float32]
    note: str = ""
    axes: tuple[str, str] = ("dimension", "position")

    def __post_init__(self) -> None:
        for name, rank in (("matrix", 2), ("cosine", 2), ("by_offset", 1), ("dot_by_offset", 1)):
            array = frozen_array(getattr(self, name), dtype=np.float32, rank=rank, name=name)
            object.__setattr__(self, name, array)
