"""Intervals of means and of ratios, over texts that stream by in any order.

| symbol | meaning                                         | shape                      |
|--------|-------------------------------------------------|----------------------------|
| w      | how often a resample drew each text             | [n_resamples, n_texts]     |
| num, den | what each text adds to a ratio r              | [n_texts, n_columns]       |
| e      | num − r den                                     | [n_texts, n_columns]       |

Which interval there is, `records/measures.py` says. Of few texts it is r ± t √(Σe² n / (n − 1)) / |Σ den|:
for a mean Student's t interval, for a ratio the same by linearising it (Cochran 1977, section 2.11).

Of many texts it is the percentile bootstrap. A text is drawn Poisson(1) times by each resample (the Poisson
bootstrap: Hanley and MacGibbon 2006, Chamandy et al. 2012), so nothing but two sums is kept for a resample.
The draws of a text depend on its number and the seed alone: neither the order nor the batches change the
result. A mean is a ratio whose denominators are 1, or 0 where a text has no number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.nn import stop_if_unwanted
from attnscope.records.measures import FEWEST, LEVEL, MANY, student_t

N_RESAMPLES = 1000
Limits = tuple[float | NDArray[np.float64], float | NDArray[np.float64]]
_NO_SPREAD = 1e-6
_EDGES = (50 * (1 - LEVEL), 50 * (1 + LEVEL))
"""The percentiles between which an interval lies."""
_ANY: Limits = (-np.inf, np.inf)
_BUFFER_TEXTS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioIntervals:
    """Ratios with their intervals: float64 [n_columns]; `counts` texts with a denominator."""

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.float64]

    @property
    def parts(self) -> tuple[NDArray[np.float64], ...]:
        """Values, low, high and counts."""
        return self.values, self.low, self.high, self.counts


class RatioBootstrap:
    """Σ numerators / Σ denominators of each column, with intervals over the texts."""

    def __init__(self, n_columns: int, *, seed: int = 0, n_resamples: int = N_RESAMPLES) -> None:
        self.seed, self.n_resamples = seed, n_resamples
        self._totals, self._products = np.zeros((2, n_columns)), np.zeros((3, n_columns))
        self._counts = np.zeros(n_columns)
        self._resampled = np.zeros((2, n_columns, n_resamples), np.float32)
        self._numbers: list[int] = []
        self._buffer: list[NDArray[np.float32]] = []

    def add_means(self, numbers: Sequence[int], values: NDArray[np.float32]) -> None:
        """Add one number for each text and column, [n_texts, n_columns]; NaN where a text has none."""
        has_number = ~np.isnan(values)
        self.add(numbers, np.where(has_number, values, 0.0), has_number)

    def add(self, numbers: Sequence[int], numerators: NDArray[np.float32], denominators: object) -> None:
        """Add the contributions of these texts to the sums, both [n_texts, n_columns]."""
        below = np.asarray(denominators, np.float32)
        both = np.stack([np.asarray(numerators, np.float32), below])  # [2, n, C]
        if both.shape != (2, len(numbers), self._totals.shape[1]):
            raise ValueError(f"{both.shape[1:]} numbers, expected {(len(numbers), self._totals.shape[1])}")
        self._totals += both.sum(axis=1, dtype=np.float64)
        for product, (one, other) in zip(self._products, ((0, 0), (0, 1), (1, 1)), strict=True):
            product += np.einsum("nc,nc->c", both[one], both[other], dtype=np.float64)
        self._counts += (below != 0).sum(axis=0)
        self._numbers.extend(numbers)
        self._buffer.append(both)
        if len(self._numbers) >= _BUFFER_TEXTS:
            self._draw()

    @property
    def values(self) -> NDArray[np.float64]:
        """The ratios alone; NaN where nothing was added."""
        found: NDArray[np.float64] = self._totals[0] / self._below
        return found

    def intervals(self, limits: Limits = _ANY, columns: NDArray[np.int64] | None = None) -> RatioIntervals:
        """The ratios with intervals, within `limits`.

        NaN for too few texts, and where all of them say the same: how far others lie apart is not known.

        With `columns` only these are sure to have intervals: those of many texts take time.
        """
        values, below = self.values, self._below
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = self._products[0] - 2 * values * self._products[1] + values**2 * self._products[2]
            error = np.sqrt(np.maximum(squares, 0.0) * self._counts / (self._counts - 1)) / np.abs(below)
        error[error <= _NO_SPREAD * np.abs(values)] = np.nan  # alike in all: nothing to tell an interval from
        reach = _t_of(self._counts) * error
        low, high = values - reach, values + reach
        is_many = self._counts >= MANY
        low[is_many] = high[is_many] = np.nan
        many = np.flatnonzero(is_many & ~np.isnan(error))
        if columns is not None:
            many = np.intersect1d(many, columns)
        if len(many):
            self._draw()
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn, drawn_below = self._resampled[:, many]
                ratios = (drawn / np.where(drawn_below == 0, np.nan, drawn_below)).astype(np.float32)
            low[many], high[many] = _percentiles(ratios)
        return RatioIntervals(
            values=values,
            low=np.clip(low, *limits),
            high=np.clip(high, *limits),
            counts=self._counts.copy(),
        )

    @property
    def _below(self) -> NDArray[np.float64]:
        return np.where(self._totals[1] == 0, np.nan, self._totals[1])

    def _draw(self) -> None:
        if not self._numbers:
            return
        draws = np.stack([_draws_of(i, self.seed, self.n_resamples) for i in self._numbers])  # [n, R]
        both = np.concatenate(self._buffer, axis=1)
        for total, one in zip(self._resampled, both, strict=True):
            total += one.T @ draws
        self._numbers.clear()
        self._buffer.clear()


def interval_of_sums(
    counts: NDArray[np.float64],
    value_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float]:
    """The interval, within `limits`, of a number computed from sums over texts [..., n_columns].

    `counts` [n_texts, n_columns] is what each text adds. Of few texts it is Student's t with the jackknife's
    standard error (Efron and Tibshirani 1993, section 11.2), else the percentile bootstrap. NaN for too few,
    and where all texts say the same.
    """
    n = len(counts)
    if n < FEWEST:
        return math.nan, math.nan
    total = counts.sum(axis=0)
    value, without = float(value_of(total)), value_of(total - counts)
    error = float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
    if error <= _NO_SPREAD * abs(value):
        return math.nan, math.nan
    if n >= MANY:
        low, high = np.nanpercentile(value_of(_resampled_sums(counts)), _EDGES)
        return float(low), float(high)
    reach = student_t(n - 1) * error
    return max(limits[0], value - reach), min(limits[1], value + reach)


def _resampled_sums(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over the texts of each resample, [N_RESAMPLES, n_columns]."""
    sums = np.zeros((N_RESAMPLES, counts.shape[1]))
    for number, row in enumerate(counts):
        sums += _draws_of(number, 0, N_RESAMPLES)[:, None] * row
    return sums


def _t_of(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Student's t for numbers of texts below MANY, NaN if there are too few."""
    few = [student_t(n - 1) if n >= FEWEST else np.nan for n in range(MANY)]
    return np.array([*few, np.nan])[np.minimum(counts, MANY).astype(np.int64)]


def _draws_of(number: int, seed: int, n_resamples: int) -> NDArray[np.float32]:
    stop_if_unwanted()
    generator = np.random.Generator(np.random.Philox(key=[seed, number]))
    return generator.poisson(1.0, n_resamples).astype(np.float32)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean of some numbers with its interval: (value, low, high); NaN for none."""
    bootstrap = RatioBootstrap(1)
    if len(values):
        bootstrap.add_means(range(len(values)), np.asarray(values, np.float32)[:, None])
    found = bootstrap.intervals()
    return float(found.values[0]), float(found.low[0]), float(found.high[0])


def _percentiles(
    ratios: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The percentiles `_EDGES` of each row over the resamples that drew anything; NaN where none did.

    As `np.nanpercentile`, which looks at rows with NaN one by one, and takes three times as long for others.
    """
    ranked = np.sort(ratios, axis=1)  # NaN last
    last = np.maximum((~np.isnan(ranked)).sum(axis=1) - 1, 0)
    rows = np.arange(len(ranked))

    def at(edge: float) -> NDArray[np.float64]:
        place = last * (edge / 100)
        before = place.astype(np.int64)
        lower, upper = (ranked[rows, i].astype(np.float64) for i in (before, np.minimum(before + 1, last)))
        found: NDArray[np.float64] = lower + (upper - lower) * (place - before)
        return found

    return at(_EDGES[0]), at(_EDGES[1])
