"""Which 95 % interval a mean or a share over texts gets, and how that is said."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from attnscope.counting import plural

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
    """What is said of a table over `n` texts, of whose columns some may apply to fewer."""
    kind = interval_kind(n)
    if kind == "none":
        return f"no intervals, for which {FEWEST} {of}s are needed"
    fewer = f"t below {MANY}, " if kind == "bootstrap" else ""
    return f"{100 * level:g} % {kind} intervals over {of}s ({fewer}none below {FEWEST})"


def with_interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """For instance `0.96 (0.95–0.97)`; the value alone where there is no interval."""
    interval = f" ({low:.{digits}f}–{high:.{digits}f})" if low == low else ""
    return f"{value:.{digits}f}{interval}"


@cache
def student_t(n_freedom: int, level: float = LEVEL) -> float:
    """The t that holds `level` of Student's distribution between −t and t, from `n_freedom` 1 on."""
    low, high = 0.0, 1.0
    while _inside(high, n_freedom) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, n_freedom) < level else (low, middle)
    return high


def _inside(t: float, n_freedom: int) -> float:
    """What lies between −t and t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
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
