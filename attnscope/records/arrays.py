"""Making the arrays inside records read-only, with their rank checked once."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def frozen_array(values: object, *, dtype: DTypeLike, rank: int, name: str) -> NDArray[Any]:
    """Return `values` as a contiguous read-only array of the given dtype and rank.

    A writable array that is passed in is copied, so that nobody can change a record from outside.
    Raises ValueError when the rank differs.
    """
    array = np.asarray(values, dtype=dtype)
    if array.ndim != rank:
        raise ValueError(f"{name} must have {rank} axes, found {array.ndim} (shape {array.shape})")
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, dtype=dtype, order="C", copy=True)
        array.flags.writeable = False
    return array


def freeze(record: object, name: str, *, dtype: DTypeLike, rank: int) -> None:
    """Let a field of a frozen record hold such an array; a field without one stays without."""
    values = getattr(record, name)
    if values is not None:
        object.__setattr__(record, name, frozen_array(values, dtype=dtype, rank=rank, name=name))
