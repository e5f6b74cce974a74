"""Numbers, tables and commands in messages, pictures and files: counts, shares, CSV, HTML.

The minus is a true one, and thousands have commas. No value is a dash, unless a function says otherwise. Must
import nothing heavy.
"""

import csv
import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

# -- counts ---------------------------------------------------------------------------------------------


def plural(n: int, thing: str, things: str = "") -> str:
    """`1 token`, `2,000 tokens`: a number and its noun, `things` if the plural is not formed with s."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def there_are(n: int, thing: str, things: str = "") -> str:
    """`There is 1 token`, `There are 2,000 tokens`: a count at the beginning of a sentence."""
    return f"There {'is' if n == 1 else 'are'} {plural(n, thing, things)}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence: `a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def few_listed(names: Sequence[str], most: int) -> str:
    """Names, of many the first few: `a, b`, `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def bytes_text(n: float) -> str:
    """Bytes in words, in powers of ten."""
    if n != n:
        return "–"
    return _in_units(n, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))) or f"{n:,.0f} bytes"


def count_text(n: float) -> str:
    """A count with three digits: 63.1 million."""
    return _in_units(n, ((1e9, "billion"), (1e6, "million"))) or f"{n:,.0f}"


def short_count(n: int) -> str:
    """A count with three digits and a letter: 63.1 M."""
    return _in_units(n, ((1e9, "B"), (1e6, "M"), (1e3, "k"))) or str(n)


def flops_text(n: float) -> str:
    """Operations as a power of ten: 1.53 · 10¹²."""
    if n < 1e6:
        return f"{n:,.0f}"
    exponent = len(f"{n:.0f}") - 1
    return f"{n / 10**exponent:.3g} · 10{raised(str(exponent))}"


def _in_units(n: float, units: tuple[tuple[float, str], ...]) -> str:
    for size, unit in units:
        is_rounded_up = n >= 0.9995 * size and size > units[-1][0]  # 1 GB, not 1,000 MB
        if n >= size or is_rounded_up:
            return f"{n / size:,.3g} {unit}" if n < 999.5 * size else f"{n / size:,.0f} {unit}"
    return ""


# -- values ---------------------------------------------------------------------------------------------

_RAISED = str.maketrans("-−0123456789.", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def raised(number: str) -> str:
    """A number in raised digits: `-0.026` is `⁻⁰·⁰²⁶`."""
    return number.translate(_RAISED)


def lowered(n: int) -> str:
    """A number in lowered digits: `12` is `₁₂`."""
    return str(n).translate(_LOWERED)


def power_text(value: float, decimals: int = 1) -> str:
    """A number as a power of ten, short: `10⁶`, `−2·10⁻⁵`, `1.5·10¹²`."""
    mantissa, power = _power(value, decimals).split("·")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa[:-1]}{power}" if mantissa in ("1", "−1") else f"{mantissa}·{power}"


def _power(value: float, decimals: int) -> str:
    mantissa, exponent = f"{value:.{decimals}e}".split("e")
    return f"{mantissa}·10{raised(str(int(exponent)))}".replace("-", "−")


def number_text(value: float, digits: int = 4) -> str:
    """A value with at most so many significant digits, as people write it: `0.25`, `1.25·10⁻⁵`."""
    if not math.isfinite(value):
        return "not a number" if value != value else "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < 1e9 else f"{value:z.{digits}g}"
    return power_text(value, digits - 1) if "e" in text else text.replace("-", "−")


def format_number(value: float, digits: int = 3) -> str:
    """A number with a few significant digits; very small and very large ones as powers of ten."""
    if not math.isfinite(value):
        return "–" if value != value else number_text(value)
    value += 0.0  # nothing has no sign
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e7):
        return _power(value, max(digits - 2, 0))
    text = f"{value:,.0f}" if size >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def significant(value: float, digits: int = 4) -> str:
    """A number with all of so many significant digits: `0.2500`, `12,345`, `1.250·10⁻⁵`; nothing is `0`."""
    if value == 0 or not math.isfinite(value):
        return "–" if value != value else number_text(value)
    text = f"{value:#,.{digits}g}".rstrip(".").replace("-", "−")
    if "e" not in text:
        return text
    return _power(value, digits - 1) if abs(value) < 1 else number_text(value, digits)


def short_words(value: float) -> str:
    """A number for a narrow cell: two decimals, fewer if it is large."""
    if not math.isfinite(value):
        return number_text(value)
    return fixed(value, 2 if abs(value) < 99.995 else 1 if abs(value) < 999.95 else 0)


def fixed(value: float, digits: int = 2) -> str:
    """A number with so many decimals; zero has no sign."""
    return f"{value:z.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"


def with_sign(value: float, digits: int = 2) -> str:
    """A change: `+0.12`, `−0.12`, and `0.00` without a sign."""
    text = fixed(value, digits)
    return f"+{text}" if value > 0 and math.isfinite(value) and float(text) else text


def short_change(value: float) -> str:
    """A change with its sign and at most three digits."""
    return with_sign(value, 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2)


# -- shares and probabilities ---------------------------------------------------------------------------

_LEAST_SHOWN = 0.0005


def weight_words(weight: float) -> str:
    """A weight with three decimals; `<0.001` for a small one."""
    return "<0.001" if 0 < weight < _LEAST_SHOWN else f"{weight:.3f}"


def probability_text(probability: float) -> str:
    """Three decimals, or `<0.001` instead of zero: no probability of a model is 0."""
    return "<0.001" if probability < _LEAST_SHOWN else f"{probability:.3f}"


def below_text(probability: float) -> str:
    """`<0.022`: an upper bound, rounded up to three decimals."""
    return f"<{max(math.ceil(1000 * probability), 1) / 1000:.3f}"


def percent(share: float, digits: int = 0) -> str:
    """A share, 0…1, with so many digits after the point: `62 %`, `−50.0 %`."""
    return f"{fixed(100 * share, digits)} %" if math.isfinite(share) else "–"


def share_words(share: float) -> str:
    """A share of the weight, 0…1, with three digits: `62 %`, `under 0.1 %`."""
    return f"{100 * share:.3g} %" if share >= _LEAST_SHOWN else "under 0.1 %" if share > 0 else "0 %"


# -- durations ------------------------------------------------------------------------------------------

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
    (_YEAR_S, "a year"),
    (1.5 * _YEAR_S, "1.5 years"),
)


def rough_text(seconds: float) -> str:
    """An approximate duration in words: `30 s`, `a minute`, `2 h`, `12 years`."""
    if seconds >= 2 * _YEAR_S:
        return duration_text(seconds)
    for (shorter, words), (longer, _) in pairwise(_ROUGH):
        if seconds < (shorter * longer) ** 0.5:
            return words
    return _ROUGH[-1][1]


def time_left(seconds: float) -> str:
    """An estimate of the time left, in words."""
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


def age_words(seconds: float) -> str:
    """Age in words: `just now`, `3 min 20 s ago`, `2 d ago`."""
    return f"{duration_text(seconds)} ago" if seconds >= 60 else "just now"


MOST_ROWS = 200
"""Rows that are shown; a longer table says how many it has."""


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> str:
    """A table with a title; numbers in four digits, missing ones as empty cells."""
    shown = list(rows)
    lines = [f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in shown[:MOST_ROWS]]
    head = f"<tr>{''.join(f'<th>{_escaped(name)}</th>' for name in columns)}</tr>" if any(columns) else ""
    more = f"<p>… {len(shown):,} rows in all</p>" if len(shown) > MOST_ROWS else ""
    above = f"<p><b>{_escaped(title)}</b></p>" if title else ""
    return f"<div>{above}<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>{more}</div>"


def by_column(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Rows transposed: each column by its name."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    from html import escape  # brings a table of two thousand entities

    return escape(text)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated values: a line for the header and one for each row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


# -- commands -------------------------------------------------------------------------------------------


def shell_line(words: Sequence[str], platform: str = sys.platform) -> str:
    """The words as one shell line: quoted with double quotes on Windows, whose shells know no others."""
    import shlex  # seldom needed, and not for nothing
    import subprocess

    return subprocess.list2cmdline(words) if platform == "win32" else shlex.join(words)
