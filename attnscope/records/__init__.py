"""The frozen records that travel between the parts of AttnScope.

Everything here is plain Python and numpy: no Qt, no torch. Arrays in records are read-only.
"""

from typing import TYPE_CHECKING, Any

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from attnscope.records.causes import *
    from attnscope.records.charts import *
    from attnscope.records.experiments import *
    from attnscope.records.findings import *
    from attnscope.records.importance import *
    from attnscope.records.interventions import *
    from attnscope.records.maps import *
    from attnscope.records.measures import *
    from attnscope.records.messages import *
    from attnscope.records.models import *
    from attnscope.records.modifications import D_FF, GROUPS, MODIFICATIONS, of_group
    from attnscope.records.outputs import *
    from attnscope.records.plans import *
    from attnscope.records.requests import Reply, Request, StopWork
    from attnscope.records.runs import *
    from attnscope.records.sites import *
    from attnscope.records.tiles import *
    from attnscope.records.tokenizers import *
    from attnscope.records.tokens import Token, Tokens, own_letters, told_apart
else:
    __getattr__, __dir__ = door_of(__name__)


def frozen_array(values: object, *, dtype: "DTypeLike", rank: int, name: str) -> "NDArray[Any]":
    """Return `values` as a contiguous read-only array of the given dtype and rank.

    A writable array that is passed in is copied, so that nobody can change a record from outside.
    Raises ValueError when the rank differs.
    """
    import numpy as np  # the package itself is read by those who need no arrays

    array = np.asarray(values, dtype=dtype)
    if array.ndim != rank:
        raise ValueError(f"{name} must have {rank} axes, found {array.ndim} (shape {array.shape})")
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, dtype=dtype, order="C", copy=True)
        array.flags.writeable = False
    return array


def freeze(
    record: object, *names: str, dtype: "DTypeLike", rank: int, shape: tuple[int, ...] | None = None
) -> None:
    """Convert fields of a frozen record to such arrays; a field that is None stays None.

    Raises ValueError when the rank differs, or the shape where one is given.
    """
    for name in names:
        values = getattr(record, name)
        if values is None:
            continue
        array = frozen_array(values, dtype=dtype, rank=rank, name=name)
        if shape is not None and array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape}, expected {shape}")
        object.__setattr__(record, name, array)
