"""How long something takes or took, written in one way everywhere."""

_YEAR_S = 31_557_600
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


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
