"""Measures of heads over many texts: one number with its interval for each head and measure.

| symbol  | meaning                                              | shape                          |
|---------|------------------------------------------------------|--------------------------------|
| values  | mean over the texts; NaN = does not apply            | [n_heads, n_measures]          |
| low, high | interval over the texts, `interval_kind` says of what kind | [n_heads, n_measures]          |
| counts  | texts in which the measure applied                   | [n_heads, n_measures]          |
| offsets | rows of words whose largest weight lies at an offset | [n_heads, 2 · OFFSET_REACH + 3]|
| offset_shares | mean weight of rows of words at an offset      | [n_heads, 2 · OFFSET_REACH + 1]|

And what is said of a head after that: its roles in words, with the number and the texts behind each.

Which heads do the same, and what a head's weights alone say about it.

| symbol      | meaning                                                      | shape             |
|-------------|--------------------------------------------------------------|-------------------|
| divergences | Jensen–Shannon divergence, mean over queries, nats           | [n_heads, n_heads]|
| single      | singular values of each head's W_Q W_Kᵀ (W_V W_O), falling   | [n_heads, d_head] |
| stacked     | singular values of all heads' together, falling              | [n_values]        |

The weights of one head are asked for, under way, and shown as far as they are known.

Which 95 % interval a mean or a share over texts gets, and how that is said.
"""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.records import freeze
from attnscope.records.requests import CountedNews, Reply, Request
from attnscope.records.sites import HeadRef, Site, Stack
from attnscope.records.tokens import Token
from attnscope.schemes.measures import MEASURES, Measure

IntervalKind = Literal["none", "t", "bootstrap"]
LEVEL = 0.95
FEWEST, MANY = 5, 30


def interval_kind(n: int) -> IntervalKind:
    """The interval of a mean over `n` texts."""
    if n < FEWEST:
        return "none"
    return "t" if n < MANY else "bootstrap"


def interval_said(n: int, of: str = "text", *, level: float = LEVEL) -> str:
    """For instance `95 % t interval over 12 texts`."""
    kind = interval_kind(n)
    if kind == "none":
        return f"no interval: {plural(n, of)}, and {FEWEST} are needed"
    return f"{100 * level:g} % {kind} interval over {plural(n, of)}"


def intervals_said(n: int, of: str = "text", *, level: float = LEVEL) -> str:
    """Note on the intervals of a table over `n` texts, some of whose columns may apply to fewer."""
    kind = interval_kind(n)
    if kind == "none":
        return f"no intervals, for which {FEWEST} {of}s are needed"
    fewer = f"t below {MANY}, " if kind == "bootstrap" else ""
    return f"{100 * level:g} % {kind} intervals over {of}s ({fewer}none below {FEWEST})"


def with_interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """For instance `0.96 (0.95–0.97)`; the value alone without an interval, a dash without a value."""
    if value != value:
        return "–"
    interval = f" ({low:.{digits}f}–{high:.{digits}f})" if low == low else ""
    return f"{value:.{digits}f}{interval}"


@cache
def student_t(n_freedom: int, level: float = LEVEL) -> float:
    """The t such that a share `level` of Student's distribution lies between −t and t, for `n_freedom` from
    1.
    """
    low, high = 0.0, 1.0
    while _inside(high, n_freedom) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, n_freedom) < level else (low, middle)
    return high


def _inside(t: float, n_freedom: int) -> float:
    """Probability between −t and t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(n_freedom))
    cosine, is_odd = math.cos(angle), n_freedom % 2
    term, total = (cosine if is_odd else 1.0), 0.0
    for k in range(1 + is_odd, n_freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return (angle + math.sin(angle) * total) * 2 / math.pi if is_odd else math.sin(angle) * total


Z = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share or a difference of two, with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(n_right: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of n texts; n is 1 or more."""
    p, more = n_right / n, Z * Z / n
    half = Z * math.sqrt(p * (1 - p) / n + more / (4 * n))
    return max(0.0, (p + more / 2 - half) / (1 + more)), min(1.0, (p + more / 2 + half) / (1 + more))


def share_over_seeds(n_right: Sequence[int], n: int) -> Share:
    """Share of `n` texts answered correctly, `n_right` for each seed."""
    p = sum(n_right) / (n * len(n_right))
    low, high = wilson(sum(n_right), n * len(n_right))
    reach = _reach([count / n for count in n_right])
    return Share(value=p, low=max(0.0, min(low, p - reach)), high=min(1.0, max(high, p + reach)))


def difference_of(first: Sequence[int], n_first: int, second: Sequence[int], n_second: int) -> Share:
    """The first share minus the second; seed by seed, with equally many of each."""
    one, other = wilson(sum(first), n_first * len(first)), wilson(sum(second), n_second * len(second))
    ps = [a / n_first - b / n_second for a, b in zip(first, second, strict=True)]
    p1, p2 = sum(first) / (n_first * len(first)), sum(second) / (n_second * len(second))
    down, up = math.hypot(p1 - one[0], other[1] - p2), math.hypot(one[1] - p1, p2 - other[0])
    reach = _reach(ps)
    return Share(
        value=p1 - p2,
        low=max(-1.0, p1 - p2 - max(down, reach)),
        high=min(1.0, p1 - p2 + max(up, reach)),
    )


def has_sign(found: Share, sign: int) -> bool | None:
    """Whether a difference has a sign; None if its interval includes both."""
    if found.low <= 0.0 <= found.high:
        return None
    return (found.value > 0) == (sign > 0)


def _reach(values: Sequence[float]) -> float:
    """Half the width of the interval over seeds; 0 for a single one, which says nothing of others."""
    n = len(values)
    return student_t(n - 1) * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0


SpecialTokens = Literal["kept", "dropped", "renormalised"]
"""Special tokens stay in; their rows and columns are left out; or the rest of a row is made to sum to 1."""
SPECIAL_TOKENS: tuple[SpecialTokens, ...] = ("kept", "dropped", "renormalised")
SPECIALS_SAID: dict[SpecialTokens, str] = {
    "kept": "special tokens kept",
    "dropped": "special tokens left out, rows not renormalised",
    "renormalised": "special tokens left out, rows renormalised",
}
OFFSET_REACH = 8
"""Offsets further away than so many tokens are counted together at either end."""
N_TELLING = 3
"""So many sentences are remembered for each head and measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusMeasure:
    """One column of the table: its name in files, its display name, its unit and definition."""

    name: str
    title: str
    unit: str
    definition: str


CORPUS_MEASURES: tuple[CorpusMeasure, ...] = tuple(
    CorpusMeasure(name=one.name, title=one.title, unit=one.unit, definition=one.definition)
    for one in MEASURES.values()
)
"""Every measure of a head over texts, in the order of the table."""

MEASURE_NAMES: tuple[str, ...] = tuple(MEASURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over `n` texts, or over sentences or random rows `of`, with its interval; NaN for none."""

    value: float
    low: float
    high: float
    n: int
    of: str = "text"

    @property
    def kind(self) -> IntervalKind:
        return interval_kind(self.n) if self.low == self.low else "none"

    @property
    def least(self) -> float:
        """The lower end; for an event seen in every text, that of Clopper and Pearson (1934)."""
        if self.low == self.low or self.value != 1.0 or self.n < MANY:
            return self.low
        return float(((1 - LEVEL) / 2) ** (1 / self.n))

    @property
    def interval(self) -> str:
        """For instance `, 95 % t interval 0.95–0.97`; empty where there is none."""
        said = f", {100 * LEVEL:g} % {self.kind} interval {self.low:.2f}–{self.high:.2f}"
        return "" if self.kind == "none" else said

    @property
    def basis(self) -> str:
        """Basis of the number, for instance `95 % t interval over 12 texts`."""
        is_told = self.kind == "none" and self.n >= FEWEST  # a number that never has an interval
        return plural(self.n, self.of) if is_told else interval_said(self.n, self.of)

    @property
    def is_known(self) -> bool:
        """Whether there is a number."""
        return self.value == self.value

    @property
    def text(self) -> str:
        """For instance `0.96 (0.95–0.97)`; a dash if nothing applies."""
        if not self.is_known:
            return "–"
        return with_interval(self.value, self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusProgress:
    """Progress of a pass over texts; `n_total` counts the texts to be read, `what` is the current step."""

    n_done: int
    n_total: int
    what: str = ""

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        return self.n_done / self.n_total if self.n_total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTable:
    """Every head of a model in numbers over a corpus; columns are `names`, rows are `heads`.

    `telling` [n_heads, n_names, N_TELLING] are the numbers of the texts in which the measure was largest,
    −1 where there are fewer. `best_offsets` are the most frequent places of the largest weight, NaN between
    two texts. Intervals cover `level`; those over many texts come from `n_resamples` Poisson bootstraps.
    """

    model: str
    corpus: str
    heads: tuple[HeadRef, ...]
    names: tuple[str, ...]
    values: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    counts: NDArray[np.int32]
    offsets: NDArray[np.int32]
    best_offsets: NDArray[np.float32]
    offset_shares: NDArray[np.float32]
    telling: NDArray[np.int32]
    n_texts: int
    n_tokens: int
    n_cut: int = 0
    n_skipped: int = 0
    specials: SpecialTokens = "kept"
    level: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        shape = (len(self.heads), len(self.names))
        freeze(self, "values", "low", "high", dtype=np.float32, rank=2, shape=shape)
        freeze(self, "counts", dtype=np.int32, rank=2, shape=shape)
        freeze(self, "offsets", dtype=np.int32, rank=2)
        freeze(self, "telling", dtype=np.int32, rank=3)
        freeze(self, "best_offsets", dtype=np.float32, rank=1)
        freeze(self, "offset_shares", dtype=np.float32, rank=2)

    def estimate(self, head: HeadRef, name: str) -> Estimate:
        """One measure of one head; raises KeyError for a head or measure that is not in the table."""
        row, column = self._row(head), self._column(name)
        return Estimate(
            value=float(self.values[row, column]),
            low=float(self.low[row, column]),
            high=float(self.high[row, column]),
            n=int(self.counts[row, column]),
            of=MEASURES[name].of if name in MEASURES else Measure.of,
        )

    def heaviest_offset(self, head: HeadRef) -> int | None:
        """The offset with the largest weight over rows of words; None between two texts."""
        shares = self.offset_shares[self._row(head)]
        return None if np.isnan(shares).all() else int(np.nanargmax(shares)) - OFFSET_REACH

    def column(self, name: str) -> NDArray[np.float32]:
        """One measure of every head, in the order of `heads`."""
        found: NDArray[np.float32] = self.values[:, self._column(name)]
        return found

    def telling_texts(self, head: HeadRef, name: str) -> tuple[int, ...]:
        """The indices of the texts with the head's largest values of the measure, largest first."""
        numbers = self.telling[self._row(head), self._column(name)]
        return tuple(int(number) for number in numbers if number >= 0)

    @property
    def statement(self) -> str:
        """Basis of the numbers, in one line."""
        parts = [
            f"{plural(self.n_texts, 'text')}, {plural(self.n_tokens, 'token')}",
            SPECIALS_SAID[self.specials],
            f"means over texts, {intervals_said(self.n_texts, level=self.level)}",
        ]
        for one in (MEASURES[name] for name in self.names if name in MEASURES):
            if one.of != Measure.of and (n := int(self.counts[:, self._column(one.name)].max(initial=0))):
                parts.append(f"{one.title} scores: {interval_said(n, one.of, level=self.level)}")
        if self.n_cut:
            parts.append(f"{self.n_cut} cut to what the model takes")
        if self.n_skipped:
            parts.append(f"{self.n_skipped} left out")
        return "; ".join(parts)

    def _row(self, head: HeadRef) -> int:
        if head not in self.heads:
            raise KeyError(f"no head {head.stack} {head.label}")
        return self.heads.index(head)

    def _column(self, name: str) -> int:
        if name not in self.names:
            raise KeyError(f"no measure {name}")
        return self.names.index(name)


def bare_table(model: str, heads: Sequence[HeadRef]) -> HeadTable:
    """A table of heads that were not measured over texts."""
    n, none = len(heads), np.zeros((len(heads), 0), np.float32)
    return HeadTable(
        model=model,
        corpus="",
        heads=tuple(heads),
        names=(),
        values=none,
        low=none,
        high=none,
        counts=none.astype(np.int32),
        offsets=np.zeros((n, 2 * OFFSET_REACH + 3), np.int32),
        best_offsets=np.full(n, np.nan, np.float32),
        offset_shares=np.full((n, 2 * OFFSET_REACH + 1), np.nan, np.float32),
        telling=np.zeros((n, 0, N_TELLING), np.int32),
        n_texts=0,
        n_tokens=0,
    )


def order_heads(table: HeadTable, name: str, *, is_descending: bool = True) -> tuple[int, ...]:
    """Row numbers sorted by a measure; heads without a number come last, equal ones in model order."""
    column = table.column(name).astype(np.float64)
    keys = -column if is_descending else column
    order = np.argsort(np.where(np.isnan(keys), np.inf, keys), kind="stable")
    return tuple(int(row) for row in order)


RoleName = Literal[
    "positional",
    "identity",
    "induction",
    "duplicate",
    "first",
    "separator",
    "syntactic",
    "rare",
    "broad",
    "aligns",
    "none",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingText:
    """A text that shows a head's role well: its strongest edges as (query, key, weight)."""

    number: int
    source: str
    target: str | None
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    edges: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role of a head: `strength` is its number over the threshold of the role, so 1 or more."""

    name: RoleName
    sentence: str
    strength: float
    estimate: Estimate
    measure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCard:
    """A head's role, in one sentence with its number, the roles it has, and its most telling texts.

    `roles` are in the order of their strength; a head without any has none, and the sentence says what it
    does most: `leaning` is the measure behind that.
    """

    head: HeadRef
    sentence: str
    roles: tuple[Role, ...]
    texts: tuple[TellingText, ...] = ()
    statement: str = ""
    leaning: str = ""


CircuitKind = Literal["ov", "qk"]

_BYTES = re.compile("⟨(?:[0-9A-F]{2}|[0-9]/[0-9])⟩|\ufffd")
"""How pieces write bytes that are no character, or a part of one; what could not be read at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPairs:
    """Distances between the heads of one stack: 0 for two that attend alike, at most ln 2."""

    stack: Stack
    heads: tuple[HeadRef, ...]
    divergences: NDArray[np.float64]
    n_queries: int
    n_texts: int

    def __post_init__(self) -> None:
        n_heads = len(self.heads)
        freeze(self, "divergences", dtype=np.float64, rank=2, shape=(n_heads, n_heads))


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
        """Part of it that only a running model can answer."""
        return "" if self.source == "shown" else "Comparing heads over other texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingNews(CountedNews):
    """Progress of comparing heads: texts done, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsCompared(Reply):
    """Similarity of the heads; `texts` describes the texts."""

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
        freeze(self, "single", dtype=np.float64, rank=2)
        freeze(self, "stacked", dtype=np.float64, rank=1)

    def stacked_energy(self) -> NDArray[np.float64]:
        """The share of Σσ² in the largest 1, 2, 3 … values of all heads together."""
        return _energy(self.stacked)

    def single_energy(self) -> NDArray[np.float64]:
        """The same for each head alone, [n_heads, d_head]."""
        return _energy(self.single)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """Two tokens and their value under a head's weights.

    `ov`: attending to `first` raises the logit of `second` by `value` (before the last norm's scale);
    `qk`: the query `first` scores the key `second` by `value`.
    """

    first: Token
    second: Token
    value: float

    @property
    def is_text(self) -> bool:
        """Whether both pieces are readable: neither incomplete bytes of a character nor a control
        character.
        """
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
    """‖res(X)‖/‖X‖ of the stream: at the input, then after each layer."""

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
    """Both products of one head, as far as known."""

    head: HeadRef
    parts: tuple[WeightPart, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is complete."""
        return len(self.parts) == 2 and all(part.circuit or part.refusal for part in self.parts)

    def part(self, kind: CircuitKind) -> WeightPart:
        """One of the products; empty while unknown."""
        return next((part for part in self.parts if part.kind == kind), WeightPart(kind=kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowWeights(Request):
    """Ask what one head's weights show. Runs in the background; a new one ends it."""

    needs_model = "Reading a head's weights"
    head: HeadRef
    top: int = N_PAIRS


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsNews(CountedNews):
    """Progress of the products: rows between tokens done, of how many, and of which product."""

    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShown(Reply):
    """The results so far; sent again as more are found, the last time with all there are."""

    found: HeadWeightsFound
