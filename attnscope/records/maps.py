"""Attention at display size: one head in full, all heads of a site as thumbnails, measures, checks.

| symbol  | meaning                                     | shape                  |
|---------|---------------------------------------------|------------------------|
| weights | softmax of the scores; NaN = not allowed    | [n_queries, n_keys]    |
| levels  | weights as bytes; 0 = not allowed           | [n_heads, rows, cols]  |
| peaks   | the weight that level 255 stands for        | [n_heads]              |
"""

import math
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.sites import HeadRef, Site
from attnscope.records.tokens import Token
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES


def within(error: float) -> str:
    """How near a number comes to another, for instance ` to 3e-06`; empty where they are the same."""
    return f" to {error:.0e}" if error else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """Whether a trace can be believed, with the numbers behind it.

    `row_sum_error` is max |Σ_j a_ij − 1|; `forbidden_weight` the largest weight where the mask
    forbids; `output_error` max |weights·v − the model's own head output| over the checked sites. Of long
    maps `n_rows` of `n_all_rows` rows were checked, spread evenly. `is_empty`: the model has no attention,
    and so nothing was checked. `is_given`: the weights were given, not computed, and only their sums checked.
    `is_read`: they came from a file, and `output_error` is what the file says of itself.
    """

    row_sum_error: float
    forbidden_weight: float
    output_error: float
    is_evaluation_mode: bool
    n_rows: int = 0
    n_all_rows: int = 0
    tolerance: float = 1e-4
    is_empty: bool = False
    is_given: bool = False
    is_read: bool = False

    @property
    def worst(self) -> float:
        """The largest of the three numbers."""
        return max(self.row_sum_error, self.forbidden_weight, self.output_error)

    @property
    def is_good(self) -> bool:
        """Whether every number is within tolerance."""
        return self.is_evaluation_mode and self.worst <= self.tolerance

    @property
    def badge(self) -> str:
        """The verdict in as few words as a picture has room for."""
        if self.is_empty:
            return "no attention"
        if self.is_given:
            return "✓ rows sum to 1" if self.is_good else f"⚠ rows off by {self.row_sum_error:.2g}"
        if self.is_good:
            return "✓ rows sum to 1" if self.is_read else f"✓ exact{within(self.output_error)}"
        if not self.is_evaluation_mode:
            return "⚠ training mode"
        if math.isinf(self.row_sum_error):
            return "⚠ weights not finite"
        if self.row_sum_error > self.tolerance:
            return f"⚠ rows off by {self.row_sum_error:.2g}"
        return f"⚠ off by {self.worst:.0e}"

    @property
    def sentence(self) -> str:
        if self.is_empty:
            return "the model has no attention: there is nothing to check"
        if self.is_given:
            sums = "sum to 1" if self.is_good else f"do not sum to 1: off by {self.row_sum_error:.2g}"
            return f"rows {sums} · the weights were given, so that nothing else could be checked"
        if self.is_good and self.is_read:
            return f"rows sum to 1 · its file says: exact{within(self.output_error)} when it was recorded"
        if self.is_good:
            return f"rows sum to 1 · exact{within(self.output_error)}"
        if not self.is_evaluation_mode:
            return "the model was in training mode: dropout makes these weights wrong"
        if math.isinf(self.row_sum_error):
            return "weights that are not finite: NaN or infinite"
        return (
            f"row sums off by {self.row_sum_error:.0e}, a weight not allowed {self.forbidden_weight:.0e}, "
            f"output off by {self.output_error:.0e}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadMap:
    """The weights of one head; rows are queries, columns are keys, NaN where the mask forbids.

    A map that was made of others says so: `name` is what it is instead of one head, `note` what was taken
    away, and infinite cells were left out. `full` is where a fixed scale ends. `check` is the self-check of
    the head's site. A map `is_partial` that holds strong weights alone: its other cells are NaN whatever the
    mask allows. `following` is what is written at the last row, where rows write; None once the rows are
    called after it.
    """

    head: HeadRef
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    weights: NDArray[np.float32]
    name: str = ""
    note: str = ""
    full: float = 1.0
    check: SelfCheck | None = None
    is_partial: bool = False
    following: Token | None = None

    def __post_init__(self) -> None:
        weights = frozen_array(self.weights, dtype=np.float32, rank=2, name="weights")
        if weights.shape != (len(self.queries), len(self.keys)):
            raise ValueError(f"shape {weights.shape}: {len(self.queries)} queries, {len(self.keys)} keys")
        object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteGrid:
    """Thumbnails of all heads of one site, as bytes relative to each head's largest weight.

    Level 0 means not allowed (or no data); level 1 + 254·w/peak stands for the weight w. When a map
    has more cells than the thumbnail, each level is the *maximum* over its cells (`is_pooled`). Of a
    very long map the first thumbnails are `is_sampled`: the maximum over a few of the cells only. So are
    those whose bytes hold little of what is shown, after a sink was left out.
    `left_out` marks the cells of level 0 that are not shown although they are allowed, in the shape of
    `levels`; None: there are none.
    """

    site: Site
    n_queries: int
    n_keys: int
    levels: NDArray[np.uint8]
    peaks: NDArray[np.float32]
    is_sampled: bool = False
    left_out: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        levels = frozen_array(self.levels, dtype=np.uint8, rank=3, name="levels")
        peaks = frozen_array(self.peaks, dtype=np.float32, rank=1, name="peaks")
        if not len(levels) == len(peaks) == self.site.n_heads:
            raise ValueError(f"{len(levels)} thumbnails, {len(peaks)} peaks for {self.site.n_heads} heads")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "peaks", peaks)
        if self.left_out is not None:
            left_out = frozen_array(self.left_out, dtype=np.bool_, rank=3, name="left_out")
            if left_out.shape != levels.shape:
                raise ValueError(f"left_out is {left_out.shape}, the thumbnails are {levels.shape}")
            object.__setattr__(self, "left_out", left_out)

    @property
    def is_pooled(self) -> bool:
        """Whether a level stands for more than one cell."""
        return self.levels.shape[1:] != (self.n_queries, self.n_keys)


_OF_HEAD = """What one head did on one text: a number for each of `TEXT_MEASURES`, NaN where none applies.

Of very long maps only `n_rows` of `n_all_rows` rows were read for some of them (0: all of them), which are
estimates then; their standard errors stand in fields of their names and `_error`, 0 elsewhere.
"""
_FIELDS: list[tuple[str, type] | tuple[str, type, int | float]] = [
    ("head", HeadRef),
    *((name, float, math.nan) for name in TEXT_MEASURES),
    *((f"{name}_error", float, 0.0) for name in ESTIMATED),
    ("n_rows", int, 0),
    ("n_all_rows", int, 0),
]


def _told(measures: "HeadMeasures") -> dict[str, object]:
    """Stack, layer, head and every number by its name: a row for `pandas.DataFrame`."""
    head = measures.head
    numbers = {name: getattr(measures, name) for name, *_ in _FIELDS[1:]}
    return {"stack": head.stack, "layer": head.layer, "head": head.head, **numbers}


if TYPE_CHECKING:

    @dataclass(frozen=True, kw_only=True)
    class HeadMeasures:
        """What one head did on one text; its numbers have the names of `TEXT_MEASURES`."""

        head: HeadRef
        n_rows: int
        n_all_rows: int

        def __init__(
            self, *, head: HeadRef, n_rows: int = 0, n_all_rows: int = 0, **numbers: float
        ) -> None: ...

        def __getattr__(self, name: str) -> float: ...

        def to_dict(self) -> dict[str, object]: ...

else:
    HeadMeasures = make_dataclass(
        "HeadMeasures",
        _FIELDS,
        namespace={"__doc__": _OF_HEAD, "__module__": __name__, "to_dict": _told},
        frozen=True,
        slots=True,
        kw_only=True,
    )
