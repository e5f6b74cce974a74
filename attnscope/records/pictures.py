"""The picture that a vision model reads, and how its tokens lie on it.

| symbol | meaning                                    | shape                 |
|--------|--------------------------------------------|-----------------------|
| pixels | colours as the model sees them, cut to size | [height, width, 3]   |
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.requests import Reply, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of `n_rows` × `n_columns` patches; `n_first` special tokens stand before them.

    `text` is the path it was read from.
    """

    text: str
    pixels: NDArray[np.uint8]
    n_rows: int
    n_columns: int
    n_first: int

    def __post_init__(self) -> None:
        pixels = frozen_array(self.pixels, dtype=np.uint8, rank=3, name="pixels")
        if pixels.shape[2] != 3 or min(*pixels.shape, self.n_rows, self.n_columns) < 1 or self.n_first < 0:
            raise ValueError(f"pixels {pixels.shape} for {self.n_rows} × {self.n_columns} patches")
        object.__setattr__(self, "pixels", pixels)

    @property
    def n_tokens(self) -> int:
        """All tokens, special ones and patches."""
        return self.n_first + self.n_rows * self.n_columns

    def place(self, token: int) -> tuple[int, int] | None:
        """Row and column of the patch that a token is; None for a special one."""
        patch = token - self.n_first
        return divmod(patch, self.n_columns) if patch >= 0 else None

    def token(self, row: int, column: int) -> int:
        return self.n_first + row * self.n_columns + column


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPicture(Request):
    """Give the picture whose path is `text`, as the open model sees it. Newest wins."""

    is_view = True
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureShown(Reply):
    """The picture a ShowPicture asked for."""

    picture: Picture
