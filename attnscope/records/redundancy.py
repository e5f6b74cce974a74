"""Which heads do the same, and what a head's weights alone say about it.

| symbol      | meaning                                                      | shape             |
|-------------|--------------------------------------------------------------|-------------------|
| divergences | Jensen–Shannon divergence, mean over queries, nats           | [n_heads, n_heads]|
| single      | singular values of each head's W_Q W_Kᵀ (W_V W_O), falling   | [n_heads, d_head] |
| stacked     | singular values of all heads' together, falling              | [n_values]        |

The weights of one head are asked for, under way, and shown as far as they are known.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import HeadRef, Site, Stack
from attnscope.records.tokens import Token

CircuitKind = Literal["ov", "qk"]

_BYTES = re.compile("⟨(?:[0-9A-F]{2}|[0-9]/[0-9])⟩|\ufffd")
"""How pieces write bytes that are no character, or a part of one; what could not be read at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPairs:
    """How alike the heads of one stack attend: 0 for two that attend alike, at most ln 2."""

    stack: Stack
    heads: tuple[HeadRef, ...]
    divergences: NDArray[np.float64]
    n_queries: int
    n_texts: int

    def __post_init__(self) -> None:
        array = frozen_array(self.divergences, dtype=np.float64, rank=2, name="divergences")
        object.__setattr__(self, "divergences", array)
        if self.divergences.shape != (len(self.heads), len(self.heads)):
            raise ValueError(f"{len(self.heads)} heads, divergences {self.divergences.shape}")


PairsSource = Literal["shown", "own", "samples", "file"]
"""The text that is shown, or texts as pruning curves take them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareHeads(Request):
    """Find which heads of one stack of the open model attend alike.

    `shown` takes the trace of that number. The pass runs in the background; a new one ends it.
    """

    stack: Stack
    source: PairsSource = "shown"
    path: str = ""
    max_texts: int = 100
    trace: int = 0

    @property
    def beyond_recordings(self) -> str:
        """What it asks that only a running model can do."""
        return "" if self.source == "shown" else "Comparing heads over other texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingNews(CountedNews):
    """How many texts of how many were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsCompared(Reply):
    """How alike the heads are; `texts` says what the texts were."""

    pairs: HeadPairs
    texts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpectrum:
    """Singular values of the query-key (or output-value) products of one site."""

    site: Site
    single: NDArray[np.float64]
    stacked: NDArray[np.float64]
    kind: CircuitKind = "qk"

    def __post_init__(self) -> None:
        for name, rank in (("single", 2), ("stacked", 1)):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=rank, name=name)
            object.__setattr__(self, name, array)

    def stacked_energy(self) -> NDArray[np.float64]:
        """The share of Σσ² in the largest 1, 2, 3 … values of all heads together."""
        return _energy(self.stacked)

    def single_energy(self) -> NDArray[np.float64]:
        """The same for each head alone, [n_heads, d_head]."""
        return _energy(self.single)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """Two tokens and what a head's weights make of them.

    `ov`: attending to `first` raises the logit of `second` by `value` (before the last norm's scale);
    `qk`: the query `first` scores the key `second` by `value`.
    """

    first: Token
    second: Token
    value: float

    @property
    def is_text(self) -> bool:
        """Whether both pieces can be read: none of them bytes of no character, or a control sign."""
        pieces = (self.first.piece, self.second.piece)
        return all(piece.isprintable() and not _BYTES.search(piece) for piece in pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCircuit:
    """The strongest token pairs of a head's OV or QK matrix, strongest first, and the weakest.

    `sameness` is Σ Re λ / Σ |λ| of the matrix between tokens: near 1 the head copies (`ov`) or looks for
    tokens like the query (`qk`), near −1 the opposite.
    """

    head: HeadRef
    kind: CircuitKind
    largest: tuple[TokenPair, ...]
    smallest: tuple[TokenPair, ...]
    sameness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseCurve:
    """‖res(X)‖/‖X‖ of the stream: of the input, then after each layer."""

    stack: Stack
    has_skips: bool
    has_feed_forward: bool
    ratios: tuple[float, ...]

    @property
    def label(self) -> str:
        skips = "with skips" if self.has_skips else "no skips"
        return f"{skips}, {'with' if self.has_feed_forward else 'no'} feed-forward"


def _energy(values: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = np.cumsum(values**2, axis=-1)
    total = squares[..., -1:]
    shares: NDArray[np.float64] = squares / np.where(total > 0, total, 1.0)
    return shares


N_PAIRS = 30
"""Token pairs of each end of a list, unless another number is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPart:
    """One of a head's two products (`ov`, `qk`): its token pairs and singular values.

    What cannot be had, or is not there yet, is None; `refusal` says why the pairs and `no_spectrum` why the
    singular values cannot be had.
    """

    kind: CircuitKind
    circuit: HeadCircuit | None = None
    spectrum: SiteSpectrum | None = None
    refusal: str = ""
    no_spectrum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadWeightsFound:
    """Both products of one head, as far as they are known."""

    head: HeadRef
    parts: tuple[WeightPart, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing more is to come."""
        return len(self.parts) == 2 and all(part.circuit or part.refusal for part in self.parts)

    def part(self, kind: CircuitKind) -> WeightPart:
        """One of the products; an empty one while nothing is known of it."""
        return next((part for part in self.parts if part.kind == kind), WeightPart(kind=kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowWeights(Request):
    """What the weights of one head of the open model say. Runs in the background; a new one ends it."""

    needs_model = "Reading a head's weights"
    head: HeadRef
    top: int = N_PAIRS


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsNews(CountedNews):
    """How many rows of how many between tokens are done, and of which product."""

    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShown(Reply):
    """What is known so far; comes again as more is, the last time with all that can be."""

    found: HeadWeightsFound
