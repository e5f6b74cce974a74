"""Positional encodings at display size."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array

_WORDS = ("name", "note", "axes", "formula", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTable:
    """One positional encoding: its matrix and how alike its positions are.

    `matrix` [n_positions, d_model]; `cosine` [n_positions, n_positions] in −1…1; `by_offset` and
    `dot_by_offset` [n_positions]: mean cosine and mean dot product of all pairs at offset 0, 1, ….
    For rotary encodings the matrix holds the rotation of a fixed unit vector; `note` says so. `axes` are what
    its columns and rows are: of biases by distance (T5, ALiBi) heads and tokens back. `formula` and `source`
    are those of its scheme, several formulas joined by a comma and three spaces.
    """

    name: str
    matrix: NDArray[np.float32]
    cosine: NDArray[np.float32]
    by_offset: NDArray[np.float32]
    dot_by_offset: NDArray[np.float32]
    note: str = ""
    axes: tuple[str, str] = ("dimension", "position")
    formula: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for name, values in self.arrays().items():
            rank = 1 if name.endswith("by_offset") else 2
            array = frozen_array(values, dtype=np.float32, rank=rank, name=name)
            object.__setattr__(self, name, array)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        return {kind.name: getattr(self, kind.name) for kind in fields(self) if kind.name not in _WORDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionCheck:
    """What a good way of telling positions is asked for, measured of one scheme in a small untrained encoder.

    The scores are those of a text of one token repeated, so that nothing but positions can make them differ.
    `seed_change` is how far they are apart, in nats, when what positions learn begins with another seed, 0
    where the scheme is the same each time; `least_apart` the distance of the two most similar rows of scores,
    0 where two positions cannot be told apart; `past_change` how far a text twice as long as the trained ones
    moves the scores that were there, NaN where it cannot be read; `by_distance` the share of their variance
    that the distance alone explains, NaN where they have none. `shift_error` is the error of the best matrix
    A with PE(t + 1) = A PE(t), fitted to half of the positions and measured on the others, as a share of
    their length, and `shift` [2, 2] the part of A for the first wave; NaN where there are no such vectors.
    """

    name: str
    title: str
    seed_change: float
    least_apart: float
    past_change: float
    by_distance: float
    shift_error: float
    shift: NDArray[np.float32]
    n_parameters: int
    formula: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        array = frozen_array(self.shift, dtype=np.float32, rank=2, name="shift")
        object.__setattr__(self, "shift", array)
