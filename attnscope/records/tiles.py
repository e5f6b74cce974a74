"""Parts of maps that are too long to be held whole: tiles, single cells, strong edges; and requests for them.

| symbol  | meaning                                                       | shape              |
|---------|---------------------------------------------------------------|--------------------|
| b       | side of the block of cells that one level stands for; 1 exact | number             |
| levels  | 0 not allowed (or no data), 1 + 254 · weight / peak otherwise | [⌈rows/b⌉, ⌈cols/b⌉]|
| weights | the exact weights of a tile with b = 1; NaN = not allowed     | [rows, cols]       |

Requests have numbers; of each kind the newest wins. They name a trace by its model and by the number of
the request that made it, and are silently dropped when that trace is gone.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records import freeze
from attnscope.records.maps import SiteGrid
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import HeadRef
from attnscope.records.tokens import Token

MAX_WHOLE_CELLS = 1024 * 1024
"""A map with more cells is never held as one array of weights: it is shown by tiles."""

Part = tuple[int, int]
"""First and one past the last index of some rows or columns."""


def is_long(n_queries: int, n_keys: int) -> bool:
    """Whether a map of this size is shown by tiles."""
    return n_queries * n_keys > MAX_WHOLE_CELLS


@dataclass(frozen=True, slots=True, kw_only=True)
class LongMap:
    """Identifies a long map, with its tokens; it holds no weights.

    `trace` is the number of the request that made the trace of `model`. Until the pass has come to its layer
    it is not `is_known`.
    """

    model: str
    trace: int
    head: HeadRef
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTile:
    """Some rows and columns of one long map, in blocks of b × b cells.

    A sampled tile shows some of a block's weights, not the largest or the mean of all: a first picture.
    `head_peak` is the largest weight of the whole map as far as it is known, `row_peaks` [⌈rows/b⌉] the
    largest of each row of blocks over all keys, where that is known.
    """

    head: HeadRef
    trace: int
    rows: Part
    cols: Part
    b: int
    levels: NDArray[np.uint8]
    peak: float
    head_peak: float
    is_sampled: bool = False
    row_peaks: NDArray[np.float32] | None = None
    weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        shape = tuple(-(-(stop - start) // self.b) for start, stop in (self.rows, self.cols))
        freeze(self, "levels", dtype=np.uint8, rank=2, shape=shape)
        freeze(self, "row_peaks", dtype=np.float32, rank=1)
        freeze(self, "weights", dtype=np.float32, rank=2)

    @property
    def is_exact(self) -> bool:
        """Whether one level covers one cell."""
        return self.b == 1 and not self.is_sampled

    @property
    def sentence(self) -> str:
        """Meaning of one cell of the picture, in words."""
        if self.is_sampled:
            return f"sampled: some of each {self.b:,}×{self.b:,} cells"
        return "every cell" if self.b == 1 else f"max over {self.b:,}×{self.b:,} cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReading:
    """The largest weight of a rectangle and its position; `weight` None: all cells are forbidden."""

    rows: Part
    cols: Part
    query: int
    key: int
    weight: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrongEdges:
    """The strongest weights of several heads, weakest first: index into `heads`, query, key, weight [n].

    `n_all` counts all allowed cells; `hidden` is the share of the whole weight that is left out.
    """

    trace: int
    heads: tuple[HeadRef, ...]
    head_indices: NDArray[np.intp]
    queries: NDArray[np.intp]
    keys: NDArray[np.intp]
    weights: NDArray[np.float32]
    n_all: int
    hidden: float

    def __post_init__(self) -> None:
        freeze(self, "head_indices", "queries", "keys", dtype=np.intp, rank=1)
        freeze(self, "weights", dtype=np.float32, rank=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTile(Request):
    """Show some rows and columns of a long map in blocks of b × b cells (b a power of two).

    A rough tile may come first and the exact one later, under the same number. `slot` keeps apart what
    is looked at from the overview: in each slot the newest wins.
    """

    model: str
    trace: int
    head: HeadRef
    rows: Part
    cols: Part
    b: int
    slot: Literal["view", "overview"] = "view"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCell(Request):
    """Read the largest weight of a small rectangle, or of one cell."""

    model: str
    trace: int
    head: HeadRef
    rows: Part
    cols: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowEdges(Request):
    """Find the strongest weights of some heads of one site."""

    model: str
    trace: int
    heads: tuple[HeadRef, ...]
    n_edges: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class RefineGrids(Request):
    """Make exact thumbnails of every head of a trace when idle."""

    model: str
    trace: int
    thumbnail_px: int = 96


TileRequest = ShowTile | ReadCell | ShowEdges | RefineGrids


@dataclass(frozen=True, slots=True, kw_only=True)
class TileShown(Reply):
    """Reply to ShowTile; `fraction` is the progress of the exact one if this is a rough one."""

    slot: Literal["view", "overview"]
    tile: MapTile
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRead(Reply):
    """Reply to ReadCell."""

    trace: int
    head: HeadRef
    reading: CellReading


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgesShown(Reply):
    """Reply to ShowEdges."""

    edges: StrongEdges


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRefined(Reply):
    """One site's improved thumbnails; exact once the grid is no longer sampled."""

    model: str
    trace: int
    grid: SiteGrid


TileReply = TileShown | CellRead | EdgesShown | GridRefined
