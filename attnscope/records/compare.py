"""Two traces side by side: which token of one is which of the other, and how far their weights lie apart.

| symbol  | meaning                                                    | shape                |
|---------|------------------------------------------------------------|----------------------|
| slot    | a place on an axis that both sides share; holds a token of one side or of both | number |
| Δ       | weight of B − weight of A; NaN where not both allow it     | [row slots, col slots] |
| kinds   | who allows a cell: BOTH, NEITHER, ONLY_A, ONLY_B, NOWHERE  | [row slots, col slots] |
| levels  | 0 no number, 128 + 127 · Δ / peak otherwise                | [n_heads, rows, cols]|
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import HeadRef, Stack

Which = Literal["A", "B"]
NO_TOKEN = -1
BOTH, NEITHER, ONLY_A, ONLY_B, NOWHERE = range(5)
"""Who allows a cell. NEITHER: a mask forbids it; NOWHERE: no side has both of its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAlignment:
    """Two texts on one axis: for each slot the index of A's token and of B's, NO_TOKEN for a gap.

    Each token of either side stands in exactly one slot, in order, and no slot is empty.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise ValueError(f"{len(self.first)} slots of A for {len(self.second)} of B")
        for name, side in (("A", self.first), ("B", self.second)):
            found = [i for i in side if i != NO_TOKEN]
            if found != list(range(len(found))):
                raise ValueError(f"the tokens of {name} are not in order, or not once each")
        if any(i == j == NO_TOKEN for i, j in zip(self.first, self.second, strict=True)):
            raise ValueError("a slot holds no token")

    def __len__(self) -> int:
        return len(self.first)

    def side(self, which: Which) -> tuple[int, ...]:
        """The index of one side's token in each slot."""
        return self.first if which == "A" else self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAlignment:
    """How the queries and the keys of one stack of A are aligned with those of a stack of B."""

    stack: Stack
    second_stack: Stack
    queries: TokenAlignment
    keys: TokenAlignment


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTraces(Request):
    """Compare the newest traces of two views, head by head. Newest wins.

    `first` and `second` are views with the numbers of the requests that made their traces; `answers`
    are pairs of predictions whose outputs are compared. Thumbnails have at most `thumbnail_px` cells a side.
    """

    is_view = True
    first: str
    second: str
    first_trace: int
    second_trace: int
    stacks: tuple[StackAlignment, ...]
    answers: tuple[tuple[int, int], ...] = ()
    thumbnail_px: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceGrid:
    """The heads of one site that both sides have: exact numbers, and thumbnails of Δ.

    `mean_abs` is the mean of |Δ| over the cells that both sides allow, `moved` the mean over queries of
    ½ Σ_j |Δ_ij|: the share of its weight that a query moves. Where a thumbnail pools cells,
    it shows the Δ of the largest size. `peaks` are the largest |Δ|.
    """

    heads: tuple[HeadRef, ...]
    n_queries: int
    n_keys: int
    levels: NDArray[np.uint8]
    peaks: NDArray[np.float32]
    mean_abs: NDArray[np.float64]
    moved: NDArray[np.float64]

    def __post_init__(self) -> None:
        shapes = (("levels", np.uint8, 3), ("peaks", np.float32, 1))
        for name, dtype, rank in (*shapes, ("mean_abs", np.float64, 1), ("moved", np.float64, 1)):
            array = frozen_array(getattr(self, name), dtype=dtype, rank=rank, name=name)
            if len(array) != len(self.heads):
                raise ValueError(f"{len(array)} {name} for {len(self.heads)} heads")
            object.__setattr__(self, name, array)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesCompared(Reply):
    """What a CompareTraces asked for.

    `kl_nats` holds KL(A ‖ B) in nats for each pair of answers, over the whole vocabulary; empty when
    the sides do not answer from one vocabulary. Sites that were too long to be held whole are `too_long`.
    """

    grids: tuple[DifferenceGrid, ...]
    only_first: tuple[HeadRef, ...] = ()
    only_second: tuple[HeadRef, ...] = ()
    kl_nats: tuple[float, ...] = ()
    has_one_vocabulary: bool = True
    too_long: tuple[HeadRef, ...] = ()


def on_slots(
    weights: NDArray[np.float32], queries: TokenAlignment, keys: TokenAlignment, which: Which
) -> NDArray[np.float32]:
    """The weights of one side on the shared axes: NaN where its mask forbids, ∞ where it has no token."""
    rows = np.asarray(queries.side(which), dtype=np.intp)
    cols = np.asarray(keys.side(which), dtype=np.intp)
    placed = np.full((len(rows), len(cols)), np.inf, dtype=np.float32)
    has_row, has_col = rows != NO_TOKEN, cols != NO_TOKEN
    placed[np.ix_(has_row, has_col)] = weights[np.ix_(rows[has_row], cols[has_col])]
    return placed


def difference(
    first: NDArray[np.float32], second: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Δ = second − first and who allows each cell, both from `on_slots`."""
    is_first, is_second = np.isfinite(first), np.isfinite(second)
    delta = np.full(first.shape, np.nan, dtype=np.float32)
    np.subtract(second, first, out=delta, where=is_first & is_second)
    kinds = np.full(first.shape, NEITHER, dtype=np.uint8)
    kinds[is_first & is_second] = BOTH
    kinds[is_first & ~is_second] = ONLY_A
    kinds[~is_first & is_second] = ONLY_B
    kinds[np.isinf(first) & np.isinf(second)] = NOWHERE
    return delta, kinds


def mean_abs_of(delta: NDArray[np.float32]) -> float:
    """The mean of |Δ| over the cells that both sides allow; NaN when there is none."""
    sizes = np.abs(delta[np.isfinite(delta)], dtype=np.float64)
    return float(sizes.mean()) if sizes.size else float("nan")


def moved_of(delta: NDArray[np.float32]) -> float:
    """The mean over queries of ½ Σ_j |Δ_ij|, over the cells both sides allow; NaN when there is none.

    Of two rows that sum to 1 this is their total variation distance, 0…1.
    """
    is_shared = np.isfinite(delta)
    rows = is_shared.any(axis=1)
    if not rows.any():
        return float("nan")
    sizes = np.where(is_shared, np.abs(delta), 0.0).sum(axis=1, dtype=np.float64)
    return float(sizes[rows].mean() / 2)


def peak_of(delta: NDArray[np.float32]) -> float:
    """The largest |Δ|; 0 when there is none."""
    finite = delta[np.isfinite(delta)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def pooled_difference(delta: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Δ in at most `size` (height, width) cells, each the Δ of the largest |Δ| it stands for; NaN: none."""
    n_rows, n_cols = delta.shape
    height, width = min(size[0], n_rows), min(size[1], n_cols)
    if (height, width) == delta.shape or not delta.size:
        return delta
    rows, cols = (np.arange(n) * m // n for n, m in ((height, n_rows), (width, n_cols)))
    is_shared = np.isfinite(delta)
    values = np.where(is_shared, delta, 0.0)
    most = np.maximum.reduceat(np.maximum.reduceat(values, rows, axis=0), cols, axis=1)
    least = np.minimum.reduceat(np.minimum.reduceat(values, rows, axis=0), cols, axis=1)
    has_number = np.logical_or.reduceat(np.logical_or.reduceat(is_shared, rows, axis=0), cols, axis=1)
    pooled = np.where(most >= -least, most, least).astype(np.float32)
    pooled[~has_number] = np.nan
    return pooled


def levels_of(delta: NDArray[np.float32], peak: float) -> NDArray[np.uint8]:
    """Δ as bytes around 128, relative to `peak`; 0 where there is no number."""
    shares = np.nan_to_num(delta / np.float32(peak if peak > 0 else 1.0), nan=0.0)
    levels: NDArray[np.uint8] = np.rint(128 + 127 * np.clip(shares, -1.0, 1.0)).astype(np.uint8)
    levels[~np.isfinite(delta)] = 0
    return levels
