"""Where the ticks of an axis go, and how their numbers are written."""

import math

from attnscope.counting import power_text

MAX_TICKS = 12


def nice_ticks(low: float, high: float, n_wanted: int, *, is_counted: bool = False) -> tuple[float, ...]:
    """Round numbers within low…high, about `n_wanted` of them, at most MAX_TICKS steps, and two at least
    where that can be: steps of 1, 2 or 5 times a power of ten. Of what is counted the whole ones alone.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return (low,) if math.isfinite(low) else ()
    ticks: tuple[float, ...] = ()
    least = min(max(1, n_wanted), MAX_TICKS)
    for n in range(least, least + 5):  # rounding up makes steps 2.5 times as long at most
        ticks = _ticks_of_step(low, high, (high - low) / n)
        if len(ticks) >= 2:
            break
    return tuple(t for t in ticks if not is_counted or abs(t - round(t)) < 1e-9) or ticks


def _ticks_of_step(low: float, high: float, rough: float) -> tuple[float, ...]:
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(i * step for i in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten within low…high (both over 0), with 2 and 5 between them where there are few; other
    round numbers where even these are not two.
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    stride = max(1, len(exponents) // 8)
    whole = [10.0**e for e in exponents if e % stride == 0 and low * 0.999 <= 10.0**e <= high * 1.001]
    if len(whole) >= 3:
        return tuple(whole)
    parts = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
    found = tuple(p for p in parts if low * 0.999 <= p <= high * 1.001)
    return found if len(found) >= 2 else nice_ticks(low, high, 4)


def tick_text(value: float, step: float = 0.0) -> str:
    """A tick's number, short: `0.25`, `10⁻⁴`, `20k`; with all the digits that ticks a `step` apart need."""
    if value == 0:
        return "0"
    size = abs(value)
    last = math.floor(math.log10(step) + 1e-9) if step > 0 else 0  # the place of the last digit
    if size >= 1e6 or (size < 1e-3 and step < 1e-4):
        return power_text(value, max(0, math.floor(math.log10(size) + 1e-9) - last) if step > 0 else 6)
    if size >= 10_000:
        text = f"{value / 1000:.{max(0, 3 - last)}f}" if step > 0 else f"{value / 1000:g}"
        return f"{_shortest(text)}k".replace("-", "−")
    text = f"{value:.{max(0, -last)}f}" if step > 0 else _shortest(f"{value:.6f}")
    return text.replace("-", "−")


def _shortest(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
