"""Numbers as people read them."""

from math import isfinite


def number_text(value: float) -> str:
    """A value with four significant digits, as people write it."""
    if not isfinite(value):
        return "not a number" if value != value else "infinite"
    text = f"{value:,.0f}" if 9_999.5 <= abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("-", "−")
