"""A small map of numbers with named rows and columns: masks, weights and outputs of the labs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array

CellKind = Literal["weights", "signed", "kinds", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMap:
    """`values` [n_rows, n_columns] and what they are; NaN is not allowed by a mask.

    `weights` run from 0 to `limit`, `signed` from −limit to limit, `steps` from 1 to `limit`; `kinds` are
    numbers from 1 whose names are in `legend`. Without names rows and columns are numbered. `weights` and
    `signed` may lie over a picture, `backdrop` uint8 [height, width, 3].
    """

    title: str
    values: NDArray[np.float64]
    kind: CellKind = "weights"
    limit: float = 1.0
    note: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    row_title: str = "query"
    column_title: str = "key"
    legend: tuple[str, ...] = ()
    has_numbers: bool = False
    backdrop: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        values = frozen_array(self.values, dtype=np.float64, rank=2, name="values")
        object.__setattr__(self, "values", values)
        for names, n in ((self.rows, values.shape[0]), (self.columns, values.shape[1])):
            if names and len(names) != n:
                raise ValueError(f"{len(names)} names for {n} rows or columns")

    def row_name(self, i: int) -> str:
        """What row `i` is called."""
        return self.rows[i] if self.rows else str(i)

    def column_name(self, j: int) -> str:
        """What column `j` is called."""
        return self.columns[j] if self.columns else str(j)
