"""Shares of texts that came out right, and their differences, with intervals over texts and over seeds.

| symbol | meaning                                                            |
|--------|--------------------------------------------------------------------|
| p      | share of n texts, all seeds together                               |
| z      | 1.96, the normal distribution's 97.5 % point                       |
| t      | Student's 97.5 % point for one degree of freedom less than seeds   |
| s      | standard deviation of the seeds' own shares                        |

    texts (Wilson 1927)       (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)
    their difference          p₁ − p₂ − √((p₁−l₁)² + (u₂−p₂)²), p₁ − p₂ + √((u₁−p₁)² + (p₂−l₂)²)
                              (Newcombe 1998, method 10, l and u being Wilson's)
    seeds                     mean ± t s / √n_seeds

Few seeds may agree by chance and few texts too, so an interval reaches as far as the wider of both does.
Standard library only.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.records.intervals import student_t

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


def share_of(n_right: Sequence[int], n: int) -> Share:
    """What is right of `n` texts for each seed, `n_right` of them."""
    p = sum(n_right) / (n * len(n_right))
    low, high = wilson(sum(n_right), n * len(n_right))
    reach = _reach([count / n for count in n_right])
    return Share(value=p, low=max(0.0, min(low, p - reach)), high=min(1.0, max(high, p + reach)))


def difference_of(first: Sequence[int], n_first: int, second: Sequence[int], n_second: int) -> Share:
    """The first share less the second; seed by seed, as many of the one as of the other."""
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
    """Whether a difference has a sign; None where its interval has both, so that nothing can be told."""
    if found.low <= 0.0 <= found.high:
        return None
    return (found.value > 0) == (sign > 0)


def _reach(values: Sequence[float]) -> float:
    """Half of the interval over seeds; 0 for a single one, which says nothing of others."""
    n = len(values)
    return student_t(n - 1) * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0
