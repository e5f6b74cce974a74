"""Intervals of means and of ratios, over texts that stream by in any order.

| symbol | meaning                                         | shape                      |
|--------|-------------------------------------------------|----------------------------|
| w      | how often a resample drew each text             | [n_resamples, n_texts]     |
| num, den | what each text adds to a ratio                | [n_texts, n_columns]       |

A text is drawn Poisson(1) times by each resample (the Poisson bootstrap: Hanley and MacGibbon 2006,
Chamandy et al. 2012), so nothing but two sums is kept for a resample. The draws of a text depend on its
number and the seed alone: neither the order nor the batches change the result. A mean is a ratio whose
denominators are 1, or 0 where a text has no number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_RESAMPLES = 1000
LEVEL = 0.95
_BUFFER_TEXTS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Ratios with their percentile intervals: float64 [n_columns]; `counts` texts with a denominator."""

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
        self._totals = np.zeros((2, n_columns))
        self._counts = np.zeros(n_columns)
        self._resampled = np.zeros((2, n_resamples, n_columns), np.float32)
        self._numbers: list[int] = []
        self._buffer: list[NDArray[np.float32]] = []

    def add_means(self, numbers: Sequence[int], values: NDArray[np.float32]) -> None:
        """One number for each text and column, [n_texts, n_columns]; NaN where a text has none."""
        has_number = ~np.isnan(values)
        self.add(numbers, np.where(has_number, values, 0.0), has_number)

    def add(self, numbers: Sequence[int], numerators: NDArray[np.float32], denominators: object) -> None:
        """What the texts of these numbers add to the sums, both [n_texts, n_columns]."""
        below = np.asarray(denominators, np.float32)
        both = np.stack([np.asarray(numerators, np.float32), below])  # [2, n, C]
        if both.shape != (2, len(numbers), self._totals.shape[1]):
            raise ValueError(f"{both.shape[1:]} numbers, expected {(len(numbers), self._totals.shape[1])}")
        self._totals += both.sum(axis=1, dtype=np.float64)
        self._counts += (below != 0).sum(axis=0)
        self._numbers.extend(numbers)
        self._buffer.append(both)
        if len(self._numbers) >= _BUFFER_TEXTS:
            self._draw()

    def intervals(self, level: float = LEVEL) -> Intervals:
        """The ratios and the interval that covers `level` of the resamples; NaN where nothing was added."""
        self._draw()
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self._totals[0] / np.where(self._totals[1] == 0, np.nan, self._totals[1])
            above, below = self._resampled
            ratios = (above / np.where(below == 0, np.nan, below)).astype(np.float32)
        edges = (50 * (1 - level), 50 * (1 + level))
        low, high = _percentiles(ratios, edges)
        return Intervals(values=values, low=low, high=high, counts=self._counts.copy())

    def _draw(self) -> None:
        if not self._numbers:
            return
        draws = np.stack([self._draws(number) for number in self._numbers], axis=1)  # [R, n]
        both = np.concatenate(self._buffer, axis=1)
        for total, one in zip(self._resampled, both, strict=True):
            total += draws @ one
        self._numbers.clear()
        self._buffer.clear()

    def _draws(self, number: int) -> NDArray[np.float32]:
        return _draws_of(number, self.seed, self.n_resamples)


def resampled_sums(
    counts: NDArray[np.float64], *, seed: int = 0, n_resamples: int = N_RESAMPLES
) -> NDArray[np.float64]:
    """Sums over the texts of each resample, [n_resamples, n_columns], of counts [n_texts, n_columns]."""
    sums = np.zeros((n_resamples, counts.shape[1]))
    for number, row in enumerate(counts):
        sums += _draws_of(number, seed, n_resamples)[:, None] * row
    return sums


def _draws_of(number: int, seed: int, n_resamples: int) -> NDArray[np.float32]:
    generator = np.random.Generator(np.random.Philox(key=[seed, number]))
    return generator.poisson(1.0, n_resamples).astype(np.float32)


def mean_interval(
    values: Sequence[float], *, seed: int = 0, level: float = LEVEL
) -> tuple[float, float, float]:
    """The mean of some numbers with its interval: (value, low, high); NaN for none."""
    bootstrap = RatioBootstrap(1, seed=seed)
    if len(values):
        bootstrap.add_means(range(len(values)), np.asarray(values, np.float32)[:, None])
    found = bootstrap.intervals(level)
    return float(found.values[0]), float(found.low[0]), float(found.high[0])


def _percentiles(
    ratios: NDArray[np.float32], edges: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two percentiles of each column over the resamples that drew anything; NaN where none did."""
    n_columns = ratios.shape[1]
    low, high = np.full(n_columns, np.nan), np.full(n_columns, np.nan)
    missing = np.isnan(ratios)
    whole = ~missing.any(axis=0)
    if whole.any():
        low[whole], high[whole] = np.percentile(ratios[:, whole], edges, axis=0)
    for column in np.flatnonzero(~whole & ~missing.all(axis=0)):
        low[column], high[column] = np.percentile(ratios[~missing[:, column], column], edges)
    return low, high
