"""Which 95 % interval a mean over texts gets, and how that is said.

A handful of texts shows too little of how texts differ: drawing them again and again (the bootstrap) covers
the truth in 50 of 100 cases with two texts and in 89 with five. So below 5 there is none; below 30 it is
Student's t, mean ± t s / √n; from 30 on the percentile bootstrap. Standard library only.
"""

import math
from functools import cache
from typing import Literal

from attnscope.counting import counted

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
        return f"no interval: {counted(n, of)}, and {FEWEST} are needed"
    return f"{100 * level:g} % {kind} interval over {counted(n, of)}"


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
