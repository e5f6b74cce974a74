"""Attention at display size: maps and thumbnails, the inside of one head on one query, two traces side
by side, positional encodings.

| symbol  | meaning                                     | shape                  |
|---------|---------------------------------------------|------------------------|
| weights | softmax of the scores; NaN = not allowed    | [n_queries, n_keys]    |
| levels  | weights as bytes; 0 = not allowed           | [n_heads, rows, cols]  |
| peaks   | the weight that level 255 stands for        | [n_heads]              |

The inside of one head on one query: every number from q and k to the head's output.

| symbol   | meaning                                                             | shape        |
|----------|---------------------------------------------------------------------|--------------|
| q        | the query                                                           | [d]          |
| k        | the shown keys                                                      | [n, d]       |
| products | what each dimension adds to `dot`: q ∘ k, or vector ∘ tanh(q + k)   | [n, d]       |
| dot      | Σ products                                                          | [n]          |
| scaled   | scale · dot                                                         | [n]          |
| logged   | ln(scaled), of kernel scores only                                   | [n] or None  |
| capped   | softcap · tanh(scaled / softcap), where the model caps              | [n] or None  |
| bias     | what is added then, where the model adds a bias                     | [n] or None  |
| score    | what the softmax reads; −∞ where the mask forbids                   | [n]          |
| weight   | exp(score − lse); NaN where the mask forbids                        | [n]          |
| v        | the values of the shown keys                                        | [n, d_value] |
| weighted | weight · v; 0 where the mask forbids                                | [n, d_value] |
| output   | Σ weight · v over all keys, recomputed                              | [d_value]    |

n shown keys of `n_keys`: all of them, or the strongest (`rest_weight` says what the others take).

Two traces side by side: which token of one is which of the other, and how far their weights lie apart.

| symbol  | meaning                                                    | shape                |
|---------|------------------------------------------------------------|----------------------|
| slot    | a place on an axis that both sides share; holds a token of one side or of both | number |
| Δ       | weight of B − weight of A; NaN where not both allow it     | [row slots, col slots] |
| kinds   | who allows a cell: BOTH, NEITHER, ONLY_A, ONLY_B, NOWHERE  | [row slots, col slots] |
| levels  | 0 no number, 128 + 127 · Δ / peak otherwise                | [n_heads, rows, cols]|

Of the picture that a vision model reads, and how its tokens lie on it: `pixels`, colours as the model sees
them, cut to size [height, width, 3].
"""

import math
from dataclasses import asdict, dataclass, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records import freeze
from attnscope.records.interventions import Interventions
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Rows, Site, Stack, row_labels
from attnscope.records.tokens import Token
from attnscope.schemes.measures import ESTIMATED, TEXT_MEASURES
from attnscope.schemes.scores import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of `n_rows` × `n_columns` patches, preceded by `n_first` special tokens.

    `text` is the path it was read from.
    """

    text: str
    pixels: NDArray[np.uint8]
    n_rows: int
    n_columns: int
    n_first: int

    def __post_init__(self) -> None:
        freeze(self, "pixels", dtype=np.uint8, rank=3)
        pixels = self.pixels
        if pixels.shape[2] != 3 or min(*pixels.shape, self.n_rows, self.n_columns) < 1 or self.n_first < 0:
            raise ValueError(f"pixels {pixels.shape} for {self.n_rows} × {self.n_columns} patches")

    @property
    def n_tokens(self) -> int:
        """All tokens, special ones and patches."""
        return self.n_first + self.n_rows * self.n_columns

    def place(self, token: int) -> tuple[int, int] | None:
        """Row and column of a token's patch; None for a special token."""
        patch = token - self.n_first
        return divmod(patch, self.n_columns) if patch >= 0 else None

    def token(self, row: int, column: int) -> int:
        return self.n_first + row * self.n_columns + column


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPicture(Request):
    """Ask for the picture whose path is `text`, as the open model sees it. Newest wins."""

    is_view = True
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureShown(Reply):
    """Reply to ShowPicture."""

    picture: Picture


def within(error: float) -> str:
    """Distance of two numbers, for instance ` to 3e-06`; empty if they are equal."""
    return f" to {error:.0e}" if error else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """Whether a trace can be trusted, with the numbers behind it.

    `row_sum_error` is max |Σ_j a_ij − 1|; `forbidden_weight` the largest weight where the mask
    forbids; `output_error` max |weights·v − the model's own head output| over the checked sites. Of long
    maps `n_rows` of `n_all_rows` rows were checked, spread evenly. `is_empty`: the model has no attention,
    and so nothing was checked. `is_given`: the weights were given, not computed, and only their sums checked.
    `is_read`: they came from a file, and `output_error` is what the file says of itself. `where` names the
    sites that are wrong, where there are others.
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
    where: str = ""

    @property
    def worst(self) -> float:
        """The largest of the three numbers."""
        return max(self.row_sum_error, self.forbidden_weight, self.output_error)

    @property
    def is_good(self) -> bool:
        """Whether every number is within tolerance."""
        return self.is_evaluation_mode and self.worst <= self.tolerance

    def to_dict(self) -> dict[str, object]:
        """All of it, for JSON; `where` only if something is wrong."""
        return {name: value for name, value in asdict(self).items() if name != "where" or value}

    @property
    def badge(self) -> str:
        """The verdict in a few words, for a picture."""
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
        """The verdict, and the faults of which layers."""
        return f"{self.where}: {self._verdict}" if self.where else self._verdict

    @property
    def _verdict(self) -> str:
        if self.is_empty:
            return "the model has no attention: there is nothing to check"
        if self.is_given:
            if not self.is_good:
                return f"rows do not sum to 1: off by {self.row_sum_error:.2g}"
            return "rows sum to 1 · the weights were given, so that nothing else could be checked"
        if self.is_good and self.is_read:
            return f"rows sum to 1 · its file says: exact{within(self.output_error)} when it was recorded"
        if self.is_good:
            return f"rows sum to 1 · exact{within(self.output_error)}"
        if not self.is_evaluation_mode:
            return "the model was in training mode: dropout makes these weights wrong"
        if math.isinf(self.row_sum_error):
            return "weights that are not finite: NaN or infinite"
        numbers = (
            ("row sums off by", self.row_sum_error),
            ("a weight not allowed", self.forbidden_weight),
            ("output off by", self.output_error),
        )
        return ", ".join(f"{what} {number:.0e}" for what, number in numbers if not number <= self.tolerance)


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
        freeze(self, "weights", dtype=np.float32, rank=2, shape=(len(self.queries), len(self.keys)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteGrid:
    """Thumbnails of all heads of one site, as bytes relative to each head's largest weight.

    Level 0 means not allowed (or no data); level 1 + 254·w/peak stands for the weight w. When a map
    has more cells than the thumbnail, each level is the *maximum* over its cells (`is_pooled`). Of a
    very long map the first thumbnails are `is_sampled`: the maximum over a few of the cells only. So are
    those whose bytes hold little of what is shown, after a sink was left out.
    `left_out` marks the cells of level 0 that are not shown although they are allowed, in the shape of
    `levels`; None: there are none. `check` is the self-check of a site that is wrong; None: it is good.
    """

    site: Site
    n_queries: int
    n_keys: int
    levels: NDArray[np.uint8]
    peaks: NDArray[np.float32]
    is_sampled: bool = False
    left_out: NDArray[np.bool_] | None = None
    check: SelfCheck | None = None

    def __post_init__(self) -> None:
        freeze(self, "levels", dtype=np.uint8, rank=3)
        freeze(self, "peaks", dtype=np.float32, rank=1)
        freeze(self, "left_out", dtype=np.bool_, rank=3, shape=self.levels.shape)
        n_levels, n_peaks = len(self.levels), len(self.peaks)
        if not n_levels == n_peaks == self.site.n_heads:
            raise ValueError(f"{n_levels} thumbnails, {n_peaks} peaks for {self.site.n_heads} heads")

    @property
    def is_pooled(self) -> bool:
        """Whether a level covers more than one cell."""
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
        """Measures of one head on one text; its numbers have the names of `TEXT_MEASURES`."""

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


Floats = NDArray[np.float32]
MAX_KEYS = 64
"""Texts with more keys show their strongest only."""
N_STRONGEST = 48
TOLERANCE = 1e-4

_VECTORS = ("q", "output", "own_output")
_PER_KEY = ("dot", "scaled", "score", "weight", "value_norms")
_MAYBE_PER_KEY = ("logged", "capped", "bias")
_PER_DIMENSION = ("k", "products", "v", "weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadInside:
    """One head on one query; see the module's legend.

    `keys` are the places of the shown keys in the text, ascending; the mask allows `n_allowed` of all
    keys. `comparison` is how q and k are compared (`nn/scores.py`). `sink` is a logit that takes weight and
    gives no value. `own_output` is what the model itself computed, before the `gate`. `output_error` is
    max |output − own_output|, `row_sum_error` |Σ weight + sink's weight − 1|; 0 for a query that sees no key.
    `written` is what is written at the query, where rows write; None once the query is called after it.
    """

    head: HeadRef
    query: int
    n_queries: int
    query_token: Token
    n_keys: int
    n_allowed: int
    keys: tuple[int, ...]
    key_tokens: tuple[Token, ...]
    comparison: Comparison
    scale: float
    lse: float
    q: Floats
    k: Floats
    products: Floats
    dot: Floats
    scaled: Floats
    score: Floats
    weight: Floats
    v: Floats
    value_norms: Floats
    weighted: Floats
    output: Floats
    own_output: Floats
    output_error: float
    row_sum_error: float
    softcap: float | None = None
    sink: float | None = None
    gate: float = 1.0
    logged: Floats | None = None
    capped: Floats | None = None
    bias: Floats | None = None
    rest_weight: float = 0.0
    written: Token | None = None

    def __post_init__(self) -> None:
        n = len(self.keys)
        if len(self.key_tokens) != n:
            raise ValueError(f"{n} keys, {len(self.key_tokens)} tokens")
        for names, rank in ((_VECTORS, 1), (_PER_KEY, 1), (_MAYBE_PER_KEY, 1), (_PER_DIMENSION, 2)):
            freeze(self, *names, dtype=np.float32, rank=rank)
            for name in () if names is _VECTORS else names:
                values = getattr(self, name)
                if values is not None and len(values) != n:
                    raise ValueError(f"{name} has {len(values)} rows, expected one for each of {n} keys")
        if not self.q.shape == self.k.shape[1:] == self.products.shape[1:]:
            raise ValueError(f"q is {self.q.shape}, k {self.k.shape}, the products {self.products.shape}")
        if not self.output.shape == self.own_output.shape == self.v.shape[1:] == self.weighted.shape[1:]:
            raise ValueError(f"the output is {self.output.shape}, v {self.v.shape}")

    def called_after(self, rows: Rows) -> "HeadInside":
        """The same with its query named as rows of maps are; see `row_labels`."""
        (token,) = row_labels((self.query_token,), self.written, rows)
        return self if token is self.query_token else replace(self, query_token=token, written=None)

    @property
    def n_rest(self) -> int:
        return self.n_keys - len(self.keys)

    @property
    def is_blind(self) -> bool:
        """Whether the mask hides every key from the query."""
        return self.lse == -math.inf

    @property
    def sink_weight(self) -> float:
        """The weight that the sink takes, 0 without one."""
        return 0.0 if self.sink is None or self.is_blind else math.exp(self.sink - self.lse)

    @property
    def is_exact(self) -> bool:
        """Whether the recomputed output is the model's own, within the tolerance of the self-check."""
        return bool(max(self.output_error, self.row_sum_error) <= TOLERANCE)

    def is_allowed(self, row: int) -> bool:
        """Whether the mask lets the query see the key in a row."""
        return bool(self.score[row] > -math.inf)

    def strongest(self) -> int | None:
        """The row of the key with the largest weight; None if the mask hides all."""
        seen = np.nan_to_num(self.weight, nan=-1.0)
        return int(seen.argmax()) if seen.size and seen.max() >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowInside(Request):
    """Look inside one head of the open model on one query of a text. Newest wins.

    `target` None lets a sequence-to-sequence model write its own.
    """

    is_view = True
    needs_model = "Looking inside a head"
    head: HeadRef
    query: int
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    past_trained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideShown(Reply):
    """Reply to ShowInside."""

    inside: HeadInside


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
    """Alignment of the queries and keys of one stack of A with those of a stack of B."""

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
            freeze(self, name, dtype=dtype, rank=rank)
            if len(getattr(self, name)) != len(self.heads):
                raise ValueError(f"{len(getattr(self, name))} {name} for {len(self.heads)} heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesCompared(Reply):
    """Reply to CompareTraces.

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
    """Δ = second − first and which side allows each cell, both from `on_slots`."""
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
    """The mean of |Δ| over the cells that both sides allow; NaN if there is none."""
    sizes = np.abs(delta[np.isfinite(delta)], dtype=np.float64)
    return float(sizes.mean()) if sizes.size else float("nan")


def moved_of(delta: NDArray[np.float32]) -> float:
    """The mean over queries of ½ Σ_j |Δ_ij|, over the cells both sides allow; NaN if there is none.

    Of two rows that sum to 1 this is their total variation distance, 0…1.
    """
    is_shared = np.isfinite(delta)
    rows = is_shared.any(axis=1)
    if not rows.any():
        return float("nan")
    sizes = np.where(is_shared, np.abs(delta), 0.0).sum(axis=1, dtype=np.float64)
    return float(sizes[rows].mean() / 2)


def peak_of(delta: NDArray[np.float32]) -> float:
    """The largest |Δ|; 0 if there is none."""
    finite = delta[np.isfinite(delta)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def pooled_difference(delta: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Δ in at most `size` (height, width) cells, each showing its largest |Δ|; NaN: none."""
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
    """Δ as bytes around 128, relative to `peak`; 0 for a missing number."""
    shares = np.nan_to_num(delta / np.float32(peak if peak > 0 else 1.0), nan=0.0)
    levels: NDArray[np.uint8] = np.rint(128 + 127 * np.clip(shares, -1.0, 1.0)).astype(np.uint8)
    levels[~np.isfinite(delta)] = 0
    return levels


_WORDS = ("name", "note", "axes", "formula", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTable:
    """One positional encoding: its matrix and the similarity of its positions.

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
        for name in self.arrays():
            freeze(self, name, dtype=np.float32, rank=1 if name.endswith("by_offset") else 2)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        return {kind.name: getattr(self, kind.name) for kind in fields(self) if kind.name not in _WORDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionCheck:
    """Requirements for a positional encoding, measured for one scheme in a small untrained encoder.

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
        freeze(self, "shift", dtype=np.float32, rank=2)
