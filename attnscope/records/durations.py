"""How long something takes or took, written in one way everywhere."""

from itertools import pairwise

_YEAR_S = 31_557_600
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


_ROUGH = (
    *((s, f"{s} s") for s in (5, 10, 20, 30, 45)),
    (60, "a minute"),
    *((60 * m, f"{m} min") for m in (2, 3, 5, 7, 10, 15, 20, 30, 45)),
    (3600, "an hour"),
    *((3600 * h, f"{h} h") for h in (1.5, 2, 3, 4, 6, 8, 12, 18)),
    (86_400, "a day"),
    *((86_400 * d, f"{d} days") for d in (2, 3, 5, 7, 10, 14, 20, 30, 45, 60, 100, 150, 200, 300)),
)


def rough_text(seconds: float) -> str:
    """A duration that nobody knows exactly, as people say it: `30 s`, `a minute`, `2 h`, `12 years`."""
    if seconds >= 2 * _YEAR_S:
        return duration_text(seconds)
    for (shorter, words), (longer, _) in pairwise(_ROUGH):
        if seconds < (shorter * longer) ** 0.5:
            return words
    return _ROUGH[-1][1]


def time_left(seconds: float) -> str:
    """What an estimate leaves to wait, as people say it."""
    return "a few seconds left" if seconds < 5 else f"about {rough_text(seconds)} left"


def duration_text(seconds: float) -> str:
    """A duration in its two largest units: `8 s`, `3 min 20 s`, `2 h 05 min`, `4 d 3 h`, `12 years`.

    A second unit of nothing is left out: `2 h`. An estimate has the word `about` before it.
    """
    whole = max(0, round(seconds))
    if whole >= 2 * _YEAR_S:
        return f"{whole / _YEAR_S:,.0f} years"
    for size, unit, part_size, part_unit in _UNITS:
        if whole >= size:
            rest = whole % size // part_size
            digits = f"{rest}" if unit == "d" else f"{rest:02d}"
            return f"{whole // size} {unit}" + (f" {digits} {part_unit}" if rest else "")
    return f"{whole} s"
